"""Send requests away: gather them into parts, and create each part's batch exactly once."""

import asyncio
import contextlib
import tempfile
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, NamedTuple

from zelo_ray.engine.batch.parts import BatchPart
from zelo_ray.engine.batch.state import JudgeInBatches
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.health import FIRST
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.replies import budget_used_up
from zelo_ray.engine.tokens import bound_tokens, measure_request, prompt_characters
from zelo_ray.providers import Batch, Fatal, Refused, Retry, RetryKind, load_provider
from zelo_ray.providers.pricing import highest_price
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Answer, Request, Usage, response_model_name

GRACE = 60.0  # seconds in which a batch whose creation was cut off may still come to be
_SKEW = 120.0  # seconds that a provider's clock may be behind
_CREATIONS = 6  # tries to create a batch; the waits between them grow
_LARGE = 100  # requests: a larger batch is not sent to a judge that has given no judgment yet
_FULL_WAIT, _LONGEST_WAIT = 5.0, 600.0  # seconds, while somebody else's batches fill the queue
_PATIENCE = 1.0  # seconds to wait for money that lies in the judge's own batches


class _Line(NamedTuple):
    """What is known of a request in a file."""

    key: str
    characters: int
    bytes: int
    size: int
    bound: int
    tokens: int
    dollars: float


