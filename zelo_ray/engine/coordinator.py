"""Share out limits and money among all who call, and tell them when to stop.

A call needs a place in the rate limits of its account, and dollars of the budget of its run. Both
are asked for in one message, for many calls at a time. The coordinator lives in this process, or in
an actor on a cluster, whose process starts with a run: so this module imports little.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Concatenate, ParamSpec, TypeVar

from zelo_ray.engine.budget import Budget, Holder
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.limiter import Account, Lease, Limiter
from zelo_ray.engine.tally import Tally, sum_over_sweeps
from zelo_ray.reasons import Disabled

P = ParamSpec("P")
T = TypeVar("T")
_DENIED_SECONDS = 0.2  # before money is asked for again that others may give back
_REJOINING_SECONDS = 2.0  # in which holders report anew to a coordinator that knows nothing
_RESTARTS = 4  # of workers in a row without an answer: what kills them will kill them again
_SILENT_SECONDS = 5.0  # seconds of silence after which a worker is gone
_FORGOTTEN_SECONDS = 600.0  # of silence: a run that still lives is told anew by its driver


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of a call: amounts by the names of limits, and dollars at most."""

    amounts: Mapping[str, float] = field(default_factory=dict)
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """Calls that wait, in their order, with what their client reports on that occasion."""

    account: Account
    calls: Sequence[CallCost] = ()
    more: Mapping[str, float] = field(default_factory=dict)
    """what earlier calls used beyond what was reserved for them; negative: less"""
    reported_limits: Mapping[str, float] = field(default_factory=dict)
    answered: bool = False  # whether the account has, since the last request
    budget_holder: str = ""
    charged: float = 0.0  # dollars of this holder for calls that have ended
    reserved: float = 0.0  # and for those that have not
    late: float = 0.0  # seconds that a call went after it was due, or a lease was waited for
    throttled: float | None = None  # seconds to wait after a 429 that came just now


@dataclass(frozen=True, slots=True)
class CoordinatedRun:
    """A run, as every message of it says: so a coordinator that was made anew knows it again."""

    run_id: str = ""
    cap: float | None = None  # US dollars
    spent: float = 0.0  # of them, before it


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The figures of one worker of a run so far, and what it wants all others to know."""

    worker: str
    tallies: Mapping[str, Tally] = field(default_factory=dict)  # by judge
    stopped: str = ""  # why the run is to stop
    disabled: Mapping[str, Disabled] = field(default_factory=dict)
    sweep: int = 1


@dataclass(frozen=True, slots=True)
class RunMemory:
    """The last figures of a run's workers, also of those that have ended: its driver keeps them."""

    reports: Mapping[str, WorkerReport] = field(default_factory=dict)
    holders: Mapping[str, Holder] = field(default_factory=dict)


Orders = tuple[str, dict[str, Disabled]]
"""Why all are to stop, and which judges are asked nothing more."""
RunFigures = tuple[dict[str, Tally], str, dict[str, Disabled]]
"""Figures by judge, and the orders."""


@dataclass(slots=True)
class _RunState:
    """The state of one run; times are by the coordinator's clock."""

    budget: Budget | None
    known_at: float = math.inf  # from when on all that was spent is known
    reports: dict[str, tuple[WorkerReport, float]] = field(default_factory=dict)
    """the last one of each worker, and when it came"""
    starts: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    """by judges: starts of their workers in a row, and the answers before these"""
    stopped: str = ""
    disabled: dict[str, Disabled] = field(default_factory=dict)
    heard_at: float = 0.0

    def take(self, report: WorkerReport, now: float) -> Orders:
        self.reports[report.worker] = report, now
        self.disabled |= report.disabled
        self.stopped = self.stopped or report.stopped
        return self.stopped, dict(self.disabled)

    def sum_figures(self, now: float) -> dict[str, Tally]:
        """Return figures by judge over all workers."""
        by_judge: dict[str, dict[int, Tally]] = {}
        for report, heard_at in self.reports.values():
            for name, tally in report.tallies.items():
                summed = by_judge.setdefault(name, {}).setdefault(report.sweep, Tally())
                is_gone = now - heard_at > _SILENT_SECONDS  # it has died or is done
                idle = replace(tally, in_flight=0, waiting=0, batched=0)
                summed.add(idle if is_gone else tally)
        figures = {name: sum_over_sweeps(sweeps) for name, sweeps in by_judge.items()}
        for name, reason in self.disabled.items():
            figures.setdefault(name, Tally()).disabled = reason
        return figures


