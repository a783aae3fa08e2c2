"""Compute intervals, tests and probabilities for a bake-off, from metrics per query.

The queries are the sample: intervals are about other samples of such queries. Every table has a row
for each ranker (or pair of rankers) and a column for each query, with NaN where a ranker has no
metric for a query. All rows are resampled together, so that rankers and measures stay paired. The
same seed and the same order of queries give the same numbers, whatever other rankers there are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.evaluation.bootstrap import FEWEST, bootstrap_intervals, bootstrap_means
from zelo_ray.evaluation.paired import Indices, PairedRows
from zelo_ray.evaluation.randomisation import holm, randomisation_test_for_many
from zelo_ray.evaluation.resampling import (
    TIE,
    Counts,
    Floats,
    count_of,
    mean_of,
    random_stream,
    row_slices,
)
from zelo_ray.records import Comparison, Mean

__all__ = [
    "FEWEST",
    "TIE",
    "Counts",
    "Floats",
    "bootstrap_means",
    "chance_above",
    "compare_pairs",
    "evaluate_rankers",
    "holm",
    "label_draws",
]


def evaluate_rankers(
    values: Mapping[str, Floats],
    answered: NDArray[np.bool_],
    rankers: Sequence[str],
    *,
    resamples: int,
    confidence: float,
    seed: int,
    drawn: Iterable[Mapping[str, Floats]] = (),
    uncompared: Collection[str] = (),
) -> tuple[list[Mean], list[Comparison]]:
    """Compute the means of rankers, and the uncertainty of each difference.

    A query that a ranker did not answer counts in its mean with its value in ``values`` (by custom
    0), and is left out of its comparisons.

    Args:
        values: by measure, metrics of shape [rankers, queries]; NaN: not defined for that query.
        answered: which queries each ranker answered, of shape [rankers, queries].
        rankers: names of the runs.
        resamples: how many samples of queries, and of signs, are drawn.
        confidence: chance with which an interval is to hold the true value.
        seed: all chance follows from it.
        drawn: for each draw of the labels, metrics by the same measures, of shape [rankers,
            queries]; they give ``p_labels``.
        uncompared: measures that get means only.

    Returns:
        Means by measure and ranker, and comparisons by measure and pair, in the order given: the
        ranker named first is A. ``p_holm`` is corrected over all comparisons.
    """
    table = np.concatenate([*values.values()])
    numbers = bootstrap_means(table, resamples=resamples, confidence=confidence, seed=seed)
    names = [(ranker, measure) for measure in values for ranker in rankers]
    rows = zip(*numbers, count_of(table), strict=True)
    averages = [Mean(*name, *_plain(row)) for name, row in zip(names, rows, strict=True)]
    common = {
        name: np.where(answered, metrics, np.nan)
        for name, metrics in values.items()
        if name not in uncompared
    }
    return averages, compare_pairs(
        common, rankers, resamples=resamples, confidence=confidence, seed=seed, drawn=drawn
    )


def compare_pairs(
    values: Mapping[str, Floats],
    rankers: Sequence[str],
    *,
    resamples: int,
    confidence: float,
    seed: int,
    drawn: Iterable[Mapping[str, Floats]] = (),
) -> list[Comparison]:
    """Compare all pairs of rankers by all measures, each on the queries where both have a metric.

    Arguments are as in `evaluate_rankers`, except that NaN also marks queries that a ranker did not
    answer. With fewer than 5 common queries the interval and ``p_better`` are NaN.

    ``p_better`` is the probability that A's mean over the population of such queries is above B's,
    by Student's t. Errors of labels are part of the variance between queries, so it includes them.
    ``p_labels`` is the share of the draws of ``drawn`` in which A's mean over these very queries is
    above B's: it shows whether other answers of the judges could reverse the result. The two must
    not be multiplied or mixed: draws are independent of the runs and shrink every difference.

    Holm's correction counts the pairs that differ on any query: if all differences are 0, the test
    cannot give a false alarm.
    """
    pairs = np.array([*combinations(range(len(rankers)), 2)], dtype=np.intp).reshape(-1, 2)
    names = [(rankers[a], rankers[b], measure) for measure in values for a, b in pairs]
    if not names:
        return []
    tables = [*values.values()]
    rows = PairedRows.of_pairs(tables, pairs)
    mean_a, mean_b, difference, p_better, count, *signs = _described(rows)
    differ = signs[0] + signs[-1] > 0
    p = randomisation_test_for_many(rows, int(differ.sum()), resamples=resamples, seed=seed)
    corrected = np.ones(len(p))
    corrected[differ] = holm(p[differ])
    low, high = bootstrap_intervals(
        rows, count, resamples=resamples, confidence=confidence, seed=seed
    )
    differences = (_among(tables, [draw[name] for name in values], pairs) for draw in drawn)
    p_labels = _share_above(differences, len(rows))
    numbers = (mean_a, mean_b, difference, low, high, p, corrected, p_better, p_labels, count)
    records = zip(*numbers, *signs, strict=True)
    return [Comparison(*name, *_plain(row)) for name, row in zip(names, records, strict=True)]


def label_draws(relevance: Floats, std_error: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """Draw possible true labels, given the estimated labels and their errors.

    Scores are the maximum of a posterior, and their errors Laplace's (see
    ``zelo_ray.fitting.bradley_terry``): the posterior is nearly normal with that mean and standard
    deviation, and labels are drawn from it. Correlations between the scores of a query are left
    out, since only the errors are stored.

    Args:
        relevance: of shape [rows].
        std_error: of shape [rows]; NaN: the label is exact.
        draws: how many.
        seed: all chance follows from it, and from the order of the rows.

    Yields:
        Labels, of shape [rows].
    """
    errors = np.nan_to_num(std_error)
    rng = random_stream(seed, "labels")
    for _ in range(draws):
        yield relevance + errors * rng.standard_normal(len(relevance))


def chance_above(differences: Floats) -> Floats:
    """Return the chance that a row's true mean is above 0, by Student's t with a flat prior.

    Args:
        differences: of shape [rows, queries]; NaN is left out.

    Returns:
        Of shape [rows]; NaN with fewer than 5 queries.
    """
    count, mean = count_of(differences), mean_of(differences)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.nansum((differences - mean[:, np.newaxis]) ** 2, axis=1) / (count - 1)
        t = np.where(np.abs(mean) <= TIE, 0.0, mean / np.sqrt(spread / count))
    chance: Floats = np.where(count < FEWEST, np.nan, scipy.special.stdtr(count - 1, t))
    return chance


def _described(rows: PairedRows) -> Sequence[Any]:
    """Return, by row: means of A, B and A - B, ``p_better``, queries, wins, ties, losses."""
    blocks = []
    for part in row_slices(len(rows), rows.queries):
        apart = rows.values(part)
        sides = [np.where(np.isnan(apart), np.nan, side) for side in rows.sides(part)]
        means_of = [mean_of(table) for table in (*sides, apart)]
        signs = [mask.sum(axis=1) for mask in (apart > 0, apart == 0, apart < 0)]
        blocks.append([*means_of, chance_above(apart), count_of(apart), *signs])
    return [np.concatenate(column) for column in zip(*blocks, strict=True)]


def _among(tables: Sequence[Floats], drawn: Sequence[Floats], pairs: Indices) -> Floats:
    """Return mean differences under drawn labels, on the queries that are compared, [rows]."""
    metrics = [
        np.where(np.isnan(table), np.nan, draw) for table, draw in zip(tables, drawn, strict=True)
    ]
    rows, once = PairedRows.of_pairs(metrics, pairs), np.ones((1, tables[0].shape[1]))
    under, part = rows.apply_weights(once, counted=True), slice(0, len(rows))
    with np.errstate(invalid="ignore"):
        differences: Floats = rows.sums(part, under) / rows.counts(part, under)
    return differences[:, 0]


def _share_above(draws: Iterable[Floats], rows: int) -> Floats:
    """Return the share of draws with a row's mean above 0, ties as half; NaN without a draw."""
    above = [np.where(np.abs(m) <= TIE, 0.5, m > 0) for m in draws]
    return np.mean(above, axis=0) if above else np.full(rows, np.nan)


def _plain(row: Iterable[np.generic]) -> list[Any]:
    return [number.item() for number in row]
