"""Measure how far two leaderboards agree on the order of systems.

Both coefficients take the means of any number of draws at once, so a bootstrap is one call.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zelo_ray.evaluation.agreement.intervals import interval

Floats = NDArray[np.float64]

TIE = 1e-12
"""Means that differ by less are equal: the difference is rounding."""

_CELLS = 2**21  # of comparisons of all systems with all that are computed at once


def tau_b(first: Floats, second: Floats) -> Floats:
    """Return Kendall's tau-b: concordant less discordant pairs of systems, over untied pairs.

    The denominator is the geometric mean of the numbers of pairs that either leaderboard tells
    apart (Kendall 1945, Biometrika 33:239).

    Args:
        first: mean of each system, [..., systems].
        second: the same by other labels, [..., systems].

    Returns:
        Of shape [...]; NaN where a leaderboard tells no two systems apart.
    """
    return _in_parts(_tau_b, first, second)


def tau_ap(truth: Floats, estimate: Floats) -> Floats:
    """Return tau-AP: as Kendall's tau, but errors at the top of the estimate weigh more.

    The chance that, of a system drawn from the estimate's list and one drawn from those above it,
    the latter is truly better, scaled to [-1, 1] (Yilmaz, Aslam & Robertson 2008, SIGIR, eq. 5).
    It is not symmetric: the order that is read from the top is the estimate's.

    The paper does not define ties. Here systems tied in the estimate count by the mean over all
    their orders, and a pair tied in the truth counts as half right.

    Args:
        truth: mean of each system, [..., systems].
        estimate: the same by the labels to test, [..., systems].

    Returns:
        Of shape [...]; NaN where a leaderboard tells no two systems apart.
    """
    return _in_parts(_tau_ap, truth, estimate)


def discordant(first: Floats, second: Floats) -> NDArray[np.bool_]:
    """Return which pairs of systems two leaderboards order in opposite ways; ties do not count.

    Returns:
        Of shape [pairs], in the order of `itertools.combinations`.
    """
    i, j = np.triu_indices(len(first), 1)
    against: NDArray[np.bool_] = _signs(first[i] - first[j]) * _signs(second[i] - second[j]) < 0
    return against


def tau_interval(value: float, sampled: Floats, queries: int) -> tuple[float, float]:
    """Return the 95% interval of a tau, from its values in samples of so many queries.

    The percentiles of `intervals.interval`, moved by what the samples' mean is off the value, kept
    within [-1, 1], and never without the value: samples repeat queries and leave others out, so
    that close systems change places by chance, and the taus of samples lie too low together, some
    wholly below the value. Samples of the 43 queries of TREC DL 2019 with 37 runs, taken as the
    truth, were held by .60 to .98 of such intervals, and by .31 to .98 of unmoved ones: it is a
    rough guide.
    """
    low, high = interval(sampled, queries)
    if np.isnan(low) or np.isnan(value):
        return np.nan, np.nan
    ends = np.clip(np.array([low, high]) + value - np.nanmean(sampled), -1, 1)
    return min(value, float(ends[0])), max(value, float(ends[1]))


def _in_parts(of: Callable[[Floats, Floats], Floats], first: Floats, second: Floats) -> Floats:
    """Compute a coefficient of [..., systems] in parts, so that it does not fill the memory."""
    systems = first.shape[-1]
    flat = [side.reshape(-1, systems) for side in np.broadcast_arrays(first, second)]
    step = max(1, _CELLS // systems**2)
    parts = [
        of(*(side[start : start + step] for side in flat)) for start in range(0, len(flat[0]), step)
    ]
    return np.concatenate([np.empty(0), *parts]).reshape(np.broadcast(first, second).shape[:-1])


def _tau_b(first: Floats, second: Floats) -> Floats:
    i, j = np.triu_indices(first.shape[-1], 1)
    signs_a, signs_b = (_signs(side[..., i] - side[..., j]) for side in (first, second))
    net = (signs_a * signs_b).sum(axis=-1)
    pairs = np.sqrt(np.abs(signs_a).sum(axis=-1) * np.abs(signs_b).sum(axis=-1))
    tau: Floats = np.where(pairs > 0, net / np.where(pairs > 0, pairs, 1), np.nan)
    return tau


def _tau_ap(truth: Floats, estimate: Floats) -> Floats:
    systems = truth.shape[-1]
    better, above = (
        _signs(side[:, np.newaxis, :] - side[:, :, np.newaxis]) for side in (truth, estimate)
    )
    right = ((above > 0) * (better + 1) / 2).sum(axis=-1)
    before = (above > 0).sum(axis=-1)
    tied = (above == 0).sum(axis=-1)  # itself, too
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, systems + 1))])
    # The sum of 1 / (rank - 1) over the ranks that the tied share, but for rank 1.
    weights = harmonic[before + tied - 1] - harmonic[np.maximum(before - 1, 0)]
    # At each of these ranks, half of those tied that come before are right.
    among = (np.where(before > 0, tied, tied - 1) - before * weights) / 2
    total = ((right * weights + among) / tied).sum(axis=-1)
    has_order = (better.any(axis=(1, 2))) & (above.any(axis=(1, 2)))
    tau: Floats = np.where(has_order, 2 * total / max(1, systems - 1) - 1, np.nan)
    return tau


def _signs(differences: Floats) -> Floats:
    signs: Floats = np.where(np.abs(differences) <= TIE, 0.0, np.sign(differences))
    return signs
