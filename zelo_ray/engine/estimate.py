"""Estimate a job before it is paid for: requests, tokens, dollars, hours. It makes no call.

The requests of a sample are rendered, and looked up in the ledger: what their replies used tells
what the others will use.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from zelo_ray.engine.ledger import read_rows, sum_paid
from zelo_ray.engine.sample_input import InputSample, Sampled
from zelo_ray.options import AnnotateOptions
from zelo_ray.providers import load_provider
from zelo_ray.providers.pricing import price
from zelo_ray.records import Judge, Reply, Usage

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
    unknown: int
    """replies of unknown price, that come on top of it"""
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
        spreads = [
            forecast.batch if mode == "batch" else forecast.online for forecast in self.forecasts
        ]
        parts = [(spread.low, spread.expected, spread.high) for spread in spreads if spread]
        return Spread(*(sum(column) for column in zip((0.0, 0.0, 0.0), *parts, strict=True)))


def estimate(
    input_sample: InputSample,
    *,
    retry: Collection[str] = ("failed",),
    possibly_billed: float = 0.0,
) -> CostEstimate:
    """Estimate what is left to ask of an input, and what it will take.

    Args:
        input_sample: has seen all of the input.
        retry: statuses of replies in the ledger that are to be asked again.
        possibly_billed: US dollars that may have been billed for calls that were cut off.
    """
    sample, options = input_sample.sample(), input_sample.options
    recorded_by_judge = {
        j.name: _Recorded(j.options.get("max_output_tokens") or 0) for j in input_sample.panel
    }
    wanted = {key for pool in sample for requests in pool.asked.values() for key, _ in requests}

    for row in read_rows(options.ledger_dir):
        if recorded := recorded_by_judge.get(row.judge):
            if row.final and row.status not in retry and not 0 < row.truncated_at < recorded.limit:
                recorded.answered.add(row.key)
            if row.key in wanted:
                recorded.rows.setdefault(row.key, []).append(row)
    paid = sum_paid(options.ledger_dir)
    forecasts = tuple(
        _forecast(judge, input_sample, sample, recorded_by_judge[judge.name])
        for judge in input_sample.panel
    )
    return CostEstimate(
        pools=input_sample.pools,
        forecasts=forecasts,
        spent=paid.all_dollars,
        unknown=paid.unpriced(),
        possibly_billed=possibly_billed,
        mode=options.mode,
        max_usd=options.max_usd,
    )


@dataclass(slots=True)
class _Recorded:
    """The replies that the ledger holds of one judge."""

    limit: int = 0
    """tokens that an answer may have by now"""
    answered: set[str] = field(default_factory=set)
    rows: dict[str, list[Reply]] = field(default_factory=dict)
    """all rows of the sample's requests"""


def _forecast(
    judge: Judge, input_sample: InputSample, sample: Sequence[Sampled], recorded: _Recorded
) -> JudgeForecast:
    planned, whole = input_sample.planned[judge.name], len(sample) == input_sample.asked
    pools = [pool for pool in sample if pool.asked.get(judge.name)]
    hits = sum(key in recorded.answered for pool in pools for key, _ in pool.asked[judge.name])
    answered = hits
    if not whole:  # the ledger may hold replies to other input, prompts or options as well
        estimated = round(hits * input_sample.asked / max(1, len(sample)))
        margin = _MARGIN / math.sqrt(max(1, len(sample))) * planned
        in_all = len(recorded.answered)
        answered = min(planned, estimated if in_all - estimated > margin else in_all)
    ended = [pool for pool in pools if pool.ended]
    unneeded = sum(pool.counts[judge.name] - len(pool.asked[judge.name]) for pool in ended)
    spared = round(unneeded * answered / max(1, hits))
    remainder = planned - answered - spared

    words, error = _words_left(judge.name, sample, recorded)
    measured, replies = _measured(judge.name, pools, recorded, words, 0.0 if whole else error)
    rendered = sum(len(pool.asked[judge.name]) for pool in pools)
    one_token = sum(pool.one_token[judge.name] for pool in pools) / max(1, rendered)
    cases = measured or _assumed(judge, words, one_token)
    usage = cases[1]
    provider = load_provider(judge.provider)
    has_batch = provider.batch is not None and not judge.base_url and not one_token
    prices = input_sample.options.prices

    def dollars(*, batch: bool) -> Spread | None:
        costs = [price(judge, case, prices, batch=batch) for case in cases]
        totals = [remainder * cost for cost in costs if cost is not None]
        return Spread(*totals) if len(totals) == len(costs) else None

    return JudgeForecast(
        judge=judge.name,
        planned=planned,
        answered=answered,
        spared=spared,
        exact=whole or not recorded.answered,
        input_tokens=remainder * usage.input_tokens,
        output_tokens=remainder * usage.output_tokens,
        online=dollars(batch=False),
        batch=dollars(batch=has_batch),
        has_batch=has_batch,
        hours=_hours(judge, input_sample.options, remainder, usage),
        replies=replies,
    )


