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
from dataclasses import asdict, dataclass, fields
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
from ray.util.metrics import Gauge
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zelo_ray import __version__
from zelo_ray.batch import Batcher, in_batches
from zelo_ray.bookkeeping import Stopped, Tally, name_of
from zelo_ray.budget import Budget, Grant
from zelo_ray.census import Census, take_census
from zelo_ray.claim import claim
from zelo_ray.config import Options
from zelo_ray.estimate import pilot_lines
from zelo_ray.formats.pools import Limits as LineLimits
from zelo_ray.formats.pools import Line, find_shards, parse_line, read_lines
from zelo_ray.formats.results import write_json
from zelo_ray.ledger import Ledger, LedgerError, drop_reserves, read_rows
from zelo_ray.limiter import Account, Lease, Limits
from zelo_ray.online import Asker
from zelo_ray.pricing import table_version, unpriced
from zelo_ray.providers import PanelError, panel_of
from zelo_ray.providers import module as provider_module
from zelo_ray.records import Judge, Pool
from zelo_ray.settle import Summary, settle, write_results

_RETRIED = ("refused", "filtered", "truncated", "invalid")
_POOLS_AT_ONCE = 32
_BLOCKS_AT_ONCE = 4
_SETTLERS = 4  # each holds the ledger's index
_LIMITS_NAMESPACE = "zelo_ray"
_REJOINING_SECONDS = 2.0  # in which spenders tell a till that died what they have spent
_LEFT_SECONDS = 60.0  # after which a run that leases nothing has gone
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
    only: frozenset[tuple[str, int]] | None = None
    """the lines of a pilot; None: all"""

    def takes(self, line: Line) -> bool:
        """Whether a line is to be judged."""
        place = (line.file, line.number)
        chosen = self.only is None or place in self.only
        return line.pool is not None and place not in self.repeated and chosen


def annotate(options: Options, watch: Watch) -> Summary:
    """Run the whole job: census, ask, fit, write.

    Raises:
        InputError, PanelError, ClaimError, LedgerError: before anything was asked.
        Stopped: while asking; nothing that was paid for is lost.
    """
    timer = _Timer()
    panel = panel_of(options, os.environ)
    options = options.model_copy(update={"out": _absolute(options.out)})
    shards = find_shards(options.inputs, options.out)
    with claim(options.out, watch.say):
        drop_reserves(options.out)
        census = take_census(shards, panel, options)
        in_all, only = census, None
        if options.pilot is not None and options.pilot < census.pools:
            only = frozenset(pilot_lines(census.places, options.pilot, options.seed))
            census = take_census(shards, panel, options, only=only)
        timer.lap("read")
        watch.say(
            f"{census.pools:,} queries, {census.documents:,} documents: "
            f"{sum(census.planned.values()):,} requests to {', '.join(j.name for j in panel)}"
        )
        _warn(options, panel, watch)
        run_id = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()) + f"-{uuid.uuid4().hex[:6]}"
        job = Job(options, panel, run_id, frozenset(census.repeated), only)
        with _ray(options):
            timer.lap("start Ray")
            desk = _desk(options)
            missing = -1
            while missing:  # one sweep for protocols of one round
                tallies, absent = _ask(job, shards, desk, census, watch)
                timer.lap("ask")
                summary = _settle(job, shards, absent)
                timer.lap("fit and write")
                if summary.queries != census.pools:
                    raise Stopped(f"the input held {census.pools:,} pools, now {summary.queries:,}")
                if summary.missing == missing:
                    raise Stopped(f"{missing:,} replies are missing and no judge will give them")
                missing = summary.missing
            _leave(job)
        drop_reserves(options.out)
        summary.rejected, summary.absent = census.rejected, absent
        summary.pilot_of = in_all.pools if only else 0
        _add_up(summary, run_id)
        summary.seconds = timer.laps
        _write_run(job, summary, tallies)
    return summary


def _warn(options: Options, panel: Sequence[Judge], watch: Watch) -> None:
    """Say what will not be as one might think."""
    for name in unpriced(panel, options.prices):
        watch.say(f"{name}: its price is unknown and not counted; give it in the options (prices:)")
    for judge in panel:
        given = options.limits.get(judge.name)
        rpm = provider_module(judge.provider).RATES.get("rpm")
        if in_batches(judge, options):
            watch.say(f"{judge.name}: in batches, which may take a day; Ctrl-C leaves them running")
        elif rpm and not judge.base_url and not (given and given.rpm):
            watch.say(
                f"{judge.name}: a cautious {rpm:,.0f} requests a minute, until the server tells "
                "more or does not mind more; or give the account's (limits: rpm, tpm)"
            )


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


