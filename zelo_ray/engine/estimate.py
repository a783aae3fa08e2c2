"""Estimate a job before it is paid for: requests, tokens, dollars, hours. It makes no call.

Requests are counted for all the input. Those of a sample of its pools are rendered, and looked up
in the ledger: what their replies used tells what the others will use.
"""

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from zelo_ray.engine.batch.parts import sum_possibly_billed
from zelo_ray.engine.ledger import read_rows, sum_paid
from zelo_ray.engine.tokens import OVERHEAD, measure_request
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, Replies, find_protocol
from zelo_ray.protocols.texts import BYTES_PER_TOKEN
from zelo_ray.providers import load_provider
from zelo_ray.providers.pricing import price
from zelo_ray.records import Judge, Pool, Reply, Request, Usage

_MOST_RENDERED = 15_000  # requests of the sample: three seconds
_LEAST_ERROR = 0.05  # of what rests on replies: the rest may differ from what was answered
_ONE_POOL_ERROR = 0.25  # relative standard error where only one pool has replies
_MARGIN = 1.5  # over the root of the sample's size: three standard errors of a share, at most
# As long as no reply tells: tokens for four bytes of a prompt, which are .84 in English, .93 in
# Chinese, 1.3 in Markdown and 1.6 in JSON (in Russian only .53); and tokens of an answer, at most
# the judge's limit, since thinking can take all of it.
_ASSUMED = ((0.75, 80.0), (1.0, 250.0), (1.6, math.inf))


@dataclass(frozen=True, slots=True)
class Spread:
    """An amount of US dollars, and what it is likely to lie between."""

    low: float
    expected: float
    high: float


@dataclass(frozen=True, slots=True)
class JudgeForecast:
    """The requests that one judge is still to be asked, and what they take."""

    judge: str
    planned: int
    """requests in all"""
    answered: int
    """how many of them the ledger answers"""
    spared: int
    """how many of them are not needed, as their pools came to an end without"""
    exact: bool
    """whether that was counted, and not estimated"""
    input_tokens: float
    """of the requests that are left, as expected"""
    output_tokens: float
    online: Spread | None
    """None where the price is unknown"""
    batch: Spread | None
    """the same as ``online`` where there is no batch API"""
    has_batch: bool
    hours: float | None
    """online, at the account's limits alone; None where none are given"""
    replies: int
    """requests whose replies it rests on; 0: on assumptions"""

    @property
    def left(self) -> int:
        """Return the number of requests that are still to be asked."""
        return self.planned - self.answered - self.spared


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """An estimate of what a job will still take, judge by judge."""

    pools: int
    forecasts: tuple[JudgeForecast, ...]
    spent: float
    """US dollars, by all runs so far, for whatever was asked"""
    possibly_billed: float
    """US dollars that may have been billed besides, for calls that were cut off"""
    mode: str
    max_usd: float | None

    @property
    def unpriced(self) -> list[str]:
        """Return the judges of unknown price."""
        return [forecast.judge for forecast in self.forecasts if forecast.online is None]

    def dollars(self, mode: str) -> Spread:
        """Return the US dollars that the rest costs in a mode, without judges of unknown price."""
        each = [row.batch if mode == "batch" else row.online for row in self.forecasts]
        rows = [(spread.low, spread.expected, spread.high) for spread in each if spread]
        return Spread(*map(sum, zip((0.0, 0.0, 0.0), *rows, strict=True)))


class NoReplies:
    """A ledger without any reply."""

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return False for each key: no reply is there."""
        return [False] * len(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Read nothing."""
        del keys
        return []


def pilot_order(query_id: str, seed: int) -> str:
    """Return a query's place in the order of pilots: random, and stable as the input grows."""
    return hashlib.sha256(f"{seed}:{query_id}".encode()).hexdigest()


def pilot_lines(
    places: Iterable[tuple[str, int, str]], n: int, seed: int
) -> frozenset[tuple[str, int]]:
    """Return the file and line number of each of the ``n`` queries of a pilot.

    ``places`` are file, line number and query id of each pool.
    """
    first = heapq.nsmallest(n, places, key=lambda place: pilot_order(place[2], seed))
    return frozenset((file, number) for file, number, _ in first)


@dataclass(slots=True)
class _Pool:
    """A sampled pool: of the requests that follow from its recorded replies key and length.

    Lengths are words of four bytes.
    """

    planned: Mapping[str, int]
    """requests by judge"""
    asked: dict[str, dict[str, int]] = field(default_factory=dict)
    """by judge"""
    first: dict[str, list[int]] = field(default_factory=dict)
    """the lengths of those of the first round"""
    ended: bool = False
    """whether that is all that it takes"""


@dataclass(slots=True)
class _Recorded:
    """The replies that the ledger holds of one judge."""

    limit: int
    """tokens that an answer may have by now"""
    answered: set[str] = field(default_factory=set)
    rows: dict[str, list[Reply]] = field(default_factory=dict)
    """all rows of the sample's requests"""


