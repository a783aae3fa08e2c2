"""Fill the ledger through providers' batch APIs: cheaper, and hours later.

Requests are gathered into parts. A part's record is durable before its batch is created and names
the batch right after; so a run that was killed adopts what it finds at the provider, and submits
nothing twice. Results of a batch that has ended, in whatever way, go into the ledger; what is then
still missing is planned anew.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

from zelo_ray.engine.batch.harvest import Harvester
from zelo_ray.engine.batch.state import BatchedJudge, BatchState
from zelo_ray.engine.batch.submit import Sender
from zelo_ray.engine.bookkeeping import LedgerWriter
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.coordinator import Coordination, Coordinator, LocalCoordination
from zelo_ray.engine.health import has_judged
from zelo_ray.engine.ledger import Ledger, sum_paid
from zelo_ray.engine.limiter import Account
from zelo_ray.engine.permits import PermitClient
from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.tokens import Estimates
from zelo_ray.errors import LedgerError, PanelError
from zelo_ray.options import AnnotateOptions, Limit
from zelo_ray.protocols import Progress, find_protocol
from zelo_ray.providers import Batches, Fatal, Settings, find_key, load_provider
from zelo_ray.reasons import Disabled
from zelo_ray.records import Judge, Pool


def goes_in_batches(judge: Judge, options: AnnotateOptions) -> bool:
    """Return whether a judge's requests go in batches; otherwise it is asked online."""
    has_batches = load_provider(judge.provider).batch is not None
    return options.mode == "batch" and has_batches and not judge.base_url


def connect(
    judge: Judge, variables: Mapping[str, str], environ: Mapping[str, str], timeout: float = 120.0
) -> Batches:
    """Connect to the batch API of a judge's provider.

    Args:
        judge: the judge.
        variables: by judge: the variable that holds its key, if not its provider's usual one.
        environ: where keys are found.
        timeout: seconds that one call may take.

    Raises:
        PanelError: its provider has no batches, or there is no key.
    """
    connecting = load_provider(judge.provider).connect_batches
    if connecting is None:
        raise PanelError(f"{judge.name}: its provider has no batches")
    key = find_key(judge, variables, environ)
    try:
        return connecting(Settings(key, None, timeout, variables.get(judge.name, "")))
    except Fatal as fatal:
        raise PanelError(str(fatal)) from None