def _read_shards(block: pa.Table, job: Job) -> Iterator[pa.Table]:
    """The good lines of some shards, in tables of about 2 MB."""
    rows: list[tuple[str, int, bytes]] = []
    size = 0
    for shard in block["file"].to_pylist():
        for line in read_lines(shard, LineLimits()):
            if not job.takes(line):
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
        _read_shards, batch_size=None, batch_format="pyarrow", fn_args=(job,)
    )


# -- Ask ----------------------------------------------------------------------------------------


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Desk:
    """Where the actors of a run report, reserve money, and learn that it is to stop."""

    def __init__(self, cap: float | None, spent: float) -> None:
        self._tallies: dict[str, dict[str, Tally]] = {}
        self._heard: dict[str, float] = {}
        self._reason, self._lost = "", dict[str, str]()
        self._budget = Budget(cap, spent) if cap is not None else None
        self._born, self._gauges = time.monotonic(), _Gauges()
        self._reborn = ray.get_runtime_context().was_current_actor_reconstructed

    def report(
        self, actor: str, tallies: dict[str, Tally], stopped: str, lost: dict[str, str]
    ) -> tuple[str, dict[str, str]]:
        """Take an actor's figures so far; return why all are to stop, and whom to ask no more."""
        self._tallies[actor], self._heard[actor] = tallies, time.monotonic()
        self._lost |= lost
        self.stop(stopped)
        return self._reason, self._lost

    def reserve(self, spender: str, settled: float, held: float, wants: Sequence[float]) -> Grant:
        """See `Budget.reserve`."""
        now = time.monotonic()
        if self._budget is None:
            return Grant(len(wants), over=False)
        if self._reborn and now - self._born < _REJOINING_SECONDS:
            wants = ()
        return self._budget.reserve(spender, settled, held, wants, now)

    def stop(self, reason: str) -> None:
        """Let every actor finish what is in flight and start nothing new."""
        self._reason = self._reason or reason

    def look(self) -> tuple[dict[str, Tally], str, dict[str, str]]:
        """Figures by judge over all actors, why the run is to stop, and which judges have."""
        summed: dict[str, Tally] = {}
        for actor, tallies in self._tallies.items():
            for name, tally in tallies.items():
                if time.monotonic() - self._heard[actor] > _SILENT_SECONDS:
                    tally.in_flight = tally.waiting = 0  # it has died, or has done its work
                summed.setdefault(name, Tally()).add(tally)
        self._gauges.set(summed)
        return summed, self._reason, self._lost


class _Gauges:
    """A run's figures as Ray metrics: ``ray_zelo_<figure>``, by judge."""

    def __init__(self) -> None:
        names = [each.name for each in fields(Tally) if each.name not in ("statuses", "limits")]
        self._plain = {
            name: Gauge(f"zelo_{name}", "requests, tokens or dollars so far", ("judge",))
            for name in names
        }
        self._statuses = Gauge("zelo_ended", "requests that ended so", ("judge", "status"))
        self._limits = Gauge("zelo_limit", "limits in force", ("judge", "limit"))

    def set(self, tallies: Mapping[str, Tally]) -> None:
        """Set all to these figures."""
        for judge, tally in tallies.items():
            for name, gauge in self._plain.items():
                gauge.set(getattr(tally, name), {"judge": judge})
            for status, count in tally.statuses.items():
                self._statuses.set(count, {"judge": judge, "status": status})
            for limit, rate in tally.limits.items():
                self._limits.set(rate, {"judge": judge, "limit": limit})


def _desk(options: Options) -> Any:
    """The desk of a run, on the node of its driver; it comes back if it dies."""
    spent = 0.0
    if options.max_usd is not None:
        spent = sum(row.dollars or 0.0 for row in read_rows(options.out))
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = Desk
    return actor.options(scheduling_strategy=here).remote(options.max_usd, spent)


class _Till:
    """The desk's budget, for the spenders of one actor."""

    def __init__(self, desk: Any) -> None:
        self._desk = desk

    async def reserve(
        self, spender: str, settled: float, held: float, wants: Sequence[float]
    ) -> Grant:
        """See `Budget.reserve`. Without an answer nothing is spent."""
        while True:
            try:
                grant: Grant = await self._desk.reserve.remote(spender, settled, held, wants)
            except RayError:
                await asyncio.sleep(1.0)
            else:
                return grant


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class SharedLimits(Limits):
    """The limiters of a whole cluster, for all of its runs. It ends with the last of them."""

    def __init__(self) -> None:
        super().__init__()
        self._heard = dict[str, float]()

    def lease_for(self, run: str, *request: Any) -> Lease:
        """As `Limits.lease`, for a run."""
        self._heard[run] = time.monotonic()
        return self.lease(*request)

    def leave(self, run: str) -> None:
        """A run has ended."""
        self._heard.pop(run, None)
        if all(time.monotonic() - heard > _LEFT_SECONDS for heard in self._heard.values()):
            ray.actor.exit_actor()  # type: ignore[no-untyped-call]


