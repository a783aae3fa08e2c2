"""Krippendorff's alpha (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability).

For any number of raters, and items that only some judged: an item counts by its judgments.
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

TABLE: Kind = "by_ratings"


def values(table: Floats, weights: Weights) -> Floats:
    """Return 1 - (observed distance) / (distance of judgments drawn without replacement).

    ``quadratic`` is the interval metric. The ordinal metric of grades c and k is the squared number
    of judgments from c to k, counting half of those at the ends: the interval metric on midranks,
    which are computed for each table.
    """
    counts, _, judgments = margins(table)
    if weights == "ordinal":
        midranks = np.cumsum(counts, axis=-1) - (counts + judgments[..., np.newaxis]) / 2
        chance = total(counts * midranks**2)
        products = total((table @ midranks[..., np.newaxis])[..., 0] * midranks)
        disagreement, chance = (chance - products) * (judgments - 1), chance * judgments
    else:
        distance = distances(table.shape[-1], weights)
        disagreement = weighted_sum(table, distance) * (judgments - 1)
        chance = total(counts @ distance * counts)
    return chance_corrected(disagreement, chance, counts, counts)
