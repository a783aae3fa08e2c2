"""Fit the ratings of items to their comparisons, with the options that other programs have."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from zelo_ray.fitting.identifiability import Unrated, why_unrated
from zelo_ray.fitting.outcomes import Floats, Games, OutcomeModel, PairSheet

MAX_STEPS = 200
TOLERANCE = 1e-20
"""Twice what the last step may still add to the objective (Newton's decrement)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRatings:
    """Scores of the items that comparisons determine, or the reason why there are none."""

    scores: Floats = field(default_factory=lambda: np.empty(0))
    std_errors: Floats = field(default_factory=lambda: np.empty(0))
    effects: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """``order`` (h) and ``tie`` (c) with their standard errors, where they are fitted"""
    reason: Unrated | None = None


def rate(games: Games, model: OutcomeModel, reference: int | None = None) -> FittedRatings:
    """Fit the scores of one query.

    Standard errors are of the inverse information (with a prior: of Laplace's approximation) and
    refer to the scores as returned: centred, or differences to the reference.

    Args:
        games: its comparisons, each between two items.
        model: the model to fit.
        reference: the item whose score is 0; None: the mean is.

    Returns:
        Scores and standard errors in logits, of shape [items]; or the reason why there are none:
        the comparisons do not link the items, or the likelihood has no finite maximum.

    Raises:
        ValueError: a weight is negative or not finite.
        ArithmeticError: the maximum was not reached.
    """
    sheet = PairSheet.from_games(games, model)
    if reason := why_unrated(sheet):
        return FittedRatings(reason=reason)
    try:
        parameters = _maximise(sheet)
        _, _, curvature = sheet.evaluate(parameters)
        covariance = np.linalg.inv(curvature)
    except np.linalg.LinAlgError:
        raise ArithmeticError("Bradley-Terry: weights differ by too much") from None
    size = games.items
    origin = np.full(size, 1 / size) if reference is None else np.eye(size)[reference]
    scores = parameters[:size] - origin @ parameters[:size]
    block = covariance[:size, :size]
    shared = block @ origin
    variances = np.maximum(block.diagonal() - 2 * shared + origin @ shared, 0)
    names = [
        name for name, is_fitted in (("order", model.order), ("tie", sheet.has_ties)) if is_fitted
    ]
    effects = {
        name: (float(parameters[at]), float(np.sqrt(covariance[at, at])))
        for at, name in enumerate(names, size)
    }
    return FittedRatings(scores=scores, std_errors=np.sqrt(variances), effects=effects)


def _maximise(sheet: PairSheet) -> Floats:
    """Maximise by Newton's method from 0, halving a step that would decrease the objective.

    Firth's correction is as curved as the likelihood where each pair met once, and the information
    does not include it: full steps would oscillate there.
    """
    parameters = np.zeros(sheet.size)
    value, gradient, curvature = sheet.evaluate(parameters)
    games = float(sheet.counts.sum())
    for _ in range(MAX_STEPS):
        step = np.linalg.solve(curvature, gradient) / (2 if sheet.model.firth else 1)
        if gradient @ step <= TOLERANCE:
            return parameters + step
        # Near the maximum all differences are rounding.
        floor = value - 1e-13 * (games + abs(value))
        for _ in range(50):
            trial = sheet.evaluate(parameters + step)
            if trial[0] >= floor:
                break
            step = step / 2
        parameters = parameters + step
        value, gradient, curvature = trial
    raise ArithmeticError(f"Bradley-Terry: no maximum after {MAX_STEPS} steps")
