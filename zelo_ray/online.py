"""Fill the ledger by calls that are answered at once: many in flight, each reply kept before use.

An `Asker` holds the connections of some judges. It drives each pool's protocol as far as its judges
can carry it, retries what can be retried, and lets a reply be seen only when it is durable.
"""

import asyncio
import contextlib
import dataclasses
import random
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from zelo_ray.config import Options
from zelo_ray.ledger import Ledger, LedgerError
from zelo_ray.pricing import price
from zelo_ray.protocols import advance
from zelo_ray.protocols import module as protocol_module
from zelo_ray.providers import Fatal, PanelError, Provider, Refused, Retry, Settings, find_key
from zelo_ray.providers import module as provider_module
from zelo_ray.records import Answer, Judge, Pool, Reply, Request, Usage, first_error

_LONGEST_WAIT = 120.0
_THROTTLED_COST = 0.1  # of an attempt: waiting for one's turn is no trouble with the request
_SILENT_REQUESTS, _SILENT_SECONDS = 20, 180.0
_PLANNERS = 4
_LINGER = 0.005  # seconds in which replies gather, to be synced together
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 60.0


class Stopped(Exception):  # noqa: N818 - it names what happened
    """The run was stopped; what it paid for is kept, and the same command goes on from there."""


@dataclass(slots=True)
class Tally:
    """What one judge has done so far in this run."""

    known: int = 0
    """requests that the ledger could answer already"""
    in_flight: int = 0
    answered: int = 0
    """requests that were asked and came to an end, well or not"""
    retries: int = 0
    throttled: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0
    """billed answers of a model whose price is unknown"""
    statuses: dict[str, int] = field(default_factory=dict)
    """how the answered ones ended"""

    def end(self, status: str) -> None:
        """Count a request that came to its end."""
        self.answered += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1

    def add(self, other: "Tally") -> None:
        """Add another's figures."""
        for each in dataclasses.fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if each.name == "statuses":
                summed = dict(Counter(mine) + Counter(theirs))
            else:
                summed = mine + theirs
            setattr(self, each.name, summed)


@dataclass(slots=True)
class _Line:
    """One judge's connection: the calls that share it, and when it may be used again."""

    judge: Judge
    provider: Provider
    concurrency: int
    slots: asyncio.Semaphore
    tally: Tally = field(default_factory=Tally)
    open_at: float = 0.0
    silent: int = 0
    """requests in a row that came to no answer at all"""
    heard_at: float = field(default_factory=time.monotonic)
    """when the judge last answered"""


