"""Compute rank correlations of two raters, each on its own scale, from a table of counts.

Items of different queries are compared, too, as by the other coefficients.
"""

import numpy as np

from zelo_ray.evaluation.agreement.counts import Floats


def kendall(tables: Floats) -> Floats:
    """Return Kendall's tau-b (1945, Biometrika 33:239), [..., levels, levels] to [...].

    NaN if one of the two gives one grade throughout.
    """
    above = _beyond(tables)
    discordant = np.flip(_beyond(np.flip(tables, -1)), -1)
    apart = np.sum(tables * (above - discordant), axis=(-2, -1))
    pairs = _pairs(tables.sum(axis=(-2, -1)))
    ties = [_pairs(tables.sum(axis=axis)).sum(axis=-1) for axis in (-2, -1)]
    return _over(apart, np.sqrt((pairs - ties[0]) * (pairs - ties[1])))


def spearman(tables: Floats) -> Floats:
    """Return Spearman's rho, with mean ranks for ties; shapes and NaN as in `kendall`."""
    total = tables.sum(axis=(-2, -1))[..., np.newaxis]
    first, second = (tables.sum(axis=axis) for axis in (-1, -2))
    x, y = ((np.cumsum(n, axis=-1) - n / 2) - total / 2 for n in (first, second))
    covariance = np.einsum("...ij,...i,...j->...", tables, x, y)
    variances = [np.sum(n * rank**2, axis=-1) for n, rank in ((first, x), (second, y))]
    return _over(covariance, np.sqrt(variances[0] * variances[1]))


COEFFICIENTS = {"kendall": kendall, "spearman": spearman}


def _beyond(tables: Floats) -> Floats:
    """Return for each cell the sum of the cells with both grades greater."""
    sums = np.flip(np.cumsum(np.cumsum(np.flip(tables, (-2, -1)), axis=-2), axis=-1), (-2, -1))
    shifted = np.zeros_like(sums)
    shifted[..., :-1, :-1] = sums[..., 1:, 1:]
    return shifted


def _pairs(counts: Floats) -> Floats:
    return counts * (counts - 1) / 2


def _over(part: Floats, total: Floats) -> Floats:
    ratio: Floats = np.divide(part, total, out=np.full_like(part, np.nan), where=total > 0)
    return ratio
