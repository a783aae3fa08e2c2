"""Measure agreement: of pairs of raters and of panels, and of raters with people, with intervals.

Intervals are of a bootstrap over queries, since items of a query are dependent. Two figures that
are compared are of the same samples: a query that is hard for one rater is hard for the other.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import nan

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.evaluation.coefficients import (
    Coefficient,
    Counts,
    Kind,
    RatingMatrix,
    count_pair,
    count_panel,
)
from zelo_ray.evaluation.ranking import Floats, Ints
from zelo_ray.evaluation.significance import FEWEST

SAMPLES, CONFIDENCE = 1000, 0.95
_UNDEFINED = 0.05
"""The share of samples that may be undefined: the others would be a biased selection."""
_CELLS = 2**21
"""Cells of sampled tables that are in memory at once: 16 MB."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A value, its 95% interval, and the number of its queries; NaN where it is unknown."""

    value: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """One coefficient, with its 95% interval, of two raters, or of the panel ``rater_a`` (B is "").

    ``scale`` is such as ``0-3``, or ``>=2`` for grades binarised there.
    """

    rater_a: str
    rater_b: str
    scale: str
    coefficient: str
    value: float
    low: float
    high: float
    items: int
    queries: int


@dataclass(frozen=True, slots=True)
class ConfusionCell:
    """The number of items to which one rater gave one grade, and the other another."""

    rater_a: str
    rater_b: str
    scale: str
    grade_a: int
    grade_b: int
    items: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between A's and B's agreement with people, on what all three judged.

    ``relative`` is the change from B to A in per cent, NaN where ``value_b`` is not above 0.
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


@lru_cache(maxsize=4)
def draw_samples(queries: int) -> Floats:
    """Return weights of queries, [1 + samples, queries]: all alike, and then those of samples."""
    rng = np.random.default_rng(queries)
    drawn = [rng.integers(0, queries, queries) for _ in range(SAMPLES if queries else 0)]
    counts = [np.ones(queries), *(np.bincount(each, minlength=queries) for each in drawn)]
    return np.array(counts, dtype=np.float64)


def estimate_values(values: Floats, queries: int) -> Figure:
    """Estimate a figure from its values under `draw_samples`, the first of which is its own.

    The interval is the expanded percentile one (Hesterberg 2015, Am. Stat. 69:371): plain
    percentiles are too narrow for few queries. NaN with fewer than 5 queries, or if the figure is
    undefined in more than one sample of 20.
    """
    value, samples = float(values[0]), np.sort(values[1:][~np.isnan(values[1:])])
    too_few = queries < FEWEST or len(samples) < (1 - _UNDEFINED) * (len(values) - 1)
    if too_few or np.isnan(value) or not len(samples):
        return Figure(value, nan, nan, queries)
    wider = scipy.special.stdtrit(queries - 1, (1 + CONFIDENCE) / 2)
    wider *= np.sqrt(queries / (queries - 1))
    places = scipy.special.ndtr([-wider, wider]) * (len(samples) - 1)
    low, high = np.interp(places, np.arange(len(samples)), samples)
    return Figure(value, float(low), float(high), queries)


def estimate(tables: Floats, known: NDArray[np.bool_], of: Callable[[Floats], Floats]) -> Figure:
    """Estimate a function of sums of tables, [queries, ...], over the queries that are known."""
    rows = tables[known]
    if not len(rows):
        return Figure(nan, nan, nan, 0)
    return estimate_values(of(np.tensordot(draw_samples(len(rows)), rows, axes=1)), len(rows))


def estimate_share(part: Floats | Ints, whole: Floats | Ints) -> Figure:
    """Estimate the sum of parts over the sum of wholes; both [queries]."""
    return estimate(np.stack([part, whole], axis=1).astype(np.float64), whole > 0, quotient)


def quotient(sums: Floats) -> Floats:
    """Return the first of two sums over the second, [..., 2] to [...]; NaN where that is 0."""
    part, total = sums[..., 0], sums[..., 1]
    return np.divide(part, total, out=np.full_like(part, np.nan), where=total > 0)


