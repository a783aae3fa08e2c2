"""Protocols against people: on which items they say the same, and what a correct verdict costs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zelo_ray.agreement import COEFFICIENTS, Agreement, Ratings, agreements
from zelo_ray.agreement.differences import Difference, differences
from zelo_ray.agreement.intervals import FEWEST, draws, interval
from zelo_ray.formats.results import read_table
from zelo_ray.formats.verdicts import HUMAN
from zelo_ray.trials.costs import Bill
from zelo_ray.trials.outcome import Cost, Estimate, Outcome, Trial
from zelo_ray.trials.people import A_BETTER, B_BETTER, TIE, Item

Floats = NDArray[np.float64]
Words = NDArray[np.int16]

_COEFFICIENTS = {name: COEFFICIENTS[name] for name in ("agreement", "alpha-nominal", "mcc")}
_OF_AGREEMENT = {
    "agreement": ("0-2", "agreement"),
    "alpha": ("0-2", "alpha-nominal"),
    "mcc": (">=2", "mcc"),
    "agreement_decided": ("0-1", "agreement"),
    "alpha_decided": ("0-1", "alpha-nominal"),
    "mcc_decided": ("0-1", "mcc"),
}
"""By the name of a figure: the scale and the coefficient that it is. The words on an item are 0 for
B, 1 for a tie and 2 for A; on the decided ones 0 for B and 1 for A."""
FIGURES = (*_OF_AGREEMENT, "dollars", "calls", "dollars_per_correct", "calls_per_correct")
"""What is told of a protocol, in this order."""
_EQUAL = 1e-9
"""Scores as near as this are equal: what rounding leaves of them."""


def word(scores: Mapping[tuple[str, str], float], item: Item) -> int:
    """Which of an item's documents has the higher score, or a tie; -1 where one has no score."""
    pair = (item.doc_id_a, item.doc_id_b)
    a, b = (scores.get((item.query_id, doc_id), np.nan) for doc_id in pair)
    if not (isfinite(a) and isfinite(b)):
        return -1
    return TIE if abs(a - b) <= _EQUAL else A_BETTER if a > b else B_BETTER


def words_of(out: str, items: Iterable[Item]) -> list[int]:
    """A protocol's `word` on each item, from the scores that it left under a directory or URL."""
    columns = ("query_id", "doc_id", "score")
    table = read_table(out, "scores", columns)
    query_ids, doc_ids, scores = (table[name].to_pylist() for name in columns)
    known = dict(zip(zip(query_ids, doc_ids, strict=True), scores, strict=True))
    return [word(known, item) for item in items]


def measure(
    items: Sequence[Item],
    words: Mapping[str, Sequence[int]],
    bills: Mapping[str, Mapping[str, Bill]],
    together: Bill,
    *,
    resamples: int,
    seed: int,
) -> Outcome:
    """Hold protocols against people, and their costs beside each other.

    Args:
        items: what people have a word on.
        words: by protocol, its word on each item; -1 where it gave none.
        bills: by protocol, what each query cost.
        together: what was paid for all protocols.
        resamples: how many samples of queries are drawn.
        seed: all chance follows from it.
    """
    named, query = np.unique([item.query_id for item in items], return_inverse=True)
    query_ids: list[str] = named.tolist()
    said = np.array([[item.word for item in items], *words.values()], dtype=np.int16)
    ratings = Ratings((HUMAN, *words), said, query.astype(np.int64), 3)
    chance = {"resamples": resamples, "seed": seed}
    outcome = Outcome([], [], _differences(ratings, **chance), together)
    for row, name in enumerate(words, start=1):
        billed = [bills[name].get(query_id, Bill()) for query_id in query_ids]
        costs = [*_by_query(ratings, row, query_ids, billed)]
        right = np.array([float(cost.correct) for cost in costs])
        figures = _agreement(ratings, row, **chance) | _costs(billed, right, **chance)
        outcome.trials.append(_trial(said[[0, row]], name, costs, billed, figures))
        outcome.costs += costs
    return outcome


