"""Measure how far two leaderboards agree on the order of systems."""

import numpy as np

from zelo_ray.evaluation.agreement import Estimate, draw_samples, estimate_values
from zelo_ray.evaluation.ranking import Bools, Floats
from zelo_ray.evaluation.significance import TIE

_CELLS = 2**21  # of comparisons of all systems with all that are computed at once


def tau_b(first: Floats, second: Floats) -> Floats:
    """Return Kendall's tau-b of means [..., systems]; NaN where one ties all systems.

    Concordant less discordant pairs of systems, over the geometric mean of the numbers of pairs
    that either leaderboard tells apart (Kendall 1945, Biometrika 33:239).
    """
    i, j = np.triu_indices(first.shape[-1], 1)
    a, b = (_signs(side[..., i] - side[..., j]) for side in (first, second))
    pairs = np.sqrt(np.abs(a).sum(axis=-1) * np.abs(b).sum(axis=-1))
    return np.where(pairs > 0, (a * b).sum(axis=-1) / np.where(pairs > 0, pairs, 1), np.nan)


def tau_ap(truth: Floats, estimate: Floats) -> Floats:
    """Return tau-AP of means [..., systems]: errors at the top of the estimate weigh more.

    The chance that, of a system drawn from the estimate's list and one drawn from those above
    it, the latter is truly better, scaled to [-1, 1] (Yilmaz, Aslam & Robertson 2008, SIGIR,
    eq. 5). Systems tied in the estimate count by the mean over all their orders, and a pair
    tied in the truth as half right. NaN where one ties all systems.
    """
    systems = truth.shape[-1]
    better, above = (
        _signs(side[..., np.newaxis, :] - side[..., :, np.newaxis]) for side in (truth, estimate)
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
    has_order = better.any(axis=(-2, -1)) & above.any(axis=(-2, -1))
    return np.where(has_order, 2 * total / max(1, systems - 1) - 1, np.nan)


def estimate_taus(first: Floats, second: Floats) -> list[Estimate]:
    """Return tau-b and tau-AP of the second leaderboard against the first, with intervals.

    The percentiles over samples of queries are moved by what the samples' mean is off the
    value, and kept within [-1, 1]: samples leave queries out, so that close systems change
    places by chance, and their taus lie too low together. Samples of the 43 queries of TREC DL
    2019 with 37 runs, taken as the truth, were held by .60 to .98 of such intervals: it is a
    rough guide. Metrics are [systems, queries]; NaN counts as 0.
    """
    systems, queries = first.shape
    weights, taus = draw_samples(queries), list[Estimate]()
    means = [weights @ np.nan_to_num(side).T / max(1, queries) for side in (first, second)]
    step = max(1, _CELLS // max(1, systems**2))
    for tau in (tau_b, tau_ap):
        parts = [
            tau(*(side[start : start + step] for side in means))
            for start in range(0, len(weights), step)
        ]
        values = np.concatenate(parts)
        estimate = estimate_values(values, queries)
        if not np.isnan(estimate.low):
            off = estimate.value - np.nanmean(values[1:])
            low, high = np.clip([estimate.low + off, estimate.high + off], -1, 1).tolist()
            estimate = estimate._replace(
                low=min(estimate.value, low), high=max(estimate.value, high)
            )
        taus.append(estimate)
    return taus


def discordant(first: Floats, second: Floats) -> Bools:
    """Return which pairs of systems two leaderboards order in opposite ways, [pairs]."""
    i, j = np.triu_indices(len(first), 1)
    return np.asarray(_signs(first[i] - first[j]) * _signs(second[i] - second[j]) < 0)


def _signs(differences: Floats) -> Floats:
    return np.where(np.abs(differences) <= TIE, 0.0, np.sign(differences))
