"""Compute intervals, tests and probabilities for a bake-off, from metrics per query.

The queries are the sample: intervals are about other samples of such queries. Every table has a row
for each ranker (or pair of rankers) and a column for each query, with NaN where there is no metric.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum, auto
from math import isnan, log2, nan, sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy

from zelo_ray.evaluation.ranking import Floats, Ints
from zelo_ray.records import Comparison, Estimate

FEWEST = 5  # with fewer queries no interval is given
TIE = 1e-12  # metrics, which are of the order of 1, that differ by less differ by rounding
FEW = 16  # with fewer differences other than 0, all signs are enumerated: at most 32,768 cases
ALPHA = 0.05  # differences with a smaller p, after Holm's correction, are significant
POWER = 0.8  # the chance to find one, where it is said how many queries that takes
LABELS_SURE = 0.95  # of the draws of the labels: the share in which a decision must hold, too
TEST = "paired t-test over queries, with the exact test of signs where few differ"


class StudentTest(NamedTuple):
    """Means of rows, with intervals and two-sided p for a true mean of 0: [rows] each."""

    mean: Floats
    low: Floats
    high: Floats
    p: Floats
    queries: Ints

    @property
    def chance_above(self) -> Floats:
        """Return the chance that the true mean is above 0, with a flat prior; NaN as ``low``."""
        chance = np.where(self.mean > 0, 1 - self.p / 2, self.p / 2)
        return np.where(np.isnan(self.low), np.nan, chance)

    def rows(self) -> Iterator[tuple[float, float, float, int]]:
        """Yield mean, low, high and queries of each row."""
        columns = (self.mean, self.low, self.high, self.queries)
        return zip(*(column.tolist() for column in columns), strict=True)


def student_test(values: Floats, confidence: float, labelled: Ints | None = None) -> StudentTest:
    """Estimate the mean of each row, and test whether it is 0, by Student's t over queries.

    Of values [rows, queries], NaN is left out. Where people's labels correct them, ``labelled``
    says how many queries have labels that bear on the row, [rows], for the degrees of freedom.
    Intervals and p are NaN without `FEWEST` queries (with labels, if given).
    """
    defined = ~np.isnan(values)
    queries = defined.sum(axis=1)
    free = queries - 1 if labelled is None else np.minimum(queries, labelled) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(values, axis=1) / queries
        squares = np.where(defined, values - mean[:, np.newaxis], 0.0) ** 2
        error = np.sqrt(squares.sum(axis=1) / (queries - 1) / queries)
        mean[np.abs(mean) <= TIE] = 0.0
        error[error <= TIE] = 0.0
        t = np.where(mean == 0, 0.0, mean / error)
        half = scipy.special.stdtrit(free, (1 + confidence) / 2) * error
    low, high, p = (
        np.where(free >= FEWEST - 1, column, np.nan)
        for column in (mean - half, mean + half, 2 * scipy.special.stdtr(free, -np.abs(t)))
    )
    return StudentTest(mean, low, high, p, queries)


def paired_test(differences: Floats, confidence: float) -> StudentTest:
    """Test differences by Student's t, and few or equal ones by their signs, too.

    Where all differences are equal, or fewer than 16 are not 0, t trusts a spread that it
    cannot know (five equal differences have p 0). Then p is the larger one of t and of the
    exact test of signs (Fisher 1935, The Design of Experiments, section 21), and an interval
    that p contradicts reaches to 0. Without `FEWEST` queries p is that of the signs.
    """
    test = student_test(differences, confidence)
    _, low, high, p, _ = test
    counts = np.abs(np.nan_to_num(differences)) > TIE
    least = np.nanmin(differences, axis=1, initial=np.inf)
    equal = np.nanmax(differences, axis=1, initial=-np.inf) - TIE <= least
    for row in np.flatnonzero((counts.sum(axis=1) < FEW) | equal):
        p[row] = np.fmax(p[row], _test_signs(differences[row, counts[row]]))
        if p[row] > 1 - confidence:
            low[row], high[row] = np.minimum(low[row], 0), np.maximum(high[row], 0)
    return test


def _test_signs(values: Floats) -> float:
    """Return the two-sided p over all signs of values that are not 0."""
    if not len(values):
        return 1.0
    if len(values) >= FEW:  # all are equal, and no other signs are as far out
        return float(2.0 ** (1 - len(values)))
    sums = values[:1]  # and its mirror image, which need not be computed
    for value in values[1:]:
        sums = np.concatenate([sums + value, sums - value])
    return float((np.abs(sums) >= abs(sums[0]) - TIE * len(values)).mean())


def mean_metrics(values: Floats, confidence: float) -> StudentTest:
    """Return the mean of each row of metrics; intervals of values in [0, 1] stay there."""
    test, filled = student_test(values, confidence), np.nan_to_num(values)
    low = np.where((filled >= 0).all(axis=1), np.maximum(test.low, 0), test.low)
    high = np.where((filled <= 1).all(axis=1), np.minimum(test.high, 1), test.high)
    return test._replace(low=low, high=high)


def holm(p: Floats) -> Floats:
    """Correct p values, [tests], for their number: any false alarm has at most the chance alpha.

    By the steps of Holm (1979, Scand. J. Statist. 6:65): tests may depend on each other.
    """
    order = np.argsort(p)
    scaled = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(scaled, 1.0)
    return adjusted


def compare_pairs(
    values: Mapping[str, Floats],
    rankers: Sequence[str],
    *,
    confidence: float,
    drawn: Iterable[Mapping[str, Floats]] = (),
    labelled: Mapping[str, Ints] | None = None,
    estimate: Estimate = "panel",
) -> list[Comparison]:
    """Compare all pairs of rankers by all measures, each on the queries where both have a metric.

    Values are [rankers, queries], NaN where there is none. ``drawn`` are values under draws of
    the labels, which give ``p_labels``; ``labelled`` is by measure, [rankers, rankers], as in
    `student_test`. With fewer than 5
    common queries the interval and ``p_better`` are NaN. Errors of labels are part of the
    variance between queries, so ``p`` includes them; ``p_labels`` is the share of the draws in
    which A's mean over these very queries is above B's, ties as half. Holm's correction counts
    the pairs that differ on any query. Wins, ties and losses are 0 where labels correct the
    metrics.
    """
    shares, comparisons = _share_above(values, drawn), list[Comparison]()
    for measure, metrics in values.items():
        is_share = ((metrics >= 0) & (metrics <= 1) | np.isnan(metrics)).all()
        for a in range(len(rankers) - 1):  # in blocks, for there may be many queries
            first, others = metrics[a], metrics[a + 1 :]
            differences = first - others
            differences[np.abs(differences) <= TIE] = 0.0
            if labelled is None:
                test = paired_test(differences, confidence)
            else:
                test = student_test(differences, confidence, labelled[measure][a, a + 1 :])
            if is_share:
                test = test._replace(low=np.maximum(test.low, -1), high=np.minimum(test.high, 1))
            sides = (np.where(np.isnan(differences), np.nan, side) for side in (first, others))
            means = [student_test(side, confidence).mean for side in sides]
            chances = (np.ones(len(others)), test.chance_above, shares[measure][a, a + 1 :])
            signs = np.sign(differences)
            counts = [(signs == sign).sum(axis=1) for sign in (1, 0, -1)]
            columns = (*means, *test[:4], *chances, test.queries, *counts)
            rows: Any = zip(*(column.tolist() for column in columns), strict=True)
            comparisons += [
                Comparison(rankers[a], ranker, measure, *(*row, estimate))
                for ranker, row in zip(rankers[a + 1 :], rows, strict=True)
            ]
    tested = [n for n, row in enumerate(comparisons) if row.wins + row.losses and not isnan(row.p)]
    for n, p in zip(
        tested, holm(np.array([comparisons[n].p for n in tested])).tolist(), strict=True
    ):
        comparisons[n] = replace(comparisons[n], p_holm=p)
    if labelled is None:
        return comparisons
    return [replace(row, wins=0, ties=0, losses=0) for row in comparisons]


def _share_above(
    values: Mapping[str, Floats], drawn: Iterable[Mapping[str, Floats]]
) -> dict[str, Floats]:
    """Return the share of draws with A above B on their common queries, [rankers, rankers]."""
    defined = {name: (~np.isnan(metrics)).astype(np.float64) for name, metrics in values.items()}
    above = {name: list[Floats]() for name in values}
    for draw in drawn:
        for name, mask in defined.items():
            sums = (np.nan_to_num(draw[name]) * mask) @ mask.T
            differences = (sums - sums.T) / np.maximum(mask @ mask.T, 1)
            above[name].append(np.where(np.abs(differences) <= TIE, 0.5, differences > 0))
    unknown = {name: np.full((len(metrics),) * 2, nan) for name, metrics in values.items()}
    return {name: np.mean(above[name] or [unknown[name]], axis=0) for name in values}


def label_draws(relevance: Floats, std_error: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Draw possible true labels, [rows], by their standard errors; one whose error is NaN is exact.

    Scores are of a nearly normal posterior; their correlations are left out, for none is stored.
    """
    errors, rng = np.nan_to_num(std_error), np.random.default_rng([2, seed % 2**64])
    for _ in range(draws):
        yield relevance + errors * rng.standard_normal(len(relevance))


