"""Pairs: pairwise accuracy, the share of pairs that the run puts into the right order."""

import numpy as np

from zelo_ray.evaluation.measures.concordance import count_pairs, rank_levels
from zelo_ray.evaluation.measures.lists import Floats, Lists, ratio
from zelo_ray.evaluation.measures.spec import MeasureKind


def _metrics(lists: Lists, cutoff: None) -> Floats:  # noqa: ARG001 - a measure may have a cutoff
    """Return the share of pairs with unequal relevance in the right order; run ties count half.

    Documents that the run lacks come after all others, tied. NaN where no pair differs.
    """
    net, unequal = count_pairs(lists.judged, rank_levels(lists))
    answered = lists.block.retrieved > 0
    return np.where(answered | (unequal == 0), (1 + ratio(net, unequal, np.nan)) / 2, 0.0)


MEASURE = MeasureKind(metrics=_metrics, cutoff="none")
