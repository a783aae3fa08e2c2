"""Rprec: the precision at R, the number of relevant documents (Buckley & Voorhees 2005)."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: None, rel: float) -> Floats:  # noqa: ARG001 - a measure may have a cutoff
    """Return the share of the first R that is relevant, divided by R for a shorter run, too."""
    relevant = (lists.ranked(None) >= rel).astype(np.float64)
    total = (lists.judged >= rel).sum(axis=-1)
    among = np.arange(relevant.shape[-1]) < total[..., np.newaxis]
    return ratio((relevant * among).sum(axis=-1), total)


MEASURE = MeasureKind(metrics=_metrics, cutoff="none", parameters={"rel": REL})
