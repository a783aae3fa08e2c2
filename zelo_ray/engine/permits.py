"""Let calls go: each waits here for a place in the rate limits and for its money.

Calls that come while the coordinator is asked are asked for together next. Near a limit each is
told its own moment. Calls that may go very soon do so one in a turn of the event loop: to begin one
takes the SDK a millisecond, and hundreds may wait. If all began in one turn, no reply would be read
meanwhile, calls would go out in pulses, and the processor would wait between them.
"""

import asyncio
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.coordinator import CallCost, Coordination, Coordinator, LeaseRequest
from zelo_ray.engine.limiter import Account, Lease

_MOST = 200  # calls in one lease
_SOON = 0.02  # seconds of a delay; on longer ones the lease of the next calls does not wait


class PermitClient:
    """Client that gets permits for the calls to one account, and settles them afterwards.

    Money is reserved under a name, by default one of its own, that may have been charged before.
    The clock is the coordinator's.
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
        self._granted = set[asyncio.Future[bool]]()  # to go when they are due
        self._more, self._reported_limits = dict[str, float](), dict[str, float]()
        self._granting: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()  # else an older figure could overwrite a newer one
        self._open_at, self._closed = 0.0, False
        self._limited = bool(account.limits or account.cautious)
        self._late, self.answered = 0.0, False  # since the last lease
        self.capped = coordinator.capped
        """whether there is a cap on dollars"""
        self.rates: Mapping[str, float] = {}
        """the limits in force, as the last lease tells"""
        self.exhausted = False
        """whether there is no money left for what was asked for last"""

    async def acquire(self, cost: CallCost) -> bool:
        """Wait until a call of this cost may go; return False when none may any more."""
        while not self._closed:
            turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._queue.append((cost, turn))
            self._granting = self._granting or asyncio.create_task(self._grant())
            try:
                if not await turn:
                    return False
            except asyncio.CancelledError:
                if turn in self._granted:
                    self.cancel(cost)
                raise
            finally:
                self._granted.discard(turn)
            if self._clock.now() >= self._open_at and not self._closed:
                return True
            self.settle(cost, 0.0)  # a pause began since: its old place is worth nothing after it
        return False

    def settle(self, cost: CallCost, spent: float, used: Mapping[str, float] | None = None) -> None:
        """Replace what was reserved for a call by what it has cost and used, as far as is known.

        ``spent`` is in US dollars; ``used`` has amounts by the names of limits.
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
        self._reserved += dollars if self.capped else 0.0
        await self.report_spending()

    async def report_spending(self) -> None:
        """Report what is spent and reserved, so that others may have what was given back."""
        await self._lease(())

    def learn_limits(self, reported: Mapping[str, float]) -> None:
        """Take in limits that a response reported."""
        self._reported_limits.update(reported)
        self._limited |= bool(reported)

    async def pause(self, seconds: float) -> float:
        """Obey a 429, here at once, and elsewhere from the next lease on.

        Returns:
            For how many seconds the account has told nobody anything else.
        """
        self._open_at = max(self._open_at, self._clock.now() + seconds)
        self._limited = True
        return (await self._lease((), throttled=seconds)).throttled_for

    def close(self) -> None:
        """Refuse all calls from now on; nobody waits any more."""
        self._closed = True
        for turn in self._granted:  # they find out that this is closed
            _release(turn, may_go=True)
        self._refuse_waiting()

    async def aclose(self) -> None:
        """Close, and end the wait for another lease."""
        self.close()
        if granting := self._granting:
            granting.cancel()
            await asyncio.gather(granting, return_exceptions=True)

    def _refuse_waiting(self) -> None:
        for _, turn in self._queue:
            _release(turn, may_go=False)
        self._queue.clear()

    async def _grant(self) -> None:
        """Lease for those who wait, until nobody does."""
        try:
            while self._queue:
                await self._clock.sleep(max(0.0, self._open_at - self._clock.now()))
                while self._queue and self._queue[0][1].cancelled():
                    self._queue.popleft()
                calls = [cost for cost, _ in islice(self._queue, _MOST)]
                free = Lease((0.0,) * len(calls), 0.0, {})
                lease = await self._lease(calls) if self._limited or self.capped else free
                now = self._clock.now()
                granted = [self._queue.popleft() for _ in lease.delays[: len(self._queue)]]
                self._reserved += sum(cost.dollars for cost, _ in granted) if self.capped else 0.0
                for (cost, turn), delay in zip(granted, lease.delays, strict=False):
                    if turn.cancelled():
                        self.cancel(cost)
                    else:
                        self._granted.add(turn)
                        await self._let_go(turn, now + delay, soon=delay <= _SOON)
                if lease.exhausted:
                    self.exhausted = True
                    self._refuse_waiting()
                elif len(lease.delays) < len(calls) and self._queue:
                    await self._clock.sleep(lease.again)
        except Exception as error:  # noqa: BLE001 - else those that wait would wait for ever
            for _, turn in self._queue:
                if not turn.done():
                    turn.set_exception(error)
            self._queue.clear()
        finally:  # the next call tries again
            self._granting = None

    async def _let_go(self, turn: asyncio.Future[bool], due_at: float, *, soon: bool) -> None:
        """Let a call go when it is due; wait for that only where it is soon."""

        def let_go() -> None:
            # A process that the machine has stopped for a while sends all that is due at once.
            self._late = max(self._late, self._clock.now() - due_at)
            _release(turn, may_go=True)

        wait = max(0.0, due_at - self._clock.now())
        if soon:
            await self._clock.sleep(wait)
            let_go()
        else:
            asyncio.get_running_loop().call_later(self._clock.machine_seconds(wait), let_go)

    async def _lease(self, calls: Sequence[CallCost], *, throttled: float | None = None) -> Lease:
        """Report, and lease for the first calls of the queue."""
        async with self._asking:
            asked_at = self._clock.now()
            request = LeaseRequest(
                *(self._account, calls, self._more, self._reported_limits, self.answered),
                *(self._holder, self._charged, self._reserved, self._late, throttled),
            )
            self._more, self.answered, self._late = {}, False, 0.0
            lease = await self._coordinator.send(Coordinator.lease, request)
            now = self._clock.now()
            self._late = max(self._late, now - asked_at)
            self._open_at, self.rates = max(self._open_at, now + lease.paused), lease.rates
            return lease


def _release(turn: asyncio.Future[bool], *, may_go: bool) -> None:
    """Tell a waiting call whether it may go, if it still waits."""
    if not turn.done():
        turn.set_result(may_go)
