"""Estimate a job before it is paid for: requests, tokens, dollars, hours. It makes no call.

The requests of a survey's sample are rendered, and looked up in the ledger: what their replies used
tells what the others will use.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from scipy.optimize import nnls

from zelo_ray.engine.ledger import sum_spent
from zelo_ray.engine.sample_input import Array, InputSample, Sampled
from zelo_ray.engine.tokens import OVERHEAD
from zelo_ray.engine.waves import Reserve, reserve_for_batches
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols.texts import BYTES_PER_TOKEN
from zelo_ray.providers import load_provider
from zelo_ray.providers.pricing import price
from zelo_ray.records import Judge, Reply, Usage

_LEAST_ERROR = 0.05  # of what rests on replies: the rest may differ from what was answered
_ONE_POOL_ERROR = 0.25  # relative standard error where only one pool has replies
# As long as no reply tells: tokens for four bytes of a prompt, which are .84 in English, .93 in
# Chinese, 1.3 in Markdown and 1.6 in JSON (in Russian only .53); and tokens of an answer, at most
# the judge's limit, since thinking can take all of it.
_ASSUMED = ((0.75, 80.0), (1.0, 250.0), (1.6, math.inf))
_HOURS = {"rpm": 1 / 60, "tpm": 1 / 60, "itpm": 1 / 60, "otpm": 1 / 60, "rpd": 24.0}


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
    held: Reserve | None
    """what batches hold of a cap; None where there is no batch API"""
    hours: float | None
    """online, at the account's limits alone; None where none are known"""
    guessed: bool
    """whether these limits are a cautious guess"""
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
    rendered: int
    """pools of the sample"""
    forecasts: tuple[JudgeForecast, ...]
    spent: float
    """US dollars, by all runs so far, for whatever was asked"""
    unknown: int
    """replies of unknown price, that come on top of it"""
    maybe: float
    """US dollars that may have been billed besides, for calls that were cut off"""
    mode: str
    max_usd: float | None
    uncounted: Mapping[str, float] = field(default_factory=dict)
    """the part of ``maybe`` that is of answers that reported no tokens, by judge"""

    @property
    def batch_reserve(self) -> Reserve:
        """Return what batches for all of the job hold of a cap, in US dollars."""
        return sum((forecast.held for forecast in self.forecasts if forecast.held), Reserve())

    @property
    def unpriced(self) -> list[str]:
        """Return the judges of unknown price."""
        return [forecast.judge for forecast in self.forecasts if forecast.online is None]

    def dollars(self, mode: str) -> Spread:
        """Return the US dollars that the rest costs in a mode, without judges of unknown price."""
        spreads = [
            forecast.batch if mode == "batch" else forecast.online for forecast in self.forecasts
        ]
        parts = [(spread.low, spread.expected, spread.high) for spread in spreads if spread]
        return Spread(*(sum(column) for column in zip((0.0, 0.0, 0.0), *parts, strict=True)))


def estimate(
    survey: InputSample,
    *,
    retry: Collection[str] = ("failed",),
    maybe: float = 0.0,
) -> CostEstimate:
    """Estimate what is left to ask of the surveyed input, and what it will take.

    Args:
        survey: has seen all of the input.
        retry: statuses of replies in the ledger that are to be asked again.
        maybe: US dollars that may have been billed for calls that were cut off.
    """
    sample, options = survey.sample(), survey.options
    books = {j.name: _Book(j.options.get("max_output_tokens") or 0) for j in survey.panel}
    wanted = {key for pool in sample for requests in pool.asked.values() for key, _ in requests}

    def note(row: Reply) -> None:
        if book := books.get(row.judge):
            if row.final and row.status not in retry and not 0 < row.truncated_at < book.limit:
                book.answered.add(bytes.fromhex(row.key))
            if row.key in wanted:
                book.rows.setdefault(row.key, []).append(row)

    paid = sum_spent(options.ledger_dir, look=note)
    forecasts = tuple(_forecast(judge, survey, sample, books[judge.name]) for judge in survey.panel)
    return CostEstimate(
        pools=survey.pools,
        rendered=len(sample),
        forecasts=forecasts,
        spent=paid.dollars,
        unknown=paid.unpriced,
        maybe=maybe,
        mode=options.mode,
        max_usd=options.max_usd,
    )


