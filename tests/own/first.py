"""A measure as a user would bring it: how often the first documents are the very best."""

from zelo_ray.evaluation.measures import MeasureKind, Parameter


def metrics(lists, cutoff, least):
    best = lists.judged.copy()
    best[best < least] = float("nan")
    hits = lists.ranked(cutoff) == best.max(axis=-1, where=best == best, initial=least)[..., None]
    return lists.expected(hits.astype(float), cutoff).max(axis=-1)


MEASURE = MeasureKind(
    metrics=metrics,
    cutoff="required",
    parameters={"least": Parameter(1, lambda value: value >= 0, "a grade from 0")},
)
