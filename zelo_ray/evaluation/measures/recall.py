"""R: the share of the relevant documents that are among the first k."""

import numpy as np

from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import REL, MeasureKind, Parameter


def _metrics(lists: Lists, cutoff: int, rel: float, k_gt: int | None) -> Floats:
    """Return recall of documents with relevance of at least ``rel``, or of the ``k_gt`` best."""
    if k_gt is not None:
        return _of_best(lists, cutoff, k_gt)
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    hits = relevant.sum(axis=-1)
    return ratio(hits, (lists.judged >= rel).sum(axis=-1))


def _of_best(lists: Lists, cutoff: int, k_gt: int) -> Floats:
    """Return recall of the best ``k_gt`` documents, or of all that are judged if fewer.

    If several are tied for the last places among the best, any of them can fill such a place, and
    no more of them count than there are places. So a perfect order of any truth gets 1 from rank
    ``k_gt`` on.
    """
    count = (~np.isnan(lists.judged)).sum(axis=-1)
    places = np.minimum(k_gt, count)
    descending = -np.sort(-lists.judged, axis=-1)
    border = np.take_along_axis(descending, places[..., np.newaxis] - 1, axis=-1)
    free = places - (lists.judged > border).sum(axis=-1)
    ranked = lists.ranked(cutoff)
    surely = (ranked > border).sum(axis=-1)
    filled = np.minimum(free, (ranked == border).sum(axis=-1))
    return ratio(surely + filled, places)


MEASURE = MeasureKind(
    metrics=_metrics,
    cutoff="required",
    parameters={
        "rel": REL,
        "k_gt": Parameter(
            None,
            lambda v: type(v) is int and v >= 1,
            "a whole number from 1",
            describe=lambda value: f"the {value} most relevant documents of a query count",
        ),
    },
    exclusive=True,
)