class Coordinator:
    """Coordinator of all runs of a process or a cluster: limits, budgets, figures, and the stop.

    The limits of an account hold for all runs together; all else is a run's own.
    """

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._runs, self._limiters = dict[str, _RunState](), dict[str, Limiter]()

    def _state(self, run: CoordinatedRun) -> _RunState:
        if run.run_id not in self._runs:
            budget = Budget(run.cap, run.spent) if run.cap is not None else None
            self._runs[run.run_id] = _RunState(budget)
        state = self._runs[run.run_id]
        state.heard_at = self._clock.now()
        return state

    def begin(self, run: CoordinatedRun, budget: Budget | None = None) -> None:
        """Take in a run that begins, so that nothing was spent before this; forget ended ones.

        Its budget is one of its cap, unless another is given.
        """
        last = self._clock.now() - _FORGOTTEN_SECONDS
        self._runs = {name: state for name, state in self._runs.items() if state.heard_at > last}
        state = self._state(run)
        state.known_at, state.budget = -math.inf, budget or state.budget

    def lease(self, run: CoordinatedRun, request: LeaseRequest) -> Lease:
        """Reserve for as many calls as limits and budget allow, in their order.

        No money is granted until all that was spent is known.
        """
        state, now, calls = self._state(run), self._clock.now(), request.calls
        holder, budget, affordable, wants = request.budget_holder, state.budget, len(calls), []
        if budget is not None:
            wants = [call.dollars for call in calls] if now >= state.known_at else []
            affordable = budget.reserve(holder, request.charged, request.reserved, wants, now)
        limiter = self._limiters.setdefault(request.account.name, Limiter(request.account, now))
        limiter.learn(request.account, request.reported_limits)
        limiter.correct(request.more)
        limiter.spend_savings(request.late, now)
        if request.answered:
            limiter.record_answer()
        throttled = 0.0 if request.throttled is None else limiter.pause(request.throttled, now)
        lease = limiter.lease([call.amounts for call in calls[:affordable]], now)
        lease, count = replace(lease, throttled_for=throttled), len(lease.delays)
        if budget is not None:
            budget.give_back(holder, sum(wants[count:affordable]))
            if count == affordable < len(calls):
                is_over = bool(wants) and not count and budget.is_exhausted(now)
                again = max(lease.again, _DENIED_SECONDS)
                return replace(lease, again=again, exhausted=is_over)
        return lease

    def report(self, run: CoordinatedRun, report: WorkerReport) -> Orders:
        """Take a worker's figures so far; return why all are to stop, and whom to ask no more."""
        return self._state(run).take(report, self._clock.now())

    def register_worker(
        self, run: CoordinatedRun, judges: Sequence[str], workers: int, sweep: int = 1
    ) -> bool:
        """Count a worker of a sweep; return false after too many without an answer."""
        state, name = self._state(run), (*judges, str(sweep))
        tallies = (report.tallies for report, _ in state.reports.values())
        answered = sum(t[judge].answered for t in tallies for judge in judges if judge in t)
        starts, before = state.starts.get(name, (0, answered))
        starts = starts + 1 if answered == before else 1
        state.starts[name] = starts, answered
        return starts <= workers + _RESTARTS

    def read_figures(self, run: CoordinatedRun, memory: RunMemory) -> tuple[RunFigures, RunMemory]:
        """Return a run's figures, why to stop, and which judges are disabled.

        Its driver tells what it knows of the run; what it is to know then comes back, too.
        """
        state, now = self._state(run), self._clock.now()
        state.known_at = min(state.known_at, now + _REJOINING_SECONDS)
        for name in memory.reports.keys() - state.reports.keys():
            state.take(memory.reports[name], -math.inf)
        if state.budget:
            state.budget.recall(memory.holders)
        figures = state.sum_figures(now), state.stopped, dict(state.disabled)
        reports = {name: report for name, (report, _) in state.reports.items()}
        return figures, RunMemory(reports, dict(state.budget.holders) if state.budget else {})


Message = Callable[Concatenate[Coordinator, CoordinatedRun, P], T]
"""A method of the coordinator."""


class Coordination(ABC):
    """A worker's way to the `Coordinator` of its run."""

    def __init__(self, run: CoordinatedRun) -> None:
        self.run = run

    @property
    def capped(self) -> bool:
        """Return whether there is a cap on dollars."""
        return self.run.cap is not None

    @abstractmethod
    async def send(self, message: Message[P, T], *words: P.args, **more: P.kwargs) -> T:
        """Have the coordinator run a method for this run."""


class LocalCoordination(Coordination):
    """The coordinator is in this process; workers on loops of several threads ask it by turns.

    By default it is one of its own, and the run has no cap.
    """

    def __init__(
        self, run: CoordinatedRun | None = None, coordinator: Coordinator | None = None
    ) -> None:
        super().__init__(run or CoordinatedRun())
        self._coordinator, self._turn = coordinator or Coordinator(), Lock()
        self._coordinator.begin(self.run)

    async def send(self, message: Message[P, T], *words: P.args, **more: P.kwargs) -> T:
        """Run a method of the coordinator."""
        with self._turn:
            return message(self._coordinator, self.run, *words, **more)

    def request_stop(self, reason: str) -> None:
        """Stop the run."""
        with self._turn:
            self._coordinator.report(self.run, WorkerReport("driver", stopped=reason))

    def read_figures(self) -> RunFigures:
        """Return figures by judge, why to stop, and which judges are disabled."""
        with self._turn:
            return self._coordinator.read_figures(self.run, RunMemory())[0]
