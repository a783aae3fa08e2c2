"""A measure as a user would bring it: whether one of the very best documents comes first."""

import numpy as np

from zelo_ray.evaluation.measures import MeasureKind, Parameter


def metrics(lists, cutoff, least):
    best = np.nanmax(lists.judged, axis=-1, keepdims=True)
    hits = lists.ranked(cutoff) >= np.maximum(best, least)
    return hits.astype(float).max(axis=-1)


MEASURE = MeasureKind(
    metrics=metrics,
    cutoff="required",
    parameters={"least": Parameter(1, lambda value: value >= 0, "a grade from 0")},
)
