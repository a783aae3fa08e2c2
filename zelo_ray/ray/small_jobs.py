"""Run a small job without Ray Data: hand its lines to the same actors that a large job has.

Ray Data takes seconds to begin, for its imports and its reading processes. What it is for,
back-pressure and reading blocks where they are used, few lines do not need.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import ray

from zelo_ray.engine.job import POOLS_AT_ONCE
from zelo_ray.formats.pools import Line
from zelo_ray.ray.actors import OnlineActor
from zelo_ray.ray.coordinator import CoordinatorClient
from zelo_ray.ray.dataset import Job, lines_table
from zelo_ray.records import Judge

_MOST = 20_000
"""Planned requests: of more, this one process would take longer than Ray Data takes to begin."""
_BLOCKS_AT_ONCE = 4


def lines_if_few(held: Sequence[Line] | None, planned: Mapping[str, int]) -> Sequence[Line] | None:
    """Return the lines of a job, if they are few enough for the short way; else None."""
    return held if sum(planned.values()) <= _MOST else None


def blocks_of_lines(lines: Sequence[Line]) -> Iterator[pa.Table]:
    """Yield lines in the blocks that actors take."""
    for at in range(0, len(lines), POOLS_AT_ONCE):
        part = lines[at : at + POOLS_AT_ONCE]
        yield lines_table([(line.file, line.number, line.raw) for line in part])


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class SmallOnlineActor:
    """`OnlineActor` without Ray Data: a block whose actor died is asked again all the same."""

    def __init__(self, job: Job, judges: Sequence[Judge], coordinator: CoordinatorClient) -> None:
        self._ask = OnlineActor(job, judges, coordinator)

    def ask(self, block: pa.Table) -> int:
        """Ask about the pools of a block; return how many they are."""
        return len(self._ask(block))

    def close(self) -> None:
        """Close connections and ledger."""
        self._ask.close()


def ask_small_job(
    job: Job,
    lines: Sequence[Line],
    coordinator: CoordinatorClient,
    judges: Sequence[Judge],
    places: Iterator[dict[str, Any]],
) -> tuple[list[Any], list[Any]]:
    """Ask judges that share actors.

    Args:
        job: what is to be judged.
        lines: the pools.
        coordinator: client of the coordinator, to which the actors report.
        judges: of one provider.
        places: for each actor, where it is to be; see ``nodes_by_turns``.

    Returns:
        The actors, which live while somebody has hold of them, and what to wait for.
    """
    kind: Any = SmallOnlineActor
    # They take nothing: blocks are dealt out now, and an actor without room would keep its own.
    actors = [
        kind.options(max_concurrency=_BLOCKS_AT_ONCE, **place).remote(job, judges, coordinator)
        for place in islice(places, job.options.actors)
    ]
    blocks = enumerate(blocks_of_lines(lines))
    return actors, [actors[number % len(actors)].ask.remote(block) for number, block in blocks]
