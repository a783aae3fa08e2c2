"""The job on Ray, on one page: read shards, plan and ask, build and fit by query, write.

A query's pool stays one row from the line it was read from to its scores, so each stage sees all of
a query, and nothing has to be shuffled together again:

1. Ray Data reads the sharded JSON lines, a row each (`lines_dataset`).
2. An actor pool for each provider, or each reranker, plans the pairs of a pool and asks about them
   at the account's limits (`_OnlineActor`); beside them one actor for each judge whose provider
   has batches (`_ask_in_batches`). Replies go into the ledger, which all nodes see.
3. Actors build judgments from the replies and fit each query (`_BuildingActor`), or rank it.
4. The driver takes these blocks in the order of the input, writes them to Parquet and measures.
"""

import asyncio
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pyarrow as pa
import ray
from ray.data import ActorPoolStrategy, DataContext, from_items

from zelo_ray.engine.coordinator import CoordinatedRun, RunFigures
from zelo_ray.engine.executor import AskedJudges, Builder
from zelo_ray.engine.job import POOLS_AT_ONCE, Job, JobLines, Watch
from zelo_ray.engine.watching import run_watched
from zelo_ray.engine.worker import OnlineWorker, ask_in_batches
from zelo_ray.files.pools import Line, LineLimits, parse_line
from zelo_ray.ray.coordinator import RayControl, RayCoordination
from zelo_ray.ray.session import is_joined, nodes_alive
from zelo_ray.records import Judge

ASKING_CPUS = 0.25
"""Of an actor that asks: a hundred calls a second. Nothing keeps it from more where more is."""
ASKING_BYTES = 512 * 2**20
"""Of such an actor: Python, Ray, the provider's SDK, the pools on hand, the ledger's index."""
_ACTORS_OF_A_NODE = 4  # that the largest node gets, however little memory it reports
_BLOCKS_AT_ONCE = 4
_BUILDING_ACTORS = 4  # each holds the ledger's index
_BLOCK_BYTES = 2 * 2**20
_LINES_SCHEMA = pa.schema(
    [("file", pa.string()), ("number", pa.int64()), ("raw", pa.large_binary())]
)


class RayExecutor:
    """Runs a job on the Ray that this process has joined; each node sees the files of its lines."""

    def __init__(self, run: CoordinatedRun, lines: JobLines) -> None:
        self._control, self._coordination = RayControl(run), RayCoordination(run)
        self._shards = lines.shards

    def ask(
        self, groups: Sequence[AskedJudges], planned: Mapping[str, int], watch: Watch
    ) -> RunFigures:
        """Ask all groups side by side."""
        online = [group for group in groups if not group.in_batches]
        self._control.planned = planned

        def ask() -> None:
            waiting = [self._ask_in_batches(group) for group in groups if group.in_batches]
            if online:
                first, *others = map(self._ask_online, online)
                for _ in _blocks(first.union(*others) if others else first):
                    pass
            while waiting:
                ended, waiting = ray.wait(waiting, timeout=0.5)
                ray.get(ended)

        in_batches = len(online) < len(groups)
        return run_watched(self._control, planned, watch, ask, batches=in_batches)

    def _ask_online(self, group: AskedJudges) -> Any:
        """Return the dataset whose execution asks; its actors are spread over the nodes."""
        return _lines_dataset(group.job, self._shards).map_batches(
            _OnlineActor,
            fn_constructor_args=(group.job, group.judges, self._coordination),
            batch_size=POOLS_AT_ONCE,
            batch_format="pyarrow",
            num_gpus=group.gpus,
            **asking_actor_options(),
            compute=ActorPoolStrategy(
                size=group.job.options.actors,
                max_concurrent_calls_per_actor=_BLOCKS_AT_ONCE,
                enable_true_multi_threading=True,
            ),
        )

    def _ask_in_batches(self, group: AskedJudges) -> Any:
        lines, (judge,), task = JobLines(self._shards), group.judges, _ask_in_batches
        options = asking_actor_options()
        return task.options(**options).remote(group.job, judge, self._coordination, lines)

    def build(self, job: Job, make_builder: Callable[[], Builder]) -> Iterator[pa.Table]:
        """Yield what is built of a job's lines, in their order, in blocks."""
        dataset = _lines_dataset(job, self._shards).map_batches(
            _BuildingActor,
            fn_constructor_args=(make_builder,),
            batch_size=POOLS_AT_ONCE,
            batch_format="pyarrow",
            num_cpus=0,
            compute=ActorPoolStrategy(min_size=1, max_size=most_building_actors()),
        )
        yield from _blocks(dataset)


