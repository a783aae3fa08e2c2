"""Gwet's AC1, and AC2 with weights (Gwet 2008, Br. J. Math. Stat. Psychol. 61:29; Handbook 2014).

Agreement by chance is that on items that raters can only guess, whose share follows from how evenly
the grades are spread. Unlike kappa, AC1 is not near 0 if almost all judgments are of one grade.
"""

import numpy as np

from zelo_ray.evaluation.agreement.counts import Floats, Kind
from zelo_ray.evaluation.agreement.ratios import (
    Weights,
    chance_corrected,
    distances,
    margins,
    total,
    weighted_sum,
)

TABLE: Kind = "by_items"


def values(table: Floats, weights: Weights) -> Floats:
    """Return AC1 with ``nominal`` weights, else AC2 with linear or quadratic ones.

    A weight is 1 less the distance over the greatest. The number of categories is that of the
    scale, whether all are used or not.
    """
    levels = table.shape[-1]
    distance = distances(levels, weights)
    closeness = 1 - distance / distance.max()
    counts, _, items = margins(table)
    disagreement = weighted_sum(table, 1 - closeness) * items
    spread = total(counts * (items[..., np.newaxis] - counts))
    chance = closeness.sum() / (levels * (levels - 1)) * spread
    return chance_corrected(disagreement, items**2 - chance, counts, counts)
