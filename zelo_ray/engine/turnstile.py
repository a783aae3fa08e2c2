"""Start at most one call in each turn of the event loop, so that replies are read in between.

To begin a call takes the SDK a millisecond. Replies are kept in groups, so hundreds of slots may
come free in one turn. If all began their next call in the turn after, no reply would be read
meanwhile; all would be found at its end, and kept together again. So calls would go out in pulses,
and between them the processor would wait for a whole latency.
"""

import asyncio
from collections import deque


class Turnstile:
    """Queue that lets one caller go in each turn of the event loop, first come, first served."""

    def __init__(self) -> None:
        self._waiting = deque[asyncio.Future[None]]()
        self._turning = False

    async def wait_turn(self) -> None:
        """Return in this turn of the loop, or in one of the next."""
        loop = asyncio.get_running_loop()
        if not self._turning:
            self._turning = True
            loop.call_soon(self._turn, loop)
            return
        waiting = loop.create_future()
        self._waiting.append(waiting)
        await waiting

    def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():  # else it was cancelled
                waiting.set_result(None)
                loop.call_soon(self._turn, loop)
                return
        self._turning = False
