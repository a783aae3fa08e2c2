"""Describe judges by a fit: cut points of the panel, severity, spread and weight of each."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.fitting.calibration import thurstone
from zelo_ray.fitting.calibration.likelihood import SLIP
from zelo_ray.fitting.calibration.ratings import Floats
from zelo_ray.records import Rater

NUDGE = 1e-4
"""Step of the central differences by parameters."""
NOTHING = 1e-9
"""Information of a panel below this is rounding."""
LOWEST_SLOPE = 0.1
"""A judge of a smaller slope, by a standard deviation of relevance, grades at random."""


@dataclass(frozen=True, slots=True)
class GradeTally:
    """The grades of each judge, and the spread of relevance, by which cut points are weighed."""

    judges: tuple[str, ...]
    given: Floats
    """weight of all grades of each, of shape [judges, levels]"""
    sd: float
    """of relevance, in the units of the parameters"""
    anchor: str | None


def find_cut_points(
    tally: GradeTally, parameters: Floats, weights: Floats, x: Floats, density: Floats
) -> Floats:
    """Return the cut points of calibrated grades, ascending, of shape [levels - 1].

    Each grade is as frequent as the anchor would give it; without an anchor, as frequent as the
    judges give it on average, by their weights. Otherwise the panel, having less noise, would give
    the lowest and highest grades less often than its judges do.

    Args:
        tally: the judges and their grades.
        parameters: of shape [judges, parameters].
        weights: of the judges, summing to 1.
        x: even places of the latent.
        density: how much lies there, summing to 1.
    """
    chances, _ = thurstone.cells(parameters, x)
    if tally.anchor is not None:
        weights = (np.array(tally.judges) == tally.anchor).astype(np.float64)
    below = (weights @ (chances @ density)).cumsum()[:-1]
    # A place of the grid represents the step around it.
    edges = np.append(x, 2 * x[-1] - x[-2]) - (x[1] - x[0]) / 2
    cuts: Floats = np.interp(below, np.append(0, density.cumsum()), edges)
    return cuts


def describe_raters(tally: GradeTally, parameters: Floats, covariance: Floats) -> tuple[Rater, ...]:
    """Describe each judge by the fit, with standard errors by the delta method.

    Args:
        tally: the judges and their grades.
        parameters: of shape [judges, parameters].
        covariance: of the same, flattened.

    Returns:
        Raters whose weights sum to 1, except for the anchor's, which is NaN, as it sets the scale.
    """
    severity, spread = _traits(tally, parameters)
    jacobian = np.empty((2, len(severity), parameters.size))
    for entry in range(parameters.size):
        nudge = np.zeros(parameters.size)
        nudge[entry] = NUDGE
        ahead = _traits(tally, parameters + nudge.reshape(parameters.shape))
        behind = _traits(tally, parameters - nudge.reshape(parameters.shape))
        with np.errstate(invalid="ignore"):
            jacobian[..., entry] = (np.stack(ahead) - np.stack(behind)) / (2 * NUDGE)
    variances = np.einsum("tji,ik,tjk->tj", jacobian, covariance, jacobian)
    # Rounding may leave a variance of 0, as of the one judge that is the panel, a little below.
    errors = np.sqrt(np.maximum(variances, 0))
    weights = _weights(tally, parameters)
    return tuple(
        Rater(
            judge,
            severity=float(severity[j]),
            severity_error=float(errors[0, j]),
            spread=float(spread[j]),
            spread_error=float(errors[1, j]),
            weight=float(weights[j]),
            grades=round(float(tally.given[j].sum())),
        )
        for j, judge in enumerate(tally.judges)
    )


def _weights(tally: GradeTally, parameters: Floats) -> Floats:
    """Return each judge's share of the information in grades; equal shares where there is none."""
    panel = np.array(tally.judges) != tally.anchor
    information = np.where(panel, _information(tally, parameters) * tally.given.sum(axis=1), np.nan)
    if np.nansum(information) < NOTHING:
        information = np.where(panel, 1.0, np.nan)
    weights: Floats = information / np.nansum(information)
    return weights


def _panel_cuts(tally: GradeTally, cuts: Floats, slopes: Floats) -> Floats:
    weights = tally.given.sum(axis=1, keepdims=True) * slopes**2 * _density(cuts, tally.sd)
    weights = np.where(
        (slopes * tally.sd > LOWEST_SLOPE) & (np.array(tally.judges) != tally.anchor)[:, None],
        weights,
        0,
    )
    if not (
        weights.sum(axis=0) > 0
    ).all():  # no judge is informative: use the shares of their grades
        shares = tally.given.sum(axis=0) + 1
        below = shares.cumsum()[:-1] / shares.sum()
        empty: Floats = tally.sd * scipy.special.ndtri(below)
        return empty
    means = (weights * np.where(weights > 0, cuts, 0)).sum(axis=0) / weights.sum(axis=0)
    ascending: Floats = np.maximum.accumulate(means)
    return ascending


def _traits(tally: GradeTally, parameters: Floats) -> tuple[Floats, Floats]:
    """Compute severity and spread, in standard deviations of relevance.

    Cut points are weighted by how many documents lie there, so that one that a judge never reaches
    does not determine its severity.
    """
    cuts, slopes = thurstone.cut_points(parameters)
    sighted: NDArray[np.bool_] = np.all(slopes * tally.sd > LOWEST_SLOPE, axis=1)
    weights = np.where(sighted[:, np.newaxis], _density(cuts, tally.sd), 1.0)
    weights /= weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        harsher = (weights * (cuts - _panel_cuts(tally, cuts, slopes))).sum(axis=1) / tally.sd
        slope = (weights * slopes).sum(axis=1) * tally.sd
    severity = np.where(sighted, harsher, np.nan)
    return severity, np.where(sighted, 1 / np.where(sighted, slope, 1), np.inf)


def _density(x: Floats, sd: float) -> Floats:
    # A floor, so that the cuts of a judge that always gives one grade still have some weight.
    with np.errstate(invalid="ignore"):
        density: Floats = np.exp(-0.5 * np.minimum(np.abs(np.nan_to_num(x) / sd), 8) ** 2)
    return density


def _information(tally: GradeTally, parameters: Floats) -> Floats:
    """Compute the mean Fisher information on the latent in a grade of each judge."""
    x = np.linspace(-5, 5, 201) * tally.sd
    chances, _ = thurstone.cells(parameters, x)
    chances = np.maximum(chances, 0) + SLIP
    grade_information = (np.gradient(chances, x, axis=-1) ** 2 / chances).sum(axis=1)
    density = np.exp(-0.5 * (x / tally.sd) ** 2)
    information: Floats = grade_information @ density / density.sum()
    return information
