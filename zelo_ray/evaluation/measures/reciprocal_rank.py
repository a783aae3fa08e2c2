"""RR: the reciprocal of the rank of the first relevant document."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: int | None, rel: float) -> Floats:
    """Return the reciprocal rank, 0 if there is no relevant document up to the cutoff."""
    relevant = lists.ranked(cutoff) >= rel
    first = relevant & (np.cumsum(relevant, axis=-1) == 1)
    values: Floats = first @ (1 / np.arange(1, first.shape[-1] + 1))
    return values


MEASURE = MeasureKind(metrics=_metrics, parameters={"rel": REL})
