"""Summaries of a unit's grades without a model: median, majority and disagreement.

Repeats of a judge share its one vote, and an observation's weight counts. Offsets are ignored.
"""

import numpy as np

from zelo_ray.fitting.calibration.ratings import Floats, Ints, Ratings, has_grades, shared_weights

ROUNDING = 1e-9
"""Weights that differ by less are equal: a judge's repeats add up to 1 up to rounding."""


def median(ratings: Ratings) -> Floats:
    """Return the median grade of each unit, midway between two where votes tie; NaN without any."""
    votes = _votes(ratings)
    half = votes.sum(axis=1, keepdims=True) / 2
    reached = votes.cumsum(axis=1)
    lower = (reached >= half - ROUNDING).argmax(axis=1)
    upper = (reached > half + ROUNDING).argmax(axis=1)
    return np.where(has_grades(ratings), (lower + upper) / 2, np.nan)


def majority(ratings: Ratings) -> Ints:
    """Return the grade with the most votes of each unit, -1 without any.

    Of several such grades the nearest to the median counts, then the lower.
    """
    votes = _votes(ratings)
    winners = votes >= votes.max(axis=1, keepdims=True) - ROUNDING
    away = np.abs(np.arange(ratings.levels) - median(ratings)[:, np.newaxis])
    nearest = np.where(winners, away, np.inf).argmin(axis=1)
    return np.where(has_grades(ratings), nearest, -1)


def disagreement(ratings: Ratings) -> Floats:
    """Return the mean difference of two judges' grades of each unit; NaN with fewer than two.

    Repeats of a judge are averaged first; weights are ignored.
    """
    votes, place = np.unique(
        ratings.unit * len(ratings.judges) + ratings.judge, return_inverse=True
    )
    means = np.bincount(place, ratings.grade) / np.bincount(place)
    unit = votes // len(ratings.judges)
    order = np.lexsort((means, unit))
    unit, means = unit[order], means[order]
    judges = np.bincount(unit, minlength=ratings.units)
    rank = np.arange(len(unit)) - (judges.cumsum() - judges)[unit]
    # In ascending order, the sum over pairs adds a grade once for each below it and takes it off
    # once for each above.
    differences = means * (2 * rank + 1 - judges[unit])
    total = np.bincount(unit, differences, ratings.units)
    with np.errstate(invalid="ignore"):
        return np.where(judges > 1, total / (judges * (judges - 1) / 2), np.nan)


def _votes(ratings: Ratings) -> Floats:
    """Sum the weights of the votes for each grade, of shape [units, levels]."""
    cells = ratings.unit * ratings.levels + ratings.grade
    size = ratings.units * ratings.levels
    votes = np.bincount(cells, shared_weights(ratings), size).astype(np.float64)
    return votes.reshape(-1, ratings.levels)
