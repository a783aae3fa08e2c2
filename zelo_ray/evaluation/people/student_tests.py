"""Test differences that depend on people's labels, by Student's t over queries.

Bootstrap percentiles are too narrow if a few labels have large weights, and a sign-flip test over
all queries is too confident in the panel where there is no label (``benchmarks/people.py``). A
query without a label of a document that two rankers rank differently is no evidence of how such
labels vary, so it gives no degree of freedom.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy

from zelo_ray.evaluation.people.frame import Ints
from zelo_ray.evaluation.people.sampling_design import Floats
from zelo_ray.evaluation.significance import FEWEST, TIE, holm
from zelo_ray.records import Comparison, Estimate


def compare_with_labels(
    values: Mapping[str, Floats],
    rankers: Sequence[str],
    labelled: Mapping[str, Ints],
    confidence: float,
    estimate: Estimate,
) -> list[Comparison]:
    """Compare all pairs of rankers by all measures, each on the queries where both have a metric.

    Args:
        values: by measure, metrics of shape [rankers, queries]; NaN: not answered.
        rankers: names of the runs.
        labelled: by measure, how many queries have labels that distinguish two rankers, [rankers,
            rankers].
        confidence: chance with which an interval is to hold the true mean.
        estimate: the source of the metrics.

    Returns:
        By measure and pair in the order given; NaN with fewer than 5 such queries. Holm's
        correction leaves out pairs that are equal on every query. Wins, ties and
        losses are 0: a metric that few labels correct means little for a single query.
    """
    pairs = [*combinations(range(len(rankers)), 2)]
    first, second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
    columns = []
    for measure, table in values.items():
        metrics_a, metrics_b = table[first], table[second]
        common = ~(np.isnan(metrics_a) | np.isnan(metrics_b))
        count = common.sum(axis=1)
        label_counts = labelled[measure][first, second]
        low, high, p, above = student_intervals(
            np.where(common, metrics_a - metrics_b, np.nan), label_counts, confidence
        )
        sides = (np.where(common, side, 0.0).sum(axis=1) for side in (metrics_a, metrics_b))
        with np.errstate(invalid="ignore"):
            mean_a, mean_b = (side / count for side in sides)
        differ = (common & (np.abs(metrics_a - metrics_b) > TIE)).any(axis=1)
        columns.append((mean_a, mean_b, mean_a - mean_b, low, high, p, above, count, differ))
    joined = (np.concatenate(column) for column in zip(*columns, strict=True))
    mean_a, mean_b, apart, low, high, p, above, count, differ = joined
    mask = ~np.isnan(p) & differ
    corrected = np.ones(len(p))
    corrected[mask] = holm(p[mask])
    names = [(rankers[a], rankers[b], measure) for measure in values for a, b in pairs]
    floats = (mean_a, mean_b, apart, low, high, p, corrected, above, np.full(len(p), np.nan))
    wins = ties = losses = np.zeros(len(p), np.int64)
    plain = (column.tolist() for column in (*floats, count, wins, ties, losses))
    rows: Any = zip(*plain, [estimate] * len(p), strict=True)
    return [Comparison(*name, *row) for name, row in zip(names, rows, strict=True)]


def student_intervals(
    differences: Floats, labelled: Ints, confidence: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Compute intervals and tests of means over queries.

    Args:
        differences: of shape [pairs, queries]; NaN is left out.
        labelled: how many queries have labels that distinguish the two, [pairs]; the degrees of
            freedom are at most one less.
        confidence: chance with which an interval is to hold the true mean.

    Returns:
        Lower and upper ends, two-sided p, and the chance that the true mean is above 0, [pairs];
        NaN with fewer than 5 queries, or fewer than 5 with such labels.
    """
    count = (~np.isnan(differences)).sum(axis=1)
    free = np.minimum(count, labelled) - 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(differences, axis=1) / count
        squares = np.nansum((differences - mean[:, np.newaxis]) ** 2, axis=1)
        error = np.sqrt(squares / (count - 1) / count)
        t = np.where(np.abs(mean) <= TIE, 0.0, mean / error)
    half = scipy.special.stdtrit(free, (1 + confidence) / 2) * error
    above = scipy.special.stdtr(free, t)
    statistics = (mean - half, mean + half, 2 * scipy.special.stdtr(free, -np.abs(t)), above)
    low, high, p, chance = (
        np.where(free >= FEWEST - 1, statistic, np.nan) for statistic in statistics
    )
    return low, high, p, chance
