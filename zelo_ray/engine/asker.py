"""Base class of what asks judges, online or in batches: whom it asks no more, and the stop."""

import asyncio
from collections.abc import Iterable

from zelo_ray.engine.clock import Clock
from zelo_ray.options import AnnotateOptions
from zelo_ray.reasons import Disabled


class Asker:
    """Asker of some judges, whose replies it keeps in the ledger.

    Args:
        options: the job's.
        judges: the names of those that it asks.
        clock: the time.
    """

    def __init__(self, options: AnnotateOptions, judges: Iterable[str], clock: Clock) -> None:
        self.options, self.clock = options, clock
        self.disabled = dict[str, Disabled]()
        """judges that are asked nothing more, with the reason"""
        self.stopped = ""
        """why nothing new is asked or waited for; empty while it is"""
        self._judges, self.halt = frozenset(judges), asyncio.Event()

    def stop(self, reason: str) -> None:
        """Ask nothing new. What is in flight is still kept; batches stay at the provider."""
        self.stopped = self.stopped or reason
        self.halt.set()

    def disable_judge(self, name: str, reason: Disabled) -> None:
        """Ask a judge nothing more. The run stops, unless it may go on without one."""
        if name in self._judges and name not in self.disabled:
            self.disabled[name] = reason
            if not (self.options.allow_missing_judges or reason.is_over_budget):
                self.stop(reason.message_for(name))

    async def sleep(self, seconds: float) -> None:
        """Wait, or return early when the run is stopped."""
        await self.clock.wait_for(self.halt.wait(), seconds)
