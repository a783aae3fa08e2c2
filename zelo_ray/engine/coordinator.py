"""Share out limits and money among all who call, and tell them when to stop.

A call needs a place in the rate limits of its account, and dollars of the budget of its run. Both
are asked for in one message, for many calls at a time. The coordinator lives in this process, or in
an actor on a cluster, whose process starts with a run: so this module imports little.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

from zelo_ray.engine.budget import Budget, Grant
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.limiter import Account, Lease, Limiter
from zelo_ray.engine.tally import Tally, order_tallies, sum_over_sweeps
from zelo_ray.reasons import Disabled

_DENIED_SECONDS = 0.2  # before money is asked for again that others may give back
_REJOINING_SECONDS = 2.0  # in which spenders report anew to a coordinator that knows nothing
_REBIRTHS = 4  # starts of a worker in a row without an answer: what kills it will kill it again
_SILENT_SECONDS = 5.0  # seconds of silence after which a worker is gone
_FORGOTTEN_SECONDS = 600.0  # of silence: a run that still lives is told anew by its driver


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of a call: amounts by the names of limits, and dollars at most."""

    amounts: Mapping[str, float] = field(default_factory=dict)
    dollars: float = 0.0


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """Calls that wait, in their order, with what their client reports on that occasion.

    ``more`` is what earlier calls used beyond what was reserved for them (negative: less), and
    ``reported_limits`` what the server's headers said last; ``answered``: the account has answered
    since the last request. ``charged`` and ``reserved`` are the dollars of this ``spender``: for
    calls that have ended, and for those that have not. ``late`` is the longest that a call went
    after it was due, or a lease came after it was asked for, since the last request, in seconds.
    """

    account: Account
    calls: Sequence[CallCost]
    more: Mapping[str, float]
    reported_limits: Mapping[str, float]
    answered: bool
    spender: str
    charged: float
    reserved: float
    late: float = 0.0


class Limiters:
    """The limiters of all accounts, made when first asked for."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._limiters, self._clock = dict[str, Limiter](), clock

    def lease(self, request: LeaseRequest, budget: Budget | None, *, wait: bool = False) -> Lease:
        """Reserve for as many calls as limits and budget allow, in their order.

        Args:
            request: the calls, and what their client reports.
            budget: theirs; None if there is no cap.
            wait: whether no money is granted yet, only noted.
        """
        now, calls = self._clock.now(), request.calls
        grant = Grant(len(calls), over=False)
        if budget is not None:
            wants = [] if wait else [call.dollars for call in calls]
            grant = budget.reserve(request.spender, request.charged, request.reserved, wants, now)
        limiter = self._limiter(request.account, now)
        limiter.learn(request.account, request.reported_limits)
        limiter.correct(request.more)
        limiter.spend_savings(request.late, now)
        if request.answered:
            limiter.record_answer()
        lease = limiter.lease([call.amounts for call in calls[: grant.count]], now)
        if (count := len(lease.delays)) < grant.count and budget is not None:
            budget.give_back(request.spender, sum(c.dollars for c in calls[count : grant.count]))
        if count == grant.count < len(calls):
            again = max(lease.again, _DENIED_SECONDS)
            return replace(lease, again=again, binding="budget", over=grant.over)
        return lease

    def pause(self, account: Account, seconds: float) -> float:
        """Obey a 429; return the seconds for which no caller was told anything else."""
        now = self._clock.now()
        return self._limiter(account, now).pause(seconds, now)

    def _limiter(self, account: Account, now: float) -> Limiter:
        if account.name not in self._limiters:
            self._limiters[account.name] = Limiter(account, now)
        return self._limiters[account.name]


@dataclass(frozen=True, slots=True)
class CoordinatedRun:
    """A run, as every message of it says: so a coordinator that was made anew knows it again."""

    run_id: str = ""
    cap: float | None = None
    """of its budget, in US dollars"""
    spent: float = 0.0
    """dollars of the budget, before it"""


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The figures of one worker of a run so far, and what it wants all others to know."""

    worker: str
    tallies: Mapping[str, Tally]
    """by judge"""
    stopped: str = ""
    """why the run is to stop; empty if it is not"""
    disabled: Mapping[str, Disabled] = field(default_factory=dict)
    """judges that are to be asked nothing more"""
    sweep: int = 1


