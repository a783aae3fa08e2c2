"""Send requests away: gather them into parts, and create each part's batch exactly once."""

import asyncio
import contextlib
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path

from zelo_ray.engine.batch.parts import BatchPart
from zelo_ray.engine.batch.state import BatchedJudge, BatchState, Spool
from zelo_ray.engine.bookkeeping import budget_used_up
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.health import FIRST
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.tokens import bound_tokens, measure_request, prompt_characters
from zelo_ray.providers import Batch, Fatal, Refused, Retry, RetryKind
from zelo_ray.providers.pricing import highest_price
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Answer, Request, Usage, response_model_name

GRACE = 60.0  # seconds in which a batch whose creation was cut off may still come to be
_SKEW = 120.0  # seconds that a provider's clock may be behind
_CREATIONS = 6  # tries to create a batch; the waits between them grow
_LARGE = 100  # requests: a larger batch is not sent to a judge that has given no judgment yet
_FULL_WAIT, _LONGEST_WAIT = 5.0, 600.0  # seconds, while somebody else's batches fill the queue
_CREDIT_SHARE = 0.01  # of the budget is taken at a time
_WORTH_SENDING = 0.1  # of the budget: so much must be given back before more is sent
_PATIENCE = 1.0  # seconds to wait for money before what is gathered is sent away


