"""Compare how well two raters agree with people, with an interval for the difference.

Both are compared on the same items and the same samples of queries: a query that is hard for one is
hard for the other, so the interval of the difference is narrower than those of the two values.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zelo_ray.evaluation.agreement.coefficients import Coefficient, binarised_scales
from zelo_ray.evaluation.agreement.counts import (
    Counts,
    Floats,
    Kind,
    RatingMatrix,
    count_pair,
    with_coincidences,
)
from zelo_ray.evaluation.agreement.intervals import FEWEST, interval, sample_tables


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference in agreement with people between A and B, on what all three judged.

    ``value_a`` and ``value_b`` are the coefficients of each with the people; ``low`` and ``high``
    are the 95% interval of their difference. ``relative`` is the change from B to A in per cent,
    NaN where ``value_b`` is not above 0. ``scale`` is as in `measured.Agreement`.
    """

    rater_a: str
    rater_b: str
    scale: str
    coefficient: str
    value_a: float
    value_b: float
    difference: float
    low: float
    high: float
    relative: float
    items: int
    queries: int


def differences(
    ratings: RatingMatrix,
    human: str,
    pairs: Iterable[tuple[str, str]],
    coefficients: Mapping[str, Coefficient],
    *,
    resamples: int,
    seed: int,
    thresholds: Sequence[int] = (),
) -> list[Difference]:
    """Compare raters by their agreement with one that counts as the truth.

    Args:
        ratings: the judgments of all raters.
        human: the rater that counts as the truth.
        pairs: raters to compare, A and B.
        coefficients: by name; those of many raters are skipped.
        resamples: how many samples of queries are drawn.
        seed: of the samples.
        thresholds: as in `measured.measure_agreement`.

    Returns:
        By pair, scale and coefficient, in the order given; NaN, of no items, for two raters that
        judged nothing in common with the people.
    """
    of_two = {
        name: coefficient
        for name, coefficient in coefficients.items()
        if coefficient.raters != "many"
    }
    cuts = [threshold for threshold in thresholds if ratings.levels > 2]
    rows: list[Difference] = []
    for pair in pairs:
        pair_ratings = _common(ratings, [ratings.raters.index(name) for name in (human, *pair)])
        sides = (
            binarised_scales(count_pair(pair_ratings, 0, i), pair_ratings.levels, cuts)
            for i in (1, 2)
        )
        for (scale, first), (_, second) in zip(*sides, strict=True):
            rows += _measure((*pair, scale), (first, second), of_two, resamples, seed)
    return rows


def _common(ratings: RatingMatrix, rows: Sequence[int]) -> RatingMatrix:
    """Return some raters, on the items that all of them judged."""
    return ratings.choose(rows, (ratings.grades[rows] >= 0).all(axis=0))


def _measure(
    where: tuple[str, str, str],
    pairs: tuple[Counts, Counts],
    coefficients: Mapping[str, Coefficient],
    resamples: int,
    seed: int,
) -> Iterator[Difference]:
    items, queries = pairs[0].items, pairs[0].queries
    enough = resamples if queries >= FEWEST else 0
    tables = [_tables(counts, enough, seed) for counts in pairs]
    for name, coefficient in coefficients.items():
        (a, *sampled_a), (b, *sampled_b) = (
            np.concatenate([coefficient.of(part) for part in parts]).tolist() for parts in tables
        )
        apart = a - b
        values = np.subtract(sampled_a, sampled_b)
        ends = (np.nan, np.nan) if np.isnan(apart) else interval(values, queries)
        relative = 100 * apart / b if b > 0 else np.nan
        yield Difference(*where, name, a, b, apart, *ends, relative, items, queries)


def _tables(counts: Counts, resamples: int, seed: int) -> list[dict[Kind, Floats]]:
    """Return the tables of all queries, and then those of samples of them."""
    totals = {kind: table.sum(axis=0, keepdims=True) for kind, table in counts.tables.items()}
    return [
        with_coincidences(sums) for sums in (totals, *sample_tables(counts.tables, resamples, seed))
    ]
