"""Fill the ledger through providers' batch APIs: cheaper, and hours later.

Requests are gathered into parts. A part's record is durable before its batch is created and names
the batch right after; so a run that was killed adopts what it finds at the provider, and submits
nothing twice. Results of a batch that has ended, in whatever way, go into the ledger; what is then
still missing is planned anew.
"""

import asyncio
import contextlib
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from zelo_ray.bookkeeping import Books, Tally, checked, name_of
from zelo_ray.budget import Till
from zelo_ray.config import Limit, Options
from zelo_ray.gate import Estimates, Purse, size_of
from zelo_ray.ledger import Ledger, LedgerError, read_rows
from zelo_ray.parts import Part, Parts
from zelo_ray.pricing import price
from zelo_ray.protocols import advance
from zelo_ray.protocols import module as protocol_module
from zelo_ray.providers import (
    Batch,
    Batches,
    BatchLimits,
    Fatal,
    Outcome,
    PanelError,
    Refused,
    Retry,
    Settings,
    find_key,
)
from zelo_ray.providers import module as provider_module
from zelo_ray.records import Answer, Judge, Pool, Request, Usage

_FIRST_LOOK = 2.0  # seconds; each further wait is half as long again
_GRACE = 30.0  # seconds in which a batch whose creation was cut off may still come to be
_SKEW = 120.0  # seconds that a provider's clock may be behind
_AT_ONCE = 500  # results that are kept together
_CREATIONS = 6  # tries to create a batch
_THROTTLED_COST = 0.2  # of a try: the queue may be full of other batches for a while
_BARREN = 3  # batches of a judge in a row that failed as a whole
_CREDIT_SHARE = 0.01  # of the budget is taken at a time


def in_batches(judge: Judge, options: Options) -> bool:
    """Whether a judge's requests travel in batches; else it is asked online."""
    known = provider_module(judge.provider).BATCH is not None
    return options.mode == "batch" and known and not judge.base_url


def connect(
    judge: Judge, variables: Mapping[str, str], environ: Mapping[str, str], timeout: float = 120.0
) -> Batches:
    """The batch API of a judge's provider.

    Args:
        judge: the judge.
        variables: by judge: the variable that holds its key, if not its provider's usual one.
        environ: where keys are found.
        timeout: seconds that one call may take.

    Raises:
        PanelError: there is no key.
    """
    key = find_key(judge, variables, environ)
    try:
        return provider_module(judge.provider).connect_batches(Settings(key, None, timeout))
    except Fatal as fatal:
        raise PanelError(str(fatal)) from None


@dataclass(slots=True)
class _Spool:
    """Requests on their way into a batch, in a file of their provider's format."""

    verdict: str
    file: IO[bytes]
    keys: list[str] = field(default_factory=list)
    bytes: int = 0
    size: int = 0
    tokens: int = 0
    dollars: float = 0.0


@dataclass(slots=True)
class _Line:
    """One judge, and its batches."""

    judge: Judge
    client: Batches
    limits: BatchLimits
    estimates: Estimates
    room: int | None
    """tokens that may be enqueued at once; None where that is not known"""
    tally: Tally = field(default_factory=Tally)
    spools: dict[str, _Spool] = field(default_factory=dict)
    open: dict[str, Part] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    """keys that are in spools and open parts"""
    tries: Counter[str] = field(default_factory=Counter)
    reasks: Counter[str] = field(default_factory=Counter)
    credit: float = 0.0
    """dollars that are taken from the purse and not yet reserved for a request"""
    barren: int = 0
    lost: str = ""

    @property
    def enqueued(self) -> int:
        """Tokens of all open batches."""
        return sum(part.tokens for part in self.open.values())