@dataclass(slots=True)
class _Gathered:
    """Requests of one verdict and limit, in a file of their provider's format."""

    verdict: str
    limit: int
    """tokens that each answer may have"""
    file: IO[bytes]
    lines: list[_Line] = field(default_factory=list)
    tokens: int = 0

    def sum(self, field: str) -> float:
        """Sum a field of all lines."""
        return float(sum(getattr(line, field) for line in self.lines))


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
        while True:
            tried = client.on_trial and client.open and not client.has_judged
            if client.is_closed or tried:
                return False
            request = self._limited(request)
            usage = client.estimates.tight_upper_bound(size, bound, request.output_limit or 0)
            dollars = highest_price(client.judge, usage, client.options.prices, batch=True)
            if await self._reserve(dollars):
                break
            if self.is_short_of_money:
                return False
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
        characters = prompt_characters(request)
        line = _Line(request.key, characters, len(data), size, bound, tokens, dollars)
        alike = (response_model_name(request.response_model), request.output_limit or 0)
        if (full := self._gathered.get(alike)) and self._is_full(full, line):
            await self._submit(full)
        if alike not in self._gathered:
            file = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 - `_submit` closes it
            self._gathered[alike] = _Gathered(*alike, file)
        gathered = self._gathered[alike]
        gathered.file.write(data)
        gathered.lines.append(line)
        gathered.tokens += tokens
        client.asked.add(request.key)
        return True

    def _is_full(self, gathered: _Gathered, more: _Line) -> bool:
        room = self._client.room
        return (
            len(gathered.lines) >= self._limits.requests
            or gathered.file.tell() + more.bytes > self._limits.bytes
            or (room is not None and gathered.tokens + more.tokens > room)
        )

    def _limited(self, request: Request) -> Request:
        """Return the request with the usual output limit of its kind, where money is short.

        One that was cut off is asked again with the judge's own, or twice that if it was so before.
        """
        client = self._client
        judge_limit = client.judge.options.get("max_output_tokens")
        cut_at = client.ledger.cut_at(request.key)
        if judge_limit is None or not (cut_at or client.permits.capped):
            return request
        kind = response_model_name(request.response_model)
        limit = client.estimates.limit_for(kind, cut_at)
        return request if limit == request.output_limit else replace(request, limit=limit)

    async def _reserve(self, dollars: float) -> bool:
        """Take money for a request.

        If it is not at hand, and may lie in this judge's own requests, these go first: what comes
        home is spent in the next round. Otherwise others hold it, and it is waited for: false may
        then mean that the request is to be reckoned anew, as answers may have taught a lower limit.
        """
        client = self._client
        if not client.permits.capped:
            return True
        cost = CallCost(dollars=dollars)
        taking = asyncio.create_task(client.permits.acquire(cost))
        await asyncio.wait({taking}, timeout=client.clock.machine_seconds(_PATIENCE))
        if not taking.done():
            taking.cancel()
            self.is_short_of_money = bool(client.open or self._gathered)
            return False
        if not await taking:
            self.is_short_of_money = True
            if not (client.stopped or client.open or self._gathered):
                client.disable(budget_used_up(client.options.max_usd or 0.0))
            return False
        return True

    async def flush(self) -> None:
        """Submit what is gathered, and report what is reserved."""
        for gathered in list(self._gathered.values()):
            await self._submit(gathered)
        self.is_short_of_money = False
        await self._client.report_spending()

    def close(self) -> None:
        """Close the files of what was not submitted."""
        for gathered in self._gathered.values():
            gathered.file.close()

    # -- Create ---------------------------------------------------------------------------------

    async def _submit(self, gathered: _Gathered) -> None:
        """Send a part away, once the provider has room for it.

        Of a large one of a judge that is not known to give judgments, a small part goes first.
        """
        client = self._client
        del self._gathered[gathered.verdict, gathered.limit]
        gathered.file.flush()
        if not client.has_judged and len(gathered.lines) > _LARGE:
            client.on_trial = True
            left, gathered.lines = gathered.lines[FIRST:], gathered.lines[:FIRST]
            client.asked.difference_update(line.key for line in left)
            client.permits.cancel(CallCost(dollars=sum(line.dollars for line in left)))
            gathered.file.truncate(int(gathered.sum("bytes")))
        self._last_part += 1
        part = BatchPart(
            mark=f"{client.run_id}-{uuid.uuid4().hex[:8]}-{self._last_part:05}",
            judge=client.judge.name,
            verdict=gathered.verdict,
            keys=[line.key for line in gathered.lines],
            size=int(gathered.sum("size")),
            tokens=int(gathered.sum("tokens")),
            dollars=gathered.sum("dollars"),
            limit=gathered.limit,
            bound=int(gathered.sum("bound")),
            intended_at=0.0,
            key_variable=client.options.api_key_env.get(client.judge.name, ""),
            characters=[line.characters for line in gathered.lines],
        )

        def has_room() -> bool:
            enqueued = sum(each.tokens for each in client.open.values())
            enough = client.room is None or enqueued + part.tokens <= client.room
            return enough or not client.open or bool(client.disabled)

        with contextlib.closing(gathered.file):
            await client.sleep(client.full_until - client.clock.now())
            await client.wait_until(has_room)
            if not await self._create(part, Path(gathered.file.name)):
                client.asked.difference_update(part.keys)
                client.permits.cancel(CallCost(dollars=part.dollars))

    async def _create(self, part: BatchPart, lines: Path) -> bool:
        """Create the batch; where it is not sure whether that worked, look for it first."""
        client, troubles, throttled, began = self._client, 0, 0, 0.0
        while not client.is_closed:
            part.intended_at = client.clock.date()
            await asyncio.to_thread(client.parts.keep, part)
            try:
                batch = await client.api.create(lines, client.judge.model, part.mark)
            except Retry as trouble:
                if trouble.kind is not RetryKind.THROTTLED:
                    reached = trouble.kind is not RetryKind.UNREACHED
                    if reached and await self._find(part):
                        return True
                    if client.is_closed:  # not known: the next run looks for it
                        return False
                    troubles += 1
                    began = client.clock.now() if troubles == 1 else began
                    silent = client.clock.now() - began > client.options.patience
                    if troubles >= _CREATIONS and (silent or not self._has_created):
                        what = f"no batch could be created: {trouble.detail}"
                        client.disable(Disabled(StopReason.NO_BATCH, what))
                    wait = 2.0 ** min(troubles, 10)
                else:  # a queue that is full will not be so for ever, whosever batches fill it
                    client.tally.throttled += 1
                    wait = _FULL_WAIT * 2.0 ** min(throttled, 10)
                    throttled += 1
                await client.sleep(trouble.delay or min(_LONGEST_WAIT, wait))
            except (Refused, Fatal) as error:
                client.disable(Disabled(StopReason.FATAL, error.detail))
            else:
                await client.enter(part, batch.id)
                self._has_created = True
                return True
            part.state = "void"
            await asyncio.to_thread(client.parts.keep, part)
            part.state = "intended"
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
                marks = client.api.KEEPS_MARKS
                ids = [b.id for b in candidates if b.id not in taken and _may_be(b, part, marks)]
                if ids:
                    part.candidates = ids[1:]
                    await client.enter(part, ids[0])
                    self._has_created = True
                return bool(ids)
        return False


def _may_be(batch: Batch, part: BatchPart, marks: bool) -> bool:
    """Return whether a batch may be this part's: by its mark, or by its number of requests."""
    return batch.mark == part.mark if marks else batch.requests == part.requests
