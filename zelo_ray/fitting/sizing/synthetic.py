"""Simulate pools with a known truth, and all answers of judges with known habits.

A vote is drawn from the model of `panel.model`: level k with probability proportional to
exp(a_|k| sign(k) (x + b o) + c_|k|). The votes of several judges on one pair are drawn by a normal
copula, so that their errors have the model's correlation rho (Nelsen 2006, An Introduction to
Copulas, 2.3). A grade g is given with probability proportional to the density of s at its mean,
with equal prior chances of all grades. A question has the same answer in every plan.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from zelo_ray.fitting.battles import Battles, Floats, Ints
from zelo_ray.fitting.panel.model import TIE, Habits, PanelModel, level_parameters


@dataclass(frozen=True, slots=True)
class SyntheticAnswers:
    """The truth of some queries of one size, and the answers to all possible questions."""

    truth: Floats
    """in logits of winning: [queries, documents]"""
    preferences: Floats
    """preference for the document shown first, in [-1, 1]: [queries, judges, first, second]"""
    grades: Ints
    """0 to 3: [queries, judges, documents]"""
    judges: tuple[str, ...]

    @property
    def doc_ids(self) -> tuple[str, ...]:
        """Return the ids of the documents of each query, by place."""
        return tuple(f"{place:04}" for place in range(self.truth.shape[1]))

    def answer(self, asks: Ints) -> Battles:
        """Return the votes on some questions.

        Args:
            asks: query, document shown first, document shown second, judge: [questions, 4].
        """
        query, first, second, judge = asks.T
        swapped = first > second
        preferences = self.preferences[query, judge, first, second]
        return Battles(
            query=query,
            a=np.minimum(first, second),
            b=np.maximum(first, second),
            judge=judge,
            preference=np.where(swapped, preferences, -preferences),
            swapped=swapped,
            documents=(self.doc_ids,) * len(self.truth),
            judges=self.judges,
        )


def spread_truth(sd: float, *, queries: int, documents: int, seed: int) -> Floats:
    """Draw normal true scores, in logits: [queries, documents]."""
    rng = np.random.default_rng([seed, 0])
    return rng.normal(0.0, sd, (queries, documents))


def drawn_truth(
    scores: Floats, errors: Floats, *, queries: int, documents: int, seed: int
) -> Floats:
    """Draw true scores from a pilot's scores, each with noise of its own standard error."""
    rng = np.random.default_rng([seed, 0])
    places = rng.integers(len(scores), size=(queries, documents))
    moved: Floats = scores[places] + errors[places] * rng.standard_normal(places.shape)
    return moved


def simulate_answers(truth: Floats, model: PanelModel, seed: int) -> SyntheticAnswers:
    """Draw all votes and grades that the judges of a model would give to such documents.

    Args:
        truth: scores in logits of winning: [queries, documents].
        model: of the judges.
        seed: of every draw.
    """
    rng = np.random.default_rng([seed, 1])
    s = truth / model.win_scale
    queries, documents = truth.shape
    noise = model.own_sd * rng.standard_normal((queries, len(model.judges), documents))
    views = s[:, np.newaxis] + noise
    says = np.stack([_draw_preferences(view, model, rng) for view in views])
    return SyntheticAnswers(truth, says, _draw_grades(s, model, rng), model.judges)


def _draw_preferences(perceived: Floats, model: PanelModel, rng: np.random.Generator) -> Floats:
    """Draw the preferences for the document shown first, of one query: [judges, first, second]."""
    judges, documents = perceived.shape
    i, j = np.triu_indices(documents, 1)
    alike, alone = rng.standard_normal(len(i)), rng.standard_normal((judges, len(i)))
    luck = ndtr(np.sqrt(model.rho) * alike + np.sqrt(1 - model.rho) * alone)
    slopes, terms = level_parameters(model.habits)
    says = np.zeros((judges, documents, documents))
    for judge, habits in enumerate(model.habits):
        sizes = _sizes(habits, slopes.shape[1] // 2)
        for order, first, second in ((1, i, j), (-1, j, i)):
            x = perceived[judge, i] - perceived[judge, j] + habits.bias * order
            logits = x[:, np.newaxis] * slopes[judge] + terms[judge]
            chances = np.exp(logits - logits.max(1, keepdims=True))
            below = np.cumsum(chances / chances.sum(1, keepdims=True), axis=1)
            level = np.minimum((luck[judge][:, np.newaxis] > below).sum(1), len(sizes) - 1)
            says[judge, first, second] = order * sizes[level]
    return says


def _sizes(habits: Habits, top: int) -> Floats:
    """Return a preference for each level from -top to top: the middle of the level's range."""
    edges = np.array([TIE, *habits.cuts, 1.0])
    middles = (edges[1:] + edges[:-1]) / 2 if habits.cuts else np.ones(1)
    upper = np.concatenate([middles, np.full(top - len(middles), middles[-1])])
    return np.concatenate([-upper[::-1], [0.0], upper])


def _draw_grades(s: Floats, model: PanelModel, rng: np.random.Generator) -> Ints:
    means = np.array([habits.grade_means for habits in model.habits])
    far = (s[:, np.newaxis, :, np.newaxis] - means[np.newaxis, :, np.newaxis]) / model.grade_sd
    chances = np.exp(-(far**2 - (far**2).min(-1, keepdims=True)) / 2)
    below = np.cumsum(chances / chances.sum(-1, keepdims=True), axis=-1)
    luck = rng.random((*below.shape[:-1], 1))
    grades: Ints = np.minimum((luck > below).sum(-1), 3).astype(np.int64)
    return grades
