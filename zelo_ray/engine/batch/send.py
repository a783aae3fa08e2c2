"""Send requests away: gather them into parts, and create each part's batch exactly once."""

import asyncio
import contextlib
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path
from typing import IO

from zelo_ray.engine.batch.parts import BatchPart
from zelo_ray.engine.batch.state import JudgeInBatches
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.replies import budget_used_up
from zelo_ray.engine.tokens import bound_tokens, measure_request
from zelo_ray.providers import Fatal, Refused, Retry, RetryKind, load_provider
from zelo_ray.providers.pricing import highest_price
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Answer, Request, Usage, response_model_name

GRACE = 60.0  # seconds in which a batch whose creation was cut off may still come to be
_SKEW = 120.0  # seconds that a provider's clock may be behind
_FIRST_PATIENCE = 120.0  # seconds in which a first batch cannot be created
_TRIAL = 100  # requests: a larger batch is not sent to a judge that has given no judgment yet
_LONGEST_WAIT = 600.0  # seconds between two tries
_PATIENCE = 1.0  # seconds to wait for money that lies in the judge's own batches


_Gathered = tuple[BatchPart, IO[bytes]]
"""A part that is being filled, and its requests in a file of their provider's format."""


class Sender:
    """Gathers requests and submits them."""

    def __init__(self, client: JudgeInBatches) -> None:
        self._client, self._gathered = client, dict[tuple[str, int], _Gathered]()
        limits = load_provider(client.judge.provider).batch
        assert limits is not None  # noqa: S101 - it has a batch API, as `connect` has found
        self._limits, self._has_created, self._last_part = limits, False, 0
        self.is_short_of_money = False
        """whether nothing more can be gathered until batches come home"""

    async def gather(self, request: Request) -> bool:
        """Put a request into the judge's next part; submit that first if it is full.

        Returns:
            Whether it will be sent: it may be one that cannot be, or there may be no money.
        """
        client = self._client
        # A batch's lines are answered in any order, so nothing says that a cache would be read.
        request = replace(request.with_codes(client.ledger.salt), prefix_ends=())
        size = measure_request(request)
        bound = bound_tokens(request) if client.permits.capped else 0
        while not client.is_closed:
            if not client.has_judged and len(client.asked) >= _TRIAL:
                client.on_trial = True
                await self._submit_all()
            is_tried = client.on_trial and client.open and not client.has_judged
            if is_tried or self.is_short_of_money:
                break
            request = self._limited(request)
            usage = client.estimates.tight_upper_bound(size, bound, request.output_limit or 0)
            dollars = highest_price(client.judge, usage, client.options.prices, batch=True)
            if await self._reserve(dollars):
                return await self._add(request, size, bound, dollars)
        return False

    async def _add(self, request: Request, size: int, bound: int, dollars: float) -> bool:
        """Put a request for which money is reserved into a part."""
        client = self._client
        try:
            data = client.api.line(request)
        except Refused as refusal:
            client.permits.cancel(CallCost(dollars=dollars))
            answer = Answer(refusal.status, "", Usage(), reason=str(refusal))
            await client.writer.keep(
                *(request.key, client.judge, answer, client.tally), attempts=1, final=True
            )
            client.tally.count_ended(answer.status, refusal.detail, client.clock.date())
            return False
        tokens = client.estimates.expected(size).input_tokens
        alike = response_model_name(request.response_model), request.output_limit or 0
        if (full := self._gathered.get(alike)) and self._is_full(*full, len(data), tokens):
            await self._submit(*full)
        if alike not in self._gathered:
            part = BatchPart("", client.judge.name, alike[0], limit=alike[1])
            file = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - `_submit` closes it
            self._gathered[alike] = part, file
        part, lines = self._gathered[alike]
        lines.write(data)
        part.keys.append(request.key)
        part.requests += 1
        part.size += size
        part.bound += bound
        part.tokens += tokens
        part.dollars += dollars
        client.asked.add(request.key)
        return True

    def _is_full(self, part: BatchPart, file: IO[bytes], more_bytes: int, more_tokens: int) -> bool:
        client = self._client
        return (
            part.requests >= self._limits.requests
            or file.tell() + more_bytes > self._limits.bytes
            or (client.room is not None and part.tokens + more_tokens > client.room)
        )

    def _limited(self, request: Request) -> Request:
        """Return the request with the usual output limit of its kind, where money is short.

        One that was cut off is asked again with the judge's own, or twice that if it was so before.
        """
        client = self._client
        cut_at = client.ledger.cut_at(request.key)
        has_limit = client.judge.options.get("max_output_tokens") is not None
        if not (has_limit and (cut_at or client.permits.capped)):
            return request
        kind = response_model_name(request.response_model)
        return replace(request, limit=client.estimates.limit_for(kind, cut_at))

    async def _reserve(self, dollars: float) -> bool:
        """Take money for a request.

        If it is not at hand, and may lie in this judge's own requests, these go first: what comes
        home is spent in the next round. Otherwise others hold it, and the request is to be reckoned
        anew, as answers may have taught a lower limit.
        """
        client = self._client
        if not client.permits.capped:
            return True
        taking = asyncio.create_task(client.permits.acquire(CallCost(dollars=dollars)))
        await asyncio.wait({taking}, timeout=client.clock.machine_seconds(_PATIENCE))
        has_own = bool(client.open or self._gathered)
        if not taking.done():
            taking.cancel()
            self.is_short_of_money = has_own
            return False
        self.is_short_of_money = not await taking
        if self.is_short_of_money and not (client.stopped or has_own):
            client.disable(budget_used_up(client.options.max_usd or 0.0))
        return not self.is_short_of_money

    async def flush(self) -> None:
        """Submit what is gathered, and report what is reserved."""
        await self._submit_all()
        self.is_short_of_money = False
        await self._client.report_spending()

    async def _submit_all(self) -> None:
        for gathered in list(self._gathered.values()):
            await self._submit(*gathered)

    def close(self) -> None:
        """Close the files of what was not submitted."""
        for _, file in self._gathered.values():
            file.close()

    # -- Create ---------------------------------------------------------------------------------

    async def _submit(self, part: BatchPart, file: IO[bytes]) -> None:
        """Send a part away, once the provider has room for it."""
        client = self._client
        del self._gathered[part.verdict, part.limit]
        file.flush()
        self._last_part += 1
        part.mark = f"{client.run_id}-{uuid.uuid4().hex[:8]}-{self._last_part:05}"

        def has_room() -> bool:
            enqueued = sum(each.tokens for each in client.open.values())
            enough = client.room is None or enqueued + part.tokens <= client.room
            return enough or not client.open or bool(client.disabled)

        with contextlib.closing(file):
            await client.sleep(client.full_until - client.clock.now())
            await client.wait_until(has_room)
            if not await self._create(part, Path(file.name)):
                client.asked.difference_update(part.keys)
                client.permits.cancel(CallCost(dollars=part.dollars))

    async def _create(self, part: BatchPart, lines: Path) -> bool:
        """Create the batch; where it is not sure whether that worked, look for it first."""
        client, tries, began = self._client, 0, None
        while not client.is_closed:
            tries, part.state, part.intended_at = tries + 1, "intended", client.clock.date()
            await asyncio.to_thread(client.parts.keep, part)
            try:
                batch = await client.api.create(lines, client.judge.model, part.mark)
            except Retry as trouble:
                if trouble.kind is RetryKind.THROTTLED:  # no queue is full for ever
                    client.tally.throttled, began = client.tally.throttled + 1, None
                else:
                    if trouble.kind is not RetryKind.UNREACHED and await self._find(part):
                        return True
                    if client.is_closed:  # not known: the next run looks for it
                        return False
                    began = client.clock.now() if began is None else began
                    patience = client.options.patience if self._has_created else _FIRST_PATIENCE
                    if client.clock.now() - began > patience:
                        what = f"no batch could be created: {trouble.detail}"
                        client.disable(Disabled(StopReason.NO_BATCH, what))
                await client.sleep(trouble.delay or min(_LONGEST_WAIT, 2.0 ** min(tries, 10)))
            except (Refused, Fatal) as error:
                client.disable(Disabled(StopReason.FATAL, error.detail))
            else:
                await client.enter(part, batch.id)
                self._has_created = True
                return True
            part.state = "void"
            await asyncio.to_thread(client.parts.keep, part)
        return False

    # -- Adopt ----------------------------------------------------------------------------------

    async def adopt(self) -> None:
        """Take over what earlier runs sent away and did not collect."""
        client = self._client
        mine = [part for part in client.parts if part.judge == client.judge.name and part.is_open]
        await client.permits.hold(sum(part.dollars for part in mine))
        for part in sorted(mine, key=lambda p: p.state, reverse=True):  # submitted ones first
            client.asked.update(part.keys)
            client.on_trial = True  # its results show as well whether the judge gives judgments
            if part.state == "submitted":
                client.open[part.mark] = part
            elif not await self._find(part) and not client.is_closed:
                await client.close(part, "void")
        if client.open:
            await asyncio.to_thread(self._recall)

    def _recall(self) -> None:
        """Find the results of open batches that earlier runs recorded."""
        client = self._client
        batches = {part.batch for part in client.open.values()}
        for row in read_rows(client.options.ledger_dir):
            if row.batch in batches:
                client.recorded[row.batch].add(row.key)

    async def _find(self, part: BatchPart) -> bool:
        """Look for a part's batch at the provider, and adopt it."""
        client = self._client
        await client.sleep(GRACE)  # from now: an upload takes long
        wait = _PATIENCE
        while not client.is_closed:
            try:
                candidates = await client.api.find(part.intended_at - _SKEW)
            except Retry as trouble:
                await client.sleep(trouble.delay or wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            except (Refused, Fatal) as error:
                client.disable(Disabled(StopReason.FATAL, error.detail))
            else:
                taken = {entry.batch for entry in client.parts}
                if client.api.KEEPS_MARKS:
                    alike = [batch for batch in candidates if batch.mark == part.mark]
                else:
                    alike = [batch for batch in candidates if batch.requests == part.requests]
                ids = [batch.id for batch in alike if batch.id not in taken]
                if ids:
                    part.candidates = ids[1:]
                    await client.enter(part, ids[0])
                    self._has_created = True
                return bool(ids)
        return False
