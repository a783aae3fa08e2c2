"""Estimate a function of sums over queries, with its interval over samples of queries."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zelo_ray.evaluation.agreement.counts import Floats
from zelo_ray.evaluation.agreement.intervals import draw_samples, interval

Numbers = Floats | NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, its 95% interval, and the number of its queries; NaN where it is unknown."""

    value: float
    low: float
    high: float
    queries: int


def estimate_share(part: Numbers, whole: Numbers, *, resamples: int, seed: int) -> Estimate:
    """Estimate the sum of parts over the sum of wholes; both [queries]."""
    table = np.stack([part, whole], axis=1).astype(np.float64)
    return estimate(table, whole > 0, quotient, resamples=resamples, seed=seed)


def estimate(
    tables: Floats,
    known: NDArray[np.bool_],
    of: Callable[[Floats], Floats],
    *,
    resamples: int,
    seed: int,
) -> Estimate:
    """Estimate a function of sums over queries.

    Args:
        tables: the terms to sum, [queries, ...].
        known: which queries have data, [queries].
        of: from [samples, ...] to [samples].
        resamples: how many samples of queries are drawn.
        seed: of the samples.
    """
    rows = tables[known]
    queries = len(rows)
    if not queries:
        return Estimate(np.nan, np.nan, np.nan, 0)
    weights = draw_samples(queries, resamples, seed)
    value = float(of(rows.sum(axis=0, keepdims=True))[0])
    low, high = interval(of(np.tensordot(weights, rows, axes=1)), queries)
    return Estimate(value, low, high, queries)


def quotient(sums: Floats) -> Floats:
    """Return the first of two sums over the second, [..., 2] to [...]; NaN where that is 0."""
    part, total = sums[..., 0], sums[..., 1]
    share: Floats = np.divide(part, total, out=np.full_like(part, np.nan), where=total > 0)
    return share