class _OnlineActor:
    """Actor with an `OnlineWorker`.

    Ray Data's own asynchronous functions freeze their loop under back-pressure, and lose rows of an
    actor that dies if rows come out as they finish; so this is a plain callable that returns a
    block's rows at once, in their order.
    """

    def __init__(self, job: Job, judges: Sequence[Judge], coordination: RayCoordination) -> None:
        self._worker = OnlineWorker(job, judges, coordination, os.environ)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Ask about the pools of a block; return their places."""
        self._worker.ask(line.pool for line in _parse_lines(block) if line.pool)
        return block.select(["file", "number"])

    def __del__(self) -> None:
        """Close: Ray Data drops this object when its actor ends."""
        if not sys.is_finalizing():
            with suppress(Exception):
                self._worker.close()


@ray.remote(max_retries=-1, scheduling_strategy="SPREAD")
def _ask_in_batches(job: Job, judge: Judge, coordination: RayCoordination, lines: JobLines) -> None:
    """Ask one judge through its provider's batch API, until nothing is missing or it is stopped."""
    asyncio.run(ask_in_batches(job, judge, coordination, os.environ, partial(lines.pools, job)))


class _BuildingActor:
    """Actor with a builder of results or rankings."""

    def __init__(self, make_builder: Callable[[], Builder]) -> None:
        self._builder = make_builder()

    def __call__(self, block: pa.Table) -> pa.Table:
        """Build from the pools of a block."""
        return self._builder.build(_parse_lines(block))


def asking_actor_options() -> dict[str, Any]:
    """Return what an actor that asks declares to a cluster, for its scheduler and autoscaler.

    To a private Ray nothing is declared: there is only one machine.
    """
    if not is_joined():
        return {"num_cpus": 0}
    sizes = (node["Resources"].get("memory", 0) for node in nodes_alive())
    memory = min(ASKING_BYTES, int(max(sizes, default=0) / _ACTORS_OF_A_NODE))
    return {"num_cpus": ASKING_CPUS, "memory": memory}


def reading_task_options() -> dict[str, Any]:
    """Return the options of the tasks that read shards.

    On a cluster they take no processor: they would wait for ever for one where actors that ask,
    which wait for them, hold all that there are.
    """
    return {"num_cpus": 0, "concurrency": _processors()} if is_joined() else {}


def most_building_actors() -> int:
    """Return how many actors build at most: no more than there are processors."""
    return min(_BUILDING_ACTORS, _processors())


def _processors() -> int:
    """Return how many processors Ray has; it has no types for this."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))  # type: ignore[no-untyped-call]


def _blocks(dataset: Any) -> Iterator[pa.Table]:
    tables: Iterator[pa.Table] = dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    return tables


def _lines_dataset(job: Job, places: Sequence[str]) -> Any:
    """Return the lines that a job is to judge: columns file, number, raw."""
    rows = [{"file": shard} for shard in places]
    _set_up_ray_data(verbose=job.options.verbose)
    shards: Any = from_items(rows, override_num_blocks=min(len(rows), 256))
    return shards.map_batches(
        _read_shards,
        batch_size=None,
        batch_format="pyarrow",
        fn_args=(job,),
        **reading_task_options(),
    )


def _read_shards(block: pa.Table, job: Job) -> Iterator[pa.Table]:
    """Read the chosen lines of some shards, in tables of about 2 MB."""
    rows, size = list[dict[str, Any]](), 0
    for line in JobLines(block["file"].to_pylist()).chosen(job):
        rows.append({"file": line.file, "number": line.number, "raw": line.raw})
        size += len(line.raw)
        if size > _BLOCK_BYTES:
            yield pa.Table.from_pylist(rows, _LINES_SCHEMA)
            rows, size = [], 0
    yield pa.Table.from_pylist(rows, _LINES_SCHEMA)


def _parse_lines(block: pa.Table) -> list[Line]:
    return [
        parse_line(row["file"], row["number"], row["raw"], LineLimits())
        for row in block.to_pylist()
    ]


def _set_up_ray_data(*, verbose: bool) -> None:
    """Set up Ray Data to keep rows in order and, unless verbose, to print nothing."""
    context = DataContext.get_current()
    context.execution_options.preserve_order = True
    context.execution_options.verbose_progress = False
    context.execution_no_progress_timeout_s = -1  # a judge may well think for half an hour
    context.enable_progress_bars = verbose
    context.print_on_execution_start = verbose
    if not verbose:
        warnings.filterwarnings("ignore", module=r"ray\.data\.")
        for handler in logging.getLogger("ray.data").handlers:
            if type(handler).__name__ == "PlainRayHandler":
                handler.setLevel(logging.ERROR)
