"""A figure of one judge with its interval over samples of queries."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zelo_ray.agree.section import Given
from zelo_ray.agreement.intervals import draws, interval

Floats = NDArray[np.float64]
Numbers = Floats | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bias:
    """One figure of how a judge judges.

    ``bias`` is the name of the figure; ``against`` says what it is relative to: ``human``,
    ``others`` (the mean of the other judges), or "" for one that needs nobody else. ``low`` and
    ``high`` are the 95% interval over samples of queries. ``items`` are the documents, votes, pairs
    or triples that it rests on.
    """

    judge: str
    bias: str
    against: str
    value: float
    low: float
    high: float
    items: int
    queries: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its interval, and on how many queries it rests."""

    value: float
    low: float
    high: float
    queries: int


def share(part: Numbers, whole: Numbers, given: Given) -> Estimate:
    """The sum of parts over the sum of wholes; both [queries]."""
    table = np.stack([part, whole], axis=1).astype(np.float64)
    return estimate(table, whole > 0, _quotient, given)


def estimate(
    tables: Floats, known: NDArray[np.bool_], of: Callable[[Floats], Floats], given: Given
) -> Estimate:
    """A function of sums over queries.

    Args:
        tables: what adds up, [queries, ...].
        known: which queries have anything, [queries].
        of: from [samples, ...] to [samples].
        given: resamples and seed.
    """
    own = tables[known]
    queries = len(own)
    if not queries:
        return Estimate(np.nan, np.nan, np.nan, 0)
    weights = draws(queries, given["resamples"], given["seed"])
    value = float(of(own.sum(axis=0, keepdims=True))[0])
    low, high = interval(of(np.tensordot(weights, own, axes=1)), queries)
    return Estimate(value, low, high, queries)


def _quotient(sums: Floats) -> Floats:
    part, whole = sums[..., 0], sums[..., 1]
    quotient: Floats = np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)
    return quotient
