"""RBO: rank-biased overlap of the run and the truth's own order."""

import numpy as np

from zelo_ray.evaluation.measures.columns import Ints
from zelo_ray.evaluation.measures.lists import Floats, Lists, tie_bounds
from zelo_ray.evaluation.measures.spec import REQUIRED, MeasureKind, Parameter, is_number


def _metrics(lists: Lists, cutoff: None, p: float) -> Floats:  # noqa: ARG001 - others have one
    """Return extrapolated RBO of uneven lists (Webber, Moffat & Zobel 2010, TOIS 28:20, eq. 32).

    The truth's list is all judged documents by relevance. RBO is the mean over all orders of its
    tied
    documents: the variant RBO^a of Corsi & Urbano (2024, SIGIR, arXiv 2406.07121). The run's ties
    are broken. So with ties in the truth even the best run stays below 1.
    """
    block = lists.block
    length, depth = block.retrieved, (block.judged >= 0).sum(axis=-1)
    short, long = np.minimum(length, depth), np.maximum(length, depth)
    weights = _Weights(p, int(long.max()))
    run, truth = _run_ranks(lists), _truth_ranks(lists.judged)
    retrieved = block.place >= 0
    overlaps = [
        np.where(retrieved, _share(run, at) * _share(truth, at), 0).sum(axis=-1)
        for at in (short[:, np.newaxis], long[:, np.newaxis])
    ]
    weighted_sum = np.where(retrieved, _weighted(weights, run, truth, long[:, np.newaxis]), 0).sum(
        axis=-1
    )
    at_short, at_long = overlaps
    size = np.maximum(short, 1)
    # The sum over d from short + 1 to long of (d - short) / (short d) p^d, from its two parts.
    tail = (p ** (short + 1) - p ** (long + 1)) / (1 - p) / size - weights.between(0, short, long)
    beyond = ((at_long - at_short) / np.maximum(long, 1) + at_short / size) * p**long
    values: Floats = (1 - p) / p * (weighted_sum + at_short * tail) + beyond
    return values


class _Weights:
    """Sums of p^d d^j / d over depths d, for j = 0, 1, 2.

    Summed from the deep end, where terms are small, so that differences keep their digits.
    """

    def __init__(self, p: float, depth: int) -> None:
        d = np.arange(1, depth + 1, dtype=np.float64)
        terms = p**d / d * np.stack([np.ones(depth), d, d**2])
        self.sums = np.pad(np.cumsum(terms[:, ::-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))

    def between(self, power: int, after: Ints, upto: Ints) -> Floats:
        """Return the sum over the depths after one and up to another; 0 if there are none."""
        sums: Floats = self.sums[power, np.minimum(after, upto)] - self.sums[power, upto]
        return sums


def _run_ranks(lists: Lists) -> tuple[Ints, Ints]:
    """Return the first and last rank, from 1, that judged documents can take in the run."""
    place = np.maximum(lists.block.place, 0)
    return place + 1, place + 1


def _truth_ranks(judged: Floats) -> tuple[Ints, Ints]:
    """Return the first and last rank, from 1, that judged documents can take in the truth."""
    order = np.argsort(-judged, axis=-1)
    bounds = tie_bounds(np.take_along_axis(judged, order, axis=-1))
    first, last = np.empty((2, *judged.shape), np.int64)
    for ranks, places in zip((first, last), bounds, strict=True):
        np.put_along_axis(ranks, order, places + 1, axis=-1)
    return first, last


def _share(ranks: tuple[Ints, Ints], depth: Ints) -> Floats:
    """Return the chance that a document is among the first ones, up to a depth."""
    first, last = ranks
    return np.clip((depth - first + 1) / (last - first + 1), 0, 1)


def _weighted(
    weights: _Weights, run: tuple[Ints, Ints], truth: tuple[Ints, Ints], upto: Ints
) -> Floats:
    """Sum p^d / d over depths d, times the chance that a document is in both lists by then.

    Each chance rises linearly from the first rank to the last, and is 1 from there on, so their
    product is a polynomial in d on each of three stretches.
    """
    # Before the first rank the chance is 0: stretches begin after `start`.
    start = np.maximum(run[0], truth[0]) - 1
    one_full = np.maximum(start, np.minimum(np.minimum(run[1], truth[1]), upto))
    both_full = np.maximum(start, np.minimum(np.maximum(run[1], truth[1]), upto))
    # The ramps (d - first + 1) / (last - first + 1) as a + b d and c + e d.
    b, e = (1 / (last - first + 1) for first, last in (run, truth))
    a, c = b * (1 - run[0]), e * (1 - truth[0])
    run_full_first = run[1] < truth[1]
    still_a, still_b = np.where(run_full_first, c, a), np.where(run_full_first, e, b)
    return (
        a * c * weights.between(0, start, one_full)
        + (a * e + b * c) * weights.between(1, start, one_full)
        + b * e * weights.between(2, start, one_full)
        + still_a * weights.between(0, one_full, both_full)
        + still_b * weights.between(1, one_full, both_full)
        + weights.between(0, both_full, np.maximum(both_full, upto))
    )


MEASURE = MeasureKind(
    metrics=_metrics,
    cutoff="none",
    parameters={
        "p": Parameter(REQUIRED, lambda v: is_number(v) and 0 < v < 1, "a number between 0 and 1")
    },
)