class InputEstimate:
    """Estimate of what an input takes, to which its good pools are added one by one.

    The sample does not depend on the order of the input. It begins with the pools that a pilot
    takes, so that some of it is answered; all of a small input is in it. Of the pools' requests
    those can be rendered that follow from the ``replies`` at hand: without any, the first round.
    """

    def __init__(
        self, panel: Sequence[Judge], options: AnnotateOptions, replies: Replies | None = None
    ) -> None:
        self._panel, self._options = tuple(panel), options
        self._replies, self._protocol = replies or NoReplies(), find_protocol(options.protocol)
        self._planned = Counter({judge.name: 0 for judge in panel})
        self._drawn = list[tuple[str, Pool, int]]()  # of each pool its requests
        self._drawn_requests = 0
        self._asked = 0  # pools about which there is anything to ask
        self.pools = 0

    def add(self, pool: Pool) -> Mapping[str, int]:
        """Add one good pool, which must not be added twice; return its requests by judge."""
        self.pools += 1
        counts = self._protocol.count(pool, self._panel, self._options)
        self._planned.update(counts)
        if any(counts.values()):
            self._asked += 1
            order = pilot_order(pool.query_id, self._options.seed)
            self._drawn.append((order, pool, sum(counts.values())))
            self._drawn_requests += sum(counts.values())
            if self._drawn_requests > 2 * _MOST_RENDERED:
                self._drawn = self._first_drawn()
                self._drawn_requests = sum(count for *_, count in self._drawn)
        return counts

    def figure(self, retry: Collection[str] = ("failed",)) -> CostEstimate:
        """Estimate what is left to ask.

        ``retry`` are statuses of replies in the ledger that are to be asked again.
        """
        options, sample = self._options, [self._render(pool) for _, pool, _ in self._first_drawn()]
        recorded = {j.name: _Recorded(j.options.get("max_output_tokens") or 0) for j in self._panel}
        wanted = {key for pool in sample for lengths in pool.asked.values() for key in lengths}
        for row in read_rows(options.ledger_dir):
            if own := recorded.get(row.judge):
                if row.final and row.status not in retry and not 0 < row.truncated_at < own.limit:
                    own.answered.add(row.key)
                if row.key in wanted:
                    own.rows.setdefault(row.key, []).append(row)
        return CostEstimate(
            self.pools,
            tuple(self._forecast(judge, sample, recorded[judge.name]) for judge in self._panel),
            spent=sum_paid(options.ledger_dir).all_dollars,
            possibly_billed=sum_possibly_billed(options.ledger_dir),
            mode=options.mode,
            max_usd=options.max_usd,
        )

    def _first_drawn(self) -> list[tuple[str, Pool, int]]:
        """Return the first pools in the order of pilots, as many as are rendered quickly."""
        drawn = sorted(self._drawn, key=lambda item: item[0])
        totals = accumulate(count for *_, count in drawn)
        enough = sum(total <= _MOST_RENDERED for total in totals)
        return drawn[: max(1, enough)]

    def _render(self, pool: Pool) -> _Pool:
        rounds = self._protocol.rounds(pool, self._panel, self._options)
        progress = Progress(rounds, remember=True)
        missing = progress.step(self._replies).missing
        rendered = _Pool(self._protocol.count(pool, self._panel, self._options), ended=not missing)
        for request in (*progress.answered_requests, *missing):
            if isinstance(request, Request):
                name, size = request.judge.name, measure_request(request.with_codes(""))
                words = math.ceil(size / BYTES_PER_TOKEN) + OVERHEAD
                rendered.asked.setdefault(name, {})[request.key] = words
                if progress.rounds[request.key] == 1:
                    rendered.first.setdefault(name, []).append(words)
        return rendered

    def _forecast(
        self, judge: Judge, sample: Sequence[_Pool], recorded: _Recorded
    ) -> JudgeForecast:
        name, options, planned = judge.name, self._options, self._planned[judge.name]
        whole, pools = len(sample) == self._asked, [pool for pool in sample if name in pool.asked]
        hits = sum(len(recorded.answered & pool.asked[name].keys()) for pool in pools)
        answered = hits
        if not whole:  # the ledger may hold replies to other input, prompts or options as well
            estimated = round(hits * self._asked / max(1, len(sample)))
            margin = _MARGIN / math.sqrt(max(1, len(sample))) * planned
            in_all = len(recorded.answered)
            answered = min(planned, estimated if in_all - estimated > margin else in_all)
        unneeded = sum(pool.planned[name] - len(pool.asked[name]) for pool in pools if pool.ended)
        spared = round(unneeded * answered / max(1, hits))
        remainder = planned - answered - spared

        words, error = _words_left(name, sample, recorded)
        cases, replies = _measured(name, pools, recorded, words, 0.0 if whole else error)
        one_token = getattr(options, "answer", "") == "token"
        cases = cases or _assumed(judge, words, one_token=one_token)
        provider, usage = load_provider(judge.provider), cases[1]
        has_batch = provider.batch is not None and not judge.base_url and not one_token

        def dollars(*, batch: bool) -> Spread | None:
            costs = [price(judge, case, options.prices, batch=batch) for case in cases]
            totals = [remainder * cost for cost in costs if cost is not None]
            return Spread(*totals) if len(totals) == len(costs) else None

        limit = options.limits.get(name)
        uses = {"rpm": 1.0, **provider.limit_tokens(usage)}
        hours = [
            remainder * uses.get(what, 0.0) / rate / 60
            for what, rate in (limit.rates if limit else {}).items()
        ]
        return JudgeForecast(
            judge=name,
            planned=planned,
            answered=answered,
            spared=spared,
            exact=whole or not recorded.answered,
            input_tokens=remainder * usage.input_tokens,
            output_tokens=remainder * usage.output_tokens,
            online=dollars(batch=False),
            batch=dollars(batch=has_batch),
            has_batch=has_batch,
            hours=max(hours, default=None),
            replies=replies,
        )


