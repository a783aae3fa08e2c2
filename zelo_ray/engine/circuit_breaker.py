"""Hold a judge's calls back while nothing comes back from it.

A circuit breaker (M. Nygard, *Release It!*, 2nd edition, 2018, chapter 5). When call after call
comes to nothing, new ones wait, and one of them at a time goes as a probe, at growing intervals,
until one is answered. So an outage costs few calls, and no request its attempts.
"""

import asyncio
from collections import Counter, deque

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.providers import Retry, RetryKind

_UNREACHED = 3
"""Calls in a row that made no connection: no prompt is at fault there."""
_REQUESTS = 5
"""Different requests in a row without an answer; some few prompts may be at fault themselves."""
_FEWEST = 3
"""The same where fewer calls may be in flight; and calls in a row, where that is even less: the
same request is made again and again then, before another one has its turn."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds before a probe
_LONG_DELAY = 120.0  # seconds: a server that asks for more is away, whatever it is asked


class CircuitBreaker:
    """Circuit breaker of one judge: lets its calls go while it answers, else one at a time.

    Args:
        slots: calls that may be in flight.
        clock: the time.
    """

    def __init__(self, slots: int, clock: Clock = CLOCK) -> None:
        self._requests, self._clock = min(_REQUESTS, max(_FEWEST, slots)), clock
        self._calls_tell = slots < _FEWEST
        self._failing, self._suspect = Counter[str](), set[str]()
        self._unreached = 0
        self._waiting = deque[asyncio.Future[bool]]()
        self._probing: asyncio.Task[None] | None = None
        self._probed, self._answered = asyncio.Event(), asyncio.Event()
        self._wait, self._delay, self._closed = _FIRST_WAIT, 0.0, False
        self.is_open = False
        """whether calls are held back"""
        self.answers = 0
        """responses so far, of any kind"""

    @property
    def is_sure(self) -> bool:
        """Return whether so many requests failed that their content cannot be the cause."""
        return len(self._failing.keys() - self._suspect) >= _FEWEST

    async def admit(self) -> bool:
        """Wait until a call may go.

        Returns:
            Whether it goes as a probe, while all others wait.
        """
        if not self.is_open or self._closed:
            return False
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._probing = self._probing or asyncio.create_task(self._probe())
        is_probe: bool = await turn
        return is_probe

    def record_answer(self) -> None:
        """Let all calls go: something came back from the judge."""
        self.answers += 1
        self._failing.clear()
        self._suspect.clear()
        self._unreached, self._wait, self._delay = 0, _FIRST_WAIT, 0.0
        self._release()

    def record_failure(
        self,
        trouble: Retry,
        key: str,
        *,
        is_probe: bool,
        suspect: bool = False,
    ) -> None:
        """Count a failed call, and hold calls back after too many in a row.

        Args:
            trouble: why the call failed.
            key: of its request.
            is_probe: whether it went as a probe.
            suspect: whether other requests were answered since this one failed before.
        """
        delay = trouble.delay or 0.0
        self._failing[key] += 1
        if suspect:
            self._suspect.add(key)
        self._unreached += trouble.kind is RetryKind.UNREACHED
        self._delay = max(self._delay, delay)
        failed = self._failing.total() if self._calls_tell else len(self._failing)
        is_failing = self._unreached >= _UNREACHED or failed >= self._requests
        is_failing |= trouble.kind is RetryKind.UNAVAILABLE and self._failing[key] >= _FEWEST
        if is_failing or delay > _LONG_DELAY:
            self.is_open = not self._closed
            self._answered.clear()
        if is_probe:
            self._probed.set()

    def close(self) -> None:
        """Release all waiting calls: no call is made after this."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        self.is_open = False
        self._answered.set()
        self._probed.set()
        while self._let_go(is_probe=False):
            pass

    def _let_go(self, *, is_probe: bool) -> bool:
        """Release the call that has waited longest; return False where none waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(is_probe)
                return True
        return False

    async def _probe(self) -> None:
        """Let one call go at a time, each a while after the one before it failed."""
        try:
            while self.is_open and self._waiting:
                wait, self._wait = self._wait, min(2 * self._wait, _LONGEST_WAIT)
                wait, self._delay = max(wait, self._delay), 0.0
                await self._clock.wait_for(self._answered.wait(), wait)
                self._probed.clear()
                if self.is_open and self._let_go(is_probe=True):
                    await self._probed.wait()
        finally:
            self._probing = None
