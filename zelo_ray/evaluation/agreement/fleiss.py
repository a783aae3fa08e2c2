"""Fleiss' kappa (Fleiss 1971, Psychol. Bull. 76:378); of two raters, Scott's pi (1955).

Agreement by chance is that of raters who grade at random with the pooled shares of grades.
Scott's pi is from Public Opinion Quarterly 19:321. Items that only some raters judged weigh like
the others, as in Gwet's Handbook of Inter-Rater Reliability (4th ed., 2014, chapter 2).
"""

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
    """Return 1 - (observed disagreement) / (disagreement by chance), not a mean over pairs."""
    distance = distances(table.shape[-1], weights)
    counts, _, items = margins(table)
    chance = total(counts @ distance * counts)
    return chance_corrected(weighted_sum(table, distance) * items, chance, counts, counts)
