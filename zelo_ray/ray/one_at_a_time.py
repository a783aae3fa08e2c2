"""Ask one judge about one pool after another, on an actor of its own."""

from collections.abc import Sequence
from typing import Any

from zelo_ray.formats.pools import Line
from zelo_ray.ray.branches import Branches
from zelo_ray.ray.coordinator import CoordinatorClient
from zelo_ray.ray.dataset import Job, lines_table
from zelo_ray.ray.small_jobs import SmallOnlineActor
from zelo_ray.records import Judge


def ask_one_at_a_time(
    job: Job,
    lines: Sequence[Line],
    coordinator: CoordinatorClient,
    judge: Judge,
    num_gpus: float = 0,
) -> Branches:
    """Ask a judge about pools, of which the next begins when one has ended."""
    kind: Any = SmallOnlineActor
    actor = kind.options(max_concurrency=1, num_gpus=num_gpus).remote(job, (judge,), coordinator)
    blocks = (lines_table([(line.file, line.number, line.raw)]) for line in lines)
    return Branches(waiting=[actor.ask.remote(block) for block in blocks], actors=[actor])
