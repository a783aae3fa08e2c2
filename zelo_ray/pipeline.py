"""The job on Ray: read shards, ask each provider's judges side by side, fit, write.

This is the only module that knows Ray. A query's pool stays one row from the line it was read from
to its scores, so every stage sees all of a query and nothing has to be shuffled together again.
"""

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
import ray
import ray.data
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zelo_ray.census import Census, take_census
from zelo_ray.claim import claim
from zelo_ray.config import Options
from zelo_ray.formats.pools import Limits, Line, find_shards, parse_line, read_lines
from zelo_ray.formats.results import write_json
from zelo_ray.ledger import Ledger, LedgerError, drop_reserves, read_rows
from zelo_ray.online import Asker, Stopped, Tally, name_of
from zelo_ray.pricing import table_version
from zelo_ray.providers import PanelError, Settings, build_panel, find_key, refuse_strangers
from zelo_ray.providers import module as provider_module
from zelo_ray.records import Judge
from zelo_ray.settle import Summary, settle, write_results

_RETRIED = ("refused", "filtered", "truncated", "invalid")
_POOLS_AT_ONCE = 32
_BLOCKS_AT_ONCE = 4
_SETTLERS = 4  # each holds the ledger's index
_SILENT_SECONDS = 5.0  # after which an actor that reports twice a second is not there any more
_OBJECT_STORE_BYTES = 512 * 2**20
_LINES_SCHEMA = pa.schema(
    [("file", pa.string()), ("number", pa.int64()), ("raw", pa.large_binary())]
)


class Watch(Protocol):
    """Who is told how the run goes."""

    def say(self, line: str) -> None:
        """One line for the user."""

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Figures by judge, about twice a second while judges are asked."""


@dataclass(frozen=True, slots=True)
class Job:
    """What travels to the actors. It holds no key."""

    options: Options
    panel: tuple[Judge, ...]
    run_id: str
    repeated: frozenset[tuple[str, int]]


def annotate(options: Options, watch: Watch) -> Summary:
    """Run the whole job: census, ask, fit, write.

    Raises:
        InputError, PanelError, ClaimError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = _Timer()
    panel = build_panel(options.judges, options.judge_options)
    refuse_strangers(panel, options.limits, options.api_key_env)
    for judge in panel:
        find_key(judge, options.api_key_env, os.environ)
        if not provider_module(judge.provider).KEY_VARIABLES:
            provider_module(judge.provider).connect(Settings())
    options = options.model_copy(update={"out": _absolute(options.out)})
    shards = find_shards(options.inputs, options.out)
    with claim(options.out, watch.say):
        drop_reserves(options.out)
        census = take_census(shards, panel, options)
        timer.lap("read")
        watch.say(
            f"{census.pools:,} queries, {census.documents:,} documents: "
            f"{sum(census.planned.values()):,} requests to {', '.join(j.name for j in panel)}"
        )
        run_id = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + f"-{uuid.uuid4().hex[:6]}"
        job = Job(options, panel, run_id, frozenset(census.repeated))
        with _ray(options):
            timer.lap("start Ray")
            desk = _desk()
            missing = -1
            while missing:  # one sweep for protocols of one round
                tallies = _ask(job, shards, desk, census, watch)
                timer.lap("ask")
                summary = _settle(job, shards)
                timer.lap("fit and write")
                if summary.queries != census.pools:
                    raise Stopped(f"the input held {census.pools:,} pools, now {summary.queries:,}")
                if summary.missing == missing:
                    raise Stopped(f"{missing:,} replies are missing and no judge will give them")
                missing = summary.missing
        drop_reserves(options.out)
        summary.rejected = census.rejected
        _add_up(summary, run_id)
        summary.seconds = timer.laps
        _write_run(job, summary, tallies)
    return summary


def _absolute(out: str) -> str:
    """The one place that every process means by ``out``, wherever it runs.

    Raises:
        LedgerError: on a cluster, where a relative path means another place on each node.
    """
    if "://" in out or Path(out).is_absolute():
        return out
    if os.environ.get("RAY_ADDRESS"):
        raise LedgerError(f"--out {out}: on a cluster give a URL, or an absolute path")
    return str(Path(out).resolve())


# -- Ray: start, read ---------------------------------------------------------------------------