class Asker:
    """Asks some of a panel's judges, on the event loop that it was made on.

    Args:
        options: the job's options.
        panel: the whole panel, as protocols must know it.
        judges: those of the panel to ask.
        ledger: open for writing.
        environ: where keys are found.
        run_id: the run that pays.

    Raises:
        PanelError: a judge cannot be reached at all.
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
    ) -> None:
        self._options, self._panel, self._run_id = options, panel, run_id
        self._ledger, self._books = ledger, _Books(ledger)
        self._protocol = protocol_module(options.protocol)
        self._connections: dict[tuple[str, Settings], Provider] = {}
        self._lines = {judge.name: self._connect(judge, environ) for judge in judges}
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._halt = asyncio.Event()
        self._planners, self._ended = asyncio.Semaphore(_PLANNERS), asyncio.Condition()
        self._pending = 0
        self._room = 2 * sum(line.concurrency for line in self._lines.values())
        self.stopped = ""
        """Why no new call is made any more; empty while they are."""

    def _connect(self, judge: Judge, environ: Mapping[str, str]) -> _Line:
        known = provider_module(judge.provider)
        key = find_key(judge, self._options.api_key_env, environ)
        settings = Settings(key, judge.base_url, self._options.timeout)
        at = (judge.provider, settings)
        if at not in self._connections:
            try:
                self._connections[at] = known.connect(settings)
            except Fatal as fatal:
                raise PanelError(str(fatal)) from None
        limit = self._options.limits.get(judge.name)
        slots = max(1, (limit.concurrency if limit else known.CONCURRENCY) // self._options.actors)
        return _Line(judge, self._connections[at], slots, asyncio.Semaphore(slots))

    @property
    def tallies(self) -> dict[str, Tally]:
        """Each judge's figures so far."""
        return {name: line.tally for name, line in self._lines.items()}

    def stop(self, reason: str) -> None:
        """Make no new call. What is in flight is still kept."""
        self.stopped = self.stopped or reason
        self._halt.set()

    async def _rest(self, seconds: float) -> None:
        """Wait, but no longer than until the run is stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._halt.wait(), seconds)

    async def fill(self, pool: Pool) -> None:
        """Ask about one pool until nothing is missing that these judges can answer, or stopped."""
        seen, asked = set[str](), Counter[str]()
        while not self.stopped:
            mine = await self._plan(pool, seen)
            if not mine:
                break
            seen.update(request.key for request in mine)
            own = await asyncio.gather(*(self._ask_once(request) for request in mine))
            asked.update(r.judge.name for r, was_asked in zip(mine, own, strict=True) if was_asked)
        if not self.stopped:
            for name, line in self._lines.items():
                planned = self._protocol.count(pool, [line.judge], self._options)
                line.tally.known += max(0, planned - asked[name])

    async def _plan(self, pool: Pool, seen: set[str]) -> list[Request]:
        """What these judges have to answer now, and have not yet been asked.

        Prompts are long, so only about twice as many requests wait as can be in flight.
        """
        async with self._planners:
            async with self._ended:
                await self._ended.wait_for(
                    lambda: self._pending < self._room or self._halt.is_set()
                )
            if self.stopped:
                return []
            rounds = self._protocol.rounds(pool, self._panel, self._options)
            step = await asyncio.to_thread(advance, rounds, self._ledger)
            mine = [r for r in step.missing if r.judge.name in self._lines and r.key not in seen]
            self._pending += len(mine)
            return mine

    async def _ask_once(self, request: Request) -> bool:
        """Ask, unless another pool is asking the very same thing or just did; tell which."""
        try:
            if request.key in self._asked:
                await self._asked[request.key]
                return False
            if self._ledger.has(request.key):
                return False
            self._asked[request.key] = asyncio.create_task(self._ask(request))
            await self._asked[request.key]
            del self._asked[request.key]
            return True
        finally:
            self._pending -= 1
            async with self._ended:
                self._ended.notify_all()

    async def _ask(self, request: Request) -> None:
        """Hold one of the judge's slots until the reply is kept: a kill costs no more."""
        line = self._lines[request.judge.name]
        async with line.slots:
            line.tally.in_flight += 1
            try:
                await self._call(request, line)
            except LedgerError as error:
                self.stop(str(error))
            except Exception as error:  # noqa: BLE001 - it may hold a key or a prompt: name it only
                self.stop(f"{line.judge.name}: unexpected {name_of(error)}")
            finally:
                line.tally.in_flight -= 1

    async def _call(self, request: Request, line: _Line) -> None:
        """Call until there is a last answer; keep it, and every billed one before it."""
        calls = reasks = 0
        troubles = 0.0
        while await self._may_call(line):
            calls += 1
            try:
                answer = _checked(request, await line.provider.send(request))
            except Retry as trouble:
                troubles += _THROTTLED_COST if trouble.throttled else 1
                if troubles < self._options.attempts:
                    await self._back_off(request, line, trouble, calls)
                    continue
                answer = Answer("failed", "", Usage(), reason=str(trouble))
            except Refused as refusal:
                answer = Answer(refusal.status, "", Usage(), reason=str(refusal))
            except Fatal as fatal:
                self.stop(str(fatal))
                return
            final = answer.status != "invalid" or reasks == self._options.reasks
            await self._keep(request, line, answer, calls, final=final)
            if final:
                line.tally.end(answer.status)
                self._listen(line, answer)
                return
            reasks += 1

    def _listen(self, line: _Line, answer: Answer) -> None:
        """Stop when a judge has been silent for so long that going on would only make failures."""
        if answer.status != "failed":
            line.silent, line.heard_at = 0, time.monotonic()
            return
        line.silent += 1
        silence = time.monotonic() - line.heard_at
        if line.silent >= _SILENT_REQUESTS and silence > _SILENT_SECONDS:
            self.stop(f"no answer to {line.silent} requests in a row: {answer.reason}")

    async def _may_call(self, line: _Line) -> bool:
        """Wait until the judge is open; false when the run is to stop."""
        while not self.stopped and (left := line.open_at - time.monotonic()) > 0:
            await self._rest(left)
        return not self.stopped

    async def _back_off(self, request: Request, line: _Line, trouble: Retry, calls: int) -> None:
        jitter = random.Random(f"{request.key}:{calls}").random()
        if trouble.delay is not None and trouble.delay > _LONGEST_WAIT:
            wait = f"{trouble.delay / 60:.0f} minutes"
            self.stop(f"{trouble}; the server asks to wait {wait}: go on later")
            return
        line.tally.retries += 1
        backoff = jitter * min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** (calls - 1))
        delay = trouble.delay * (1 + 0.1 * jitter) if trouble.delay else backoff
        if trouble.throttled:
            line.tally.throttled += 1
            line.open_at = max(line.open_at, time.monotonic() + delay)
        else:
            await self._rest(delay)

    async def _keep(
        self, request: Request, line: _Line, answer: Answer, calls: int, *, final: bool
    ) -> None:
        usage, tally = answer.usage, line.tally
        dollars = price(line.judge, usage) if answer.status != "failed" else 0.0
        reply = Reply(
            key=request.key,
            judge=line.judge.name,
            status=answer.status,
            text=answer.text,
            reason=answer.reason,
            model=answer.model,
            **dataclasses.asdict(usage),
            dollars=dollars,
            attempts=calls,
            received_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            run_id=self._run_id,
            final=final,
        )
        await self._books.keep(reply)
        tally.input_tokens += usage.input_tokens
        tally.output_tokens += usage.output_tokens
        tally.dollars += dollars or 0.0
        tally.unpriced += dollars is None
        if self._ledger.exhausted:
            self.stop("the disk of the output directory is full; make room and run again")

    async def aclose(self) -> None:
        """Close connections; the ledger is the caller's."""
        for provider in self._connections.values():
            await provider.aclose()