def _by_query(
    ratings: Ratings, row: int, query_ids: Sequence[str], bills: Sequence[Bill]
) -> Iterator[Cost]:
    """What a protocol got for its money, query by query."""
    human, said = ratings.grades[[0, row]]
    columns = (
        np.bincount(ratings.queries, each, len(query_ids)).astype(np.int64).tolist()
        for each in (np.ones(len(said)), said >= 0, said == human)
    )
    for query_id, bill, *counts in zip(query_ids, bills, *columns, strict=True):
        spent = np.nan if bill.unpriced else bill.dollars
        yield Cost(ratings.raters[row], query_id, bill.calls, spent, *counts)


def _trial(
    said: Words,
    name: str,
    costs: Sequence[Cost],
    bills: Sequence[Bill],
    figures: Mapping[str, Estimate],
) -> Trial:
    """One protocol's row; ``said`` are the people's words and its own, [2, items]."""
    decided = (said >= 0).all(axis=0) & (said != TIE).all(axis=0)
    total = Bill()
    for bill in bills:
        total.add(bill)
    return Trial(
        protocol=name,
        items=said.shape[1],
        judged=sum(cost.judged for cost in costs),
        correct=sum(cost.correct for cost in costs),
        decided=int(decided.sum()),
        decided_correct=int((said[0] == said[1])[decided].sum()),
        queries=sum(cost.judged > 0 for cost in costs),
        bill=total,
        figures={each: figures[each] for each in FIGURES},
    )


def _decided(ratings: Ratings) -> Ratings:
    """The same, on two levels: ties are taken as if nothing had been said."""
    said = np.select([ratings.grades == A_BETTER, ratings.grades == B_BETTER], [1, 0], -1)
    return Ratings(ratings.raters, said.astype(np.int16), ratings.queries, 2)


def _agreement(ratings: Ratings, row: int, *, resamples: int, seed: int) -> dict[str, Estimate]:
    two = Ratings(
        (HUMAN, ratings.raters[row]), ratings.grades[[0, row]], ratings.queries, ratings.levels
    )
    found: dict[tuple[str, str], Agreement] = {}
    for each in (two, _decided(two)):
        known, _ = agreements(
            each, {}, _COEFFICIENTS, thresholds=[A_BETTER], resamples=resamples, seed=seed
        )
        found |= {(one.scale, one.coefficient): one for one in known}
    return {
        name: Estimate(found[of].value, found[of].low, found[of].high)
        for name, of in _OF_AGREEMENT.items()
    }


def _costs(
    bills: Sequence[Bill], correct: NDArray[Any], *, resamples: int, seed: int
) -> dict[str, Estimate]:
    """What all was, and what a correct verdict was, in dollars and in calls."""
    dollars = np.array([np.nan if bill.unpriced else bill.dollars for bill in bills])
    calls = np.array([float(bill.calls) for bill in bills])
    queries = len(bills)
    drawn = draws(queries, resamples if queries >= FEWEST else 0, seed)
    found = {}
    for name, spent in (("dollars", dollars), ("calls", calls)):
        sums, rights = drawn @ spent, drawn @ correct
        value, right = float(spent.sum()), float(correct.sum())
        found[name] = _with_interval(value, sums, queries)
        each = value / right if right else np.nan
        per = np.divide(sums, rights, out=np.full_like(sums, np.nan), where=rights > 0)
        found[f"{name}_per_correct"] = _with_interval(each, per, queries)
    return found


def _with_interval(value: float, samples: Floats, queries: int) -> Estimate:
    return Estimate(value, *(interval(samples, queries) if isfinite(value) else (np.nan, np.nan)))


def _differences(ratings: Ratings, *, resamples: int, seed: int) -> list[Difference]:
    """Every two protocols, with ties and on what all decided."""
    pairs = [*combinations(ratings.raters[1:], 2)]
    found: list[Difference] = []
    for each, cuts in ((ratings, [A_BETTER]), (_decided(ratings), [])):
        found += differences(
            *(each, HUMAN, pairs, _COEFFICIENTS),
            resamples=resamples,
            seed=seed,
            thresholds=cuts,
        )
    wanted = set(_OF_AGREEMENT.values())
    return [one for one in found if (one.scale, one.coefficient) in wanted]
