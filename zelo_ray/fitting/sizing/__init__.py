"""Estimate the results of a plan of calls by simulation: no call is made.

truth = spread_truth(1.7, queries=80, documents=25, seed=0)
imagined = imagine(truth, model, seed=0)         # all answers of such judges
sizes = Sizes(imagined, model)
sizes.of(Plan("zelo", 4, "all"))                 # calls, errors, distance to all pairs
"""

from zelo_ray.fitting.sizing.imagined import Imagined, drawn_truth, imagine, spread_truth
from zelo_ray.fitting.sizing.plans import RINGS, Plan, PlanSize, Sizes

__all__ = [
    "RINGS",
    "Imagined",
    "Plan",
    "PlanSize",
    "Sizes",
    "drawn_truth",
    "imagine",
    "spread_truth",
]
