"""A clock that is passed in wherever time is read or waited for, so that tests need not wait."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock, and waiting by it.

    Args:
        speed: how many of its seconds pass in one of the machine's; more than one in tests.
    """

    speed: float = 1.0

    def now(self) -> float:
        """Return the seconds since some moment; they never go back."""
        return time.monotonic() * self.speed

    def date(self) -> float:
        """Return the seconds since 1970, as other machines know them."""
        return time.time()

    def machine_seconds(self, seconds: float) -> float:
        """Return how long a wait takes, in seconds of the machine."""
        return max(0.0, seconds) / self.speed

    def pause(self, seconds: float) -> None:
        """Wait, and let this thread do nothing else."""
        time.sleep(self.machine_seconds(seconds))

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(self.machine_seconds(seconds))

    async def wait_for(self, event: Awaitable[object], seconds: float) -> None:
        """Wait for something, but no longer."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event, self.machine_seconds(seconds))


CLOCK = Clock()
"""the clock of this machine"""