@contextlib.contextmanager
def _ray(options: Options) -> Iterator[None]:
    """Join the cluster that ``RAY_ADDRESS`` names, else start a private one on this machine."""
    folder = ""
    where: dict[str, Any] = {}
    if not os.environ.get("RAY_ADDRESS"):
        folder = tempfile.mkdtemp(prefix="zelo-")
        where = {
            "address": "local",
            "num_cpus": max(2, os.cpu_count() or 2),  # a read task and a writer must fit at once
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
            "_temp_dir": folder,
        }
    if options.verbose:
        ray.init(**where)
    else:
        with _hushed():
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.execution_options.verbose_progress = False
    context.execution_no_progress_timeout_s = -1  # a judge may well think for half an hour
    context.enable_progress_bars = options.verbose
    context.print_on_execution_start = options.verbose
    if not options.verbose:
        for handler in logging.getLogger("ray.data").handlers:
            if type(handler).__name__ == "PlainRayHandler":
                handler.setLevel(logging.ERROR)
    try:
        _refuse_unshared(options.out)
        yield
    finally:
        ray.shutdown()
        if folder:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _hushed() -> Iterator[None]:
    """Keep what Ray's C++ core says while it starts from the user's terminal."""
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _refuse_unshared(out: str) -> None:
    """A path on one node's disk is no place for a cluster's ledger.

    Raises:
        LedgerError: some node does not see the output directory.
    """
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    if "://" in out or len(nodes) == 1:
        return

    @ray.remote(num_cpus=0)
    def sees(path: str) -> bool:
        return Path(path).exists()

    path = str(Path(out).resolve() / ".run.lock")
    for node in nodes:
        if not node["Alive"]:
            continue
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        if not ray.get(sees.options(scheduling_strategy=strategy).remote(path)):
            raise LedgerError(f"{out}: not every node sees it; use shared storage or a URL")


def _read_shards(block: pa.Table, repeated: frozenset[tuple[str, int]]) -> Iterator[pa.Table]:
    """The good lines of some shards, in tables of about 2 MB."""
    rows: list[tuple[str, int, bytes]] = []
    size = 0
    for shard in block["file"].to_pylist():
        for line in read_lines(shard, Limits()):
            if line.pool is None or (line.file, line.number) in repeated:
                continue
            rows.append((line.file, line.number, line.raw))
            size += len(line.raw)
            if size > 2 * 2**20:
                yield _lines_table(rows)
                rows, size = [], 0
    yield _lines_table(rows)


