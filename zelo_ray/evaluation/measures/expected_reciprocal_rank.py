"""ERR: expected reciprocal rank (Chapelle, Metzler, Zhang & Grinspan 2009, CIKM)."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists
from zelo_ray.evaluation.measures.spec import MeasureKind, Parameter

_HIGHEST = 4
"""The highest grade of gdeval, the script of TREC's Web track."""


def _metrics(lists: Lists, cutoff: int | None, max_rel: int) -> Floats:
    """Return the mean of 1 / rank where a user stops, who reads from the top until satisfied.

    A document of grade g satisfies with chance (2^g - 1) / 2^max_rel (their equation 4). It is
    max_rel 4 in gdeval, which refuses higher grades; here they count as max_rel.
    """
    grades = np.clip(np.nan_to_num(lists.ranked(cutoff), nan=0.0), 0, max_rel)
    goes_on = _chances_to_go_on(lists, 1 - np.expm1(np.log(2) * grades) / 2.0**max_rel)
    before = np.concatenate([np.ones_like(goes_on[..., :1]), goes_on[..., :-1]], axis=-1)
    stops = (before - goes_on)[..., :cutoff]
    values: Floats = stops @ (1 / np.arange(1, stops.shape[-1] + 1))
    return values


def _chances_to_go_on(lists: Lists, unsatisfied: Floats) -> Floats:
    """Return the chance that a user reads on after each rank, expected over ties.

    Args:
        lists: the ranked documents.
        unsatisfied: the chance that the document at a rank does not satisfy, [draws, queries,
            ranks].
    """
    through: Floats = np.cumprod(unsatisfied, axis=-1, dtype=np.float64)
    if lists.first is None or lists.last is None:
        return through
    columns = unsatisfied.shape[-1]
    within = unsatisfied.copy()
    for query, (first, last) in enumerate(zip(lists.first, lists.last, strict=True)):
        starts = np.unique(first[:columns])
        for start, stop in zip(starts, np.minimum(last[starts] + 1, columns), strict=True):
            if stop - start > 1:
                tied = unsatisfied[:, query, start:stop]
                within[:, query, start:stop] = _mean_products(tied)
    above = np.concatenate([np.ones_like(through[..., :1]), through[..., :-1]], axis=-1)
    first_ranks = lists.first[np.newaxis, :, :columns]
    goes_on: Floats = np.take_along_axis(above, first_ranks, axis=-1) * within
    return goes_on


def _mean_products(factors: Floats) -> Floats:
    """Return the mean product of 1, 2, … of some factors over all ways to choose as many.

    These are elementary symmetric polynomials over their numbers of terms. Each factor in turn is
    the last of n, and is among j chosen ones with chance j / n; all terms are positive.

    Args:
        factors: [draws, n].

    Returns:
        Of the same shape.
    """
    means = np.ones((len(factors), 1))
    for n, factor in enumerate(factors.T, start=1):
        chosen = np.arange(n + 1) / n
        without = np.pad(means, ((0, 0), (0, 1))) * (1 - chosen)
        with_it = np.pad(means, ((0, 0), (1, 0))) * chosen * factor[:, np.newaxis]
        means = without + with_it
    return means[:, 1:]


MEASURE = MeasureKind(
    metrics=_metrics,
    parameters={
        "max_rel": Parameter(
            _HIGHEST, lambda v: type(v) is int and 1 <= v <= 50, "a whole number from 1 to 50"
        )
    },
)