def _words_left(name: str, sample: Sequence[Sampled], recorded: _Recorded) -> tuple[float, float]:
    """Return the mean length of a judge's requests that are left, and its relative error.

    Lengths are words of four bytes. Later rounds are taken to be longer than the first by as much
    as they were in pools that have ended.
    """
    pools = [pool for pool in sample if pool.asked.get(name)]
    rows = [pool.asked[name] for pool in pools]
    if not rows:  # it is asked in later rounds only, about what the others are
        rows = [row for pool in sample for row in pool.asked.values()]
    missing = [[n for key, n in row if key not in recorded.answered] for row in rows]
    if not any(missing):
        missing = [[n for _, n in row] for row in rows]
    words, error = _ratio([(sum(row), len(row)) for row in missing if row])
    ended = [pool for pool in pools if pool.ended and pool.first.get(name)]
    if ended:
        whole, first = (
            _ratio([(sum(n for _, n in row), len(row)) for row in rows])[0]
            for rows in ([p.asked[name] for p in ended], [p.first[name] for p in ended])
        )
        words *= whole / first
    return words, error


def _measured(
    name: str, pools: Sequence[Sampled], recorded: _Recorded, words: float, error: float
) -> tuple[list[Usage], int]:
    """Return the usage of a request of so many words: low, expected and high.

    They are measured on replies, whose number comes with them; none if no reply tells.
    """
    prompts, answers = list[tuple[float, float]](), list[tuple[float, float]]()
    cached = written = 0
    for pool in pools:
        rows = [row for key, _ in pool.asked[name] for row in recorded.rows.get(key, ())]
        ended = {row.key for row in rows if row.final and row.status != "failed"}
        if ended:  # of all rows: what is asked again costs too
            length = sum(n for key, n in pool.asked[name] if key in ended)
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
    amount, number = (sum(column) for column in zip((0.0, 0.0), *pairs, strict=True))
    mean = amount / max(1.0, number)
    if len(pairs) < 2 or not amount:
        return mean, _ONE_POOL_ERROR
    squares = sum((above - mean * below) ** 2 for above, below in pairs)
    return mean, math.sqrt(len(pairs) / (len(pairs) - 1) * squares) / amount


def _assumed(judge: Judge, words: float, one_token: float) -> list[Usage]:
    """Return an assumed usage while no reply tells; a judge without a limit counts no tokens."""
    limit = judge.options.get("max_output_tokens") or judge.options.get("output_tokens") or 0
    return [
        Usage(
            round(words * per_word) if limit else 0,
            math.ceil(one_token * min(1, limit) + (1 - one_token) * round(min(output, limit))),
        )
        for per_word, output in _ASSUMED
    ]


def _hours(judge: Judge, options: AnnotateOptions, calls_left: int, usage: Usage) -> float | None:
    """Return how many hours the limits take that are given for the judge; None without any."""
    limit = options.limits.get(judge.name)
    uses = {"rpm": 1.0, **load_provider(judge.provider).limit_tokens(usage)}
    hours = [
        calls_left * uses.get(name, 0.0) / rate / 60
        for name, rate in (limit.rates if limit else {}).items()
    ]
    return max(hours, default=None)