class Sender:
    """Spools requests and submits them."""

    def __init__(self, state: BatchState, ledger: Ledger, run_id: str) -> None:
        self._state, self._ledger, self._run_id = state, ledger, run_id
        self._submitting = asyncio.Lock()
        self._last_part = 0

    # -- Gather ---------------------------------------------------------------------------------

    async def spool(self, channel: BatchedJudge, request: Request) -> bool:
        """Put a request into the judge's next part; submit that first if it is full.

        Returns:
            Whether it will be sent: it may be one that cannot be, or there may be no money.
        """
        # A batch's lines are answered in any order, so nothing says that a cache would be read.
        request = replace(request.with_codes(self._ledger.salt), prefix_ends=())
        state, size = self._state, measure_request(request)
        capped = state.permits.capped
        bound = bound_tokens(request) if capped else 0
        while True:
            tried = channel.on_trial and channel.open and not channel.proven
            if state.stopped or channel.disabled or tried:
                return False
            request = self._limited(channel, request)
            usage = channel.estimates.tight_upper_bound(size, bound, request.output_limit or 0)
            dollars = highest_price(channel.judge, usage, state.options.prices, batch=True)
            if not capped or channel.credit >= dollars:
                break
            if not await self._afford(channel, dollars):
                return False
            # while it waited, batches came home: they may have taught a lower limit
        try:
            data = channel.client.line(request)
        except Refused as refusal:
            answer = Answer(refusal.status, "", Usage(), reason=str(refusal))
            await state.writer.keep(
                *(request.key, channel.judge, answer, channel.tally), attempts=1, final=True
            )
            channel.tally.count_ended(answer.status, refusal.detail, state.clock.date())
            return False
        tokens = channel.estimates.expected(size).input_tokens
        alike = (response_model_name(request.response_model), request.output_limit or 0)
        if (full := channel.spools.get(alike)) and _is_full(channel, full, len(data), tokens):
            await self._submit(channel, full)
        if alike not in channel.spools:
            file = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - `_submit` closes it
            channel.spools[alike] = Spool(*alike, file)
        spool = channel.spools[alike]
        spool.file.write(data)
        spool.keys.append(request.key)
        spool.characters.append(prompt_characters(request))
        spool.bytes += len(data)
        spool.size += size
        spool.bound += bound
        spool.tokens += tokens
        spool.dollars += dollars
        channel.credit -= dollars if capped else 0.0
        channel.asked.add(request.key)
        if len(spool.keys) == FIRST:
            spool.first = replace(spool, keys=list(spool.keys), characters=list(spool.characters))
        return True

    def _limited(self, channel: BatchedJudge, request: Request) -> Request:
        """Return the request with the usual output limit of its kind, where money is short.

        One that was cut off is asked again with the judge's own, or twice that if it was so before.
        """
        judge_limit = channel.judge.options.get("max_output_tokens")
        cut_at = self._ledger.cut_at(request.key)
        if judge_limit is None or not (cut_at or self._state.permits.capped):
            return request
        limit = channel.estimates.limit_for(response_model_name(request.response_model), cut_at)
        return request if limit == request.output_limit else replace(request, limit=limit)

    async def flush(self, channel: BatchedJudge) -> None:
        """Submit what is gathered, and give back money that nothing is reserved with."""
        for spool in list(channel.spools.values()):
            await self._submit(channel, spool)
        self._state.permits.cancel(CallCost(dollars=channel.credit))
        channel.credit = 0.0
        await self._state.permits.report_spending()

    async def _afford(self, channel: BatchedJudge, dollars: float) -> bool:
        """Take money for a request; while others hold it, submit what is gathered.

        Then more is sent only when a good part of the budget has come home, or nothing more can: a
        batch may take a day, however small it is.
        """
        state = self._state
        cap = state.options.max_usd or 0.0
        for share in (_CREDIT_SHARE, 0.0):
            if await self._take(channel, max(dollars, share * cap), _PATIENCE):
                return True
        for judge_line in state.channels.values():
            await self.flush(judge_line)
        for share in (_WORTH_SENDING, 0.0):
            if await self._take(channel, max(dollars, share * cap)):
                return True
        if not state.stopped:
            state.disable_judge(channel.judge.name, budget_used_up(cap))
        return False

    async def _take(
        self, channel: BatchedJudge, amount: float, seconds: float | None = None
    ) -> bool:
        """Take this amount in place of the credit that is left; wait for it so long."""
        state = self._state
        state.permits.cancel(CallCost(dollars=channel.credit))
        channel.credit = 0.0
        taking = asyncio.create_task(state.permits.acquire(CallCost(dollars=amount)))
        await asyncio.wait({taking}, timeout=seconds and state.clock.machine_seconds(seconds))
        if not taking.done():
            taking.cancel()
        elif await taking:
            channel.credit = amount
        return bool(channel.credit)

    # -- Create ---------------------------------------------------------------------------------

    async def _submit(self, channel: BatchedJudge, spool: Spool) -> None:
        """Send a part away, once the provider has room for it.

        Of a large one of a judge that is not known to give judgments, a small part goes first.
        """
        state = self._state
        del channel.spools[spool.verdict, spool.limit]
        spool.file.flush()
        if not channel.proven and spool.first and len(spool.keys) > _LARGE:
            channel.on_trial = True
            channel.asked.difference_update(spool.keys[FIRST:])
            state.permits.cancel(CallCost(dollars=spool.dollars - spool.first.dollars))
            spool = spool.first
            spool.file.truncate(spool.bytes)
        self._last_part += 1
        part = BatchPart(
            mark=f"{self._run_id}-{uuid.uuid4().hex[:8]}-{self._last_part:05}",
            judge=channel.judge.name,
            verdict=spool.verdict,
            keys=spool.keys,
            size=spool.size,
            tokens=spool.tokens,
            dollars=spool.dollars,
            limit=spool.limit,
            bound=spool.bound,
            intended_at=0.0,
            key_variable=state.options.api_key_env.get(channel.judge.name, ""),
            characters=spool.characters,
        )

        def has_room() -> bool:
            enough = channel.room is None or channel.enqueued + part.tokens <= channel.room
            return enough or not channel.open or bool(channel.disabled)

        with contextlib.closing(spool.file):
            await state.sleep(channel.full_until - state.clock.now())
            await state.wait_until(has_room)
            async with self._submitting:  # of a single open record it can be found out
                created = await self._create(channel, part, Path(spool.file.name))
            if not created:
                channel.asked.difference_update(part.keys)
                state.permits.cancel(CallCost(dollars=part.dollars))

    async def _create(self, channel: BatchedJudge, part: BatchPart, lines: Path) -> bool:
        """Create the batch; where it is not sure whether that worked, look for it first."""
        state, troubles, throttled, began = self._state, 0, 0, 0.0
        while not state.stopped and not channel.disabled:
            part.intended_at = state.clock.date()
            await asyncio.to_thread(state.parts.keep, part)
            try:
                batch = await channel.client.create(lines, channel.judge.model, part.mark)
            except Retry as trouble:
                if trouble.kind is not RetryKind.THROTTLED:
                    reached = trouble.kind is not RetryKind.UNREACHED
                    if reached and await self._find(channel, part):
                        return True
                    if state.stopped or channel.disabled:  # not known: the next run looks for it
                        return False
                    troubles += 1
                    began = state.clock.now() if troubles == 1 else began
                    silent = state.clock.now() - began > state.options.patience
                    if troubles >= _CREATIONS and (silent or not channel.created):
                        what = f"no batch could be created: {trouble.detail}"
                        reason = Disabled(StopReason.NO_BATCH, what)
                        state.disable_judge(channel.judge.name, reason)
                    wait = min(_LONGEST_WAIT, 2.0 ** min(troubles, 10))
                    await state.sleep(trouble.delay or wait)
                else:  # a queue that is full will not be so for ever, whosever batches fill it
                    channel.tally.throttled += 1
                    wait = min(_LONGEST_WAIT, _FULL_WAIT * 2.0 ** min(throttled, 10))
                    throttled += 1
                    await state.sleep(trouble.delay or wait)
            except (Refused, Fatal) as error:
                state.disable_judge(channel.judge.name, Disabled(StopReason.FATAL, error.detail))
            else:
                await state.enter(channel, part, batch.id)
                return True
            part.state = "void"
            await asyncio.to_thread(state.parts.keep, part)
            part.state = "intended"
        return False

    # -- Adopt ----------------------------------------------------------------------------------

    async def adopt(self) -> None:
        """Take over what earlier runs sent away and did not collect."""
        state = self._state
        parts = [part for part in state.parts if part.is_open and part.judge in state.channels]
        await state.permits.hold(sum(part.dollars for part in parts))
        for part in sorted(parts, key=lambda p: p.state, reverse=True):  # submitted ones first
            channel = state.channels[part.judge]
            channel.asked.update(part.keys)
            channel.on_trial = True  # its results show as well whether the judge gives judgments
            if part.state == "submitted":
                channel.open[part.mark] = part
                state.recorded_parts[part.batch] = set()
            elif not await self._find(channel, part) and not (state.stopped or channel.disabled):
                await state.close(channel, part, "void")
        if state.recorded_parts:
            await asyncio.to_thread(self._recall)

    def _recall(self) -> None:
        """Return the open parts that earlier runs recorded and did not finish."""
        for row in read_rows(self._state.options.ledger_dir):
            if row.batch in self._state.recorded_parts:
                self._state.recorded_parts[row.batch].add(row.key)

    async def _find(self, channel: BatchedJudge, part: BatchPart) -> bool:
        """Look for a part's batch at the provider, and adopt it."""
        state = self._state
        await state.sleep(GRACE)  # from now: an upload takes long
        wait = _PATIENCE
        while not state.stopped and not channel.disabled:
            try:
                candidates = await channel.client.find(part.intended_at - _SKEW)
            except Retry as trouble:
                await state.sleep(trouble.delay or wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            except (Refused, Fatal) as error:
                state.disable_judge(channel.judge.name, Disabled(StopReason.FATAL, error.detail))
            else:
                batch_ids = {entry.batch for entry in state.parts}
                marks = channel.client.KEEPS_MARKS
                batches = [
                    b.id for b in candidates if b.id not in batch_ids and _may_be(b, part, marks)
                ]
                if batches:
                    part.candidates = batches[1:]
                    await state.enter(channel, part, batches[0])
                return bool(batches)
        return False


def _may_be(batch: Batch, part: BatchPart, marks: bool) -> bool:
    """Return whether a batch may be this part's: by its mark, or by its number of requests."""
    return batch.mark == part.mark if marks else batch.requests == part.requests


def _is_full(channel: BatchedJudge, spool: Spool, more_bytes: int, more_tokens: int) -> bool:
    return (
        len(spool.keys) >= channel.limits.requests
        or spool.bytes + more_bytes > channel.limits.bytes
        or (channel.room is not None and spool.tokens + more_tokens > channel.room)
    )
