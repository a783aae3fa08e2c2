"""P: the share of relevant documents among the first k."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import REL, Linear, MeasureKind


def _metrics(lists: Lists, cutoff: int, rel: float) -> Floats:
    """Return the share, divided by k even if the run has fewer documents, as trec_eval does."""
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    shares: Floats = relevant.sum(axis=-1) / cutoff
    return shares


def _linear(cutoff: int, rel: float) -> Linear:
    return Linear(
        cutoff,
        lambda ranks: np.full(ranks, 1 / cutoff),
        lambda grades: (grades >= rel).astype(np.float64),
    )


MEASURE = MeasureKind(metrics=_metrics, cutoff="required", parameters={"rel": REL}, linear=_linear)
