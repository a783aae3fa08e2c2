"""P: the share of relevant documents among the first k."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: int, rel: float) -> Floats:
    """Divided by k even where the run has fewer documents, as trec_eval does."""
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    shares: Floats = lists.expected(relevant, cutoff).sum(axis=-1) / cutoff
    return shares


MEASURE = MeasureKind(metrics=_metrics, cutoff="required", parameters={"rel": REL})
