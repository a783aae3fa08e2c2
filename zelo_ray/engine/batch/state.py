"""Hold what planning, submitting and harvesting share: judges, batches, money, and the stop."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO

from zelo_ray.engine.batch.parts import BatchPart, Parts, State
from zelo_ray.engine.bookkeeping import LedgerWriter
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.permits import PermitClient
from zelo_ray.engine.request_runner import RequestRunner
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.tokens import Estimates
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.providers import Batches, BatchLimits
from zelo_ray.reasons import Disabled
from zelo_ray.records import Answer, Judge


@dataclass(slots=True)
class Spool:
    """Requests on their way into a batch, in a file of their provider's format."""

    verdict: str
    limit: int
    """tokens that each answer may have"""
    file: IO[bytes]
    keys: list[str] = field(default_factory=list)
    characters: list[int] = field(default_factory=list)
    bytes: int = 0
    size: int = 0
    bound: int = 0
    tokens: int = 0
    dollars: float = 0.0
    first: "Spool | None" = None
    """its bytes, tokens and dollars when it held the requests of the judge's trial alone"""


@dataclass(slots=True)
class BatchedJudge:
    """One judge, and its batches."""

    judge: Judge
    client: Batches
    limits: BatchLimits
    estimates: Estimates
    given_room: int | None
    """tokens that may be enqueued at once, as the user says"""
    room: int | None
    """the same as learned from refusals; None while nothing is known"""
    full: int = 0
    """refusals in a row because the queue is full of others' batches"""
    full_until: float = 0.0
    """until when that is waited for, by the monotonic clock"""
    tally: Tally = field(default_factory=Tally)
    spools: dict[tuple[str, int], Spool] = field(default_factory=dict)
    """by the verdict that answers must satisfy, and the tokens that they may have"""
    open: dict[str, BatchPart] = field(default_factory=dict)
    """by mark: parts whose batch is known and not harvested"""
    asked: set[str] = field(default_factory=set)
    """keys that are in spools and open parts"""
    tries: Counter[str] = field(default_factory=Counter)
    """by key: how often it was sent and answered"""
    reasks: Counter[str] = field(default_factory=Counter)
    credit: float = 0.0
    """dollars taken from the budget and not yet reserved for a request"""
    barren: int = 0
    """batches in a row without any result"""
    proven: bool = False
    """whether it is known to give judgments, or is to be asked though it gives none"""
    on_trial: bool = False
    """whether nothing more is sent while its open batches have not proven that"""
    fruitless: list[Answer] = field(default_factory=list)
    """what it answered until then"""
    server: ServerFigures = field(default_factory=ServerFigures)
    created: bool = False
    """whether a batch of this run was created or found"""
    disabled: Disabled | None = None
    """why this judge is asked nothing more; None while it is"""

    @property
    def enqueued(self) -> int:
        """Return the tokens of all open batches."""
        return sum(part.tokens for part in self.open.values())


class BatchState(RequestRunner[BatchedJudge]):
    """The state of one provider's batches."""

    def __init__(
        self,
        options: AnnotateOptions,
        channels: Sequence[BatchedJudge],
        writer: LedgerWriter,
        permits: PermitClient,
        clock: Clock,
    ) -> None:
        super().__init__(options, channels, writer, clock)
        self.permits = permits
        self.parts = Parts(options.ledger_dir)
        self.recorded_parts: dict[str, set[str]] = {}
        """by batch: keys of results that are in the ledger, of batches not wholly harvested"""
        self._changed = asyncio.Condition()

    def stop(self, reason: str) -> None:
        """Submit nothing more and wait for nothing; batches stay at the provider."""
        super().stop(reason)
        self.permits.close()

    @property
    def open(self) -> list[BatchPart]:
        """Return the open parts of all judges."""
        return [part for channel in self.channels.values() for part in channel.open.values()]

    async def enter(self, channel: BatchedJudge, part: BatchPart, batch: str) -> None:
        """Record durably that a part's batch is known, and watch it."""
        part.batch, part.state = batch, "submitted"
        await asyncio.to_thread(self.parts.keep, part)
        channel.open[part.mark], channel.created = part, True

    async def close(
        self, channel: BatchedJudge, part: BatchPart, state: State, spent: float = 0.0
    ) -> None:
        """Record durably that a part gets no more answers; its keys may be asked again."""
        part.state = state
        await asyncio.to_thread(self.parts.keep, part)
        channel.open.pop(part.mark, None)
        channel.asked.difference_update(part.keys)
        channel.tally.unsettled += part.lost
        self.permits.settle(CallCost(dollars=part.dollars), spent + part.lost)

    async def notify(self) -> None:
        """Wake those who `wait_until`, as something has changed."""
        async with self._changed:
            self._changed.notify_all()

    async def wait_until(self, enough: Callable[[], bool]) -> None:
        """Wait until this is true, which harvests bring about, or until the run is stopped."""
        while not self.stopped and not enough():
            async with self._changed:
                await self.clock.wait_for(self._changed.wait(), 1.0)