@dataclass(frozen=True, slots=True)
class RunMemory:
    """The last figures of a run's workers, also of those that have ended: its driver keeps them."""

    reports: Mapping[str, WorkerReport] = field(default_factory=dict)
    """the last one of each worker"""
    spenders: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """dollars charged and reserved, by spender"""


RunFigures = tuple[dict[str, Tally], str, dict[str, Disabled]]
"""Figures by judge, why all are to stop, and which judges are asked nothing more."""


@dataclass(slots=True)
class RunState:
    """The state of one run, as a coordinator holds it; times are by the coordinator's clock."""

    budget: Budget | None
    known_at: float = math.inf
    """from when on all that was spent is known"""
    reports: dict[str, tuple[WorkerReport, float]] = field(default_factory=dict)
    """the last one of each worker, and when it came"""
    births: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    """by judges: starts of their workers in a row, and the answers before them"""
    stopped: str = ""
    disabled: dict[str, Disabled] = field(default_factory=dict)
    heard_at: float = 0.0
    """when its last message came"""

    def take_report(self, report: WorkerReport, came_at: float) -> None:
        """Note a worker's report, which came at this time."""
        self.reports[report.worker] = report, came_at
        self.disabled |= report.disabled
        self.stopped = self.stopped or report.stopped

    def recall(self, memory: RunMemory, now: float) -> RunMemory:
        """Learn what the driver knows and this does not; return what is known now."""
        self.known_at = min(self.known_at, now + _REJOINING_SECONDS)
        for name in memory.reports.keys() - self.reports.keys():
            self.take_report(memory.reports[name], -math.inf)
        if self.budget:
            self.budget.recall(memory.spenders)
        reports = {name: report for name, (report, _) in self.reports.items()}
        return RunMemory(reports, self.budget.spenders if self.budget else {})

    def register_worker(self, judges: Sequence[str], workers: int) -> bool:
        """Count a new worker of these judges; return false if too many began without an answer."""
        answered = sum(
            tally.answered
            for report, _ in self.reports.values()
            for name, tally in report.tallies.items()
            if name in judges
        )
        births, before = self.births.get(tuple(judges), (0, answered))
        births = births + 1 if answered == before else 1
        self.births[tuple(judges)] = (births, answered)
        return births <= workers + _REBIRTHS

    def sum_figures(self, now: float) -> dict[str, Tally]:
        """Return figures by judge over all workers."""
        by_judge: dict[str, dict[int, Tally]] = {}
        for report, came_at in self.reports.values():
            for name, tally in report.tallies.items():
                if now - came_at > _SILENT_SECONDS:  # it has died or is done
                    tally.in_flight = tally.waiting = tally.batched = 0
                sweeps = by_judge.setdefault(name, {})
                sweeps.setdefault(report.sweep, Tally()).add(tally)
        summed = {name: sum_over_sweeps(sweeps) for name, sweeps in by_judge.items()}
        for name, reason in self.disabled.items():
            summed.setdefault(name, Tally()).disabled = reason
        return summed


