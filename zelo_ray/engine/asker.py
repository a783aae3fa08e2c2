"""Base class of what asks judges, online or in batches: whom it asks no more, and the stop."""

import asyncio
from collections.abc import Iterable

from zelo_ray.engine.clock import Clock
from zelo_ray.engine.coordinator import Coordination, Coordinator, LocalCoordination
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.replies import LedgerWriter
from zelo_ray.options import AnnotateOptions
from zelo_ray.reasons import Disabled


class Asker:
    """Asker of the judges of these names, whose replies it keeps in the ledger.

    By default the coordinator is one of this process, by the same clock and without a cap.
    """

    def __init__(
        self,
        options: AnnotateOptions,
        judges: Iterable[str],
        ledger: Ledger,
        run_id: str,
        *,
        coordinator: Coordination | None,
        clock: Clock,
    ) -> None:
        self.options, self.ledger, self.run_id, self.clock = options, ledger, run_id, clock
        self.writer = LedgerWriter(ledger, run_id, options.prices, clock)
        self.coordinator = coordinator or LocalCoordination(coordinator=Coordinator(clock))
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
