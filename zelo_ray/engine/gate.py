"""The caller's side of limits and budget: calls queue here until they may be sent."""

import asyncio
import math
import re
import zlib
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import orjson
from pydantic import BaseModel

from zelo_ray.engine.budget import SharedBudget
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.limiter import Account, Lease, Quota, Want
from zelo_ray.providers import RERANKERS
from zelo_ray.records import Judge, Request, Usage, response_schema

_LINGER = 0.005  # seconds in which calls gather, to be leased together
_MOST = 200  # calls in one lease
_DENIED_WAIT = 0.2  # seconds before money is asked for again that others may give back
_TELL_SECONDS = 1.0  # between two words that an account answers
_LEARNING = 0.05  # weight of a new reply in what the estimates learn
OVERHEAD = 20  # tokens of a request beside its texts
_FEW = 10  # answers of a kind that tell how long they get, the surer the more there are
_SURE, _UNSURE = 1.1, 8.0  # times the longest: the former, and of the latter a share for each
_CUT_OFF = 0.02  # of the answers of a kind: where more are cut off, they have no usual length
_SHORTEST = 64  # tokens: no limit is set below
_DEARER = 1.25  # times as many tokens as prompts were seen to take, where that is beyond the bound
# A word that stands alone, with the space before it: no tokenizer in use takes more than a token
# for two of its letters. Whatever else there is may take one for each byte.
_WORD = re.compile(rb" ?(?<![A-Za-z0-9_\x80-\xff])[A-Z]?[a-z]+(?![A-Za-z0-9_\x80-\xff])")
_FIRST_OUTPUT = 300.0  # tokens of an answer, before the first has come
# Cohere charges a search for a query with up to 100 documents, and has counted each part of a long
# one as a document: parts of 500 tokens, query included, of which it may take half.
_SEARCH, _PART = 100, 500


class Size(int):
    """Bytes of a request, as they are charged."""

    searches = 0
    """the most that a reranker may charge for it"""


@dataclass(slots=True)
class _Kind:
    """How long a judge's answers of one kind of verdict are."""

    answers: int = 0
    cut: int = 0
    longest: int = 0


@dataclass(frozen=True, slots=True)
class Bound:
    """The most tokens that a prompt takes in any tokenizer in use.

    ``shared`` are of what it has in common with all prompts of the same ``opening``, ``own`` of the
    rest.
    """

    opening: int
    shared: int
    own: int

    @property
    def tokens(self) -> int:
        """Of the whole."""
        return self.shared + self.own


class Estimates:
    """Tokens of one judge's calls before they are made, learned from those that were.

    A token is about four bytes of UTF-8 in most languages and less in JSON and code; how many it is
    for this model and these prompts the replies tell.
    """

    def __init__(self, judge: Judge) -> None:
        limit = judge.options.get("max_output_tokens")
        self._limit = int(limit or judge.options.get("output_tokens") or 4096)
        if judge.provider in RERANKERS:  # they write nothing
            self._limit = 0
        self._per_byte = 1.3 / 4
        self._output = min(_FIRST_OUTPUT, self._limit)
        self._kinds = defaultdict[str, _Kind](_Kind)
        self._beyond: float | None = None
        self._least = dict[int, int]()  # by opening, tokens of the shortest prompt

    def expected(self, size: float) -> Usage:
        """What a call of so many bytes will use, as far as is known."""
        return Usage(math.ceil(size * self._per_byte) + OVERHEAD, math.ceil(self._output))

    def most(self, size: float, limit: int | None = None) -> Usage:
        """What no call exceeds: a byte a token, the output limit, and the searches of a `Size`."""
        searches = size.searches if isinstance(size, Size) else 0
        return Usage(math.ceil(size) + OVERHEAD, limit or self._limit, searches=searches)

    def most_known(self, size: float, bound: Bound, limit: int) -> Usage:
        """The same once prompts have been counted: then they take what words take at most.

        Args:
            size: of the request in bytes.
            bound: of its tokens; see `bound_of`.
            limit: tokens that the answer may have.
        """
        if self._beyond is None:
            return self.most(size, limit)
        dearer = max(1.0, _DEARER * self._beyond)
        shared = min(dearer * bound.shared, self._least.get(bound.opening, math.inf))
        tokens = min(size, math.ceil(shared + dearer * bound.own))
        return Usage(math.ceil(tokens) + OVERHEAD, limit)

    def limit_for(self, kind: str, cut_at: int = 0) -> int:
        """The output limit that an answer needs: little more than the longest of many alike.

        Args:
            kind: of verdict.
            cut_at: the limit at which the answer was cut off before, 0 if it was not.
        """
        known = self._kinds[kind]
        if cut_at or known.answers < _FEW or known.cut > max(3, _CUT_OFF * known.answers):
            return longer(self._limit, cut_at)
        margin = _SURE + _UNSURE / known.answers
        return min(self._limit, max(_SHORTEST, math.ceil(margin * known.longest)))

    def learn(self, size: float, usage: Usage, kind: str = "", *, cut: bool = False) -> None:
        """Take in what a call of so many bytes has used; rerankers tell of input alone."""
        if usage.input_tokens:
            per_byte = (usage.input_tokens - OVERHEAD) / size
            self._per_byte += _LEARNING * (max(0.05, per_byte) - self._per_byte)
        if usage.output_tokens:
            self._output += _LEARNING * (usage.output_tokens - self._output)
            known = self._kinds[kind]
            known.answers, known.cut = known.answers + 1, known.cut + cut
            known.longest = max(known.longest, usage.output_tokens)

    def learn_prompts(self, opening: int, tokens: Sequence[int], bound: float) -> None:
        """Take in how many tokens prompts took, which together may be so many at most.

        Args:
            opening: that all of them have; 0 if they have several.
            tokens: of each.
            bound: of all together; see `bound_of`.
        """
        if len(tokens) >= _FEW and all(tokens) and bound:
            self._beyond = max(self._beyond or 0.0, sum(tokens) / bound)
            if opening:
                self._least[opening] = min(self._least.get(opening, tokens[0]), *tokens)


