"""Measure ways of judging: agreement with people, differences of two ways, and costs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, nan
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from zelo_ray.commands.compare.items import Item
from zelo_ray.engine.ledger import Ledger
from zelo_ray.evaluation.agreement import Figure as Estimate
from zelo_ray.evaluation.agreement import (
    estimate,
    estimate_share,
    quotient,
)
from zelo_ray.evaluation.changes import LEVEL, count_needed, p_of_interval
from zelo_ray.evaluation.coefficients import COEFFICIENTS, RatingMatrix
from zelo_ray.evaluation.significance import TIE as EQUAL
from zelo_ray.evaluation.significance import Floats, paired_test
from zelo_ray.evaluation.votes import (
    A_BETTER,
    A_OR_NOT,
    B_BETTER,
    DECIDED,
    TIE,
    WITH_TIES,
    agreement_with_people,
)
from zelo_ray.files.judges import HUMAN
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.tables import read_table
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Replies, advance, load_protocol
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge, Reply
from zelo_ray.report.figures import Figure

Verdicts = NDArray[np.int64]
"""Of a way on each item, as `Item.verdict`; -1 where it gave none."""
Scores = Mapping[tuple[str, str], float]
"""By query and document."""
Measure = Literal["concordance", "agreement"]
MOST = 0.9
"""A way that judged a smaller share is not chosen: these pairs may be easier."""
_COEFFICIENTS = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "mcc")}
_FIGURES = {
    (WITH_TIES, "agreement"): "agreement",
    (WITH_TIES, "alpha-nominal"): "alpha",
    (A_OR_NOT, "mcc"): "MCC",
    (DECIDED, "agreement"): "agreement, decided",
    (DECIDED, "alpha-nominal"): "alpha, decided",
    (DECIDED, "mcc"): "MCC, decided",
}
"""By scale and coefficient, how a figure is called; decided: where neither says a tie."""
_SAME_SCORE = 1e-9


# --- agreement ------------------------------------------------------------------------------------


def read_scores(out: str) -> Scores:
    """Read the scores of a run."""
    columns = ("query_id", "doc_id", "score")
    rows = zip(*(read_table(out, "scores", columns)[c].to_pylist() for c in columns), strict=True)
    return {(query_id, doc_id): nan if s is None else s for query_id, doc_id, s in rows}


def verdicts_of(scores: Scores, items: Iterable[Item]) -> Verdicts:
    """Return which document of each item scores higher; -1 where a score is missing."""
    return np.array([_verdict(scores, item) for item in items], np.int64)


def _verdict(scores: Scores, item: Item) -> int:
    a, b = (scores.get((item.query_id, doc), nan) for doc in (item.doc_id_a, item.doc_id_b))
    if not (isfinite(a) and isfinite(b)):
        return -1
    return TIE if abs(a - b) <= _SAME_SCORE else A_BETTER if a > b else B_BETTER


def credit_pairs(
    items: Sequence[Item], verdicts: Sequence[int] | Verdicts, measure: Measure = "concordance"
) -> Floats:
    """Return what each verdict counts, [items]: 1 if it is the people's, 0 if it is the other.

    By ``concordance`` a tie where people decide counts half, as does a decision where people say a
    tie: so guesses in place of ties change nothing on average. By ``agreement`` both count 0, so a
    way that guesses looks better than one that says a tie. NaN where there is no verdict.
    """
    people = np.array([item.verdict for item in items], np.float64)
    given = np.asarray(verdicts, np.float64)
    difference = np.abs(given - people)
    credit = 1 - difference / 2 if measure == "concordance" else np.float64(difference == 0)
    credited: Floats = np.where(given < 0, nan, credit)
    return credited


def _weights(items: Sequence[Item]) -> Floats:
    return np.array([item.weight for item in items], np.float64)


def choose(
    items: Sequence[Item],
    verdicts: Mapping[str, Sequence[int] | Verdicts],
    measure: Measure = "concordance",
) -> str:
    """Return the way that agrees most with people on these items; of equal ones the first.

    One that judged fewer than nine tenths of the items is not chosen, as they may be easier ones,
    unless all did.
    """
    credit = {name: credit_pairs(items, row, measure) for name, row in verdicts.items()}
    judged = {name: ~np.isnan(row) for name, row in credit.items()}
    eligible = [name for name, mask in judged.items() if mask.sum() >= MOST * len(items)]
    weights = _weights(items)
    shares = {
        name: float(np.nansum(weights * credit[name])) / max(1, float(weights[judged[name]].sum()))
        for name in eligible or credit
    }
    best = max(shares.values())
    return next(name for name, share in shares.items() if share >= best - EQUAL)


def agreement_figures(
    name: str, part: str, items: Sequence[Item], verdicts: Verdicts
) -> Iterator[Figure]:
    """Yield how far a way agrees with people on the items of a part."""
    weights, judged = _weights(items), int((verdicts >= 0).sum())
    queries = np.unique([item.query_id for item in items], return_inverse=True)[1].astype(np.int64)
    credit = credit_pairs(items, verdicts)
    right = np.bincount(queries, weights * np.nan_to_num(credit))
    of = np.bincount(queries, weights * ~np.isnan(credit))
    yield _figure(name, "concordance", part, estimate_share(right, of), judged)
    grades = np.array([[item.verdict for item in items], verdicts], np.int16)
    even = len(np.unique(weights)) < 2
    ratings = RatingMatrix((HUMAN, name), grades, queries, 3, None if even else weights)
    for found in agreement_with_people(ratings, _COEFFICIENTS):
        if what := _FIGURES.get((found.scale, found.coefficient)):
            ends = (found.value, found.low, found.high, nan)
            yield Figure(name, "", what, part, *ends, found.items, found.queries)


def _figure(of: str, what: str, scale: str, found: Estimate, items: int) -> Figure:
    ends = (found.value, found.low, found.high, nan)
    return Figure(of, "", what, scale, *ends, items, found.queries)


# --- differences ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gain:
    """By how much a way agrees more with people than another, on the pairs that both judged.

    ``value`` and ``other_value`` are their shares of the pairs (`credit_pairs`); the interval of
    the difference is over samples of queries, and p of a paired t-test over queries, NaN where none
    was made. ``needed`` queries would show such a difference; 0 if none would.
    """

    way: str
    other: str
    value: float
    other_value: float
    difference: float
    low: float
    high: float
    p: float
    items: int
    queries: int
    needed: int

    @property
    def is_better(self) -> bool:
        """Return whether it is significantly better."""
        return self.difference > 0 and self.p <= LEVEL

    def figure(self, scale: str, pairs: int) -> Figure:
        """Return the difference as a figure; without a test its p is corrected for all pairs."""
        ends = (self.difference, self.low, self.high)
        p = p_of_interval(*ends, self.queries, pairs) if isnan(self.p) and pairs else self.p
        return Figure(self.way, self.other, "difference", scale, *ends, p, self.items, self.queries)


def measure_gain(
    items: Sequence[Item],
    verdicts: Mapping[str, Sequence[int] | Verdicts],
    way: str,
    other: str,
    *,
    measure: Measure = "concordance",
    tested: bool = False,
) -> Gain:
    """Measure by how much a way agrees more with people than another.

    The difference is of shares of pairs, and its interval over samples of queries; p, if it is
    ``tested``, is of a paired t-test over queries.
    """
    credit, other_credit = (credit_pairs(items, verdicts[n], measure) for n in (way, other))
    both = ~np.isnan(credit + other_credit)
    names = np.array([item.query_id for item in items])[both]
    query_ids, query = np.unique(names, return_inverse=True)
    weights = _weights(items)

    def sums(values: Floats) -> Floats:
        return np.bincount(query, (weights * values)[both], len(query_ids)).astype(np.float64)

    differences, pairs = sums(credit - other_credit), sums(np.ones(len(items)))
    total = max(1.0, float(pairs.sum()))
    found = estimate_share(differences, pairs)
    p = float(paired_test(differences[np.newaxis], 0.95).p[0]) if tested else nan
    value, other_value = (float(sums(row).sum()) / total for row in (credit, other_credit))
    return Gain(
        *(way, other, value, other_value, found.value, found.low, found.high, p),
        *(int(both.sum()), len(query_ids), count_needed(differences, pairs)),
    )


# --- costs ----------------------------------------------------------------------------------------


COST = ("calls", "tokens", "dollars", "unpriced")
"""What a cost is, as an array: input and output tokens, US dollars, answers without a price."""


class _KeyRecorder:
    """Replies that record the keys of all requests, whether found or not."""

    def __init__(self, replies: Replies) -> None:
        self._replies, self.keys = replies, dict[str, None]()

    def contains(self, keys: Sequence[str]) -> list[bool]:
        self.keys |= dict.fromkeys(keys)
        return self._replies.contains(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        return self._replies.read(keys)


def requests_of(
    plan: AnnotateOptions, panel: Sequence[Judge], ledger: Replies | Ledger
) -> dict[str, list[str]]:
    """Return the keys of all requests of a run by query id.

    Missing replies count as failed, so that requests of interrupted runs, and of runs that went on
    without some judges, are found too.
    """
    protocol, missing = load_protocol(plan.protocol), Disabled(StopReason.MISSING, "not there")
    disabled, asked = {judge.name: missing for judge in panel}, dict[str, list[str]]()
    for line in read_lines(plan.inputs[0], LineLimits()):
        if line.pool:
            recorder = _KeyRecorder(ledger)
            advance(protocol.rounds(line.pool, panel, plan), recorder, disabled)
            asked[line.pool.query_id] = [*recorder.keys]
    return asked


def cost_requests(rows: Iterable[Reply]) -> dict[str, Floats]:
    """Return the cost of each request by its key: of all billed answers, used or not."""
    costs = defaultdict[str, Floats](lambda: np.zeros(len(COST)))
    attempts = dict[tuple[str, str], int]()  # by run, too, because each run counts from 1
    for row in rows:
        before = attempts.get((row.key, row.run_id), 0)
        attempts[row.key, row.run_id] = after = max(before, row.attempts)
        tokens, dollars = row.input_tokens + row.output_tokens, row.dollars
        costs[row.key] += (after - before, tokens, dollars or 0.0, dollars is None)
    return dict(costs)


def cost_once(keys: Iterable[str], costs: Mapping[str, Floats]) -> Floats:
    """Return the cost of requests, each once."""
    return sum((costs[key] for key in dict.fromkeys(keys) if key in costs), np.zeros(len(COST)))


def cost_queries(
    asked: Mapping[str, Sequence[str]], costs: Mapping[str, Floats]
) -> dict[str, Floats]:
    """Return the cost of each query of a way. A request of two queries counts for the first."""
    counted, totals = set[str](), dict[str, Floats]()
    for query_id, keys in asked.items():
        totals[query_id] = cost_once((key for key in keys if key not in counted), costs)
        counted |= {*keys}
    return totals


def cost_figures(
    name: str, part: str, items: Sequence[Item], verdicts: Verdicts, costs: Mapping[str, Floats]
) -> Iterator[Figure]:
    """Yield what a way's verdicts cost, and a correct one, over queries; NaN without a price."""
    query_ids, query = np.unique([item.query_id for item in items], return_inverse=True)
    correct = verdicts == [item.verdict for item in items]
    right = np.bincount(query, correct, len(query_ids)).astype(np.float64)
    every = np.ones(len(query_ids), np.bool_)  # those without a correct verdict cost money too
    spent = np.array([costs.get(query_id, np.zeros(len(COST))) for query_id in query_ids.tolist()])
    spent[spent[:, 3] > 0, 2] = nan
    for column, what in enumerate(COST[:3]):
        table, judged = np.stack([spent[:, column], right], axis=1), int((verdicts >= 0).sum())
        yield _figure(name, what, part, estimate(table, every, lambda sums: sums[..., 0]), judged)
        if what != "tokens":
            each = estimate(table, every, quotient)
            yield _figure(name, f"{what} per correct pair", part, each, judged)