class BatchClient(BatchState):
    """Client that asks the judges of one provider through its batch API.

    Args:
        options: the job's options.
        panel: the whole panel, as protocols must know it.
        judges: those of the panel to ask, all of one provider.
        ledger: open for writing.
        environ: where keys are found.
        run_id: the run that pays.
        coordinator: who shares out money; by default one of this process, without a cap.
        disabled: judges of the panel that are asked nothing more, with the reason.
        clock: the time.

    Raises:
        PanelError: its provider has no batches, or there is no key.
    """

    def __init__(
        self,
        options: AnnotateOptions,
        panel: Sequence[Judge],
        judges: Sequence[Judge],
        *,
        ledger: Ledger,
        environ: Mapping[str, str],
        run_id: str,
        coordinator: Coordination | None = None,
        disabled: Mapping[str, Disabled] | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        self._ledger, self._disabled = ledger, disabled or {}
        self._protocol = find_protocol(options.protocol)
        self._plans = RequestPlans(options, run_id)
        self._panel = self._protocol.judges_in_scope(judges, panel, options)
        lines = [_line(judge, options, environ) for judge in judges]
        writer = LedgerWriter(ledger, run_id, options.prices, clock)
        # An actor that Ray restarts counts as the same holder, with all it had reserved as spent.
        holder, names = f"{run_id} {' '.join(j.name for j in judges)}", {j.name for j in judges}
        coordinator = coordinator or LocalCoordination(coordinator=Coordinator(clock))
        spent = sum_paid(options.ledger_dir).dollars(run_id, names) if coordinator.capped else 0.0
        permits = PermitClient(
            Account("batches"), coordinator, budget_holder=holder, charged=spent, clock=clock
        )
        super().__init__(options, lines, writer, permits, clock)
        self._sender = Sender(self, ledger, run_id)
        self._harvester = Harvester(self, ledger, self._protocol)

    @property
    def tallies(self) -> dict[str, Tally]:
        """Return each judge's figures so far."""
        for channel in self.channels.values():
            channel.tally.batched = sum(part.requests for part in channel.open.values())
        return {name: channel.tally for name, channel in self.channels.items()}

    async def report_spending(self) -> None:
        """Report what is spent and what is reserved."""
        await self.permits.report_spending()

    async def run(self, pools: Callable[[], Iterable[Pool]]) -> None:
        """Submit and collect until nothing is missing that these judges can answer, or stopped.

        Args:
            pools: gives all pools anew at each call.
        """
        watching = list[asyncio.Task[None]]()
        try:
            await self._sender.adopt()
            lines = self.channels.values()
            watching = [asyncio.create_task(self._harvester.watch(channel)) for channel in lines]
            while not self.stopped:
                waited = bool(self.open)
                submitted = await self._plan(pools)
                await self.wait_until(lambda: not self.open)
                if not (submitted or waited):
                    break
        except LedgerError as error:
            self.stop(str(error))
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await asyncio.to_thread(self._plans.close)
            for channel in self.channels.values():
                for spool in channel.spools.values():
                    spool.file.close()
                await channel.client.aclose()
            self.writer.close()

    async def _plan(self, pools: Callable[[], Iterable[Pool]]) -> int:
        """Submit all requests that are missing and not yet sent; return how many.

        What needs no call is counted anew each time, as each gets further.
        """
        submitted, lines = 0, self.channels
        passed = {name: Tally() for name in lines}
        # What fails meanwhile is asked again in one batch, with all else that is then missing.
        away = {name: frozenset(channel.asked) for name, channel in lines.items()}
        pending = iter(pools())
        while not self.stopped and (pool := await asyncio.to_thread(next, pending, None)):
            progress = Progress(self._protocol.rounds(pool, self._panel, self.options))
            step = await asyncio.to_thread(progress.step, self._ledger, self._disabled)
            answered_keys = progress.answered_keys()
            for judge_line in lines.values():
                if not judge_line.proven and (
                    judge_keys := answered_keys.get(judge_line.judge.name)
                ):
                    judge_line.proven = has_judged(self._ledger, judge_keys)
            for request in step.missing:
                channel = lines.get(request.judge.name)
                sent = (away[request.judge.name], channel.asked) if channel else ()
                if (
                    channel
                    and not channel.disabled
                    and not any(request.key in keys for keys in sent)
                ):
                    submitted += await self._sender.spool(channel, request)
            judges = [channel.judge for channel in lines.values() if not channel.disabled]
            if not any(request.judge in judges for request in step.missing):
                self._plans.keep(pool, progress.plan(), judges)
            planned = self._protocol.count(pool, self._panel, self.options)
            for name, channel in lines.items():
                paid_replies = sum(map(self._ledger.is_own, set(answered_keys.get(name, ()))))
                passed[name].count_skipped(name, planned[name], paid_replies, step)
                channel.tally.known = max(channel.tally.known, passed[name].known)
                channel.tally.spared = max(channel.tally.spared, passed[name].spared)
                channel.tally.queries = max(channel.tally.queries, passed[name].queries)
        await asyncio.to_thread(self._plans.flush)
        for channel in lines.values():
            await self._sender.flush(channel)
        return submitted


def _line(judge: Judge, options: AnnotateOptions, environ: Mapping[str, str]) -> BatchedJudge:
    limits = load_provider(judge.provider).batch
    if limits is None:
        raise PanelError(f"{judge.name}: its provider has no batches")
    room = options.limits.get(judge.name, Limit()).enqueued_tokens
    return BatchedJudge(
        judge=judge,
        client=connect(judge, options.api_key_env, environ, options.timeout),
        limits=limits,
        estimates=Estimates(judge),
        given_room=room,
        room=room,
        proven=options.keep_asking,
    )
