"""Tau: Kendall's tau-b of run and truth, over the judged documents that the run has."""

import numpy as np

from zelo_ray.evaluation.measures.concordance import count_pairs, rank_levels
from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio, tie_bounds
from zelo_ray.evaluation.measures.spec import MeasureKind


def _metrics(lists: Lists, cutoff: None) -> Floats:  # noqa: ARG001 - a measure may have a cutoff
    """Return tau-b (Kendall 1945, Biometrika 33:239); NaN if the truth ties all documents.

    A run that lacks the query, or ties all of its documents, has no order to compare: it gets 0 if
    the truth has one, so that abstaining does not pay.
    """
    judged, retrieved, level = lists.judged, lists.block.place >= 0, rank_levels(lists)
    net, unequal = count_pairs(np.where(retrieved, judged, np.nan), level)
    # Retrieved documents come first: each stands apart from those that precede its ties.
    apart = np.where(retrieved, tie_bounds(level)[0], 0).sum(axis=-1)
    values = ratio(net, np.sqrt(unequal * apart), np.nan)
    varied = np.nanmax(judged, axis=-1) > np.nanmin(judged, axis=-1)
    return np.where(np.isnan(values) & varied, 0.0, values)


MEASURE = MeasureKind(metrics=_metrics, cutoff="none")
