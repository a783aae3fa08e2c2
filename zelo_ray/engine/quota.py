"""Lease calls from the limiters of all accounts, in this process or elsewhere."""

from typing import Protocol

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.limiter import Account, Lease, Limiter, Want


class Quota(Protocol):
    """The limiters from which callers lease, in this process or in the cluster."""

    async def lease(self, want: Want) -> Lease:
        """Correct earlier estimates, learn from headers, and reserve; see `Limiter`."""

    async def pause(self, account: Account, seconds: float) -> float:
        """Obey a 429; return the seconds for which no caller was told anything else."""

    async def record_answer(self, account: Account) -> None:
        """Tell the limiter that an account answers."""


class RateLimiters:
    """The limiters of all accounts, one each, made when first asked for."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._limiters, self._clock = dict[str, Limiter](), clock

    def lease(self, want: Want) -> Lease:
        """Lease as in `Quota.lease`, at once."""
        now = self._clock.now()
        limiter = self._limiter(want.account, now)
        limiter.learn(want.account, want.told)
        limiter.correct(want.more)
        return limiter.lease(want.costs, now, want.usual, want.ahead)

    def pause(self, account: Account, seconds: float) -> float:
        """Pause as in `Quota.pause`, at once."""
        now = self._clock.now()
        return self._limiter(account, now).pause(seconds, now)

    def record_answer(self, account: Account) -> None:
        """Do as `Quota.record_answer`, at once."""
        self._limiter(account, self._clock.now()).record_answer()

    def _limiter(self, account: Account, now: float) -> Limiter:
        if account.name not in self._limiters:
            self._limiters[account.name] = Limiter(account, now)
        return self._limiters[account.name]


class OwnQuota:
    """A quota for callers of one process."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._limits = RateLimiters(clock)

    async def lease(self, want: Want) -> Lease:
        """See `Quota`."""
        return self._limits.lease(want)

    async def pause(self, account: Account, seconds: float) -> float:
        """See `Quota`."""
        return self._limits.pause(account, seconds)

    async def record_answer(self, account: Account) -> None:
        """See `Quota`."""
        self._limits.record_answer(account)
