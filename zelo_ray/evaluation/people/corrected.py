"""Compute metrics from people's labels: alone, and as a correction of the panel's.

Prediction-powered inference (Angelopoulos et al. 2023, Science 382:669; for ranking measures
Oosterhuis et al. 2024, arXiv 2407.02464). For every query and ranker,

    V = sum over documents of weight * f(panel's grade)
      + sum over labelled ones of weight * (gain of the label - f(panel's grade)) / probability

is unbiased for the metric by people's labels, whatever f is (Horvitz & Thompson 1952): the labels
correct the panel, and the better f predicts them, the narrower the interval. So f is learned from
the labels, for each query from those of other queries.
"""

from itertools import pairwise

import numpy as np
import scipy

from zelo_ray.evaluation.people.frame import Frame
from zelo_ray.evaluation.ranking import Bools, Floats, Ints

FOLDS = 10
"""Folds of the queries, each predicted from the labels of the others."""
FEWEST = 30
"""With fewer labels nothing is learned: f is then the panel's own gain."""


def count_deciding_queries(frame: Frame, labelled: Bools) -> Ints:
    """Count the queries with labels that bear on the difference of two rankers.

    Of shape [rankers, rankers], from whether each document is labelled, [rows]. It is 0 where fewer
    than `FEWEST` labels do: most may be of documents that only a third ranker ranks differently.
    """
    rows, rankers = np.flatnonzero(labelled), len(frame.weight)
    counts = np.zeros((rankers, rankers), np.int64)
    weight, answered = frame.weight[:, rows], frame.answered[:, frame.query[rows]]
    starts = np.unique(frame.query[rows], return_index=True)[1]
    for ranker in range(rankers if len(rows) else 0):
        differs = (weight != weight[ranker]) & answered & answered[ranker]
        queries = np.logical_or.reduceat(differs, starts, axis=1).sum(axis=1)
        counts[ranker] = np.where(differs.sum(axis=1) < FEWEST, 0, queries)
    return counts


def correct_metrics(
    frame: Frame, gain: Floats, probability: Floats, *, whole_queries: bool = False
) -> Floats:
    """Return the rankers' metrics by the panel, corrected by people's labels, [rankers, queries].

    Only differences of two rankers are unbiased: documents that all rankers rank alike have no
    label. ``gain`` is of people's labels, NaN where there is none, [rows]; ``whole_queries``:
    documents of a query were drawn together.
    """
    predictions = predict_gains(frame, gain, whole_queries=whole_queries)
    return frame.by_query(frame.weight * (predictions + _weighted(gain - predictions, probability)))


def metrics_by_people(frame: Frame, gain: Floats, probability: Floats) -> Floats:
    """Return the rankers' metrics by people's labels only."""
    return frame.by_query(frame.weight * _weighted(gain, probability))


def metrics_by_panel(frame: Frame) -> Floats:
    """Return the rankers' metrics by the panel only."""
    return frame.by_query(frame.weight * _panel_gains(frame))


def _panel_gains(frame: Frame) -> Floats:
    """Return the gains of the panel's own grades, [rows]; a missing grade counts as 0."""
    return frame.linear.gains(np.nan_to_num(frame.panel, nan=0.0))


def _weighted(gain: Floats, probability: Floats) -> Floats:
    """Weight gains by the inverse probability, 0 where there is no label."""
    labelled = ~np.isnan(gain)
    return np.where(labelled, gain, 0.0) / np.where(labelled, probability, 1.0)


def predict_gains(frame: Frame, gain: Floats, *, whole_queries: bool = False) -> Floats:
    """Predict people's gains, [rows], from the panel's grade and the query.

    The prediction is isotonic in the grade, as learned from other queries; documents without a
    grade get their own mean. The mean residual of the *other* labelled documents of the query
    is added, since people grade some queries higher throughout; if documents of a query were
    drawn together, it would not be independent of the sample, and is left out.
    """
    predictions, labelled, graded = _panel_gains(frame), ~np.isnan(gain), ~np.isnan(frame.panel)
    if labelled.sum() < FEWEST:
        return predictions
    edges = np.linspace(0, len(frame.query_ids), FOLDS + 1).round().astype(np.int64)
    for low, high in pairwise(edges):
        fold = (frame.query >= low) & (frame.query < high)
        training, other = labelled & graded & ~fold, labelled & ~graded & ~fold
        if training.any():
            grades, place = np.unique(frame.panel[training], return_inverse=True)
            count = np.bincount(place)
            means = np.bincount(place, gain[training]) / count
            steps = scipy.optimize.isotonic_regression(means, weights=count).x
            predictions[fold & graded] = np.interp(frame.panel[fold & graded], grades, steps)
        if other.any():
            predictions[fold & ~graded] = gain[other].mean()
    if whole_queries:
        return predictions
    return predictions + _query_residuals(frame, np.where(labelled, gain - predictions, np.nan))


def _query_residuals(frame: Frame, rest: Floats) -> Floats:
    """Return the mean residual of the other labels of each document's query, shrunk towards 0.

    It is shrunk by the variances within and between queries (Robinson 1991, Stat. Sci. 6:15).
    """
    labelled = ~np.isnan(rest)
    residuals, size = np.where(labelled, rest, 0.0), len(frame.query_ids)
    count, total, squares = (
        np.bincount(frame.query, column, size) for column in (labelled, residuals, residuals**2)
    )
    several, means = count > 1, np.zeros(len(rest))
    if not several.any():
        return means
    deviations = squares[several] - total[several] ** 2 / count[several]
    within = deviations.sum() / (count[several] - 1).sum()
    between = rest[labelled].var() - within
    if between <= 0:
        return means
    others = count[frame.query] - labelled
    weight = others + within / between
    np.divide(total[frame.query] - residuals, weight, out=means, where=others > 0)
    return means
