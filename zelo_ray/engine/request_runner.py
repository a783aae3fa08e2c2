"""Base class of the online and the batch client: their judges, and the stop."""

import asyncio
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from zelo_ray.engine.bookkeeping import LedgerWriter
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.tally import Tally
from zelo_ray.options import AnnotateOptions
from zelo_ray.reasons import Disabled
from zelo_ray.records import Judge


class AskedJudge(Protocol):
    """Any judge that a runner asks."""

    judge: Judge
    tally: Tally
    disabled: Disabled | None
    """why it is asked nothing more; None while it is"""


L = TypeVar("L", bound=AskedJudge)


class RequestRunner(Generic[L]):
    """Runner that fills the ledger with replies: what asking online and in batches share.

    Args:
        options: the job's.
        channels: a channel for each judge that it asks.
        writer: the writer that keeps replies.
        clock: the time.
    """

    def __init__(
        self,
        options: AnnotateOptions,
        channels: Iterable[L],
        writer: LedgerWriter,
        clock: Clock,
    ) -> None:
        self.options, self.writer, self.clock = options, writer, clock
        self.channels = {channel.judge.name: channel for channel in channels}
        self.halt = asyncio.Event()
        self.stopped = ""
        """why nothing new is asked or waited for; empty while it is"""

    @property
    def disabled(self) -> dict[str, Disabled]:
        """Return the judges that are asked nothing more, with the reason."""
        return {
            name: channel.disabled for name, channel in self.channels.items() if channel.disabled
        }

    def stop(self, reason: str) -> None:
        """Ask nothing new. What is in flight is still kept; batches stay at the provider."""
        self.stopped = self.stopped or reason
        self.halt.set()

    def disable_judge(self, name: str, reason: Disabled) -> None:
        """Ask a judge nothing more. The run stops, unless it may go on without one."""
        if name in self.channels and not self.channels[name].disabled:
            self.channels[name].disabled = reason
            if not (self.options.allow_missing_judges or reason.is_over_budget):
                self.stop(reason.message_for(name))

    async def sleep(self, seconds: float) -> None:
        """Wait, or return early when the run is stopped."""
        await self.clock.wait_for(self.halt.wait(), seconds)
