"""Client of the rate limiters: calls wait here until their account allows them.

Far below every limit nobody waits: the client holds permits for some calls in advance, and leases
more while these are being used up. Near a limit each call is told its own moment.
"""

import asyncio
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.limiter import READY_SECONDS, Account, Lease, Want
from zelo_ray.engine.quota import Quota

_LINGER = 0.005  # seconds in which calls gather, to be leased together
_MOST = 200  # calls in one lease
_ALIKE = 1.5  # times what a call usually takes
_TELL_SECONDS = 1.0  # seconds between two reports that an account answers


@dataclass(slots=True)
class _Ready:
    """Permits for calls that were leased in advance, and when they expire."""

    cost: Mapping[str, float] = field(default_factory=dict)
    """what each of them reserved"""
    count: int = 0
    low: int = 0
    """how few of them are left when more are leased"""
    until: float = 0.0


class LimiterClient:
    """Client that lets one judge's calls go at the pace of its account.

    Args:
        account: whose limits hold.
        quota: who shares them out, by the same clock.
        clock: the time.
    """

    def __init__(self, account: Account, quota: Quota, clock: Clock = CLOCK) -> None:
        self._account, self._quota, self._clock = account, quota, clock
        self._queue = deque[tuple[Mapping[str, float], asyncio.Future[bool]]]()
        self._more, self._reported_limits = dict[str, float](), dict[str, float]()
        self._soon = set[asyncio.Future[bool]]()
        self._ready = _Ready()
        self._passed, self._leased_at = 0, clock.now()
        self._granting: asyncio.Task[None] | None = None
        self._limited = bool(account.limits or account.cautious)
        self._open_at, self._closed = 0.0, False
        self._answered_at = -math.inf
        self._reporting: asyncio.Task[None] | None = None
        self.lease: Lease | None = None
        """the last one, which tells the limits in force"""
        self.spent_day = False
        """whether the requests of the day are used up"""

    async def admit(self, cost: Mapping[str, float]) -> bool:
        """Wait until a call of this cost may go; return False when none may any more."""
        while self._limited and not (self._closed or self.spent_day):
            if not self._queue and self._take_ready(cost):
                return True
            granted = asyncio.get_running_loop().create_future()
            self._queue.append((cost, granted))
            self._ask()
            if not await granted:
                return False
            self._soon.discard(granted)
            if self._clock.now() >= self._open_at:
                return not self._closed
            # a pause began since: there is a new turn after it
        return not (self._closed or self.spent_day)

    def correct(self, reserved: Mapping[str, float], used: Mapping[str, float]) -> None:
        """Report what a call used of what was reserved for it."""
        for name, amount in used.items():
            self._more[name] = self._more.get(name, 0.0) + amount - reserved.get(name, 0.0)

    def learn_limits(self, told: Mapping[str, float]) -> None:
        """Take in limits that a response reported."""
        if told:
            self._reported_limits.update(told)
            self._limited = True

    def record_answer(self) -> None:
        """Tell all who share the account that it answers, soon and not too often."""
        now = self._clock.now()
        if now >= self._answered_at + _TELL_SECONDS:
            self._answered_at = now
            self._reporting = asyncio.create_task(self._quota.record_answer(self._account))

    async def pause(self, seconds: float) -> float:
        """Obey a 429, here at once, and elsewhere from the next lease on.

        Returns:
            For how many seconds the account has told nobody anything else.
        """
        self._open_at = max(self._open_at, self._clock.now() + seconds)
        self._limited = True
        self._give_back_ready()
        return await self._quota.pause(self._account, seconds)

    def close(self) -> None:
        """Refuse all calls from now on; nobody waits any more."""
        self._closed = True
        for granted in self._soon:
            release_caller(granted, passed=False)
        self._empty()

    def _empty(self) -> None:
        for _, granted in self._queue:
            release_caller(granted, passed=False)
        self._queue.clear()

    def _ask(self) -> None:
        self._granting = self._granting or asyncio.create_task(self._grant())

    async def _grant(self) -> None:
        """Lease for those who wait, until nobody does, and for those who come next."""
        try:
            while True:
                costs = [cost for cost, _ in islice(self._queue, _MOST)]
                lease = await self._lease(costs)
                self._let_pass(lease.delays)
                denied = len(lease.delays) < len(costs)
                if denied and lease.binding == "rpd":
                    self.spent_day = True
                    # the last ones of the day go before all others give up
                    for granted in self._soon:
                        release_caller(granted, passed=True)
                    self._empty()
                if not (self._queue or self._ready.count):
                    await self._clock.sleep(_LINGER)
                elif self._queue and denied:
                    await self._clock.sleep(lease.again)
                if not self._queue:
                    break
        finally:  # also when it failed: the next call tries again
            self._granting = None

    async def _lease(self, costs: Sequence[Mapping[str, float]]) -> Lease:
        """Lease for these calls, and for as many more as are to be expected by the last ones."""
        now = self._clock.now()
        self._passed += len(costs)
        a_second = self._passed / max(now - self._leased_at, 1e-3)
        self._passed, self._leased_at = 0, now
        usual = costs[-1] if costs else self._ready.cost
        more, self._more = self._more, {}
        ahead = min(_MOST, math.ceil(a_second * READY_SECONDS))
        want = Want(self._account, costs, more, self._reported_limits, usual, ahead)
        self.lease = lease = await self._quota.lease(want)
        now = self._clock.now()
        self._open_at = max(self._open_at, now + lease.paused)
        self._give_back_ready()
        self._ready = _Ready(usual, lease.ready, lease.ready // 2, now + READY_SECONDS)
        return lease

    def _let_pass(self, delays: Sequence[float]) -> None:
        """Let the first of those who wait go, each after its delay in seconds."""
        loop = asyncio.get_running_loop()
        for delay in delays[: len(self._queue)]:
            _, granted = self._queue.popleft()
            if delay <= 0:
                release_caller(granted, passed=True)
            else:
                self._soon.add(granted)
                loop.call_later(self._clock.machine_seconds(delay), _pass, granted)

    def _take_ready(self, cost: Mapping[str, float]) -> bool:
        """Use a permit that was leased in advance; return False if there is none."""
        ready = self._ready
        if not ready.count:
            return False
        now = self._clock.now()
        if now >= ready.until or now < self._open_at:
            self._give_back_ready()
            return False
        calls = _times(cost, ready.cost)
        if calls > ready.count:
            return False  # it is leased for by itself
        ready.count -= calls
        self._passed += 1
        self.correct({name: calls * amount for name, amount in ready.cost.items()}, cost)
        if ready.count <= ready.low:
            self._ask()
        return True

    def _give_back_ready(self) -> None:
        """Give unused permits back with the next lease."""
        for name, amount in self._ready.cost.items() if self._ready.count else ():
            self._more[name] = self._more.get(name, 0.0) - amount * self._ready.count
        self._ready.count = 0


def _times(cost: Mapping[str, float], usual: Mapping[str, float]) -> int:
    """Return how many usual calls this cost equals; one that is little larger counts as one."""
    ratio = max((cost[name] / usual[name] for name in cost if usual.get(name)), default=1.0)
    return 1 if ratio <= _ALIKE else math.ceil(ratio)


def release_caller(waiting: asyncio.Future[bool], *, passed: bool) -> None:
    """Tell a waiting caller whether it may go, if it still waits."""
    if not waiting.done():
        waiting.set_result(passed)


def _pass(waiting: asyncio.Future[bool]) -> None:
    release_caller(waiting, passed=True)
