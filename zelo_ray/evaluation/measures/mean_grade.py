"""Grade: the mean grade of the first k; an unjudged document counts as 0."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import Linear, MeasureKind


def _metrics(lists: Lists, cutoff: int) -> Floats:
    """Return the cumulated gain (Järvelin & Kekäläinen 2002, ACM TOIS 20:422) divided by k."""
    grades = np.maximum(np.nan_to_num(lists.ranked(cutoff), nan=0.0), 0)
    means: Floats = grades.sum(axis=-1) / cutoff
    return means


def _linear(cutoff: int) -> Linear:
    return Linear(
        cutoff, lambda ranks: np.full(ranks, 1 / cutoff), lambda grades: np.maximum(grades, 0)
    )


MEASURE = MeasureKind(metrics=_metrics, cutoff="required", linear=_linear)