@dataclass(slots=True)
class _Book:
    """The replies that the ledger holds of one judge."""

    limit: int = 0
    """tokens that an answer may have by now"""
    answered: set[bytes] = field(default_factory=set)
    rows: dict[str, list[Reply]] = field(default_factory=dict)
    """all rows of the sample's requests"""


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The tokens that one request uses, with all that is asked again for it."""

    input: float
    output: float
    cached: float = 0.0
    cache_write: float = 0.0

    @property
    def usage(self) -> Usage:
        """Return the usage in whole tokens."""
        cached, written = int(self.cached), int(self.cache_write)
        return Usage(round(self.input), round(self.output), cached, written)

    def times(self, factor: float) -> "_Tokens":
        """Return all counts multiplied by a factor."""
        return _Tokens(*(factor * getattr(self, column.name) for column in fields(self)))


def _forecast(
    judge: Judge,
    survey: InputSample,
    sample: Sequence[Sampled],
    book: _Book,
) -> JudgeForecast:
    pools = [pool for pool in sample if pool.asked.get(judge.name)]
    exact = len(sample) == survey.asked or not book.answered
    if pools:
        answered, words, error = _count_answered(judge.name, survey, pools, book, exact=exact)
    else:  # it is asked in later rounds only, about what the others are
        every = [n for pool in sample for requests in pool.asked.values() for _, n in requests]
        answered, words, error = 0, sum(every) / max(1, len(every)), 0.0
    spared = _spared(judge.name, pools)
    remainder = survey.planned[judge.name] - answered - spared
    measured, replies = _measured([pool.asked[judge.name] for pool in pools], book, words, error)
    tokens = measured or _assumed(judge, words)
    provider = load_provider(judge.provider)
    has_batch = provider.batch is not None and not judge.base_url
    usage, size = tokens[1].usage, BYTES_PER_TOKEN * max(0.0, words - OVERHEAD)
    hours, guessed = _hours(judge, survey.options, remainder, usage)

    def dollars(*, batch: bool) -> Spread | None:
        prices = survey.options.prices
        costs = [price(judge, case.usage, prices, batch=batch) for case in tokens]
        totals = [remainder * cost for cost in costs if cost is not None]
        return Spread(*totals) if len(totals) == len(costs) else None

    return JudgeForecast(
        judge=judge.name,
        planned=survey.planned[judge.name],
        answered=answered,
        spared=spared,
        exact=exact,
        input_tokens=remainder * tokens[1].input,
        output_tokens=remainder * tokens[1].output,
        online=dollars(batch=False),
        batch=dollars(batch=has_batch),
        has_batch=has_batch,
        held=reserve_for_batches(judge, remainder, size, usage, survey.options.prices)
        if has_batch
        else None,
        hours=hours,
        guessed=guessed,
        replies=replies,
    )


def _spared(name: str, sample: Sequence[Sampled]) -> int:
    """Return how many requests a judge is spared by pools that have already ended."""
    ended = (pool for pool in sample if pool.ended)
    return round(sum(pool.weight * (pool.counts[name] - len(pool.asked[name])) for pool in ended))


def _count_answered(
    name: str, survey: InputSample, sample: Sequence[Sampled], book: _Book, *, exact: bool
) -> tuple[int, float, float]:
    """Return how many of a judge's requests are answered, and the mean length of the others.

    That is in words of four bytes, and comes with its relative standard error.
    """
    weight = np.array([pool.weight for pool in sample])
    count = np.array([float(pool.counts[name]) for pool in sample])
    rows = [pool.asked[name] for pool in sample]
    first = np.array([float(len(row)) for row in rows])  # what comes later cannot be rendered yet
    words = np.array([float(sum(n for _, n in row)) for row in rows])
    missing = [[n for key, n in row if bytes.fromhex(key) not in book.answered] for row in rows]
    missing_counts = np.array([float(len(row)) for row in missing])
    left_words = np.array([float(sum(row)) for row in missing])

    traits = count[:, None] * np.array([pool.traits for pool in sample])
    slopes, _ = nnls(traits, count * words / first)  # no request is shorter for a longer document
    residuals = count * words / first - traits @ slopes
    mean = (survey.traits[name] @ slopes + weight @ residuals) / survey.planned[name]
    per = weight * count / first
    error = 0.0
    if missing_counts.any():  # those that are left may be longer or shorter than those that are not
        mean *= (per @ left_words) / (per @ missing_counts) * (per @ first) / (per @ words)
        some = missing_counts > 0
        spread = _ratio_error((per * left_words)[some], (per * missing_counts)[some])
        error = spread * math.sqrt(1 - missing_counts.sum() / first.sum())
    replies = first - missing_counts
    answered = (
        int(replies.sum()) if exact else _answered(survey.planned[name], weight, replies, book)
    )
    return answered, float(mean), error


def _answered(planned: int, weight: Array, answered: Array, book: _Book) -> int:
    """Estimate how many are answered: as many as the ledger holds, unless the sample denies it.

    Args:
        planned: requests in all.
        weight: how many pools each of the sample stands for.
        answered: answered requests of each.
        book: may hold replies to other input, prompts or options as well.
    """
    estimated, held = float(weight @ answered), len(book.answered)
    others = answered[weight > 1]
    error = 0.0
    if others.size:  # also where all are alike, one that was not drawn may be different
        variance = others.var() + (planned / weight.sum()) ** 2 / others.size
        error = math.sqrt(float(weight @ (weight - 1)) * variance)
    return min(planned, held if abs(held - estimated) <= 3 * error else round(estimated))


def _measured(
    calls: Sequence[Sequence[tuple[str, float]]], book: _Book, words: float, error: float
) -> tuple[tuple[_Tokens, _Tokens, _Tokens] | None, int]:
    """Return the tokens of a request of so many words, measured on replies, and their number."""
    columns = list[tuple[float, ...]]()
    for pool in calls:
        rows = [row for key, _ in pool for row in book.rows.get(key, ())]
        ended = {row.key for row in rows if row.final and row.status != "failed"}
        if ended:
            columns.append(
                (
                    sum(n for key, n in pool if key in ended),
                    len(ended),
                    sum(row.input_tokens for row in rows),  # of all: what is asked again costs too
                    sum(row.output_tokens for row in rows),
                    sum(row.cached_tokens for row in rows),
                    sum(row.cache_write_tokens for row in rows),
                )
            )
    if not columns:
        return None, 0
    table = np.array(columns)
    prompt, replies, input_tokens, output_tokens, cached, written = table.sum(axis=0)
    if not input_tokens:  # nothing was counted
        return None, 0
    scale = words / prompt
    expected = _Tokens(
        *(scale * input_tokens, output_tokens / replies, scale * cached, scale * written)
    )
    noise = max(_ratio_error(table[:, 2], table[:, 0]), _ratio_error(table[:, 3], table[:, 1]))
    around = min(0.9, max(_LEAST_ERROR, 2 * math.hypot(noise, error)))
    return (expected.times(1 - around), expected, expected.times(1 + around)), int(replies)


def _ratio_error(above: Array, below: Array) -> float:
    """Return the relative standard error of a ratio of sums over pools (Cochran 1977, eq. 6.13)."""
    if above.size < 2 or not above.any():
        return _ONE_POOL_ERROR
    residuals = above - above.sum() / below.sum() * below
    return math.sqrt(above.size / (above.size - 1) * float(residuals @ residuals)) / float(
        above.sum()
    )


def _assumed(judge: Judge, words: float) -> tuple[_Tokens, _Tokens, _Tokens]:
    """Return an assumed usage while no reply tells; a judge without a limit counts no tokens."""
    limit = judge.options.get("max_output_tokens") or judge.options.get("output_tokens") or 0
    low, expected, high = (
        _Tokens(words * ratio if limit else 0.0, min(output, limit)) for ratio, output in _ASSUMED
    )
    return low, expected, high


def _hours(
    judge: Judge, options: AnnotateOptions, calls_left: int, usage: Usage
) -> tuple[float | None, bool]:
    """Return how many hours the account's limits take, and whether those limits are a guess."""
    provider = load_provider(judge.provider)
    limit = options.limits.get(judge.name)
    rates = limit.rates if limit else {}
    guessed = "rpm" not in rates and not judge.base_url and bool(provider.rates)
    if guessed:
        rates = {**provider.rates, **rates}
    uses = {"rpm": 1.0, "rpd": 1.0, **provider.limit_tokens(usage)}
    hours = [calls_left * uses.get(name, 0.0) / rate * _HOURS[name] for name, rate in rates.items()]
    return max(hours, default=None), guessed