def measure_agreement(
    ratings: RatingMatrix,
    panels: Mapping[str, Sequence[str]],
    coefficients: Mapping[str, Coefficient],
    *,
    thresholds: Iterable[int] = (),
) -> tuple[list[Agreement], list[ConfusionCell]]:
    """Measure all pairs of raters, and panels of three or more.

    Args:
        ratings: the judgments of all raters.
        panels: raters that are measured together, by the panel's name; smaller ones are skipped.
        coefficients: by name.
        thresholds: grades from which a judgment counts as positive, in addition to the whole scale.

    Returns:
        Coefficients by pair (the rater that comes first in the ratings is A), then by panel.
        Confusions of the same pairs and scales, zeros too.
    """
    agreed, confused, cuts = list[Agreement](), list[ConfusionCell](), [*thresholds]
    for a, b in combinations(range(len(ratings.raters)), 2):
        names = ratings.raters[a], ratings.raters[b]
        for scale, counts in _scales(count_pair(ratings, a, b), ratings.levels, cuts):
            agreed += _agreements((*names, scale), counts, _for(coefficients, "many"))
        plain = count_pair(replace(ratings, weights=None), a, b)  # a confusion counts judgments
        for scale, counts in _scales(plain, ratings.levels, cuts):
            cells = np.ndenumerate(counts.tables["confusion"].sum(axis=0))
            confused += [ConfusionCell(*names, scale, a, b, int(n)) for (a, b), n in cells]
    for panel, raters in panels.items():
        if len(raters) > 2:
            rows = [ratings.raters.index(rater) for rater in raters]
            for scale, counts in _scales(count_panel(ratings, rows), ratings.levels, cuts):
                agreed += _agreements((panel, "", scale), counts, _for(coefficients, "two"))
    return agreed, confused


def _for(coefficients: Mapping[str, Coefficient], others: str) -> dict[str, Coefficient]:
    return {name: of for name, of in coefficients.items() if of.raters != others}


def scale_name(levels: int, threshold: int | None = None) -> str:
    """Return the name of a scale: ``0-3``, or ``>=2``."""
    return f"0-{levels - 1}" if threshold is None else f">={threshold}"


def _scales(counts: Counts, levels: int, cuts: Iterable[int]) -> Iterator[tuple[str, Counts]]:
    """Yield the counts on the whole scale, and binarised at some grades, by the scale's name."""
    yield scale_name(levels), counts
    for threshold in cuts if levels > 2 else ():
        yield scale_name(levels, threshold), counts.binarise(threshold)


def _agreements(
    where: tuple[str, str, str], counts: Counts, coefficients: Mapping[str, Coefficient]
) -> Iterator[Agreement]:
    for name, values in _values(counts, coefficients).items():
        found = estimate_values(values, counts.queries)
        yield Agreement(
            *where, name, found.value, found.low, found.high, counts.items, counts.queries
        )


def _values(counts: Counts, coefficients: Mapping[str, Coefficient]) -> dict[str, Floats]:
    """Return the value of each coefficient, and then those of samples of queries."""
    if not counts.queries:
        return {name: np.full(1, np.nan) for name in coefficients}
    weights = draw_samples(counts.queries)
    if counts.queries < FEWEST:
        weights = weights[:1]
    kinds: set[Kind] = {of.table for of in coefficients.values()}
    parts: dict[str, list[Floats]] = {name: [] for name in coefficients}
    step = max(1, _CELLS // counts.tables["by_items"][0].size)
    for start in range(0, len(weights), step):
        rows = weights[start : start + step]
        sums = {kind: np.tensordot(rows, counts.tables[kind], axes=1) for kind in kinds}
        for name, coefficient in coefficients.items():
            parts[name].append(coefficient.of(sums))
    return {name: np.concatenate(values) for name, values in parts.items()}


def compare_agreement(
    ratings: RatingMatrix,
    human: str,
    pairs: Iterable[tuple[str, str]],
    coefficients: Mapping[str, Coefficient],
    *,
    thresholds: Sequence[int] = (),
) -> list[Difference]:
    """Compare raters by their agreement with one that counts as the truth.

    Arguments are as in `measure_agreement`; ``human`` is the rater that counts as the truth. Two
    raters that judged nothing in common with the people have NaN, of no items.
    """
    rows, asked = list[Difference](), _for(coefficients, "many")
    for pair in pairs:
        chosen = [ratings.raters.index(name) for name in (human, *pair)]
        common = ratings.choose(chosen, (ratings.grades[chosen] >= 0).all(axis=0))
        sides = (_scales(count_pair(common, 0, i), common.levels, thresholds) for i in (1, 2))
        for (scale, first), (_, second) in zip(*sides, strict=True):
            of_a, of_b = (_values(counts, asked) for counts in (first, second))
            for name in asked:
                found = estimate_values(of_a[name] - of_b[name], first.queries)
                a, b = float(of_a[name][0]), float(of_b[name][0])
                rows.append(
                    Difference(
                        *(*pair, scale, name, a, b, found.value, found.low, found.high),
                        *(100 * found.value / b if b > 0 else nan, first.items, first.queries),
                    )
                )
    return rows
