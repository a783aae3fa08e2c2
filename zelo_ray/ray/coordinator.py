"""Coordinate all runs of a cluster, in one named actor: limits, budgets, figures, and when to stop.

The limits of an account hold for all runs together; all else is a run's own. The driver that
needs the actor first owns it, so that it never outlives the runs. Where it ends, drivers that are
left make it anew, and tell it what they know of their runs.

Its process starts with each run on a private Ray, so this module imports little.
"""

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import ray
from ray.exceptions import ActorDiedError, RayError, RayTaskError
from ray.util.metrics import Gauge
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zelo_ray.engine.budget import Budget
from zelo_ray.engine.coordinator import LeaseRequest, Limiters
from zelo_ray.engine.limiter import Account, Lease
from zelo_ray.engine.tally import Tally, order_tallies, sum_over_sweeps
from zelo_ray.reasons import Disabled

if TYPE_CHECKING:
    from zelo_ray.options import AskingOptions

_PLACE = {"name": f"coordinator-{version('zelo-ray')}", "namespace": "zelo_ray"}
_REJOINING_SECONDS = 2.0  # in which spenders report anew to a coordinator that knows nothing
_REBIRTHS = 4  # starts of an actor in a row without an answer: what kills it will kill it again
_NO_NUMBERS = ("statuses", "limits", "trouble", "disabled")  # of a tally
_SILENT_SECONDS = 5.0  # seconds of silence after which an actor is gone
_AGAIN_SECONDS = 1.0  # before a coordinator that is gone is looked for again
_FORGOTTEN_SECONDS = 600.0  # of silence: a run that still lives is told anew by its driver
_TRIES = 5  # of a driver, to make a coordinator that answers

RunFigures = tuple[dict[str, Tally], str, dict[str, Disabled]]
"""Figures by judge, why all are to stop, and which judges are asked nothing more."""


@dataclass(frozen=True, slots=True)
class CoordinatedRun:
    """A run, as every message of it says: so a coordinator that was made anew knows it again."""

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


@dataclass(frozen=True, slots=True)
class RunMemory:
    """The last figures of a run's actors, also of those that have ended: its driver keeps them."""

    reports: Mapping[str, ActorReport] = field(default_factory=dict)
    """the last one of each actor"""
    spenders: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """dollars charged and reserved, by spender"""


