"""R: the share of the relevant documents that are among the first k."""

import numpy as np
from scipy.special import gammaln

from zelo_ray.evaluation.measures.columns import Ints
from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import REL, MeasureKind, Parameter


def _metrics(lists: Lists, cutoff: int, rel: float, k_gt: int | None) -> Floats:
    """Return recall of documents with relevance of at least ``rel``, or of the ``k_gt`` best."""
    if k_gt is not None:
        return _of_best(lists, cutoff, k_gt)
    relevant = (lists.ranked(cutoff) >= rel).astype(np.float64)
    hits = lists.expected(relevant, cutoff).sum(axis=-1)
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
    surely = lists.expected((ranked > border).astype(np.float64), cutoff).sum(axis=-1)
    filled = _filled(lists, (ranked == border).astype(np.float64), cutoff, free)
    return ratio(surely + filled, places)


def _filled(lists: Lists, hit: Floats, cutoff: int, free: Ints) -> Floats:
    """Return how many free places the hits up to the cutoff fill, expected over ties.

    The number of hits among those documents tied at the cutoff that come before it is
    hypergeometric; without ties it is certain.
    """
    last = min(cutoff, hit.shape[-1]) - 1
    above, within = (sums[..., last] for sums in lists.tied_sums(hit))
    size, preceding = (counts[..., last] for counts in lists.tied(hit))
    drawn = preceding + 1
    empty = np.zeros(free.shape)
    for hits in range(int(free.max())):
        log_chance = (
            _log_choose(within, hits)
            + _log_choose(size - within, drawn - hits)
            - _log_choose(size, drawn)
        )
        empty += np.maximum(free - above - hits, 0) * np.exp(log_chance)
    return free - empty


def _log_choose(n: Floats | Ints, k: Ints | int) -> Floats:
    """Return the logarithm of n over k; -inf where there is no such choice."""
    choices: Floats = gammaln(n + 1) - gammaln(np.add(k, 1)) - gammaln(n - k + 1)
    return choices


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