def share_interval(share: Any, count: Any) -> tuple[Any, Any]:
    """Return the 95% intervals of shares out of ``count`` (Wilson 1927, JASA 22:209)."""
    z = 1.959964
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    variance = share * (1 - share) / count + z * z / (4 * count * count)
    half = z / (1 + z * z / count) * np.sqrt(variance)
    return middle - half, middle + half


def queries_needed(tests: int) -> int:
    """Return the fewest queries with which one of so many tests can be significant.

    Its smallest p is 2 / 2**queries, which Holm multiplies by the number of tests.
    """
    return max(FEWEST, int(log2(2 * max(tests, 1) / ALPHA)) + 1)


def detectable_shift(means: Floats, tests: int) -> float:
    """Return the mean shift that a test finds with a chance of 80%, from the shifts of queries.

    At the level that Holm's correction leaves the smallest of ``tests`` p values. A noncentral
    t lies beyond its quantile with a chance of 80% (by its normal approximation: Johnson &
    Welch 1940, Biometrika 31:362). NaN with too few queries for any p as small, or if nothing
    moved.
    """
    n = len(means)
    if n < queries_needed(tests) or (spread := float(means.std(ddof=1))) <= TIE:
        return nan
    t = float(scipy.special.stdtrit(n - 1, 1 - ALPHA / tests / 2))
    steps = t + float(scipy.special.ndtri(POWER)) * sqrt(1 + t * t / (2 * (n - 1)))
    return steps * spread / sqrt(n)


