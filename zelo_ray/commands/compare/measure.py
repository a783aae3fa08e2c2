"""Measure ways of judging: what their scores say of pairs, and figures of agreement and costs."""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, isnan, nan

import numpy as np

from zelo_ray.commands.compare.items import Item
from zelo_ray.engine.request_costs import COST, Cost
from zelo_ray.evaluation.agreement import Estimate, RatingMatrix, estimate, quotient
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.evaluation.pairs import Gain, LabelledPairs, p_of_interval
from zelo_ray.evaluation.ranking import Ints
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
from zelo_ray.files.tables import read_table
from zelo_ray.report.figures import Figure

Scores = Mapping[tuple[str, str], float]
"""By query and document."""
_COEFFICIENTS = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "mcc")}
FIGURES = {
    (WITH_TIES, "agreement"): "agreement",
    (WITH_TIES, "alpha-nominal"): "alpha",
    (A_OR_NOT, "mcc"): "MCC",
    (DECIDED, "agreement"): "agreement, decided",
    (DECIDED, "alpha-nominal"): "alpha, decided",
    (DECIDED, "mcc"): "MCC, decided",
}
"""By scale and coefficient, how a figure is called; decided: where neither says a tie."""
_SAME_SCORE = 1e-9


def read_scores(out: str) -> Scores:
    """Read the scores of a run."""
    columns = ("query_id", "doc_id", "score")
    table = read_table(out, "scores", columns)
    rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return {(query_id, doc_id): nan if s is None else s for query_id, doc_id, s in rows}


def verdicts_of(scores: Scores, items: Iterable[Item]) -> Ints:
    """Return which document of each item scores higher; -1 where a score is missing."""
    return np.array([_verdict(scores, item) for item in items], np.int64)


def _verdict(scores: Scores, item: Item) -> int:
    a, b = (scores.get((item.query_id, doc), nan) for doc in (item.doc_id_a, item.doc_id_b))
    if not (isfinite(a) and isfinite(b)):
        return -1
    return TIE if abs(a - b) <= _SAME_SCORE else A_BETTER if a > b else B_BETTER


def agreement_figures(
    way: str, part: str, pairs: LabelledPairs, verdicts: Ints
) -> Iterator[Figure]:
    """Yield how far a way agrees with people on the pairs of a part."""
    judged = int((verdicts >= 0).sum())
    yield _figure(way, "concordance", part, pairs.share(pairs.credit(verdicts)), judged)
    grades = np.array([pairs.verdicts, verdicts], np.int16)
    weights = None if len(np.unique(pairs.weights)) < 2 else pairs.weights
    ratings = RatingMatrix((HUMAN, way), grades, pairs.queries, 3, weights)
    for found in agreement_with_people(ratings, _COEFFICIENTS):
        if what := FIGURES.get((found.scale, found.coefficient)):
            known = Estimate(found.value, found.low, found.high, found.queries)
            yield _figure(way, what, part, known, found.items)


def cost_figures(
    way: str, part: str, pairs: LabelledPairs, verdicts: Ints, costs: Mapping[str, Cost]
) -> Iterator[Figure]:
    """Yield what a way's verdicts cost, and a correct one, over queries; NaN without a price."""
    right = np.bincount(pairs.queries, verdicts == pairs.verdicts, len(pairs.query_ids))
    every = np.ones(len(right), np.bool_)  # those without a correct verdict cost money too
    spent = np.array([costs.get(query_id, np.zeros(len(COST))) for query_id in pairs.query_ids])
    spent[spent[:, 3] > 0, 2] = nan
    for column, what in enumerate(COST[:3]):
        table, judged = np.stack([spent[:, column], right], axis=1), int((verdicts >= 0).sum())
        yield _figure(way, what, part, estimate(table, every, lambda sums: sums[..., 0]), judged)
        if what != "tokens":
            each = estimate(table, every, quotient)
            yield _figure(way, f"{what} per correct pair", part, each, judged)


def _figure(of: str, what: str, scale: str, found: Estimate, items: int) -> Figure:
    ends = (found.value, found.low, found.high, nan)
    return Figure(of, "", what, scale, *ends, items, found.queries)


def gain_figure(gain: Gain, part: str, tests: int) -> Figure:
    """Return a difference as a figure; without a test its p is corrected for so many ``tests``."""
    ends = (gain.difference, gain.low, gain.high)
    p = p_of_interval(*ends, gain.queries, tests) if isnan(gain.p) and tests else gain.p
    return Figure(gain.way, gain.other, "difference", part, *ends, p, gain.items, gain.queries)