class Coordinator:
    """Coordinator of all runs of a process or a cluster: limits, budgets, figures, and the stop.

    The limits of an account hold for all runs together; all else is a run's own.
    """

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._runs, self._limiters, self._clock = dict[str, RunState](), Limiters(clock), clock

    def _state(self, run: CoordinatedRun) -> RunState:
        if run.run_id not in self._runs:
            budget = Budget(run.cap, run.spent) if run.cap is not None else None
            self._runs[run.run_id] = RunState(budget)
        self._runs[run.run_id].heard_at = self._clock.now()
        return self._runs[run.run_id]

    def begin(self, run: CoordinatedRun, budget: Budget | None = None) -> None:
        """Take in a run that begins, so that nothing was spent before this; forget ended ones.

        Args:
            run: the run.
            budget: its budget; None: one of its cap, if it has one.
        """
        last = self._clock.now() - _FORGOTTEN_SECONDS
        self._runs = {name: state for name, state in self._runs.items() if state.heard_at > last}
        state = self._state(run)
        state.known_at, state.budget = -math.inf, budget or state.budget

    def lease(self, run: CoordinatedRun, request: LeaseRequest) -> Lease:
        """Note what a client reports, and reserve for the first of its calls."""
        state = self._state(run)
        wait = self._clock.now() < state.known_at
        return self._limiters.lease(request, state.budget, wait=wait)

    def pause(self, _run: CoordinatedRun, account: Account, seconds: float) -> float:
        """Obey a 429; return the seconds for which no caller was told anything else."""
        return self._limiters.pause(account, seconds)

    def report(self, run: CoordinatedRun, report: WorkerReport) -> tuple[str, dict[str, Disabled]]:
        """Take a worker's figures so far; return why all are to stop, and whom to ask no more."""
        state = self._state(run)
        state.take_report(report, self._clock.now())
        return state.stopped, dict(state.disabled)

    def register_worker(self, run: CoordinatedRun, judges: Sequence[str], workers: int) -> bool:
        """Count a new worker of these judges; return whether it is to begin."""
        return self._state(run).register_worker(judges, workers)

    def stop(self, run: CoordinatedRun, reason: str) -> None:
        """Let every worker of a run finish what is in flight and start nothing new."""
        state = self._state(run)
        state.stopped = state.stopped or reason

    def read_figures(self, run: CoordinatedRun, memory: RunMemory) -> tuple[RunFigures, RunMemory]:
        """Return a run's figures, why to stop, and which judges are disabled.

        Args:
            run: the run.
            memory: what its driver knows; what it is to know comes back, too.
        """
        state, now = self._state(run), self._clock.now()
        memory = state.recall(memory, now)
        return (state.sum_figures(now), state.stopped, dict(state.disabled)), memory


class Coordination(ABC):
    """What a worker knows of the coordinator of its run: the messages that it sends."""

    def __init__(self, run: CoordinatedRun) -> None:
        self.run = run

    @property
    def capped(self) -> bool:
        """Return whether there is a cap on dollars."""
        return self.run.cap is not None

    async def lease(self, request: LeaseRequest) -> Lease:
        """See `Coordinator`, as of all these."""
        lease: Lease = await self._send("lease", request)
        return lease

    async def pause(self, account: Account, seconds: float) -> float:
        """Obey a 429."""
        lasting: float = await self._send("pause", account, seconds)
        return lasting

    async def report(self, report: WorkerReport) -> tuple[str, dict[str, Disabled]]:
        """Report figures."""
        orders: tuple[str, dict[str, Disabled]] = await self._send("report", report)
        return orders

    async def register_worker(self, judges: Sequence[str], workers: int) -> bool:
        """Say that a worker begins."""
        may_begin: bool = await self._send("register_worker", judges, workers)
        return may_begin

    async def stop(self, reason: str) -> None:
        """Stop the run."""
        await self._send("stop", reason)

    @abstractmethod
    async def _send(self, message: str, *words: Any) -> Any:
        """Send a message to the coordinator; return its answer."""


class LocalCoordination(Coordination):
    """The coordinator is in this process; workers on loops of several threads ask it by turns.

    Args:
        run: the run; by default one without a cap.
        coordinator: of this process; by default one of its own.
    """

    def __init__(
        self, run: CoordinatedRun | None = None, coordinator: Coordinator | None = None
    ) -> None:
        super().__init__(run or CoordinatedRun())
        self._coordinator, self._turn = coordinator or Coordinator(), Lock()
        self._coordinator.begin(self.run)

    async def report(self, report: WorkerReport) -> tuple[str, dict[str, Disabled]]:
        """Report figures: a copy, as the worker goes on counting."""
        return await super().report(deepcopy(report))

    async def _send(self, message: str, *words: Any) -> Any:
        return self._call(message, *words)

    def _call(self, message: str, *words: Any) -> Any:
        with self._turn:
            return getattr(self._coordinator, message)(self.run, *words)

    def request_stop(self, reason: str) -> None:
        """Stop the run."""
        self._call("stop", reason)

    def read_figures(self, planned: Mapping[str, int]) -> RunFigures:
        """Return figures by judge, in the order of ``planned``; see `Coordinator.read_figures`."""
        (tallies, stopped, disabled), _ = self._call("read_figures", RunMemory())
        return order_tallies(tallies, planned), stopped, disabled
