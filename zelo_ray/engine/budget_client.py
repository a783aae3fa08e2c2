"""Client of the shared budget: calls queue here until it has room for them."""

import asyncio
from collections import deque

from zelo_ray.engine.budget import SharedBudget
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.limiter_client import release_caller

_LINGER = 0.005  # seconds in which calls gather, to be reserved for together
_MOST = 200  # calls in one reservation
_DENIED_WAIT = 0.2  # seconds before money is asked for again that others may give back


class BudgetClient:
    """Budget of the calls of one process. Without a shared budget there is no cap."""

    def __init__(
        self,
        spender: str,
        shared_budget: SharedBudget | None,
        charged: float = 0.0,
        clock: Clock = CLOCK,
    ) -> None:
        self._spender, self._shared_budget, self._clock = spender, shared_budget, clock
        self._queue = deque[tuple[float, asyncio.Future[bool]]]()
        self._charged, self._reserved, self._closed = charged, 0.0, False
        self._granting: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()  # else an older figure could overwrite a newer one
        self.over = False
        """whether there is no money left for what was asked for last"""

    @property
    def capped(self) -> bool:
        """Return whether there is a cap."""
        return self._shared_budget is not None

    async def hold(self, dollars: float) -> None:
        """Reserve what open batches of an earlier run may cost, whether there is room or not."""
        if self._shared_budget is not None:
            async with self._asking:
                self._reserved += dollars
                await self._shared_budget.reserve(self._spender, self._charged, self._reserved, ())

    async def report_spending(self) -> None:
        """Report what is spent and reserved, so that others may have what was given back."""
        await self.hold(0.0)

    async def take(self, dollars: float) -> bool:
        """Wait until a call may cost so much; return False when it never may."""
        if self._shared_budget is None or not dollars:
            return True
        if self._closed:
            return False
        waiter = asyncio.get_running_loop().create_future()
        self._queue.append((dollars, waiter))
        self._granting = self._granting or asyncio.create_task(self._grant(self._shared_budget))
        try:
            return bool(await waiter)
        except asyncio.CancelledError:  # perhaps just after it was granted
            if not waiter.cancelled():
                self.give_back(dollars if waiter.result() else 0.0, 0.0)
            raise

    def give_back(self, reserved: float, spent: float) -> None:
        """Replace what was reserved for a call by what it has cost."""
        self._reserved -= reserved if self.capped else 0.0
        self._charged += spent

    def close(self) -> None:
        """Let nobody wait for money any more."""
        self._closed = True
        self._refuse_waiting()

    def _refuse_waiting(self) -> None:
        while self._queue:
            _, waiter = self._queue.popleft()
            release_caller(waiter, passed=False)

    async def _grant(self, shared_budget: SharedBudget) -> None:
        try:
            await self._clock.sleep(_LINGER)
            while self._queue:
                while self._queue and self._queue[0][1].cancelled():
                    self._queue.popleft()
                wants = [dollars for dollars, _ in list(self._queue)[:_MOST]]
                async with self._asking:
                    grant = await shared_budget.reserve(
                        self._spender, self._charged, self._reserved, wants
                    )
                    for _ in range(min(grant.count, len(self._queue))):
                        dollars, waiter = self._queue.popleft()
                        self._reserved += 0.0 if waiter.cancelled() else dollars
                        release_caller(waiter, passed=True)
                if grant.over:
                    self.over = True
                    self._refuse_waiting()
                elif self._queue and not grant.count:
                    await self._clock.sleep(_DENIED_WAIT)
        finally:
            self._granting = None
