"""Combine the grades of judges into one calibrated grade, by a fitted model of each judge.

model = learn(ratings)          # how each judge grades: model.raters
posterior = compute_posterior(model, ratings)  # for each unit: a mean, its error, and a grade
"""

from zelo_ray.fitting.calibration.baselines import (
    disagreement,
    majority,
    mean,
    mean_errors,
    median,
    round_grades,
    typical_variance,
)
from zelo_ray.fitting.calibration.consensus import LEVELS, ORDERS, grade_consensus
from zelo_ray.fitting.calibration.corrected_shares import estimate_shares
from zelo_ray.fitting.calibration.model import Model, Posterior, compute_posterior, learn
from zelo_ray.fitting.calibration.ratings import Ratings, grade_matrix
from zelo_ray.fitting.calibration.sampling_check import check_sampling

__all__ = [
    "LEVELS",
    "ORDERS",
    "Model",
    "Posterior",
    "Ratings",
    "check_sampling",
    "compute_posterior",
    "disagreement",
    "estimate_shares",
    "grade_consensus",
    "grade_matrix",
    "learn",
    "majority",
    "mean",
    "mean_errors",
    "median",
    "round_grades",
    "typical_variance",
]
