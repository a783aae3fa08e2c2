"""What each vote says of its judge, and how well the other votes foretell it.

Laplace's posterior of a difference holds the vote itself, and with few votes a document that makes
expectation-maximisation shrink all slopes to nothing. So each vote's posterior is made anew from
its cavity, in which it has no part (as in expectation propagation, Minka 2001, UAI 17:362), times
its own exact likelihood. The same integral, of the vote's likelihood over its cavity, tells how
well a model predicts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Floats
from zelo_ray.fitting.panel.arrays import inverse, sums
from zelo_ray.fitting.panel.columns import Stack
from zelo_ray.fitting.panel.curves import Curves
from zelo_ray.fitting.panel.mode import Mode, maximise, vote_derivatives

GRID = np.linspace(-9, 9, 73)
"""Differences at which expected votes are counted."""
STEP = GRID[1] - GRID[0]
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
SHARES = _WEIGHTS / _WEIGHTS.sum()
NEAR = 1e-2
"""How near a mode has to come where it only serves to learn."""
KEPT = 0.02
"""A cavity keeps at least this share of the posterior's precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What queries tell of their judges. That of several sets of queries adds up."""

    counts: Floats
    """expected votes by difference: [judges, order of presentation, GRID, levels -L to L]"""
    log_likelihood: float
    """of the votes, each given the others, by their weight"""
    products: float
    """sum of products of standardised residuals of two votes on one pair"""
    squares: float
    """what it would be if they were equal"""

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            counts=self.counts + other.counts,
            log_likelihood=self.log_likelihood + other.log_likelihood,
            products=self.products + other.products,
            squares=self.squares + other.squares,
        )


def gather(stacks: Iterable[Stack], curves: Curves, own_sd: float) -> Evidence:
    """Evidence of all stacks; there must be one."""
    found = [_evidence(stack, curves, own_sd) for stack in stacks]
    return sum(found[1:], found[0])


def _evidence(stack: Stack, curves: Curves, own_sd: float) -> Evidence:
    mode = maximise(stack, curves, own_sd, NEAR)
    middle, spread = cavities(stack, mode, curves, own_sd)
    gaps = middle[:, np.newaxis] + spread[:, np.newaxis] * NODES
    chances = level_chances(stack, curves, gaps)
    said = np.take_along_axis(chances, (stack.level + curves.top)[:, np.newaxis, np.newaxis], 2)
    likelihood = said[:, :, 0] * SHARES
    whole = likelihood.sum(1)
    share = likelihood * (stack.weight / whole)[:, np.newaxis]
    products, squares = _residuals(stack, mode, curves)
    return Evidence(
        counts=_count(stack, curves, gaps, share),
        log_likelihood=float(stack.weight @ np.log(whole)),
        products=products,
        squares=squares,
    )


def cavities(stack: Stack, mode: Mode, curves: Curves, own_sd: float) -> tuple[Floats, Floats]:
    """Mean and sd of each vote's difference, given the other votes of the query: [votes] each.

    A vote of weight 0 has had no part in the mode, so that its cavity is the posterior.
    """
    gap, weight, pull = vote_derivatives(stack, curves, mode.view, mode.t)
    covariance = inverse(mode.curvature)
    if mode.gain is not None:
        shared = mode.gain @ covariance[mode.view_query] @ mode.gain.swapaxes(1, 2)
        covariance = own_sd**2 * mode.gain + shared
    view, i, j = mode.view, stack.i, stack.j
    variance = covariance[view, i, i] + covariance[view, j, j] - 2 * covariance[view, i, j]
    variance = np.maximum(variance, 1e-9)
    precision = np.maximum(1 / variance - weight, KEPT / variance)
    return gap - pull / precision, 1 / np.sqrt(precision)


def level_chances(stack: Stack, curves: Curves, gaps: Floats) -> Floats:
    """Chance of each level at some differences of each vote: [votes, differences, levels]."""
    x = gaps + (curves.bias[stack.judge] * stack.order)[:, np.newaxis]
    slopes, terms = curves.slopes[stack.judge], curves.terms[stack.judge]
    logits = x[:, :, np.newaxis] * slopes[:, np.newaxis, :] + terms[:, np.newaxis, :]
    chances = np.exp(logits - logits.max(2, keepdims=True))
    whole: Floats = chances / chances.sum(2, keepdims=True)
    return whole


def _count(stack: Stack, curves: Curves, gaps: Floats, share: Floats) -> Floats:
    """Votes spread over the two points of the grid between which each of their nodes lies."""
    shape = (len(curves.bias), 2, len(GRID), curves.slopes.shape[1])
    at = np.clip((gaps - GRID[0]) / STEP, 0, len(GRID) - 1.000001)
    low = at.astype(np.int64)
    kind = stack.judge * 2 + (stack.order > 0)
    cell = (kind[:, np.newaxis] * shape[2] + low) * shape[3]
    cell += (stack.level + curves.top)[:, np.newaxis]
    upper = share * (at - low)
    size = int(np.prod(shape))
    counts = sums(cell.ravel(), (share - upper).ravel(), size)
    counts += sums((cell + shape[3]).ravel(), upper.ravel(), size)
    return counts.reshape(shape)


def _residuals(stack: Stack, mode: Mode, curves: Curves) -> tuple[float, float]:
    size = stack.prior.shape[1]
    pair = (stack.query * size + stack.i) * size + stack.j
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    number = np.diff(starts, append=len(pair))
    if not (number > 1).any():
        return 0.0, 0.0
    gap = mode.t[mode.view, stack.i] - mode.t[mode.view, stack.j]
    x = gap + curves.bias[stack.judge] * stack.order
    mean, variance = curves.moments(stack.judge, x)
    said = curves.slopes[stack.judge, stack.level + curves.top]
    residual = (said - mean) / np.sqrt(variance + 1e-9)
    total = np.add.reduceat(residual, starts)
    squares = np.add.reduceat(residual**2, starts)
    return float((total**2 - squares).sum()), float((squares * (number - 1)).sum())
