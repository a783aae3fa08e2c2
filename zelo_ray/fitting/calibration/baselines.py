"""Summaries of a unit's grades without a model: mean, median, majority and disagreement.

Repeats of a judge share its one vote, and an observation's weight counts. Offsets are ignored.
"""

import numpy as np

from zelo_ray.fitting.calibration.ratings import Floats, Ints, Ratings, has_grades, shared_weights

ROUNDING = 1e-9
"""Weights that differ by less are equal: a judge's repeats add up to 1 up to rounding."""


_TYPICAL_WEIGHT = 4.0
"""Degrees of freedom for which the run's variance between judges counts in a unit's own."""


def mean(ratings: Ratings) -> Floats:
    """Return the mean grade of each unit, in which every judge counts once; NaN without any."""
    weight = shared_weights(ratings)
    with np.errstate(invalid="ignore"):
        means: Floats = np.bincount(ratings.unit, weight * ratings.grade, ratings.units) / (
            np.bincount(ratings.unit, weight, ratings.units)
        )
    return means


def typical_variance(ratings: Ratings) -> float:
    """Return the variance between the judges of a unit, as a mean over units.

    NaN if no unit has two judges.
    """
    judges, squares = _judge_squares(ratings)
    shared = judges > 1
    return float((squares[shared] / (judges[shared] - 1)).mean()) if shared.any() else np.nan


def mean_errors(ratings: Ratings, typical: float) -> Floats:
    """Return the standard error of each unit's mean grade; NaN where the typical variance is.

    Two or three judges show little of their own variance: it is shrunk towards the typical one, as
    if that were known from five judges.

    Args:
        ratings: the grades.
        typical: variance between the judges of a unit: `typical_variance` of the run.
    """
    judges, squares = _judge_squares(ratings)
    freedom = np.maximum(judges - 1, 0)
    variance = (_TYPICAL_WEIGHT * typical + squares) / (_TYPICAL_WEIGHT + freedom)
    with np.errstate(divide="ignore", invalid="ignore"):  # a unit without judges
        return np.where(judges > 0, np.sqrt(variance / judges), np.nan)


def round_grades(values: Floats) -> Ints:
    """Return the nearest whole grades; of two equally near ones the even one, so as not to lean."""
    return np.rint(np.round(values, 9)).astype(np.int64)


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
    unit, means = _judge_means(ratings)
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


def _judge_means(ratings: Ratings) -> tuple[Ints, Floats]:
    """Return the mean of each judge's grades of a unit: the unit and the mean, of equal length."""
    votes, place = np.unique(
        ratings.unit * len(ratings.judges) + ratings.judge, return_inverse=True
    )
    means: Floats = np.bincount(place, ratings.grade) / np.bincount(place)
    return votes // len(ratings.judges), means


def _judge_squares(ratings: Ratings) -> tuple[Ints, Floats]:
    """Return the number of judges of each unit, and their summed squares about their mean."""
    unit, means = _judge_means(ratings)
    judges = np.bincount(unit, minlength=ratings.units).astype(np.int64)
    with np.errstate(invalid="ignore"):
        center = np.bincount(unit, means, ratings.units) / judges
    squares = np.bincount(unit, (means - center[unit]) ** 2, ratings.units)
    return judges, squares.astype(np.float64)


def _votes(ratings: Ratings) -> Floats:
    """Sum the weights of the votes for each grade, of shape [units, levels]."""
    cells = ratings.unit * ratings.levels + ratings.grade
    size = ratings.units * ratings.levels
    votes = np.bincount(cells, shared_weights(ratings), size).astype(np.float64)
    return votes.reshape(-1, ratings.levels)
