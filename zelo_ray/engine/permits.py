"""Let calls go: each waits here for a place in the rate limits and for its money.

Calls that come while the coordinator is asked are asked for together next. Near a limit each is
told its own moment. Calls that may go very soon do so one in a turn of the event loop: to begin one
takes the SDK a millisecond, and hundreds may wait. If all began in one turn, no reply would be read
meanwhile, calls would go out in pulses, and the processor would wait between them.
"""

import asyncio
import math
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.coordinator import CallCost, Coordination, LeaseRequest
from zelo_ray.engine.limiter import Account, Lease

_MOST = 200  # calls in one lease
_SOON = 0.02  # seconds of a delay; on longer ones the lease of the next calls does not wait
_ANSWERS_SECONDS = 1.0  # between two reports that an account answers

_Granted = tuple[CallCost, asyncio.Future[bool], float]
"""A call, who waits for it, and when it may go, by the client's clock."""


class PermitClient:
    """Client that gets permits for the calls to one account, and settles them afterwards.

    Args:
        account: whose limits hold.
        coordinator: who shares out limits and money.
        budget_holder: the name under which money is reserved; empty: one of its own.
        charged: US dollars that this holder was charged before.
        clock: the time, the same as the coordinator's.
    """

    def __init__(
        self,
        account: Account,
        coordinator: Coordination,
        *,
        budget_holder: str = "",
        charged: float = 0.0,
        clock: Clock = CLOCK,
    ) -> None:
        self._account, self._coordinator, self._clock = account, coordinator, clock
        self._holder = budget_holder or uuid.uuid4().hex
        self._charged, self._reserved = charged, 0.0
        self._queue = deque[tuple[CallCost, asyncio.Future[bool]]]()
        self._delayed = set[asyncio.Future[bool]]()  # granted, and not yet due
        self._more, self._reported_limits = dict[str, float](), dict[str, float]()
        self._granting: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[object] | None = None
        self._asking = asyncio.Lock()  # else an older figure could overwrite a newer one
        self._limited = bool(account.limits or account.cautious)
        self._open_at, self._closed = 0.0, False
        self._answered, self._reported_at = False, -math.inf
        self._late = 0.0  # since the last lease
        self.capped = coordinator.capped
        """whether there is a cap on dollars"""
        self.lease: Lease | None = None
        """the last one, which tells the limits in force"""
        self.spent_day = False
        """whether the requests of the day are used up"""
        self.exhausted = False
        """whether there is no money left for what was asked for last"""

    async def acquire(self, cost: CallCost) -> bool:
        """Wait until a call of this cost may go; return False when none may any more."""
        while not (self._closed or self.spent_day):
            waiting = asyncio.get_running_loop().create_future()
            self._queue.append((cost, waiting))
            self._granting = self._granting or asyncio.create_task(self._grant())
            try:
                if not await waiting:
                    return False
            except asyncio.CancelledError:  # perhaps just after it was granted
                passed = waiting.done() and not waiting.cancelled() and waiting.result()
                if passed or waiting in self._delayed:
                    self.cancel(cost)
                raise
            finally:
                self._delayed.discard(waiting)
            if self._clock.now() >= self._open_at and not self._closed:
                return True
            # A pause began since: there is a new turn after it. The old place in the minute is
            # worth nothing, that in the day is one that was not used.
            self.settle(cost, 0.0, {"rpd": 0.0})
        return False

    def settle(self, cost: CallCost, spent: float, used: Mapping[str, float] | None = None) -> None:
        """Replace what was reserved for a call by what it has cost and used.

        Args:
            cost: what was reserved.
            spent: US dollars.
            used: amounts by the names of limits; None where they are not known.
        """
        self._reserved -= cost.dollars if self.capped else 0.0
        self._charged += spent
        for name, amount in (used or {}).items():
            self._more[name] = self._more.get(name, 0.0) + amount - cost.amounts.get(name, 0.0)

    def cancel(self, cost: CallCost) -> None:
        """Give back what was reserved for a call that is not made."""
        self.settle(cost, 0.0, dict.fromkeys(cost.amounts, 0.0))

    async def hold(self, dollars: float) -> None:
        """Reserve what open batches of an earlier run may cost, whether there is room or not."""
        if self.capped:
            self._reserved += dollars
            await self._lease(())

    async def report_spending(self) -> None:
        """Report what is spent and reserved, so that others may have what was given back."""
        await self.hold(0.0)

    def learn_limits(self, reported: Mapping[str, float]) -> None:
        """Take in limits that a response reported."""
        self._reported_limits.update(reported)
        self._limited |= bool(reported)

    def record_answer(self) -> None:
        """Tell all who share the account that it answers, soon and not too often."""
        self._answered = True
        if self._clock.now() >= self._reported_at + _ANSWERS_SECONDS:
            self._reported_at = self._clock.now()
            self._reporting = asyncio.create_task(self._lease(()))

    async def pause(self, seconds: float) -> float:
        """Obey a 429, here at once, and elsewhere from the next lease on.

        Returns:
            For how many seconds the account has told nobody anything else.
        """
        self._open_at = max(self._open_at, self._clock.now() + seconds)
        self._limited = True
        return await self._coordinator.pause(self._account, seconds)

    def close(self) -> None:
        """Refuse all calls from now on; nobody waits any more."""
        self._closed = True
        self._release_granted()  # they find out that this is closed
        self._refuse_waiting()

    def _release_granted(self) -> None:
        for waiting in self._delayed:
            _release(waiting, may_go=True)

    def _refuse_waiting(self) -> None:
        for _, waiting in self._queue:
            _release(waiting, may_go=False)
        self._queue.clear()

    async def _grant(self) -> None:
        """Lease for those who wait, until nobody does."""
        try:
            while self._queue:
                await self._clock.sleep(max(0.0, self._open_at - self._clock.now()))
                while self._queue and self._queue[0][1].cancelled():
                    self._queue.popleft()
                calls = [cost for cost, _ in islice(self._queue, _MOST)]
                if not (self._limited or (self.capped and any(cost.dollars for cost in calls))):
                    await self._let_go([(*self._queue.popleft(), 0.0) for _ in calls])
                    continue
                lease, soon = await self._lease(calls)
                await self._let_go(soon)
                if len(lease.delays) == len(calls):
                    continue
                if lease.exhausted:
                    self.exhausted = True
                    self._refuse_waiting()
                elif lease.binding == "rpd":
                    self.spent_day = True
                    self._release_granted()  # the last of the day go before all others give up
                    self._refuse_waiting()
                elif self._queue:
                    await self._clock.sleep(lease.again)
        except Exception as error:  # noqa: BLE001 - else those that wait would wait for ever
            for _, waiting in self._queue:
                if not waiting.done():
                    waiting.set_exception(error)
            self._queue.clear()
        finally:  # the next call tries again
            self._granting = None

    async def _lease(self, calls: Sequence[CallCost]) -> tuple[Lease, list[_Granted]]:
        """Report, and lease for the first calls of the queue; return those that may go soon."""
        async with self._asking:
            asked_at, answered = self._clock.now(), self._answered
            request = LeaseRequest(
                *(self._account, calls, self._more, self._reported_limits, answered),
                *(self._holder, self._charged, self._reserved, self._late),
            )
            self._more, self._answered, self._late = {}, False, 0.0
            self.lease = lease = await self._coordinator.lease(request)
            now = self._clock.now()
            self._late = max(self._late, now - asked_at)
            self._reported_at = now if answered else self._reported_at
            self._open_at = max(self._open_at, now + lease.paused)
            loop, soon = asyncio.get_running_loop(), list[_Granted]()
            for delay in lease.delays[: len(self._queue)]:
                cost, waiting = self._queue.popleft()
                self._reserved += cost.dollars if self.capped else 0.0
                if delay > _SOON and not waiting.cancelled():
                    self._delayed.add(waiting)
                    wait = self._clock.machine_seconds(delay)
                    loop.call_later(wait, self._let_one_go, waiting, now + delay)
                else:
                    soon.append((cost, waiting, now + delay))
        return lease, soon

    async def _let_go(self, soon: Sequence[_Granted]) -> None:
        """Let calls go at their moments, but one in a turn of the event loop."""
        for cost, waiting, due_at in soon:
            if not waiting.cancelled():
                await self._clock.sleep(max(0.0, due_at - self._clock.now()))
            if waiting.cancelled():
                self.cancel(cost)
            else:
                self._let_one_go(waiting, due_at)

    def _let_one_go(self, waiting: asyncio.Future[bool], due_at: float) -> None:
        """Let a call go that was due at this moment, and note how late it goes.

        A process that the machine has stopped for a while sends all that was due meanwhile at once.
        """
        self._late = max(self._late, self._clock.now() - due_at)
        _release(waiting, may_go=True)


def _release(waiting: asyncio.Future[bool], *, may_go: bool) -> None:
    """Tell a waiting call whether it may go, if it still waits."""
    if not waiting.done():
        waiting.set_result(may_go)
