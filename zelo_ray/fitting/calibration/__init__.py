"""Combine the grades of judges into one calibrated grade, by a fitted model of each judge.

    model = learn(ratings)          # how each judge grades: model.raters
    posterior = judge(model, ratings)  # for each unit: a mean, its error, and a grade

A family of models is a module with the names of `thurstone` and a line in `likelihood.FAMILIES`.
"""

from zelo_ray.fitting.calibration.baselines import disagreement, majority, median
from zelo_ray.fitting.calibration.consensus import LEVELS, ORDERS, of_grades
from zelo_ray.fitting.calibration.draws import drawn
from zelo_ray.fitting.calibration.likelihood import FAMILIES
from zelo_ray.fitting.calibration.model import Model, Posterior, judge, learn
from zelo_ray.fitting.calibration.ratings import Ratings, by_judge
from zelo_ray.fitting.calibration.shares import shares

__all__ = [
    "FAMILIES",
    "LEVELS",
    "ORDERS",
    "Model",
    "Posterior",
    "Ratings",
    "by_judge",
    "disagreement",
    "drawn",
    "judge",
    "learn",
    "majority",
    "median",
    "of_grades",
    "shares",
]
