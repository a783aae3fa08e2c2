"""Hold what is known of one judge that is asked in batches, its money, and the stop."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from zelo_ray.engine.asker import Asker
from zelo_ray.engine.batch.parts import BatchPart, Parts, State
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.coordinator import CallCost, Coordination
from zelo_ray.engine.ledger import Ledger, sum_paid
from zelo_ray.engine.limiter import Account
from zelo_ray.engine.permits import PermitClient
from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.tokens import Estimates
from zelo_ray.errors import PanelError
from zelo_ray.options import AnnotateOptions, Limit
from zelo_ray.protocols import find_protocol
from zelo_ray.providers import Batches, Fatal, Settings, find_key, load_provider
from zelo_ray.reasons import Disabled
from zelo_ray.records import Answer, Judge


def connect(
    judge: Judge, variables: Mapping[str, str], environ: Mapping[str, str], timeout: float = 120.0
) -> Batches:
    """Connect to the batch API of a judge's provider; each call may take so many seconds.

    ``variables`` are by judge those that hold its key, if not its provider's usual ones.

    Raises:
        PanelError: its provider has no batches, or there is no key.
    """
    connecting = load_provider(judge.provider).connect_batches
    if connecting is None:
        raise PanelError(f"{judge.name}: its provider has no batches")
    key = find_key(judge, variables, environ)
    try:
        batches: Batches = connecting(Settings(key, None, timeout, variables.get(judge.name, "")))
    except Fatal as fatal:
        raise PanelError(str(fatal)) from None
    return batches


class JudgeInBatches(Asker):
    """A judge that is asked through its provider's batch API.

    ``panel`` is the whole one, as protocols must know it, of which those that are ``disabled`` are
    asked nothing more. The ``coordinator`` shares out money; by default it is one of this process,
    without a cap.

    Raises:
        PanelError: its provider has no batches, or there is no key.
    """

    def __init__(
        self,
        options: AnnotateOptions,
        panel: Sequence[Judge],
        judge: Judge,
        *,
        ledger: Ledger,
        environ: Mapping[str, str],
        run_id: str,
        coordinator: Coordination | None = None,
        disabled: Mapping[str, Disabled] | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        super().__init__(
            options, [judge.name], ledger, run_id, coordinator=coordinator, clock=clock
        )
        self.judge = judge
        self.api = connect(judge, options.api_key_env, environ, options.timeout)
        self.parts, self.estimates = Parts(options.ledger_dir), Estimates(judge)
        self.tally = Tally()
        self.protocol = find_protocol(options.protocol)
        # A worker that Ray restarts counts as the same spender, with all it had reserved as spent.
        spent = sum_paid(options.ledger_dir) if self.coordinator.capped else None
        self.permits = PermitClient(
            *(Account("batches"), self.coordinator),
            budget_holder=f"{run_id} {judge.name}",
            charged=spent.dollars(run_id, {judge.name}) if spent else 0.0,
            clock=clock,
        )
        self.open: dict[str, BatchPart] = {}
        """by mark: parts whose batch is known and not harvested"""
        self.asked: set[str] = set()
        """keys that are gathered, or in open parts"""
        self.recorded: dict[str, set[str]] = defaultdict(set)
        """by batch: keys of results that are in the ledger, of batches not wholly harvested"""
        self.room = self.given_room = options.limits.get(judge.name, Limit()).enqueued_tokens
        """tokens that may be enqueued at once, as given or learned from refusals; None: unknown"""
        self.full_until = 0.0
        """until when a queue that is full of others' batches is waited for, by the clock"""
        self.has_judged = options.keep_asking
        """whether it is known to give judgments, or is to be asked though it gives none"""
        self.on_trial = False
        """whether nothing more is sent while its open batches have not shown that"""
        self.without_judgment: list[Answer] = []
        """what it answered until then"""
        self._changed = asyncio.Condition()
        self.others_disabled, self.plans = disabled or {}, RequestPlans(options, run_id)
        self.panel = self.protocol.judges_in_scope((judge,), panel, options)

    @property
    def tallies(self) -> dict[str, Tally]:
        """Return the judge's figures so far."""
        self.tally.batched = sum(part.requests for part in self.open.values())
        return {self.judge.name: self.tally}

    @property
    def is_closed(self) -> bool:
        """Return whether nothing more is sent."""
        return bool(self.stopped or self.disabled)

    async def report_spending(self) -> None:
        """Report what is spent and what is reserved."""
        await self.permits.report_spending()

    def stop(self, reason: str) -> None:
        """Send nothing more and wait for nothing; batches stay at the provider."""
        super().stop(reason)
        self.permits.close()

    def disable(self, reason: Disabled) -> None:
        """Ask the judge nothing more."""
        self.disable_judge(self.judge.name, reason)

    async def enter(self, part: BatchPart, batch: str) -> None:
        """Record durably that a part's batch is known, and watch it."""
        part.batch, part.state = batch, "submitted"
        await asyncio.to_thread(self.parts.keep, part)
        self.open[part.mark] = part

    async def close(self, part: BatchPart, state: State, spent: float = 0.0) -> None:
        """Record durably that a part gets no more answers; its keys may be asked again."""
        part.state = state
        await asyncio.to_thread(self.parts.keep, part)
        self.open.pop(part.mark, None)
        self.asked.difference_update(part.keys)
        self.tally.unsettled += part.lost
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
