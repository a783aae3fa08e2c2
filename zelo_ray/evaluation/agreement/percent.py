"""Percent agreement: the share of pairs of raters that give an item the same grade."""

import numpy as np

from zelo_ray.evaluation.agreement.counts import Floats, Kind
from zelo_ray.evaluation.agreement.ratios import Weights, margins, ratio, weighted_sum

TABLE: Kind = "by_items"


def values(table: Floats, weights: Weights) -> Floats:  # noqa: ARG001 - others have weights
    """Return the mean over items, from 0 to 1, not corrected for chance."""
    return ratio(weighted_sum(table, np.eye(table.shape[-1])), margins(table)[2])
