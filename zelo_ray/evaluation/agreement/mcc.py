"""Matthews correlation coefficient (1975, BBA 405:442), for many grades by Gorodkin (2004).

Gorodkin's is from Comput. Biol. Chem. 28:367: the correlation of the two raters' indicator vectors.
"""

import numpy as np

from zelo_ray.evaluation.agreement.counts import Floats, Kind
from zelo_ray.evaluation.agreement.ratios import Weights, margins, ratio, total, weighted_sum

TABLE: Kind = "confusion"


def values(table: Floats, weights: Weights) -> Floats:  # noqa: ARG001 - others have weights
    """Return values from -1 to 1 for two grades; NaN if a rater uses only one grade."""
    rows, columns, items = margins(table)
    together = weighted_sum(table, np.eye(table.shape[-1])) * items
    spreads = (items**2 - total(rows**2)) * (items**2 - total(columns**2))
    return ratio(together - total(rows * columns), np.sqrt(spreads))