class Significance(Enum):
    """Significance of the difference between rankers A and B, seen from A."""

    BELOW = auto()
    NOT_SIGNIFICANT = auto()
    """the difference may be due to chance"""
    LABELS_COULD_TURN_IT = auto()
    """significant over queries, but not certain under the standard errors of the labels"""
    ONLY_BY_OWN_FAMILY = auto()
    """significant only with judges of the same model family as one of the two"""
    TOO_FEW_QUERIES = auto()
    TOO_FEW_LABELS = auto()
    ABOVE = auto()

    @property
    def is_significant(self) -> bool:
        """Return whether one of the two is significantly better."""
        return self in (Significance.ABOVE, Significance.BELOW)


def significance_of(row: Comparison) -> Significance:
    """Return the significance of the difference, seen from A."""
    if row.queries < FEWEST:
        return Significance.TOO_FEW_QUERIES
    if row.estimate in ("people", "corrected") and isnan(row.p):
        return Significance.TOO_FEW_LABELS
    if not row.p_holm < ALPHA:
        return Significance.NOT_SIGNIFICANT
    same = row.p_labels if row.difference > 0 else 1 - row.p_labels
    if same < LABELS_SURE:  # false for NaN: labels without standard errors
        return Significance.LABELS_COULD_TURN_IT
    if row.family:
        return Significance.ONLY_BY_OWN_FAMILY
    return Significance.ABOVE if row.difference > 0 else Significance.BELOW


def count_tested(rows: Iterable[Comparison]) -> int:
    """Count the comparisons that Holm's correction counts: of rankers that differ on any query."""
    return sum(
        not isnan(row.p_holm) and (row.estimate != "panel" or row.wins + row.losses > 0)
        for row in rows
    )


def swap_rankers(row: Comparison) -> Comparison:
    """Return the same comparison with A and B exchanged."""
    return replace(
        row,
        run_a=row.run_b,
        run_b=row.run_a,
        mean_a=row.mean_b,
        mean_b=row.mean_a,
        difference=-row.difference,
        low=-row.high,
        high=-row.low,
        p_better=1 - row.p_better,
        p_labels=1 - row.p_labels,
        wins=row.losses,
        losses=row.wins,
    )
