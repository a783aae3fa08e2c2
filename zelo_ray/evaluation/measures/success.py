"""Success: whether a relevant document is among the first k."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: int, rel: float) -> Floats:
    """Return 1 or 0, as trec_eval does."""
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    values: Floats = relevant.max(axis=-1, initial=0.0)
    return values


MEASURE = MeasureKind(metrics=_metrics, cutoff="required", parameters={"rel": REL})
