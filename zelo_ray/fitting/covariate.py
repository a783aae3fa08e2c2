"""Fit Bradley-Terry scores beside one coefficient that all queries share, such as that of length.

Document i beats j with probability 1 / (1 + exp(-(s_i - s_j + b x))), where x is a number of the
game, such as the log of the ratio of the two lengths: the length-controlled regression of Dubois et
al. (2024, COLM, arXiv 2404.04475), here for many queries with scores of their own. Scores have a
Gaussian prior and b has none. Where every document has one length, nothing but that prior tells its
score from its length: b is then what length explains over all queries, and a score what it leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan, sqrt

import numpy as np
from scipy.special import expit

from zelo_ray.fitting.outcomes import Floats, Games

MAX_STEPS = 200
TOLERANCE = 1e-20
"""Twice what the last step may still add to the objective (Newton's decrement)."""
CLUSTERS = 10
"""Fewer queries do not show how far they differ: the error is then that of independent games."""
_NOTHING = 1e-9
"""Information about the coefficient below which there is none, as where all lengths are equal.
Where x orders every game, the coefficient grows without end until it has vanished, too."""


@dataclass(frozen=True, slots=True)
class CovariateFit:
    """Scores by query, and the shared coefficient, NaN if no game tells it or it is not finite.

    ``std_error`` is of the coefficient: with ten queries or more from how far they differ (the
    sandwich of Liang & Zeger 1986, Biometrika 73:13, by query), else of the information.
    """

    coefficient: float
    std_error: float
    queries: int
    """how many have games that tell of the coefficient"""
    scores: tuple[Floats, ...]
    """centred, in logits, by query"""
    std_errors: tuple[Floats, ...]
    """of the scores, with the error of the coefficient"""
    separated: bool = False
    """whether x orders every game, so that no coefficient is the best: then scores are NaN, too"""


@dataclass(frozen=True, slots=True)
class _Step:
    """Derivatives of the posterior of one query, for scores and the coefficient."""

    value: float
    gradient: Floats
    own: float
    """derivative by the coefficient"""
    curvature: Floats
    across: Floats
    """negated mixed second derivatives"""
    diagonal: float


def fit_with_covariate(
    games: Sequence[Games], covariates: Sequence[Floats], prior_sd: float
) -> CovariateFit:
    """Fit the scores of all queries and the coefficient that they share.

    Args:
        games: of each query; a tie is half a win for each.
        covariates: x of each game, by query; for the first against the second.
        prior_sd: standard deviation of the prior of a score, in logits.

    Raises:
        ArithmeticError: the maximum was not reached.
    """
    data = _Data(games, covariates, prior_sd)
    at = _Parameters([np.zeros(query.items) for query in games], 0.0)
    for _ in range(MAX_STEPS):
        steps = data.derive(at)
        slopes, information = zip(*map(_profile, steps), strict=True)
        total = sum(information)
        change = sum(slopes) / total if total > _NOTHING else 0.0
        moves = [_solve(step.curvature, step.gradient - step.across * change) for step in steps]
        move = _Parameters(moves, change)
        gain = change * sum(step.own for step in steps) + sum(
            float(step.gradient @ scores) for step, scores in zip(steps, moves, strict=True)
        )
        if gain <= TOLERANCE:
            return _finish(data, at.moved(move, 1.0))
        at = _climb(data, at, move, sum(step.value for step in steps))
    raise ArithmeticError(f"length control: no maximum after {MAX_STEPS} steps")


@dataclass(frozen=True, slots=True)
class _Parameters:
    """Scores by query, and the coefficient."""

    scores: Sequence[Floats]
    coefficient: float

    def moved(self, move: "_Parameters", share: float) -> "_Parameters":
        """Return the parameters after a share of a step."""
        pairs = zip(self.scores, move.scores, strict=True)
        scores = [score + share * step for score, step in pairs]
        return _Parameters(scores, self.coefficient + share * move.coefficient)


@dataclass(frozen=True, slots=True)
class _Data:
    """Games and covariates by query, and the prior of scores."""

    games: Sequence[Games]
    covariates: Sequence[Floats]
    prior_sd: float

    def derive(self, at: _Parameters) -> list[_Step]:
        """Return the derivatives of each query."""
        return [
            _derivatives(games, x, scores, at.coefficient, self.prior_sd)
            for games, x, scores in zip(self.games, self.covariates, at.scores, strict=True)
        ]


def _climb(data: _Data, at: _Parameters, move: _Parameters, value: float) -> _Parameters:
    """Take a step, halved until it does not decrease the objective."""
    share = 1.0
    floor = value - 1e-13 * (abs(value) + 1)  # near the maximum all differences are rounding
    for _ in range(50):
        trial = at.moved(move, share)
        if sum(step.value for step in data.derive(trial)) >= floor:
            break
        share /= 2
    return trial


def _derivatives(
    games: Games, x: Floats, scores: Floats, coefficient: float, prior_sd: float
) -> _Step:
    """Compute the log posterior, its gradient and negated Hessian.

    The Hessian of the scores has 1/K added in each cell: the likelihood does not see a shift of all
    scores, and this gives that direction a curvature and moves nothing else.
    """
    precision, size = prior_sd**-2, games.items
    won, lost = games.won + games.tied / 2, games.lost + games.tied / 2
    logits = scores[games.first] - scores[games.second] + coefficient * x
    chance = expit(logits)
    pull = won * (1 - chance) - lost * chance
    weight = (won + lost) * chance * (1 - chance)
    value = float(
        -(won * np.logaddexp(0, -logits) + lost * np.logaddexp(0, logits)).sum()
        - precision / 2 * scores @ scores
    )

    def net(values: Floats) -> Floats:
        ends = (np.bincount(at, values, size) for at in (games.first, games.second))
        return np.asarray(np.subtract(*ends), np.float64)

    cells = np.bincount(games.first * size + games.second, weight, size**2).reshape(size, size)
    cells = cells + cells.T
    curvature = np.asarray(np.diag(cells.sum(axis=1) + precision) - cells + 1 / size, np.float64)
    return _Step(
        value=value,
        gradient=net(pull) - precision * scores,
        own=float(pull @ x),
        curvature=curvature,
        across=net(weight * x),
        diagonal=float(weight @ x**2),
    )


def _solve(matrix: Floats, vector: Floats) -> Floats:
    return np.asarray(np.linalg.solve(matrix, vector), np.float64)


def _profile(step: _Step) -> tuple[float, float]:
    """Return the derivative by the coefficient, and its information, with the scores maximised."""
    solved = _solve(step.curvature, step.across)
    return step.own - float(step.gradient @ solved), step.diagonal - float(step.across @ solved)


def _finish(data: _Data, at: _Parameters) -> CovariateFit:
    """Compute the errors at the maximum, and centre the scores."""
    steps, coefficient = data.derive(at), at.coefficient
    slopes, information = (np.array(part) for part in zip(*map(_profile, steps), strict=True))
    total = float(information.sum())
    telling = int((information > _NOTHING).sum())
    variance = nan
    if total > _NOTHING:
        variance = 1 / total
        if telling >= CLUSTERS:
            variance = telling / (telling - 1) * float((slopes**2).sum()) / total**2
    else:
        coefficient = nan
    if isnan(coefficient) and at.coefficient:  # it moved as long as there was information
        none = tuple(np.full(len(score), nan) for score in at.scores)
        return CovariateFit(nan, nan, telling, none, none, separated=True)
    errors = [_errors(step, variance, data.prior_sd) for step in steps]
    centred = tuple(score - score.mean() for score in at.scores)
    return CovariateFit(coefficient, sqrt(variance), telling, centred, tuple(errors))


def _errors(step: _Step, variance: float, prior_sd: float) -> Floats:
    """Return the standard errors of the centred scores of a query."""
    size = len(step.gradient)
    inverse = np.linalg.inv(step.curvature)
    moved = inverse @ step.across  # how the scores follow the coefficient, which centring keeps
    moved = moved - moved.mean()
    # The curvature holds the direction that centring removes with the eigenvalue precision + 1.
    removed = 1 / (size * (prior_sd**-2 + 1))
    own = np.maximum(inverse.diagonal() - removed, 0)
    errors: Floats = np.sqrt(own + (0.0 if np.isnan(variance) else variance) * moved**2)
    return errors
