"""Votes and grades drawn from the model of a panel, with the truth at hand."""

from dataclasses import dataclass, replace

import numpy as np

from zelo_ray.fitting.battles import Battles
from zelo_ray.fitting.panel import Grades, Habits, PanelModel, default_model
from zelo_ray.fitting.panel.model import level_parameters

MEANS = (-0.9, -0.2, 0.5, 1.4)


@dataclass(frozen=True)
class Drawn:
    battles: Battles
    grades: Grades
    truth: np.ndarray
    """s, [queries, documents]"""


def habits(slopes, *, bias=0.0, tie=-1.5, cuts=(), terms=None):
    slopes = (slopes,) if isinstance(slopes, float) else slopes
    others = terms if terms is not None else (0.0,) * (len(slopes) - 1)
    return Habits(cuts=cuts, slopes=slopes, terms=(tie, 0.0, *others), bias=bias, grade_means=MEANS)


def panel(*judges, **more):
    """A model of so many judges, without own views and correlated errors unless told."""
    names = tuple(f"judge-{number:02}" for number in range(len(judges)))
    plain = {"own_sd": 0.0, "rho": 0.0, "grade_sd": 0.7}
    return replace(default_model(names), habits=judges, **(plain | more))


def draw(
    model: PanelModel,
    *,
    queries: int,
    documents: int,
    votes: int,
    seed: int,
    noise: bool = False,
    together: float = 0.0,
    pools: float = 0.0,
) -> Drawn:
    """Random pairs of random judges.

    Args:
        votes: of each query.
        noise: whether the sizes of preferences are drawn by chance alone.
        together: sd of an error that all judges make about a pair, of which each says its word.
        pools: sd of what moves all documents of a query; votes do not see it, grades do.
    """
    rng = np.random.default_rng(seed)
    judges, size = len(model.judges), (queries, documents)
    truth = rng.normal(size=size)
    seen = truth[:, np.newaxis] + model.own_sd * rng.normal(size=(queries, judges, documents))
    query = np.repeat(np.arange(queries), votes)
    a = rng.integers(documents, size=len(query))
    b = (a + rng.integers(1, documents, size=len(query))) % documents
    judge = rng.integers(judges, size=len(query))
    error = together * rng.normal(size=len(query))
    if together:
        query, a, b, error = (np.repeat(one, judges) for one in (query, a, b, error))
        judge = np.tile(np.arange(judges), len(query) // judges)
    swapped = rng.random(len(query)) < 0.5
    bias = np.array([one.bias for one in model.habits])[judge] * np.where(swapped, -1, 1)
    gap = seen[query, judge, a] - seen[query, judge, b] + bias + error
    level = _levels(model, judge, gap, rng)
    preference = -np.sign(level) * _sizes(model, judge, np.abs(level), noise, rng)
    moved = truth + pools * rng.normal(size=(queries, 1))
    return Drawn(
        battles=Battles(
            query=query,
            a=a,
            b=b,
            judge=judge,
            preference=preference,
            swapped=swapped,
            documents=(tuple(f"{place:03}" for place in range(documents)),) * queries,
            judges=model.judges,
        ),
        grades=_grade(moved, judges, rng),
        truth=moved,
    )


def _levels(model, judge, gap, rng):
    slopes, terms = level_parameters(model.habits)
    logits = slopes[judge] * gap[:, np.newaxis] + terms[judge]
    gumbel = -np.log(-np.log(rng.random(logits.shape)))
    return np.argmax(logits + gumbel, axis=1) - slopes.shape[1] // 2


def _sizes(model, judge, level, noise, rng):
    """Of each level, the middle between its cut points."""
    if noise:
        return np.where(level, rng.choice([0.2, 0.4, 0.6, 0.8, 1.0], size=len(level)), 0.0)
    edges = [np.array([0.1, *one.cuts, 1.0]) for one in model.habits]
    middles = [np.concatenate([[0.0], (edge[1:] + edge[:-1]) / 2]) for edge in edges]
    return np.array([middles[m][k] for m, k in zip(judge, level, strict=True)])


def _grade(truth, judges, rng):
    query, document = (one.ravel() for one in np.indices(truth.shape))
    felt = truth.ravel() + 0.6 * rng.normal(size=truth.size)
    return Grades(
        query=query,
        document=document,
        judge=(query + document) % judges,
        grade=np.searchsorted([-0.5, 0.4, 1.1], felt),
    )


def some(battles: Battles, kept) -> Battles:
    """Some of the votes, in the order in which they are named."""
    names = ("query", "a", "b", "judge", "preference", "swapped")
    return replace(battles, **{name: getattr(battles, name)[kept] for name in names})