class _Quota:
    """The cluster's limits, for one actor of a run; they are made anew when they are gone."""

    def __init__(self, run: str) -> None:
        self._run, self._limits = run, None

    def _find(self) -> Any:
        if self._limits is None:
            actor: Any = SharedLimits
            self._limits = actor.options(
                name=f"limits-{__version__}",
                namespace=_LIMITS_NAMESPACE,
                get_if_exists=True,
                lifetime="detached",
            ).remote()
        return self._limits

    async def lease(
        self,
        account: Account,
        costs: Sequence[Mapping[str, float]],
        more: Mapping[str, float],
        told: Mapping[str, float],
    ) -> Lease:
        """See `Quota`. Without an answer nothing is sent."""
        while True:
            try:
                lease: Lease = await self._find().lease_for.remote(
                    *(self._run, account, costs, more, told)
                )
            except RayError:
                self._limits = None
                await asyncio.sleep(1.0)
            else:
                return lease

    async def pause(self, account: Account, seconds: float) -> None:
        """See `Quota`."""
        with contextlib.suppress(RayError):
            await self._find().pause.remote(account, seconds)


def _leave(job: Job) -> None:
    """Let the cluster's limits go, if no other run uses them."""
    with contextlib.suppress(ValueError, RayError):  # it was never needed, or is gone
        limits = ray.get_actor(f"limits-{__version__}", namespace=_LIMITS_NAMESPACE)
        ray.get(limits.leave.remote(job.run_id))


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
        try:
            self._ledger = Ledger(options.out, self._job.run_id, _retried(options))
            self._asker = Asker(
                options,
                self._job.panel,
                self._judges,
                ledger=self._ledger,
                environ=os.environ,
                run_id=self._job.run_id,
                quota=_Quota(self._job.run_id),
                till=_Till(self._desk) if options.max_usd is not None else None,
            )
        except (LedgerError, PanelError) as error:
            await self._desk.stop.remote(str(error))
        except Exception as error:  # noqa: BLE001 - an actor that cannot start would start for ever
            await self._desk.stop.remote(f"unexpected {name_of(error)}")
        else:
            self._reporting = asyncio.create_task(self._keep_reporting(self._asker))

    async def _keep_reporting(self, asker: Asker) -> None:
        while True:
            await _report(self._desk, self._name, asker)
            await asyncio.sleep(0.5)

    async def _fill(self, block: pa.Table) -> None:
        if self._asker is None:
            return
        try:
            await asyncio.to_thread(self._ledger.refresh)
            pools = [line.pool for line in _parse(block) if line.pool]
            await asyncio.gather(*(self._asker.fill(pool) for pool in pools))
        except Exception as error:  # noqa: BLE001 - its text may hold a prompt
            self._asker.stop(f"unexpected {name_of(error)}")
        await _report(self._desk, self._name, self._asker)


def _parse(block: pa.Table) -> list[Line]:
    return [
        parse_line(row["file"], row["number"], row["raw"], LineLimits())
        for row in block.to_pylist()
    ]


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)
class Send:
    """One provider's judges, through its batch API: plan, submit, wait, collect."""

    def __init__(self, job: Job, judges: Sequence[Judge], desk: Any) -> None:
        self._job, self._judges, self._desk = job, judges, desk
        self._name = uuid.uuid4().hex

    def run(self, shards: Sequence[str]) -> None:
        """Return when nothing is missing that these judges can answer, or the run is stopped."""
        asyncio.run(self._run(shards))

    async def _run(self, shards: Sequence[str]) -> None:
        options = self._job.options
        try:
            ledger = Ledger(options.out, self._job.run_id, _retried(options))
            batcher = Batcher(
                options,
                self._job.panel,
                self._judges,
                ledger=ledger,
                environ=os.environ,
                run_id=self._job.run_id,
                till=_Till(self._desk) if options.max_usd is not None else None,
            )
        except (LedgerError, PanelError) as error:
            await self._desk.stop.remote(str(error))
            return
        reporting = asyncio.create_task(self._keep_reporting(batcher))
        try:
            await batcher.run(lambda: self._pools(shards))
        except Exception as error:  # noqa: BLE001 - its text may hold a prompt
            batcher.stop(f"unexpected {name_of(error)}")
        reporting.cancel()
        await _report(self._desk, self._name, batcher)
        ledger.close()

    def _pools(self, shards: Sequence[str]) -> Iterator[Pool]:
        for shard in shards:
            for line in read_lines(shard, LineLimits()):
                if self._job.takes(line) and line.pool:
                    yield line.pool

    async def _keep_reporting(self, batcher: Batcher) -> None:
        while True:
            await _report(self._desk, self._name, batcher)
            await asyncio.sleep(0.5)


