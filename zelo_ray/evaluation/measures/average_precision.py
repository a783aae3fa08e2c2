"""AP: average precision, the mean of the precision at the rank of each relevant document."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import REL, MeasureKind


def _metrics(lists: Lists, cutoff: int | None, rel: float) -> Floats:
    """Return AP, divided by the number of relevant documents for any cutoff, as trec_eval does."""
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    precisions = relevant * np.cumsum(relevant, axis=-1) / np.arange(1, relevant.shape[-1] + 1)
    return ratio(precisions.sum(axis=-1), (lists.judged >= rel).sum(axis=-1))


MEASURE = MeasureKind(metrics=_metrics, parameters={"rel": REL})
