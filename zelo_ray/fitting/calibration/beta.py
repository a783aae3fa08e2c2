"""Beta-distributed grades: each judge has a number in (0, 1) for the latent, and cuts it evenly.

The number is beta-distributed with the mean m = logistic(a x - b) and the precision phi, so with
the shapes m phi and (1 - m) phi (Ferrari & Cribari-Neto 2004, J. Appl. Stat. 31:799). Grade k is
said where it lies between k / levels and (k + 1) / levels.
"""

import numpy as np
import scipy

from zelo_ray.fitting.calibration.ratings import Floats, Ints

STEEPEST, SUREST = 5.0, float(np.log(100.0))
"""Largest slope, and log phi: see `thurstone`."""
MIDDLING = float(np.log(4.0))
"""Prior mean of log phi."""
STEP = 1e-6
"""Step of the forward differences by logit m and by log phi. They are right to 6 digits; central
ones would be right to 9, but take two thirds more time, nearly all in the incomplete beta."""
FAR = 30.0
"""Logits of m are clipped to this, and log phi to a third of it."""


def priors(levels: int) -> tuple[Floats, Floats]:  # noqa: ARG001 - families are of one shape
    """Return the means and standard deviations of the normal priors of a judge's parameters."""
    return np.array([1.0, 0.0, MIDDLING]), np.array([1.0, 5.0, 1.0])


def limits(levels: int) -> tuple[Floats, Floats]:  # noqa: ARG001 - families are of one shape
    """Return the least and the greatest values of a judge's parameters."""
    return np.array([0, -np.inf, -np.inf]), np.array([STEEPEST, np.inf, SUREST])


def start(shares: Floats) -> Floats:
    """Return initial parameters [judges, 3] for shares of grades [judges, levels], all positive.

    They are a, b and log phi.
    """
    levels = shares.shape[1]
    mean = (shares * (np.arange(levels) + 0.5) / levels).sum(axis=1)
    ones = np.ones(len(shares))
    return np.stack([ones, -scipy.special.logit(mean), MIDDLING * ones], axis=1)


def cells(parameters: Floats, x: Floats, levels: int) -> tuple[Floats, Floats]:
    """Compute the chance of each grade where the latent is x.

    Returns:
        Chances of shape [judges, levels, x], and their derivatives by each parameter, of shape
        [judges, 3, levels, x].
    """
    a, b, log_phi = (column[:, None] for column in parameters.T)
    location = a * x - b
    above = _above(location, log_phi, levels)
    by_location = _above(location + STEP, log_phi, levels) - above
    by_phi = _above(location, log_phi + STEP, levels) - above
    by = np.stack([by_location * x, -by_location, by_phi], axis=1) / STEP
    return -np.diff(above, axis=1), -np.diff(by, axis=2)


def cut_points(parameters: Floats, levels: int) -> tuple[Floats, Floats]:
    """Compute where P(grade >= k) is one half, and how sharply it rises there.

    Returns:
        Cut points of shape [judges, levels - 1], infinite or reversed if a slope is not positive,
        and for each the slope, as the inverse of the standard deviation of a normal error.
    """
    a, b, log_phi = (column[:, None] for column in parameters.T)
    low = np.full((len(parameters), levels - 1), -FAR)
    high = -low
    grades = np.arange(1, levels)
    for _ in range(50):  # halvings: to the last bits
        middle = (low + high) / 2
        under = _each_above(middle, log_phi, grades, levels) < 0.5
        low, high = np.where(under, middle, low), np.where(under, high, middle)
    rise = (_each_above(low + STEP, log_phi, grades, levels) - 0.5) / STEP
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts: Floats = (low + b) / a
    return cuts, a * rise * np.sqrt(2 * np.pi)


def _above(location: Floats, log_phi: Floats, levels: int) -> Floats:
    """Compute P(grade >= k) for k = 0 to levels, of shape [judges, levels + 1, x]."""
    inner = _each_above(location[:, None], log_phi[:, None], np.arange(1, levels)[:, None], levels)
    first = np.ones_like(inner[:, :1])
    return np.concatenate([first, inner, 0 * first], axis=1)


def _each_above(location: Floats, log_phi: Floats, k: Ints, levels: int) -> Floats:
    location, phi = np.clip(location, -FAR, FAR), np.exp(np.clip(log_phi, -FAR / 3, FAR / 3))
    above: Floats = scipy.special.betaincc(
        scipy.special.expit(location) * phi, scipy.special.expit(-location) * phi, k / levels
    )
    return above