def _lines_table(rows: Sequence[tuple[str, int, bytes]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    return pa.table([list(column) for column in columns], schema=_LINES_SCHEMA)


def _dataset(job: Job, shards: Sequence[str]) -> Any:
    rows = [{"file": shard} for shard in shards]
    dataset: Any = ray.data.from_items(rows, override_num_blocks=min(len(rows), 256))
    return dataset.map_batches(
        _read_shards, batch_size=None, batch_format="pyarrow", fn_args=(job.repeated,)
    )


# -- Ask ----------------------------------------------------------------------------------------


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Desk:
    """Where the actors of a run report, and learn that it is to stop."""

    def __init__(self) -> None:
        self._tallies: dict[str, dict[str, Tally]] = {}
        self._heard: dict[str, float] = {}
        self._reason = ""

    def report(self, actor: str, tallies: dict[str, Tally], stopped: str) -> str:
        """Take an actor's figures so far; return why all are to stop, if they are."""
        self._tallies[actor], self._heard[actor] = tallies, time.monotonic()
        self.stop(stopped)
        return self._reason

    def stop(self, reason: str) -> None:
        """Let every actor finish what is in flight and start nothing new."""
        self._reason = self._reason or reason

    def look(self) -> tuple[dict[str, Tally], str]:
        """Figures by judge over all actors, and why the run is to stop."""
        summed: dict[str, Tally] = {}
        for actor, tallies in self._tallies.items():
            for name, tally in tallies.items():
                if time.monotonic() - self._heard[actor] > _SILENT_SECONDS:
                    tally.in_flight = 0  # the actor has died, or has done its work
                summed.setdefault(name, Tally()).add(tally)
        return summed, self._reason


def _desk() -> Any:
    """The desk of a run, on the node of its driver; it comes back if it dies."""
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = Desk
    return actor.options(scheduling_strategy=here).remote()


class Ask:
    """One provider's judges: calls on an event loop in a thread of its own.

    Ray Data's own asynchronous functions freeze their loop under back-pressure, and lose rows of an
    actor that dies if rows come out as they finish; so this is a plain callable that returns a
    block's rows at once, in their order. It never raises: what goes wrong stops the run.
    """

    def __init__(self, job: Job, judges: Sequence[Judge], desk: Any) -> None:
        self._job, self._judges, self._desk = job, judges, desk
        self._name = uuid.uuid4().hex
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._asker: Asker | None = None
        self._run(self._open())

    def __call__(self, block: pa.Table) -> pa.Table:
        """Ask about the pools of a block; return their places."""
        self._run(self._fill(block))
        return block.select(["file", "number"])

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> None:
        options = self._job.options
        retry = ("failed", *(_RETRIED if options.retry_failures else ()))
        try:
            self._ledger = Ledger(options.out, self._job.run_id, retry)
            self._asker = Asker(
                options,
                self._job.panel,
                self._judges,
                ledger=self._ledger,
                environ=os.environ,
                run_id=self._job.run_id,
            )
        except (LedgerError, PanelError) as error:
            await self._desk.stop.remote(str(error))
        except Exception as error:  # noqa: BLE001 - an actor that cannot start would start for ever
            await self._desk.stop.remote(f"unexpected {name_of(error)}")
        else:
            self._reporting = asyncio.create_task(self._keep_reporting(self._asker))

    async def _keep_reporting(self, asker: Asker) -> None:
        while True:
            await self._report(asker)
            await asyncio.sleep(0.5)

    async def _report(self, asker: Asker) -> None:
        with contextlib.suppress(RayError):  # the desk is on its way back
            reason = await self._desk.report.remote(self._name, asker.tallies, asker.stopped)
            if reason:
                asker.stop(reason)

    async def _fill(self, block: pa.Table) -> None:
        if self._asker is None:
            return
        try:
            await asyncio.to_thread(self._ledger.refresh)
            pools = [line.pool for line in _parse(block) if line.pool]
            await asyncio.gather(*(self._asker.fill(pool) for pool in pools))
        except Exception as error:  # noqa: BLE001 - its text may hold a prompt
            self._asker.stop(f"unexpected {name_of(error)}")
        await self._report(self._asker)


def _parse(block: pa.Table) -> list[Line]:
    return [
        parse_line(row["file"], row["number"], row["raw"], Limits()) for row in block.to_pylist()
    ]


def _ask(
    job: Job, shards: Sequence[str], desk: Any, census: Census, watch: Watch
) -> dict[str, Tally]:
    """Ask every judge what the ledger does not hold, the providers side by side."""
    branches = []
    for _, judges in groupby(sorted(job.panel, key=lambda j: j.provider), lambda j: j.provider):
        branches.append(
            _dataset(job, shards).map_batches(
                Ask,
                fn_constructor_args=(job, list(judges), desk),
                batch_size=_POOLS_AT_ONCE,
                batch_format="pyarrow",
                num_cpus=0,
                compute=ray.data.ActorPoolStrategy(
                    size=job.options.actors,
                    max_concurrent_calls_per_actor=_BLOCKS_AT_ONCE,
                    enable_true_multi_threading=True,
                ),
            )
        )
    dataset = branches[0].union(*branches[1:]) if len(branches) > 1 else branches[0]
    with _watching(desk, census, watch):
        for _ in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
            pass
    tallies: dict[str, Tally]
    tallies, reason = ray.get(desk.look.remote())
    watch.show(tallies, census.planned)
    if reason:
        kept = sum(tally.answered for tally in tallies.values())
        raise Stopped(f"{reason} ({kept:,} replies of this run are kept)")
    return tallies


@contextlib.contextmanager
def _watching(desk: Any, census: Census, watch: Watch) -> Iterator[None]:
    """Show how it goes; turn an interrupt into a stop that lets calls in flight come home."""
    ended, interrupted = threading.Event(), threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        name = signal.Signals(number).name
        watch.say(f"{name}: waiting for the calls in flight; once more to abandon them")

    def look() -> None:
        while not ended.wait(0.5):
            if interrupted.is_set():
                desk.stop.remote("interrupted; the same command goes on from here")
            with contextlib.suppress(RayError):
                watch.show(ray.get(desk.look.remote())[0], census.planned)

    main = threading.current_thread() is threading.main_thread()
    signals = (signal.SIGINT, signal.SIGTERM) if main else ()
    before = {number: signal.signal(number, on_signal) for number in signals}
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
        for number, handler in before.items():
            signal.signal(number, handler)


# -- Fit and write ------------------------------------------------------------------------------


class Settle:
    """Turns replies into judgments and scores, for whole pools."""

    def __init__(self, job: Job) -> None:
        self._job, self._ledger = job, Ledger(job.options.out)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Settle the pools of a block."""
        return settle(_parse(block), self._job.panel, self._job.options, self._ledger)


def _settle(job: Job, shards: Sequence[str]) -> Summary:
    dataset = _dataset(job, shards).map_batches(
        Settle,
        fn_constructor_args=(job,),
        batch_size=_POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=_SETTLERS),
    )
    blocks: Any = dataset.iter_batches(batch_size=None, batch_format="pyarrow")
    return write_results(blocks, job.options)


def _add_up(summary: Summary, run_id: str) -> None:
    """The money, from the books: actors that died took their own figures with them."""
    for row in read_rows(summary.out):
        summary.dollars_in_all += row.dollars or 0.0
        if row.run_id == run_id:
            summary.dollars += row.dollars or 0.0
            summary.unpriced += row.dollars is None


def _write_run(job: Job, summary: Summary, tallies: Mapping[str, Tally]) -> None:
    packages = ("zelo-ray", "ray", "pydantic", "openai", "anthropic", "google-genai", "numpy")
    write_json(
        job.options.out,
        "run.json",
        {
            "run_id": job.run_id,
            "complete": summary.complete,
            "options": job.options.model_dump(mode="json"),
            "panel": [{"judge": judge.name, "options": judge.options} for judge in job.panel],
            "versions": {name: version(name) for name in packages} | {"prices": table_version()},
            "summary": asdict(summary),
            "judges": {name: asdict(tally) for name, tally in tallies.items()},
        },
    )


class _Timer:
    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.laps[name] = round(self.laps.get(name, 0.0) + now - self._last, 3)
        self._last = now
