"""Judged: the share of judged documents among the first k, which shows unjudged ones."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import MeasureKind


def _metrics(lists: Lists, cutoff: int | None) -> Floats:
    """Return the share, divided by the run's length if that is below k, as ir_measures does."""
    judged = (~np.isnan(lists.ranked(cutoff))).astype(np.float64)
    retrieved = lists.block.retrieved
    length = np.minimum(retrieved, cutoff or retrieved)
    return ratio(judged.sum(axis=-1), length)


MEASURE = MeasureKind(metrics=_metrics, of_labels=True)
