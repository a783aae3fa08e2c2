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
_REJOINING_SECONDS = 2.0  # in which holders report anew to a coordinator that knows nothing
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
    since the last request. ``charged`` and ``reserved`` are the dollars of this ``budget_holder``:
    for calls that have ended, and for those that have not. ``late`` is the longest that a call went
    after it was due, or a lease came after it was asked for, since the last request, in seconds.
    """

    account: Account
    calls: Sequence[CallCost]
    more: Mapping[str, float]
    reported_limits: Mapping[str, float]
    answered: bool
    budget_holder: str
    charged: float
    reserved: float
    late: float = 0.0


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
    holders: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """dollars charged and reserved, by holder"""


Orders = tuple[str, dict[str, Disabled]]
"""Why all are to stop, and which judges are asked nothing more."""
RunFigures = tuple[dict[str, Tally], str, dict[str, Disabled]]
"""Figures by judge, and the orders."""


@dataclass(slots=True)
class _RunState:
    """The state of one run; times are by the coordinator's clock."""

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
                if now - heard_at > _SILENT_SECONDS:  # it has died or is done
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

        Args:
            run: the run.
            budget: its budget; None: one of its cap, if it has one.
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
        holder, grant = request.budget_holder, Grant(len(calls), exhausted=False)
        if state.budget is not None:
            wants = [call.dollars for call in calls] if now >= state.known_at else []
            grant = state.budget.reserve(holder, request.charged, request.reserved, wants, now)
        limiter = self._limiter(request.account)
        limiter.learn(request.account, request.reported_limits)
        limiter.correct(request.more)
        limiter.spend_savings(request.late, now)
        if request.answered:
            limiter.record_answer()
        lease = limiter.lease([call.amounts for call in calls[: grant.count]], now)
        count = len(lease.delays)
        if state.budget is not None:
            unused = sum(call.dollars for call in calls[count : grant.count])
            state.budget.give_back(holder, unused)
        if count == grant.count < len(calls):
            again = max(lease.again, _DENIED_SECONDS)
            return replace(lease, again=again, binding="budget", exhausted=grant.exhausted)
        return lease

    def pause(self, run: CoordinatedRun, account: Account, seconds: float) -> float:
        """Obey a 429; return the seconds for which no caller was told anything else."""
        self._state(run)
        return self._limiter(account).pause(seconds, self._clock.now())

    def _limiter(self, account: Account) -> Limiter:
        if account.name not in self._limiters:
            self._limiters[account.name] = Limiter(account, self._clock.now())
        return self._limiters[account.name]

    def report(self, run: CoordinatedRun, report: WorkerReport) -> Orders:
        """Take a worker's figures so far; return why all are to stop, and whom to ask no more."""
        return self._state(run).take(report, self._clock.now())

    def register_worker(self, run: CoordinatedRun, judges: Sequence[str], workers: int) -> bool:
        """Count a new worker of these judges; return false if too many began without an answer."""
        state, name = self._state(run), tuple(judges)
        tallies = (report.tallies for report, _ in state.reports.values())
        answered = sum(t[judge].answered for t in tallies for judge in judges if judge in t)
        births, before = state.births.get(name, (0, answered))
        births = births + 1 if answered == before else 1
        state.births[name] = births, answered
        return births <= workers + _REBIRTHS

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
        state.known_at = min(state.known_at, now + _REJOINING_SECONDS)
        for name in memory.reports.keys() - state.reports.keys():
            state.take(memory.reports[name], -math.inf)
        if state.budget:
            state.budget.recall(memory.holders)
        figures = state.sum_figures(now), state.stopped, dict(state.disabled)
        reports = {name: report for name, (report, _) in state.reports.items()}
        return figures, RunMemory(reports, state.budget.holders if state.budget else {})


class Coordination(ABC):
    """What a worker knows of the `Coordinator` of its run: the messages that it sends."""

    def __init__(self, run: CoordinatedRun) -> None:
        self.run = run

    @property
    def capped(self) -> bool:
        """Return whether there is a cap on dollars."""
        return self.run.cap is not None

    async def lease(self, request: LeaseRequest) -> Lease:
        """Reserve places and money."""
        lease: Lease = await self._send("lease", request)
        return lease

    async def pause(self, account: Account, seconds: float) -> float:
        """Obey a 429."""
        lasting: float = await self._send("pause", account, seconds)
        return lasting

    async def report(self, report: WorkerReport) -> Orders:
        """Report figures."""
        orders: Orders = await self._send("report", report)
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

    async def report(self, report: WorkerReport) -> Orders:
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
