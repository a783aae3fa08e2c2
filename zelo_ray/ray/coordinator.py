"""Coordinate all runs of a cluster, in one named actor: limits, budgets, figures, and when to stop.

The limits of an account hold for all runs together; all else is a run's own.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.metrics import Gauge
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zelo_ray.engine.bookkeeping import Tally, sum_over_sweeps
from zelo_ray.engine.budget import Budget
from zelo_ray.engine.coordinator import LeaseRequest, Limiters
from zelo_ray.engine.limiter import Account, Lease
from zelo_ray.options import AskingOptions
from zelo_ray.reasons import Disabled

_NAME, _NAMESPACE = f"coordinator-{version('zelo-ray')}", "zelo_ray"
_REJOINING_SECONDS = 2.0  # seconds in which spenders report anew to a restarted coordinator
_REBIRTHS = 4  # starts of an actor in a row without an answer: what kills it will kill it again
_NO_NUMBERS = ("statuses", "wrapped", "limits", "trouble", "disabled")  # of a tally
_SILENT_SECONDS = 5.0  # seconds of silence after which an actor is gone
_FORGOTTEN_SECONDS = 86_400.0  # and a run
_LEAVING_SECONDS = 10.0  # for which a run that ends waits for an answer

RunFigures = tuple[dict[str, Tally], str, dict[str, Disabled]]
"""Figures by judge, why all are to stop, and which judges are asked nothing more."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run, as every message of it says: so a coordinator that was restarted knows it again."""

    run_id: str
    cap: float | None = None
    """of its budget, in US dollars"""
    spent: float = 0.0
    """dollars of the budget, before it"""


@dataclass(frozen=True, slots=True)
class ActorReport:
    """The figures of one actor of a run so far, and what it wants all others to know."""

    actor: str
    tallies: Mapping[str, Tally]
    """by judge"""
    stopped: str = ""
    """why the run is to stop; empty if it is not"""
    disabled: Mapping[str, Disabled] = field(default_factory=dict)
    """judges that are to be asked nothing more"""
    sweep: int = 1


@dataclass(slots=True)
class RunState:
    """What a coordinator holds of one run."""

    budget: Budget | None
    rejoined_at: float
    """when all of its spenders have reported, by the monotonic clock"""
    heard_at: float = 0.0
    reports: dict[str, tuple[ActorReport, float]] = field(default_factory=dict)
    """the last one of each actor, and when it came"""
    births: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    """by judges: starts of their actors in a row, and the answers before them"""
    stopped: str = ""
    disabled: dict[str, Disabled] = field(default_factory=dict)

    def register_actor(self, judges: Sequence[str], actors: int) -> bool:
        """Count a new actor of these judges; return false if too many began without an answer."""
        answered = sum(
            tally.answered
            for report, _ in self.reports.values()
            for name, tally in report.tallies.items()
            if name in judges
        )
        births, before = self.births.get(tuple(judges), (0, answered))
        births = births + 1 if answered == before else 1
        self.births[tuple(judges)] = (births, answered)
        return births <= actors + _REBIRTHS

    def sum_figures(self) -> dict[str, Tally]:
        """Return figures by judge over all actors."""
        by_judge: dict[str, dict[int, Tally]] = {}
        for report, came_at in self.reports.values():
            for name, tally in report.tallies.items():
                if time.monotonic() - came_at > _SILENT_SECONDS:
                    # it has died or is done
                    tally.in_flight = tally.waiting = tally.batched = 0
                sweeps = by_judge.setdefault(name, {})
                sweeps.setdefault(report.sweep, Tally()).add(tally)
        summed = {name: sum_over_sweeps(sweeps) for name, sweeps in by_judge.items()}
        for name, reason in self.disabled.items():
            summed.setdefault(name, Tally()).disabled = reason
        return summed


class Coordinator:
    """Coordinator of all runs. Ray restarts it if it dies; their actors then report all again."""

    def __init__(self) -> None:
        self._runs, self._left = dict[str, RunState](), set[str]()
        self._limiters, self._gauges, self._ended = Limiters(), _Gauges(), False

    def begin(self, run: Run) -> bool:
        """Take in a run that begins; return false if this coordinator is about to be ended."""
        if not self._ended:
            self._left.discard(run.run_id)
            self._state(run).rejoined_at = 0.0  # nothing was spent before this
        return not self._ended

    def leave(self, run: Run) -> bool:
        """Forget a run that has ended; return whether it was the last one."""
        self._left.add(run.run_id)
        self._runs.pop(run.run_id, None)
        forgotten = time.monotonic() - _FORGOTTEN_SECONDS
        self._runs = {n: state for n, state in self._runs.items() if state.heard_at > forgotten}
        self._ended = not self._runs
        return self._ended

    def _state(self, run: Run) -> RunState:
        """Return what is held of a run: after a restart nothing, until its actors report."""
        now = time.monotonic()
        state = self._runs.get(run.run_id) or RunState(_budget(run), now + _REJOINING_SECONDS)
        if run.run_id not in self._left:  # else this is a late message of its actors
            self._runs[run.run_id] = state
        state.heard_at = now
        return state

    def lease(self, run: Run, request: LeaseRequest) -> Lease:
        """See `zelo_ray.engine.coordinator.Coordinator`."""
        state = self._state(run)
        wait = time.monotonic() < state.rejoined_at
        return self._limiters.lease(request, state.budget, wait=wait)

    def pause(self, account: Account, seconds: float) -> float:
        """See `zelo_ray.engine.coordinator.Coordinator`."""
        return self._limiters.pause(account, seconds)

    def report(self, run: Run, report: ActorReport) -> tuple[str, dict[str, Disabled]]:
        """Take an actor's figures so far; return why all are to stop, and whom to ask no more."""
        state = self._state(run)
        state.reports[report.actor] = report, time.monotonic()
        state.disabled |= report.disabled
        state.stopped = state.stopped or report.stopped
        return state.stopped, state.disabled

    def register_actor(self, run: Run, judges: Sequence[str], actors: int) -> bool:
        """See `RunState`."""
        return self._state(run).register_actor(judges, actors)

    def stop(self, run: Run, reason: str) -> None:
        """Let every actor of a run finish what is in flight and start nothing new."""
        state = self._state(run)
        state.stopped = state.stopped or reason

    def read_figures(self, run: Run) -> RunFigures:
        """Return a run's figures, why to stop, and which judges are disabled."""
        state = self._state(run)
        summed = state.sum_figures()
        self._gauges.set(run.run_id, summed)
        return summed, state.stopped, state.disabled


