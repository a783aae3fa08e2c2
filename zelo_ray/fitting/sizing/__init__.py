"""Estimate the results of a plan of calls by simulation: no call is made.

truth = spread_truth(1.7, queries=80, documents=25, seed=0)
imagined = imagine(truth, model, seed=0)         # all answers of such judges
sizes = Sizes(imagined, model)
sizes.of(Plan("zelo", 4, "all"))                 # calls, errors, distance to all pairs
"""

from zelo_ray.fitting.sizing.plans import RINGS, Plan, PlanSimulator, PlanSize
from zelo_ray.fitting.sizing.synthetic import (
    SyntheticAnswers,
    drawn_truth,
    simulate_answers,
    spread_truth,
)

__all__ = [
    "RINGS",
    "Plan",
    "PlanSimulator",
    "PlanSize",
    "SyntheticAnswers",
    "drawn_truth",
    "simulate_answers",
    "spread_truth",
]
