"""What the coefficients share: sums of tables, distances of grades, ratios that may be undefined.

Sums are products with matrices: numpy adds up over short axes slowly.
"""

from functools import cache
from typing import Literal

import numpy as np

from zelo_ray.evaluation.agreement.counts import Floats

Weights = Literal["nominal", "linear", "quadratic", "ordinal"]


@cache
def distances(levels: int, weights: Weights) -> Floats:
    """How far two grades are apart, of shape [levels, levels]: 0 or 1, in steps, or squared."""
    apart = np.abs(np.subtract.outer(np.arange(levels), np.arange(levels))).astype(np.float64)
    return {"nominal": np.sign(apart), "linear": apart, "quadratic": apart**2}[weights]


def weighed(table: Floats, weights: Floats) -> Floats:
    """The sum of the cells of each table, by their weights: [..., levels, levels] to [...]."""
    sums: Floats = table.reshape(*table.shape[:-2], weights.size) @ weights.ravel()
    return sums


def margins(table: Floats) -> tuple[Floats, Floats, Floats]:
    """Sums of rows and of columns, [..., levels] each, and the whole sum, [...]."""
    levels = table.shape[-1]
    cells = table.reshape(*table.shape[:-2], levels**2)
    rows = cells @ np.repeat(np.eye(levels), levels, axis=0)
    columns = cells @ np.tile(np.eye(levels), (levels, 1))
    return rows, columns, total(rows)


def total(values: Floats) -> Floats:
    """The sum over the last axis."""
    sums: Floats = values @ np.ones(values.shape[-1])
    return sums


def ratio(above: Floats, below: Floats) -> Floats:
    """A quotient, NaN where nothing stands below."""
    quotient: Floats = np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
    return quotient


def one_minus(seen: Floats, chance: Floats, rows: Floats, columns: Floats) -> Floats:
    """1 - seen / chance, NaN where all judgments of a table are of one grade, by its margins."""
    used = total((rows + columns > 0).astype(np.float64))
    return 1 - ratio(seen, np.where(used > 1, chance, 0.0))