def _budget(run: Run) -> Budget | None:
    return Budget(run.cap, run.spent) if run.cap is not None else None


class _Gauges:
    """The figures of runs as Ray metrics: ``ray_zelo_<figure>``, by run and judge."""

    def __init__(self) -> None:
        names = [field.name for field in fields(Tally) if field.name not in _NO_NUMBERS]
        tags = ("run", "judge")
        self._plain = {
            name: Gauge(f"zelo_{name}", "requests, tokens or dollars so far", tags)
            for name in names
        }
        self._statuses = Gauge("zelo_ended", "requests that ended so", (*tags, "status"))
        self._limits = Gauge("zelo_limit", "limits in force", (*tags, "limit"))

    def set(self, run_id: str, tallies: Mapping[str, Tally]) -> None:
        """Set all of a run to these figures."""
        for judge, tally in tallies.items():
            tags = {"run": run_id, "judge": judge}
            for name, gauge in self._plain.items():
                gauge.set(getattr(tally, name), tags)
            for status, count in tally.statuses.items():
                self._statuses.set(count, tags | {"status": status})
            for limit, rate in tally.limits.items():
                self._limits.set(rate, tags | {"limit": limit})


class CoordinatorClient:
    """Client of the coordinator for one run: of its driver, and of its actors."""

    def __init__(self, actor: Any, run: Run) -> None:
        self._actor, self._run = actor, run

    @property
    def capped(self) -> bool:
        """Return whether there is a cap on dollars."""
        return self._run.cap is not None

    async def lease(self, request: LeaseRequest) -> Lease:
        """See `zelo_ray.engine.coordinator.Coordinator`. Without an answer nothing is sent."""
        while True:
            try:
                lease: Lease = await self._actor.lease.remote(self._run, request)
            except RayError:
                await asyncio.sleep(1.0)
            else:
                return lease

    async def pause(self, account: Account, seconds: float) -> float:
        """See `zelo_ray.engine.coordinator.Coordinator`. Without an answer nothing is amiss."""
        try:
            lasting: float = await self._actor.pause.remote(account, seconds)
        except RayError:
            return 0.0
        return lasting

    def report(self, report: ActorReport) -> Awaitable[tuple[str, dict[str, Disabled]]]:
        """See `Coordinator`."""
        answer: Awaitable[tuple[str, dict[str, Disabled]]]
        answer = self._actor.report.remote(self._run, report)
        return answer

    def register_actor(self, judges: Sequence[str], actors: int) -> Awaitable[bool]:
        """See `RunState`."""
        answer: Awaitable[bool] = self._actor.register_actor.remote(self._run, judges, actors)
        return answer

    def stop(self, reason: str) -> Awaitable[None]:
        """See `Coordinator`."""
        answer: Awaitable[None] = self._actor.stop.remote(self._run, reason)
        return answer

    def read_figures(self) -> RunFigures:
        """See `Coordinator`."""
        figures: RunFigures = ray.get(self._actor.read_figures.remote(self._run))
        return figures


@contextlib.contextmanager
def coordinate_run(
    options: AskingOptions, run_id: str, spent: float, tell: Callable[[float, float], None]
) -> Iterator[CoordinatorClient]:
    """Let the cluster's coordinator take in a run; end it afterwards, if no other run uses it.

    It stays on the node of the driver that needed it first, while there is this node.

    Args:
        options: of the job.
        run_id: of the run.
        spent: dollars of its budget.
        tell: is told the cap, if there is one, and what is spent of it by now.
    """
    if options.max_usd is not None:
        tell(options.max_usd, spent)
    run = Run(run_id, options.max_usd, spent)
    node = ray.get_runtime_context().get_node_id()
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Coordinator)
    placed = kind.options(
        name=_NAME,
        namespace=_NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True),
    )
    actor = _begin(placed, run)
    try:
        yield CoordinatorClient(actor, run)
    finally:
        with contextlib.suppress(RayError):
            if ray.get(actor.leave.remote(run), timeout=_LEAVING_SECONDS):
                ray.kill(actor)


def _begin(placed: Any, run: Run) -> Any:
    """Return the coordinator that takes in a run; one that is being ended takes none in.

    A new one is not waited for: its process starts while those of the asking actors do.
    """
    while True:
        is_new = False
        try:
            actor: Any = ray.get_actor(_NAME, namespace=_NAMESPACE)
        except ValueError:
            actor, is_new = placed.remote(), True
        begun = actor.begin.remote(run)
        with contextlib.suppress(RayError):
            if is_new or ray.get(begun):
                return actor
            ray.kill(actor)  # whoever wanted to end it may be gone
        time.sleep(0.1)
