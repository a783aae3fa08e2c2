"""Helpers of the coefficients: sums of tables, distances of grades, ratios.

Sums are written as matrix products, since numpy is slow at summing over short axes.
"""

from functools import cache
from typing import Literal

import numpy as np

from zelo_ray.evaluation.agreement.counts import Floats

Weights = Literal["nominal", "linear", "quadratic", "ordinal"]


@cache
def distances(levels: int, weights: Weights) -> Floats:
    """Return the distances of grades, of shape [levels, levels]: 0 or 1, in steps, or squared."""
    apart = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels))).astype(np.float64)
    return {"nominal": np.sign(apart), "linear": apart, "quadratic": apart**2}[weights]


def weighted_sum(table: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of the cells of each table: [..., levels, levels] to [...]."""
    sums: Floats = table.reshape(*table.shape[:-2], weights.size) @ weights.ravel()
    return sums


def margins(table: Floats) -> tuple[Floats, Floats, Floats]:
    """Return sums of rows and of columns, [..., levels] each, and the whole sum, [...]."""
    levels = table.shape[-1]
    cells = table.reshape(*table.shape[:-2], levels**2)
    rows = cells @ np.repeat(np.eye(levels), levels, axis=0)
    columns = cells @ np.tile(np.eye(levels), (levels, 1))
    return rows, columns, total(rows)


def total(values: Floats) -> Floats:
    """Return the sum over the last axis."""
    sums: Floats = values @ np.ones(values.shape[-1])
    return sums


def ratio(above: Floats, below: Floats) -> Floats:
    """Return a quotient, NaN where the denominator is 0."""
    quotient: Floats = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return quotient


def chance_corrected(observed: Floats, chance: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return 1 - seen / chance; NaN where a table's margins show a single grade."""
    used = total((rows + columns > 0).astype(np.float64))
    return 1 - ratio(observed, np.where(used > 1, chance, 0.0))