@dataclass(slots=True)
class RunState:
    """The state of one run, as a coordinator holds it."""

    budget: Budget | None
    known_at: float = math.inf
    """from when on all that was spent is known, by the monotonic clock"""
    reports: dict[str, tuple[ActorReport, float]] = field(default_factory=dict)
    """the last one of each actor, and when it came"""
    births: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    """by judges: starts of their actors in a row, and the answers before them"""
    stopped: str = ""
    disabled: dict[str, Disabled] = field(default_factory=dict)
    heard_at: float = 0.0
    """when its last message came, by the monotonic clock"""

    def take_report(self, report: ActorReport, came_at: float) -> None:
        """Note an actor's report, which came at this time of the monotonic clock."""
        self.reports[report.actor] = report, came_at
        self.disabled |= report.disabled
        self.stopped = self.stopped or report.stopped

    def recall(self, memory: RunMemory) -> RunMemory:
        """Learn what the driver knows and this does not; return what is known now."""
        self.known_at = min(self.known_at, time.monotonic() + _REJOINING_SECONDS)
        for name in memory.reports.keys() - self.reports.keys():
            self.take_report(memory.reports[name], -math.inf)
        if self.budget:
            self.budget.recall(memory.spenders)
        reports = {name: report for name, (report, _) in self.reports.items()}
        return RunMemory(reports, self.budget.spenders if self.budget else {})

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
    """Coordinator of all runs. Ray restarts it if it dies."""

    def __init__(self) -> None:
        self._runs, self._limiters = dict[str, RunState](), Limiters()

    def _state(self, run: CoordinatedRun) -> RunState:
        if run.run_id not in self._runs:
            budget = Budget(run.cap, run.spent) if run.cap is not None else None
            self._runs[run.run_id] = RunState(budget)
        self._runs[run.run_id].heard_at = time.monotonic()
        return self._runs[run.run_id]

    def begin(self, run: CoordinatedRun) -> None:
        """Take in a run that begins, so that nothing was spent before this; forget ended ones."""
        last = time.monotonic() - _FORGOTTEN_SECONDS
        self._runs = {name: state for name, state in self._runs.items() if state.heard_at > last}
        self._state(run).known_at = -math.inf

    def lease(self, run: CoordinatedRun, request: LeaseRequest) -> Lease:
        """See `zelo_ray.engine.coordinator.PermitSource`."""
        state = self._state(run)
        wait = time.monotonic() < state.known_at
        return self._limiters.lease(request, state.budget, wait=wait)

    def pause(self, _run: CoordinatedRun, account: Account, seconds: float) -> float:
        """See `zelo_ray.engine.coordinator.PermitSource`."""
        return self._limiters.pause(account, seconds)

    def report(self, run: CoordinatedRun, report: ActorReport) -> tuple[str, dict[str, Disabled]]:
        """Take an actor's figures so far; return why all are to stop, and whom to ask no more."""
        state = self._state(run)
        state.take_report(report, time.monotonic())
        return state.stopped, state.disabled

    def register_actor(self, run: CoordinatedRun, judges: Sequence[str], actors: int) -> bool:
        """See `RunState`."""
        return self._state(run).register_actor(judges, actors)

    def stop(self, run: CoordinatedRun, reason: str) -> None:
        """Let every actor of a run finish what is in flight and start nothing new."""
        state = self._state(run)
        state.stopped = state.stopped or reason

    def read_figures(self, run: CoordinatedRun, memory: RunMemory) -> tuple[RunFigures, RunMemory]:
        """Return a run's figures, why to stop, and which judges are disabled.

        Args:
            run: the run.
            memory: what its driver knows; what it is to know comes back, too.
        """
        state = self._state(run)
        memory = state.recall(memory)
        return (state.sum_figures(), state.stopped, state.disabled), memory


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
        self._missing = Gauge("zelo_missing", "requests that are still to be answered", tags)

    def set(self, run_id: str, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Set all of a run to these figures; ``planned`` is the number of requests by judge."""
        for judge, tally in tallies.items():
            tags = {"run": run_id, "judge": judge}
            for name, gauge in self._plain.items():
                gauge.set(getattr(tally, name), tags)
            missing = planned.get(judge, 0) - tally.spared - tally.known - tally.answered
            self._missing.set(max(0, missing), tags)
            for status, count in tally.statuses.items():
                self._statuses.set(count, tags | {"status": status})
            for limit, rate in tally.limits.items():
                self._limits.set(rate, tags | {"limit": limit})


class CoordinatorClient:
    """Client of the coordinator for one run, in one of its actors.

    It waits for a coordinator that is gone, until a driver has made it anew: without an answer
    nothing is sent.
    """

    def __init__(self, run: CoordinatedRun) -> None:
        self._run = run
        self._actor: Any = None

    def __reduce__(self) -> Any:
        """Travel as what finds the coordinator by its name: its owner alone keeps it alive."""
        return CoordinatorClient, (self._run,)

    @property
    def capped(self) -> bool:
        """Return whether there is a cap on dollars."""
        return self._run.cap is not None

    async def _call(self, method: str, *words: Any) -> Any:
        while True:
            try:
                self._actor = self._actor or ray.get_actor(**_PLACE)
                return await getattr(self._actor, method).remote(self._run, *words)
            except RayTaskError:  # a defect, which no waiting mends
                raise
            except (RayError, ValueError):  # it is gone
                self._actor = None
                await asyncio.sleep(_AGAIN_SECONDS)

    async def lease(self, request: LeaseRequest) -> Lease:
        """See `zelo_ray.engine.coordinator.PermitSource`."""
        lease: Lease = await self._call("lease", request)
        return lease

    async def pause(self, account: Account, seconds: float) -> float:
        """See `zelo_ray.engine.coordinator.PermitSource`."""
        lasting: float = await self._call("pause", account, seconds)
        return lasting

    async def report(self, report: ActorReport) -> tuple[str, dict[str, Disabled]]:
        """See `Coordinator`."""
        answer: tuple[str, dict[str, Disabled]] = await self._call("report", report)
        return answer

    async def register_actor(self, judges: Sequence[str], actors: int) -> bool:
        """See `RunState`."""
        answer: bool = await self._call("register_actor", judges, actors)
        return answer

    async def stop(self, reason: str) -> None:
        """See `Coordinator`."""
        await self._call("stop", reason)


class RunCoordinator:
    """Client of the coordinator for one run, in its driver: makes it where there is none.

    It remembers what is known of the run, and tells it to a coordinator that does not know.

    Args:
        options: of the job.
        run_id: of the run, which begins.
        spent: dollars of its budget.
        tell: is told the cap, if there is one, and what is spent of it by now.
    """

    def __init__(
        self,
        options: "AskingOptions",
        run_id: str,
        spent: float,
        tell: Callable[[float, float], None],
    ) -> None:
        if options.max_usd is not None:
            tell(options.max_usd, spent)
        self._run = CoordinatedRun(run_id, options.max_usd, spent)
        self._memory, self._gauges, self._actor = RunMemory(), _Gauges(), _find_or_make()
        self._actor.begin.remote(self._run)  # not waited for: its process starts while others do
        self.client = CoordinatorClient(self._run)
        """for the actors of the run"""

    def _call(self, method: str, *words: Any) -> Any:
        for _ in range(_TRIES):
            try:
                return ray.get(getattr(self._actor, method).remote(self._run, *words))
            except ActorDiedError as error:  # with the driver that owned it
                died = error
            time.sleep(_AGAIN_SECONDS / 2)
            self._actor = _find_or_make()
        raise died

    def stop(self, reason: str) -> None:
        """See `Coordinator`."""
        self._call("stop", reason)

    def read_figures(self, planned: Mapping[str, int]) -> RunFigures:
        """See `Coordinator`; they are Ray metrics, too.

        Args:
            planned: requests by judge; figures come in this order.
        """
        figures, self._memory = self._call("read_figures", self._memory)
        tallies, stopped, disabled = figures
        self._gauges.set(self._run.run_id, tallies, planned)
        return order_tallies(tallies, planned), stopped, disabled


def _find_or_make() -> Any:
    """Return the coordinator; a new one lives on this driver's node, while the driver holds it."""
    node = ray.get_runtime_context().get_node_id()
    kind: Any = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1)(Coordinator)
    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return kind.options(**_PLACE, get_if_exists=True, scheduling_strategy=where).remote()
