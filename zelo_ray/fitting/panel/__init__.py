"""Fit the votes of a panel with a learned model of each judge.

model = learn(battles, grades)              # how each judge answers; or default_model(judges)
fits = fit(battles, grades, model, query_ids)   # scores and their errors
for posterior in posteriors(battles, grades, model): ...   # means and covariances
choose_pairs(mean, covariance, asked, count=20, most_per_document=4)   # a later round
expected_loss(mean, covariance)             # whether it is worth one
"""

from zelo_ray.fitting.panel.columns import Grades, grades_of
from zelo_ray.fitting.panel.learn import learn
from zelo_ray.fitting.panel.model import Habits, PanelModel, default_model
from zelo_ray.fitting.panel.next_round import choose_pairs, expected_loss
from zelo_ray.fitting.panel.posterior import PanelPosterior, posteriors
from zelo_ray.fitting.panel.scores import absolute_shifts, fit

__all__ = [
    "Grades",
    "Habits",
    "PanelModel",
    "PanelPosterior",
    "absolute_shifts",
    "choose_pairs",
    "default_model",
    "expected_loss",
    "fit",
    "grades_of",
    "learn",
    "posteriors",
]