def longer(limit: int, cut_at: int) -> int:
    """The limit for an answer that was cut off at another one: twice that, if it was no lower."""
    return limit if cut_at < limit else 2 * cut_at


def bound_of(request: Request) -> Bound:
    """The most tokens that a request's prompt takes; it opens with system prompt and schema."""
    return Bound(*_opening(request.system, request.response_model), _tokens_at_most(request.user))


@lru_cache(64)
def _opening(system: str, verdict: type[BaseModel]) -> tuple[int, int]:
    schema = orjson.dumps(response_schema(verdict)).decode()
    known_by = zlib.crc32(f"{system}\0{schema}".encode(errors="replace"))
    return known_by, _tokens_at_most(system) + _tokens_at_most(schema)


def _tokens_at_most(text: str) -> int:
    data = text.encode(errors="replace")
    return len(data) - sum(len(word) // 2 for word in _WORD.findall(data))


def size_of(request: Request) -> Size:
    """Bytes of a request's texts and schema; rerankers charge the query with every document."""
    size = _bytes(request.system) + _bytes(request.user) + _schema_size(request.response_model)
    if request.judge.provider not in RERANKERS:
        return Size(size)
    query = _bytes(request.query)
    charged = Size(size + (query + OVERHEAD) * (len(request.documents) - 1))
    room = max(_PART // 2, _PART - query)
    parts = sum(max(1, -(-_bytes(each.content) // room)) for each in request.documents)
    charged.searches = max(1, -(-parts // _SEARCH))
    return charged


def _bytes(text: str) -> int:
    return len(text.encode(errors="replace"))


@cache
def _schema_size(verdict: type[BaseModel]) -> int:
    return len(orjson.dumps(response_schema(verdict)))


class LimiterClient:
    """Lets one judge's calls pass at the pace of its account.

    Args:
        account: whose limits hold.
        quota: who shares them out, by the same clock.
        clock: the time.
    """

    def __init__(self, account: Account, quota: Quota, clock: Clock = CLOCK) -> None:
        self._account, self._quota, self._clock = account, quota, clock
        self._queue = deque[tuple[Mapping[str, float], asyncio.Future[bool]]]()
        self._more, self._told = dict[str, float](), dict[str, float]()
        self._soon = set[asyncio.Future[bool]]()
        self._granting: asyncio.Task[None] | None = None
        self._limited = bool(account.limits or account.cautious)
        self._open_at, self._closed = 0.0, False
        self._heard_at = -math.inf
        self._telling: asyncio.Task[None] | None = None
        self.lease: Lease | None = None
        """the last one, for those who want to see the limits"""
        self.spent_day = False
        """whether the requests of the day are used up"""

    async def admit(self, cost: Mapping[str, float]) -> bool:
        """Wait until a call of this cost may go; false when none may any more."""
        while self._limited and not (self._closed or self.spent_day):
            granted = asyncio.get_running_loop().create_future()
            self._queue.append((cost, granted))
            self._granting = self._granting or asyncio.create_task(self._grant())
            if not await granted:
                return False
            self._soon.discard(granted)
            if self._clock.now() >= self._open_at:
                return not self._closed
            # a pause began since: there is a new turn after it
        return not (self._closed or self.spent_day)

    def settle(self, reserved: Mapping[str, float], used: Mapping[str, float]) -> None:
        """Tell what a call used of what was reserved for it."""
        for name, amount in used.items():
            self._more[name] = self._more.get(name, 0.0) + amount - reserved.get(name, 0.0)

    def learn(self, told: Mapping[str, float]) -> None:
        """Take limits that a response told."""
        if told:
            self._told.update(told)
            self._limited = True

    def hear(self) -> None:
        """The account answers: tell all who share it, soon and not too often."""
        now = self._clock.now()
        if now >= self._heard_at + _TELL_SECONDS:
            self._heard_at = now
            self._telling = asyncio.create_task(self._quota.hear(self._account))

    async def pause(self, seconds: float) -> float:
        """Obey a 429, here at once, and elsewhere from the next lease on.

        Returns:
            For how many seconds the account has told nobody anything else.
        """
        self._open_at = max(self._open_at, self._clock.now() + seconds)
        self._limited = True
        return await self._quota.pause(self._account, seconds)

    def close(self) -> None:
        """Let nothing pass any more, and no caller wait."""
        self._closed = True
        for granted in self._soon:
            _answer(granted, False)
        self._empty()

    def _empty(self) -> None:
        for _, granted in self._queue:
            _answer(granted, False)
        self._queue.clear()

    async def _grant(self) -> None:
        """Lease for those who wait, until nobody does."""
        loop = asyncio.get_running_loop()
        await self._clock.sleep(_LINGER)
        while self._queue:
            costs = [cost for cost, _ in list(self._queue)[:_MOST]]
            more, self._more = self._more, {}
            want = Want(self._account, costs, more, self._told)
            lease = await self._quota.lease(want)
            self.lease = lease
            self._open_at = max(self._open_at, self._clock.now() + lease.paused)
            for delay in lease.delays[: len(self._queue)]:
                _, granted = self._queue.popleft()
                self._soon.add(granted)
                loop.call_later(self._clock.real(delay), _answer, granted, True)
            if lease.binding == "rpd" and len(lease.delays) < len(costs):
                self.spent_day = True
                for granted in self._soon:  # the last ones of the day go before all others give up
                    _answer(granted, True)
                self._empty()
            await self._clock.sleep(lease.again if self._queue else _LINGER)
        self._granting = None


class BudgetClient:
    """Holds what the calls of one process may cost. Without a till there is no cap."""

    def __init__(
        self, spender: str, till: SharedBudget | None, settled: float = 0.0, clock: Clock = CLOCK
    ) -> None:
        self._spender, self._till, self._clock = spender, till, clock
        self._queue = deque[tuple[float, asyncio.Future[bool]]]()
        self._settled, self._held, self._closed = settled, 0.0, False
        self._granting: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()  # else an older figure could overwrite a newer one
        self.over = False
        """whether there is no money left for what was asked for last"""

    @property
    def capped(self) -> bool:
        """Whether there is a cap at all."""
        return self._till is not None

    async def hold(self, dollars: float) -> None:
        """Take over money that an earlier run had reserved, whether there is enough or not."""
        if self._till is not None:
            async with self._asking:
                self._held += dollars
                await self._till.reserve(self._spender, self._settled, self._held, ())

    async def tell(self) -> None:
        """Tell what is spent and held, so that others may have what came back."""
        await self.hold(0.0)

    async def take(self, dollars: float) -> bool:
        """Wait until a call may cost so much; false when it never may."""
        if self._till is None or not dollars:
            return True
        if self._closed:
            return False
        taken = asyncio.get_running_loop().create_future()
        self._queue.append((dollars, taken))
        self._granting = self._granting or asyncio.create_task(self._grant(self._till))
        try:
            return bool(await taken)
        except asyncio.CancelledError:  # perhaps in the moment in which it was granted
            if not taken.cancelled():
                self.give_back(dollars if taken.result() else 0.0, 0.0)
            raise

    def give_back(self, taken: float, spent: float) -> None:
        """Tell what a call has cost of what was taken for it."""
        self._held -= taken if self.capped else 0.0
        self._settled += spent

    def close(self) -> None:
        """Let nobody wait for money any more."""
        self._closed = True
        self._send_away()

    def _send_away(self) -> None:
        while self._queue:
            _, taken = self._queue.popleft()
            _answer(taken, False)

    async def _grant(self, till: SharedBudget) -> None:
        await self._clock.sleep(_LINGER)
        while self._queue:
            while self._queue and self._queue[0][1].cancelled():
                self._queue.popleft()
            wants = [dollars for dollars, _ in list(self._queue)[:_MOST]]
            async with self._asking:
                grant = await till.reserve(self._spender, self._settled, self._held, wants)
                for _ in range(min(grant.count, len(self._queue))):
                    dollars, taken = self._queue.popleft()
                    self._held += 0.0 if taken.cancelled() else dollars
                    _answer(taken, True)
            if grant.over:
                self.over = True
                self._send_away()
            elif self._queue and not grant.count:
                await self._clock.sleep(_DENIED_WAIT)
        self._granting = None


def _answer(waiting: asyncio.Future[bool], passed: bool) -> None:
    if not waiting.done():
        waiting.set_result(passed)