async def _report(desk: Any, name: str, filler: Asker | Batcher) -> None:
    """Exchange news between the desk and what fills the ledger in this actor."""
    with contextlib.suppress(RayError):  # the desk is on its way back
        reason, lost = await desk.report.remote(name, filler.tallies, filler.stopped, filler.lost)
        if reason:
            filler.stop(reason)
        for judge, why in lost.items():
            filler.lose(judge, why)


def _retried(options: Options) -> tuple[str, ...]:
    """How replies of earlier runs ended that are to be asked for again."""
    return ("failed", *(_RETRIED if options.retry_failures else ()))


def _ask(
    job: Job, shards: Sequence[str], desk: Any, census: Census, watch: Watch
) -> tuple[dict[str, Tally], dict[str, str]]:
    """Ask every judge what the ledger does not hold, the providers side by side.

    Returns:
        Figures by judge, and the judges that are asked nothing more, with the reason.
    """
    online, sent = [], []
    for _, each in groupby(sorted(job.panel, key=lambda j: j.provider), lambda j: j.provider):
        judges = list(each)
        away = [judge for judge in judges if in_batches(judge, job.options)]
        if away:
            actor: Any = Send
            sent.append(actor.remote(job, away, desk).run.remote(shards))
        if here := [judge for judge in judges if judge not in away]:
            online.append(_asking(job, shards, desk, here))
    with _watching(desk, census, watch, batches=bool(sent)):
        if online:
            dataset = online[0].union(*online[1:]) if len(online) > 1 else online[0]
            for _ in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
                pass
        while sent:
            ended, sent = ray.wait(sent, timeout=0.5)
            ray.get(ended)
    tallies: dict[str, Tally]
    lost: dict[str, str]
    tallies, reason, lost = ray.get(desk.look.remote())
    watch.show(tallies, census.planned)
    if reason or (len(lost) == len(job.panel) and not job.options.max_usd):
        kept = sum(tally.answered for tally in tallies.values())
        why = reason or "; ".join(dict.fromkeys(lost.values()))
        raise Stopped(f"{why} ({kept:,} replies of this run are kept)")
    return tallies, lost


def _asking(job: Job, shards: Sequence[str], desk: Any, judges: Sequence[Judge]) -> Any:
    """The branch of one provider's judges that are asked online."""
    return _dataset(job, shards).map_batches(
        Ask,
        fn_constructor_args=(job, judges, desk),
        batch_size=_POOLS_AT_ONCE,
        batch_format="pyarrow",
        num_cpus=0,
        compute=ray.data.ActorPoolStrategy(
            size=job.options.actors,
            max_concurrent_calls_per_actor=_BLOCKS_AT_ONCE,
            enable_true_multi_threading=True,
        ),
    )


@contextlib.contextmanager
def _watching(desk: Any, census: Census, watch: Watch, *, batches: bool) -> Iterator[None]:
    """Show how it goes; turn an interrupt into a stop that lets calls in flight come home."""
    ended, interrupted = threading.Event(), threading.Event()

    def on_signal(number: int, _frame: object) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()
        name = signal.Signals(number).name
        watch.say(f"{name}: waiting for the calls in flight; once more to abandon them")
        if batches:
            watch.say(
                "batches stay at their providers: the same command collects them, and zelo-ray "
                "batches DIR lists them, or cancels them with --cancel"
            )

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

    def __init__(self, job: Job, absent: Mapping[str, str]) -> None:
        self._job, self._absent, self._ledger = job, absent, Ledger(job.options.out)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Settle the pools of a block."""
        job = self._job
        return settle(_parse(block), job.panel, job.options, self._ledger, self._absent)


def _settle(job: Job, shards: Sequence[str], absent: Mapping[str, str]) -> Summary:
    dataset = _dataset(job, shards).map_batches(
        Settle,
        fn_constructor_args=(job, absent),
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
    options = job.options
    packages = ("zelo-ray", "ray", "pydantic", "openai", "anthropic", "google-genai", "numpy")
    write_json(
        options.out,
        "run.json",
        {
            "run_id": job.run_id,
            "complete": summary.complete,
            "options": options.model_dump(mode="json"),
            "panel": [{"judge": judge.name, "options": judge.options} for judge in job.panel],
            "versions": {name: version(name) for name in packages}
            | {"prices": table_version(job.options.prices)},
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
