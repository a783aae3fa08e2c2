"""Cohen's kappa (Cohen 1960, Educ. Psychol. Meas. 20:37), weighted (1968, Psychol. Bull. 70:213).

Agreement by chance is that of two raters who grade at random, each with its own shares of grades.
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

TABLE: Kind = "confusion"


def values(table: Floats, weights: Weights) -> Floats:
    """Return 1 - (observed distance) / (distance by chance); 0 if a rater uses only one grade."""
    distance = distances(table.shape[-1], weights)
    rows, columns, items = margins(table)
    chance = total(rows @ distance * columns)
    return chance_corrected(weighted_sum(table, distance) * items, chance, rows, columns)