class Batcher:
    """Asks the judges of one provider through its batch API.

    Args:
        options: the job's options.
        panel: the whole panel, as protocols must know it.
        judges: those of the panel to ask, all of one provider.
        ledger: open for writing.
        environ: where keys are found.
        run_id: the run that pays.
        till: who keeps the budget, if there is one.

    Raises:
        PanelError: there is no key.
    """

    def __init__(
        self,
        options: Options,
        panel: Sequence[Judge],
        judges: Sequence[Judge],
        *,
        ledger: Ledger,
        environ: Mapping[str, str],
        run_id: str,
        till: Till | None = None,
    ) -> None:
        self._options, self._panel, self._run_id = options, panel, run_id
        self._ledger, self._books = ledger, Books(ledger, run_id, options.prices)
        self._purse = Purse(uuid.uuid4().hex, till)
        self._protocol, self._parts = protocol_module(options.protocol), Parts(options.out)
        self._verdicts = {verdict.__name__: verdict for verdict in self._protocol.VERDICTS}
        self._lines = {judge.name: self._line(judge, environ) for judge in judges}
        self._kept: dict[str, set[str]] = {}
        self._spent: dict[str, float] = defaultdict(float)
        self._submitting = asyncio.Lock()
        self._halt, self._harvested = asyncio.Event(), asyncio.Condition()
        self._last_part = 0
        self.stopped = ""
        """Why the run goes on no more; empty while it does."""

    def _line(self, judge: Judge, environ: Mapping[str, str]) -> _Line:
        limits = provider_module(judge.provider).BATCH
        if limits is None:
            raise PanelError(f"{judge.name}: its provider has no batches")
        room = self._options.limits.get(judge.name, Limit()).enqueued_tokens
        client = connect(judge, self._options.api_key_env, environ, self._options.timeout)
        return _Line(judge, client, limits, Estimates(judge), room)

    @property
    def tallies(self) -> dict[str, Tally]:
        """Each judge's figures so far."""
        for line in self._lines.values():
            line.tally.batched = sum(part.requests for part in line.open.values())
        return {name: line.tally for name, line in self._lines.items()}

    @property
    def lost(self) -> dict[str, str]:
        """Judges that are asked nothing more, with the reason."""
        return {name: line.lost for name, line in self._lines.items() if line.lost}

    def stop(self, reason: str) -> None:
        """Submit nothing more and wait for nothing; batches stay at the provider."""
        self.stopped = self.stopped or reason
        self._halt.set()
        self._purse.close()

    def lose(self, name: str, reason: str) -> None:
        """Ask a judge nothing more. The run stops, unless it may go on without one."""
        if name in self._lines and not self._lines[name].lost:
            self._lines[name].lost = reason
            if not (self._options.allow_missing_judges or self._purse.over):
                self.stop(reason)

    async def run(self, pools: Callable[[], Iterable[Pool]]) -> None:
        """Submit and collect until nothing is missing that these judges can answer, or stopped.

        Args:
            pools: gives all pools anew at each call.
        """
        watching: list[asyncio.Task[None]] = []
        try:
            await self._adopt()
            watching = [asyncio.create_task(self._watch(line)) for line in self._lines.values()]
            first = True
            while not self.stopped:
                waited = bool(self._open)
                submitted = await self._plan(pools, first=first)
                await self._await_harvest(lambda: not self._open)
                if not (submitted or waited):
                    break
                first = False
        except LedgerError as error:
            self.stop(str(error))
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            for line in self._lines.values():
                for spool in line.spools.values():
                    spool.file.close()
                await line.client.aclose()

    @property
    def _open(self) -> list[Part]:
        return [part for line in self._lines.values() for part in line.open.values()]

    # -- Plan and submit ------------------------------------------------------------------------

    async def _plan(self, pools: Callable[[], Iterable[Pool]], *, first: bool) -> int:
        """Submit all that is missing and not on its way; how many requests that were."""
        submitted = 0
        each = iter(pools())
        while not self.stopped and (pool := await asyncio.to_thread(next, each, None)):
            rounds = self._protocol.rounds(pool, self._panel, self._options)
            step = await asyncio.to_thread(advance, rounds, self._ledger)
            missing = Counter[str]()
            for request in step.missing:
                line = self._lines.get(request.judge.name)
                if line is None or line.lost:
                    continue
                missing[line.judge.name] += 1
                if request.key not in line.asked and await self._spool(line, request):
                    submitted += 1
            for name, line in self._lines.items() if first else ():
                planned = self._protocol.count(pool, [line.judge], self._options)
                line.tally.known += max(0, planned - missing[name])
        for line in self._lines.values():
            await self._flush(line)
            await self._return_credit(line)
        return submitted

    async def _spool(self, line: _Line, request: Request) -> bool:
        """Put a request into the judge's next part; submit that first if it is full."""
        size, name = size_of(request), request.verdict.__name__
        try:
            data = line.client.line(request)
        except Refused as refusal:
            answer = Answer(refusal.status, "", Usage(), reason=str(refusal))
            await self._books.keep(
                *(request.key, line.judge, answer, line.tally), attempts=1, final=True
            )
            line.tally.end(answer.status)
            return False
        dollars = 0.0
        if self._purse.capped:
            usage = line.estimates.likely_most(size)
            dollars = price(line.judge, usage, self._options.prices, batch=True) or 0.0
            if not await self._afford(line, dollars):
                return False
        tokens = line.estimates.expected(size).input_tokens
        if (spool := line.spools.get(name)) and self._is_full(line, spool, len(data), tokens):
            await self._submit(line, spool)
        if name not in line.spools:
            line.spools[name] = _Spool(name, tempfile.NamedTemporaryFile(suffix=".jsonl"))  # noqa: SIM115
        spool = line.spools[name]
        spool.file.write(data)
        spool.keys.append(request.key)
        spool.bytes += len(data)
        spool.size += size
        spool.tokens += tokens
        spool.dollars += dollars
        line.credit -= dollars
        line.asked.add(request.key)
        return True

    def _is_full(self, line: _Line, spool: _Spool, more_bytes: int, more_tokens: int) -> bool:
        return (
            len(spool.keys) >= line.limits.requests
            or spool.bytes + more_bytes > line.limits.bytes
            or (line.room is not None and spool.tokens + more_tokens > line.room)
        )

    async def _afford(self, line: _Line, dollars: float) -> bool:
        """Take money for a request; while it is held by others, submit what is gathered."""
        if line.credit >= dollars:
            return True
        chunk = max(dollars, _CREDIT_SHARE * (self._options.max_usd or 0.0))
        for amount in (chunk, dollars):
            self._purse.give_back(line.credit, 0.0)
            line.credit = 0.0
            taking = asyncio.create_task(self._purse.take(amount))
            await asyncio.wait({taking}, timeout=1.0)
            if not taking.done():
                for each in self._lines.values():
                    await self._flush(each)
                    await self._return_credit(each)
            if await taking:
                line.credit = amount
                return True
        if not self.stopped:
            for name in self._lines:
                self.lose(name, f"the budget of ${self._options.max_usd:,.2f} is used up")
        return False

    async def _return_credit(self, line: _Line) -> None:
        self._purse.give_back(line.credit, 0.0)
        line.credit = 0.0
        await self._purse.hold(0.0)

    async def _flush(self, line: _Line) -> None:
        for spool in list(line.spools.values()):
            await self._submit(line, spool)

    async def _submit(self, line: _Line, spool: _Spool) -> None:
        """Send a part away, once the provider has room for it."""
        del line.spools[spool.verdict]
        spool.file.flush()
        self._last_part += 1
        part = Part(
            mark=f"{self._run_id}-{uuid.uuid4().hex[:8]}-{self._last_part:05}",
            judge=line.judge.name,
            verdict=spool.verdict,
            keys=spool.keys,
            size=spool.size,
            tokens=spool.tokens,
            dollars=spool.dollars,
            intended_at=0.0,
            key_variable=self._options.api_key_env.get(line.judge.name, ""),
        )
        with contextlib.closing(spool.file):
            try:
                await self._await_harvest(lambda: not line.open or self._has_room(line, part))
                async with self._submitting:  # one unfinished intent at a time can be told apart
                    await self._create(line, part, Path(spool.file.name))
            finally:
                if not part.batch:
                    line.asked.difference_update(spool.keys)
                    self._purse.give_back(part.dollars, 0.0)

    @staticmethod
    def _has_room(line: _Line, part: Part) -> bool:
        return line.room is None or line.enqueued + part.tokens <= line.room

    async def _create(self, line: _Line, part: Part, lines: Path) -> None:
        """Create the batch; where it is not sure whether that worked, look for it first."""
        troubles = 0.0
        while not self.stopped and not line.lost:
            part.intended_at = time.time()
            await asyncio.to_thread(self._parts.keep, part)
            try:
                batch = await line.client.create(lines, line.judge.model, part.mark)
            except Retry as trouble:
                if not trouble.throttled and await self._find(line, part):
                    return
                troubles += _THROTTLED_COST if trouble.throttled else 1
                if troubles > _CREATIONS:
                    self.lose(line.judge.name, f"no batch could be created: {trouble}")
                elif trouble.throttled and (lying := len(line.open)):  # they may fill the queue
                    await self._await_harvest(lambda: len(line.open) < lying)
                else:
                    await self._rest(trouble.delay or min(60.0, 2.0**troubles))
            except (Refused, Fatal) as error:
                self.lose(line.judge.name, str(error))
            else:
                await self._enter(line, part, batch.id)
                return
        part.state = "void"
        await asyncio.to_thread(self._parts.keep, part)

    async def _enter(self, line: _Line, part: Part, batch: str) -> None:
        """A part's batch is known: say so durably, and watch it."""
        part.batch, part.state = batch, "submitted"
        await asyncio.to_thread(self._parts.keep, part)
        line.open[part.mark] = part

    # -- Adopt ----------------------------------------------------------------------------------

    async def _adopt(self) -> None:
        """Take over what earlier runs sent away and did not collect."""
        mine = [part for part in self._parts if part.is_open and part.judge in self._lines]
        for part in sorted(mine, key=lambda part: part.state, reverse=True):  # submitted first
            line = self._lines[part.judge]
            line.asked.update(part.keys)
            await self._purse.hold(part.dollars)
            if part.state == "submitted":
                line.open[part.mark] = part
                self._kept[part.batch] = set()
            elif not await self._find(line, part) and not self.stopped:
                part.state = "void"
                self._parts.keep(part)
                line.asked.difference_update(part.keys)
                self._purse.give_back(part.dollars, 0.0)
        if self._kept:
            await asyncio.to_thread(self._recall)

    def _recall(self) -> None:
        """Find out what an earlier run kept of batches that it did not come to the end of."""
        for row in read_rows(self._options.out):
            if row.batch in self._kept:
                self._kept[row.batch].add(row.key)

    async def _find(self, line: _Line, part: Part) -> bool:
        """Look for a part's batch at the provider, and adopt it."""
        await self._rest(part.intended_at + _GRACE - time.time())
        while not self.stopped and not line.lost:
            try:
                found = await line.client.find(part.intended_at - _SKEW)
            except Retry as trouble:
                await self._rest(trouble.delay or _FIRST_LOOK)
            except (Refused, Fatal) as error:
                self.lose(line.judge.name, str(error))
            else:
                known = {each.batch for each in self._parts}
                batches = [
                    batch.id
                    for batch in found
                    if batch.id not in known
                    and (batch.mark == part.mark if batch.mark else self._may_be(batch, part))
                ]
                if batches:
                    part.candidates = batches[1:]
                    await self._enter(line, part, batches[0])
                return bool(batches)
        return False

    @staticmethod
    def _may_be(batch: Batch, part: Part) -> bool:
        """Where a provider keeps no mark, the number of requests is a hint; results will tell."""
        return batch.requests == part.requests

    # -- Watch and harvest ----------------------------------------------------------------------

    async def _watch(self, line: _Line) -> None:
        """Look at the judge's batches, ever less often, and harvest those that have ended."""
        wait = first = min(_FIRST_LOOK, self._options.batch_poll)
        while not line.lost or line.open:
            await self._rest(wait)
            wait = min(1.5 * wait, self._options.batch_poll)
            for part in list(line.open.values()):
                if self.stopped:
                    return
                try:
                    batch = await line.client.look(part.batch)
                    if batch.ended:
                        await self._harvest(line, part, batch)
                        wait = first
                except Retry:
                    line.tally.retries += 1
                except (Refused, Fatal) as error:
                    line.open.pop(part.mark)  # its record stays open for a later run
                    self.lose(line.judge.name, str(error))
                except LedgerError as error:
                    self.stop(str(error))
                except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt
                    self.stop(f"{line.judge.name}: unexpected {name_of(error)}")
            async with self._harvested:
                self._harvested.notify_all()

    async def _harvest(self, line: _Line, part: Part, batch: Batch) -> None:
        """Keep all that a batch that has ended holds, and close its part.

        Raises:
            Retry: the results broke off; what came is kept, and comes but once.
        """
        keys, kept = set(part.keys), self._kept.setdefault(batch.id, set())
        fatal, foreign = "", 0
        async for results in _in_blocks(line.client.results(batch.id), _AT_ONCE):
            mine = [(key, outcome) for key, outcome in results if key in keys and key not in kept]
            foreign += sum(key not in keys for key, _ in results)
            await asyncio.gather(*(self._take(line, part, key, each) for key, each in mine))
            kept.update(key for key, _ in mine)
            fatal = next((str(each) for _, each in mine if isinstance(each, Fatal)), fatal)
            if self._ledger.exhausted:
                self.stop("the disk of the output directory is full; make room and run again")
                return
        if foreign and not kept and await self._was_anothers(line, part):
            return
        lost = keys - kept
        if batch.full:
            others = line.enqueued - part.tokens
            line.room = others or max(1, part.tokens // 2)
            line.barren += part.requests == 1
        else:
            why = f"the batch ended ({batch.state}) without an answer" + (
                f": {batch.reason}" if batch.reason else ""
            )
            for key in lost:
                await self._take(line, part, key, Retry(why))
            line.barren = 0 if kept else line.barren + 1
        part.state = "harvested"
        await asyncio.to_thread(self._parts.keep, part)
        del line.open[part.mark]
        del self._kept[batch.id]
        line.asked -= keys
        self._purse.give_back(part.dollars, self._spent.pop(batch.id, 0.0))
        if fatal or line.barren >= _BARREN:
            self.lose(line.judge.name, fatal or f"{line.judge.name}: {batch.reason or batch.state}")

    async def _was_anothers(self, line: _Line, part: Part) -> bool:
        """The batch that was taken for this part is none of ours: try the next, or give it up."""
        if part.candidates:
            await self._enter(line, part, part.candidates.pop(0))
            return True
        del line.open[part.mark]
        line.asked.difference_update(part.keys)
        self._purse.give_back(part.dollars, 0.0)
        part.state = "void"
        await asyncio.to_thread(self._parts.keep, part)
        return True

    async def _take(self, line: _Line, part: Part, key: str, outcome: Outcome) -> None:
        """Keep one result."""
        line.tries[key] += 1
        final, billed = True, True
        if isinstance(outcome, Answer):
            answer = checked(self._verdicts.get(part.verdict), outcome)
            final = answer.status != "invalid" or line.reasks[key] >= self._options.reasks
            line.reasks[key] += not final
            line.estimates.learn(part.size / part.requests, answer.usage)
        elif isinstance(outcome, Refused):
            answer = Answer(outcome.status, "", Usage(), reason=str(outcome))
        elif isinstance(outcome, Fatal):
            return
        else:
            final = line.tries[key] >= self._options.attempts
            billed = outcome.billed is not None
            answer = Answer("failed", "", outcome.billed or Usage(), reason=str(outcome))
            line.tally.retries += not final
        if final or billed:
            self._spent[part.batch] += await self._books.keep(
                *(key, line.judge, answer, line.tally),
                attempts=line.tries[key],
                final=final,
                batch=part.batch,
            )
        if final:
            line.tally.end(answer.status)

    # -- Wait -----------------------------------------------------------------------------------

    async def _rest(self, seconds: float) -> None:
        """Wait, but no longer than until the run is stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._halt.wait(), max(0.0, seconds))

    async def _await_harvest(self, enough: Callable[[], bool]) -> None:
        """Wait until harvests have brought this about, or the run is stopped."""
        while not self.stopped and not enough():
            async with self._harvested:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._harvested.wait(), 1.0)


async def _in_blocks(
    results: AsyncIterator[tuple[str, Outcome]], count: int
) -> AsyncIterator[list[tuple[str, Outcome]]]:
    block: list[tuple[str, Outcome]] = []
    async for result in results:
        block.append(result)
        if len(block) == count:
            yield block
            block = []
    if block:
        yield block
