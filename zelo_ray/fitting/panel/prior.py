"""Learn the prior of a document's score given its grades, before any votes."""

from dataclasses import replace

import numpy as np

from zelo_ray.fitting.battles import Floats
from zelo_ray.fitting.panel.cavity import LEARNING_TOLERANCE, gather_evidence
from zelo_ray.fitting.panel.columns import Grades, VoteColumns, VoteStack, build_stacks
from zelo_ray.fitting.panel.curves import Curves, curves_of
from zelo_ray.fitting.panel.grid_search import search_grid
from zelo_ray.fitting.panel.mode import maximise
from zelo_ray.fitting.panel.model import PanelModel

SPREADS = (0.4, 0.55, 0.7, 0.85, 1.0, 1.25, 1.5)
"""Candidates for the spread around a grade's mean."""
ENOUGH_GRADES, ENOUGH_QUERIES = 100, 10
"""With fewer, the prior of the given model is kept."""
ROUNDS = 3
GRADE_PULL, OWN_PULL, LEVEL_PULL = 4.0, 16.0, 20.0
"""Precisions of the priors of a grade's mean, around its former value; of the difference of a
judge's mean from the panel's, around 0; and of the mean over all grades, around 0."""
POOLS = 20
"""The fewest queries with grades from which the spread of their levels is learned."""


def learn_prior(votes: VoteColumns, grades: Grades, model: PanelModel) -> PanelModel:
    """Learn the mean of s by judge and grade, and its spread by how well that predicts votes.

    Args:
        votes: of some queries.
        grades: of any queries; those of other queries are ignored.
        model: of the judges, with the prior so far.
    """
    rows = np.isin(grades.query, votes.queries)
    queries = len(np.unique(grades.query[rows]))
    if rows.sum() < ENOUGH_GRADES or queries < ENOUGH_QUERIES:
        few = f"{rows.sum()} grades of {queries} queries are too few to learn what grades say."
        return replace(model, notes=(*model.notes, few))
    sample = Grades(
        query=grades.query[rows],
        document=grades.document[rows],
        judge=grades.judge[rows],
        grade=grades.grade[rows],
    )
    before = np.mean([habit.grade_means for habit in model.habits], axis=0)

    def at(spread: float, known: PanelModel) -> tuple[PanelModel, float]:
        tried = _fit_means(votes, sample, replace(known, grade_sd=spread), before)
        evidence = gather_evidence(
            build_stacks(votes, sample, tried), curves_of(tried), tried.own_sd
        )
        return tried, evidence.log_likelihood

    return _with_pools(votes, sample, search_grid(at, SPREADS, model, start=model.grade_sd))


def _fit_means(votes: VoteColumns, grades: Grades, model: PanelModel, before: Floats) -> PanelModel:
    """Fit the means by Newton's method on their marginal likelihood, with s integrated out."""
    judges = len(model.judges)
    curves = curves_of(model)
    centre = np.concatenate([before, np.zeros(4 * judges)])
    ridge = np.repeat([GRADE_PULL, OWN_PULL], [4, 4 * judges])
    common = _common(grades, judges)
    means = np.array([habit.grade_means for habit in model.habits])
    theta = np.concatenate([means.mean(0), (means - means.mean(0)).ravel()])
    for _ in range(ROUNDS):
        information = np.diag(ridge) + LEVEL_PULL * np.outer(common, common)
        gradient = -ridge * (theta - centre) - LEVEL_PULL * common * (common @ theta)
        for stack in build_stacks(votes, grades, model):
            added, pull = _mean_derivatives(
                stack, _design(stack, grades, judges), curves, model.own_sd
            )
            information += added
            gradient += pull
        theta = theta + np.linalg.solve(information, gradient)
        model = _with_means(model, theta[:4] + theta[4:].reshape(judges, 4))
    return model


def _with_means(model: PanelModel, means: Floats) -> PanelModel:
    habits = [
        replace(habit, grade_means=(float(a), float(b), float(c), float(d)))
        for habit, (a, b, c, d) in zip(model.habits, means, strict=True)
    ]
    return replace(model, habits=tuple(habits))


def _mean_derivatives(
    stack: VoteStack, design: Floats, curves: Curves, own_sd: float
) -> tuple[Floats, Floats]:
    """Compute information and gradient of the means' marginal likelihood.

    To Laplace the votes of a query are an observation of s with some precision A, so that its
    marginal precision is P - P V P, for P the prior's precision and V = (A + P)^-1.
    """
    mode = maximise(stack, curves, own_sd, LEARNING_TOLERANCE)
    weighted = stack.precision[:, :, np.newaxis] * design
    narrowed = np.linalg.solve(mode.curvature, weighted)
    size = design.shape[2]
    flat, residual = weighted.reshape(-1, size), (design - narrowed).reshape(-1, size)
    off = (stack.precision * (mode.s - stack.prior)).ravel()
    return flat.T @ residual, design.reshape(-1, size).T @ off


def _design(stack: VoteStack, grades: Grades, judges: int) -> Floats:
    """Build the shares of parameters in documents' means: [queries, documents, 4 + 4 judges]."""
    row = np.searchsorted(stack.places, grades.query)
    row[row == len(stack.places)] = 0
    mask = stack.places[row] == grades.query
    row, document = row[mask], grades.document[mask]
    judge, grade = grades.judge[mask], grades.grade[mask]
    share = 1 / stack.graded[row, document]
    design = np.zeros((*stack.prior.shape, 4 + 4 * judges))
    np.add.at(design, (row, document, grade), share)
    has_judge = judge >= 0
    column = 4 + 4 * judge[has_judge] + grade[has_judge]
    np.add.at(design, (row[has_judge], document[has_judge], column), share[has_judge])
    return design


def _common(grades: Grades, judges: int) -> Floats:
    """Return the mean number of times that each parameter enters a grade."""
    has_judge = grades.judge >= 0
    shared = np.bincount(grades.grade, minlength=4)
    counts = np.bincount(
        4 * grades.judge[has_judge] + grades.grade[has_judge], minlength=4 * judges
    )
    return np.concatenate([shared, counts]) / len(grades.grade)


def _with_pools(votes: VoteColumns, grades: Grades, model: PanelModel) -> PanelModel:
    """Learn how a query's mean grade relates to the level of its documents.

    Within a query, mean and residual make s = mean + rest, with variances A and B: so the mean is
    A / (A + B) of s, and noise of variance A B / (A + B). The variance of the queries' means beyond
    that of the noise is the variance of levels, times the slope squared.
    """
    within = documents = 0.0
    levels, noise = [], []
    for stack in build_stacks(votes, grades, model):
        graded = stack.graded > 0
        number = graded.sum(1)
        mean = (stack.prior * graded).sum(1) / np.maximum(number, 1)
        within += float(((stack.prior - mean[:, np.newaxis]) ** 2 * graded).sum())
        documents += float(np.maximum(number - 1, 0).sum())
        levels.append(mean[number > 0])
        noise.append(1 / number[number > 0])
    variance, residual = within / max(documents, 1), model.grade_sd**2
    slope = max(variance / (variance + residual), 0.1)
    spread = max(variance * residual / (variance + residual), 1e-4)
    fitted_model = replace(model, grade_slope=slope, grade_noise=float(np.sqrt(spread)))
    level, inverse = np.concatenate(levels), np.concatenate(noise)
    if len(level) < POOLS:
        return fitted_model
    beyond = (float(level.var()) - spread * float(inverse.mean())) / slope**2
    return replace(fitted_model, pool_sd=float(np.sqrt(np.clip(beyond, 0.01, 4))))