class _Books:
    """Commits in groups: replies that come in while the ledger writes go in together next."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[tuple[Reply, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._writer = ThreadPoolExecutor(1)  # of its own, so that no reply waits behind a plan

    async def keep(self, reply: Reply) -> None:
        """Return when the reply is durable.

        Raises:
            LedgerError: it could not be kept.
        """
        kept = asyncio.get_running_loop().create_future()
        self._waiting.append((reply, kept))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await kept

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            await asyncio.sleep(_LINGER)
            group, self._waiting = self._waiting, []
            try:
                replies = [reply for reply, _ in group]
                await loop.run_in_executor(self._writer, self._ledger.append, replies)
            except Exception as error:  # noqa: BLE001 - each of those that wait must learn of it
                for _, kept in group:
                    kept.set_exception(error)
            else:
                for _, kept in group:
                    kept.set_result(None)
        self._writing = None


def _checked(request: Request, answer: Answer) -> Answer:
    """An answer that does not read as the verdict asked for is invalid."""
    if answer.status != "ok":
        return answer
    try:
        request.verdict.model_validate_json(answer.text)
    except ValidationError as error:
        return dataclasses.replace(answer, status="invalid", reason=first_error(error))
    return answer


def name_of(error: BaseException) -> str:
    """What and where an error is, without its text, which may hold a key or a prompt."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {where.filename.rpartition('/')[2]}, line {where.lineno}"