def _words_left(name: str, sample: Sequence[_Pool], recorded: _Recorded) -> tuple[float, float]:
    """Return the mean length of a judge's requests that are left, and its relative error.

    Later rounds are taken to be longer than the first by as much as they were in pools that have
    ended. A judge that is asked in later rounds only is asked about what the others are.
    """
    asked = [pool.asked[name] for pool in sample if name in pool.asked]
    asked = asked or [lengths for pool in sample for lengths in pool.asked.values()]
    left = [[n for key, n in row.items() if key not in recorded.answered] for row in asked]
    left = left if any(left) else [[*row.values()] for row in asked]
    words, error = _ratio([(sum(row), len(row)) for row in left if row])
    if ended := [pool for pool in sample if pool.ended and pool.first.get(name)]:
        whole, _ = _ratio([(sum(p.asked[name].values()), len(p.asked[name])) for p in ended])
        first, _ = _ratio([(sum(p.first[name]), len(p.first[name])) for p in ended])
        words *= whole / first
    return words, error


def _measured(
    name: str, pools: Sequence[_Pool], recorded: _Recorded, words: float, error: float
) -> tuple[list[Usage], int]:
    """Return the usage of a request of so many words: low, expected and high.

    They are measured on replies, whose number comes with them; none if no reply tells.
    """
    prompts, answers = list[tuple[float, float]](), list[tuple[float, float]]()
    cached = written = 0
    for pool in pools:
        rows = [row for key in pool.asked[name] for row in recorded.rows.get(key, ())]
        ended = {row.key for row in rows if row.final and row.status != "failed"}
        if ended:  # of all rows: what is asked again costs too
            length = sum(n for key, n in pool.asked[name].items() if key in ended)
            prompts.append((sum(row.input_tokens for row in rows), length))
            answers.append((sum(row.output_tokens for row in rows), len(ended)))
            cached += sum(row.cached_tokens for row in rows)
            written += sum(row.cache_write_tokens for row in rows)
    counted = sum(tokens for tokens, _ in prompts)
    if not counted:
        return [], 0
    (per_word, noise), (output, other_noise) = _ratio(prompts), _ratio(answers)
    around = min(0.9, max(_LEAST_ERROR, 2 * math.hypot(max(noise, other_noise), error)))
    cases = []
    for factor in (1 - around, 1.0, 1 + around):
        prompt = factor * words * per_word
        read, new = (math.floor(prompt * part / counted) for part in (cached, written))
        cases.append(Usage(round(prompt), round(factor * output), read, new))
    return cases, round(sum(number for _, number in answers))


def _ratio(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the mean of amounts for numbers, by pool, and its relative standard error."""
    amount, number = map(sum, zip((0.0, 0.0), *pairs, strict=True))
    mean = amount / max(1.0, number)
    if len(pairs) < 2 or not amount:
        return mean, _ONE_POOL_ERROR
    squares = sum((above - mean * below) ** 2 for above, below in pairs)
    return mean, math.sqrt(len(pairs) / (len(pairs) - 1) * squares) / amount


def _assumed(judge: Judge, words: float, *, one_token: bool) -> list[Usage]:
    """Return an assumed usage while no reply tells; a judge without a limit counts no tokens."""
    limit = judge.options.get("max_output_tokens") or judge.options.get("output_tokens") or 0
    if not limit:
        return [Usage()] * len(_ASSUMED)
    longest = 1 if one_token else limit
    return [
        Usage(round(words * per_word), round(min(output, longest))) for per_word, output in _ASSUMED
    ]
