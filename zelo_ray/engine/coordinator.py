"""Share out limits and money among all who call: what a coordinator is asked, and how it decides.

A call needs a place in the rate limits of its account, and dollars of the budget of its run. Both
are asked for in one message, for many calls at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from zelo_ray.engine.budget import Budget, Grant
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.limiter import Account, Lease, Limiter

_DENIED_SECONDS = 0.2  # before money is asked for again that others may give back


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


class PermitSource(Protocol):
    """A source of permits: a coordinator in this process, or in the cluster."""

    @property
    def capped(self) -> bool:
        """Return whether there is a cap on dollars."""

    async def lease(self, request: LeaseRequest) -> Lease:
        """Note what the client reports, and reserve for the first of its calls."""

    async def pause(self, account: Account, seconds: float) -> float:
        """Obey a 429; return the seconds for which no caller was told anything else."""


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
        """Pause as in `PermitSource.pause`, at once."""
        now = self._clock.now()
        return self._limiter(account, now).pause(seconds, now)

    def _limiter(self, account: Account, now: float) -> Limiter:
        if account.name not in self._limiters:
            self._limiters[account.name] = Limiter(account, now)
        return self._limiters[account.name]


class OwnCoordinator:
    """A coordinator for callers of one process.

    Args:
        clock: the time, the same as theirs.
        budget: theirs; None if there is no cap.
    """

    def __init__(self, clock: Clock = CLOCK, budget: Budget | None = None) -> None:
        self._limiters, self._budget = Limiters(clock), budget

    @property
    def capped(self) -> bool:
        """Return whether there is a cap on dollars."""
        return self._budget is not None

    async def lease(self, request: LeaseRequest) -> Lease:
        """See `PermitSource`."""
        return self._limiters.lease(request, self._budget)

    async def pause(self, account: Account, seconds: float) -> float:
        """See `PermitSource`."""
        return self._limiters.pause(account, seconds)
