"""Compute each vote's evidence on its judge, and how well the other votes predict it.

Laplace's posterior of a difference includes the vote itself. With few votes per document this makes
expectation-maximisation shrink all slopes towards 0. So each vote's posterior is computed from its
cavity, the posterior without the votes on its pair (as in expectation propagation, Minka 2001, UAI
17:362), times its own exact likelihood. The same integral, of the vote's likelihood over its
cavity, measures how well a model predicts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.panel.arrays import inverse, sum_cells
from zelo_ray.fitting.panel.columns import VoteStack
from zelo_ray.fitting.panel.curves import Curves
from zelo_ray.fitting.panel.mode import Mode, maximise, vote_derivatives

GRID = np.linspace(-9, 9, 73)
"""Differences at which expected votes are counted."""
STEP = GRID[1] - GRID[0]
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
SHARES = _WEIGHTS / _WEIGHTS.sum()
LEARNING_TOLERANCE = 1e-2
"""Tolerance of a mode that is only used to learn."""
KEPT = 0.02
"""A cavity keeps at least this share of the posterior's precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence of some queries on their judges, which adds up over queries."""

    counts: Floats
    """expected votes by difference: [judges, order of presentation, GRID, levels -L to L]"""
    log_likelihood: float
    """of the votes, each given those on other pairs"""
    products: float
    """sum of products of residuals of two votes on one pair"""
    shared_scale: float
    """what that sum would be if both erred alike"""

    def __add__(self, other: "Evidence") -> "Evidence":
        return Evidence(
            counts=self.counts + other.counts,
            log_likelihood=self.log_likelihood + other.log_likelihood,
            products=self.products + other.products,
            shared_scale=self.shared_scale + other.shared_scale,
        )


def gather_evidence(stacks: Iterable[VoteStack], curves: Curves, own_sd: float) -> Evidence:
    """Sum the evidence of all stacks, of which there is at least one."""
    parts = [_evidence(stack, curves, own_sd) for stack in stacks]
    return sum(parts[1:], parts[0])


def _evidence(stack: VoteStack, curves: Curves, own_sd: float) -> Evidence:
    mode = maximise(stack, curves, own_sd, LEARNING_TOLERANCE)
    middle, spread = cavities(stack, mode, curves, own_sd)
    gaps = middle[:, np.newaxis] + spread[:, np.newaxis] * NODES
    chances = level_chances(stack, curves, gaps)
    vote_chances = np.take_along_axis(
        chances, (stack.level + curves.top)[:, np.newaxis, np.newaxis], 2
    )
    likelihood = vote_chances[:, :, 0] * SHARES
    totals = likelihood.sum(1)
    share = likelihood * (stack.weight / totals)[:, np.newaxis]
    products, alike = _residuals(stack, curves, gaps)
    return Evidence(
        counts=_count(stack, curves, gaps, share),
        log_likelihood=float(np.log(totals).sum()),
        products=products,
        shared_scale=alike,
    )


def cavities(stack: VoteStack, mode: Mode, curves: Curves, own_sd: float) -> tuple[Floats, Floats]:
    """Return mean and sd of each vote's difference, given votes on other pairs: [votes] each.

    Votes on one pair share an error, so none may predict another: all votes of a pair are removed
    from the posterior together. A vote of weight 0 was never in it.
    """
    gap, weight, pull = vote_derivatives(stack, curves, mode.view, mode.t)
    covariance = inverse(mode.curvature)
    gain = mode.gain
    view_covariance = None if gain is None else gain @ covariance[mode.view_query]
    variance = np.empty_like(gap)
    starts, number = pairs(stack)
    for size in np.unique(number):
        votes = starts[number == size][:, np.newaxis] + np.arange(size)
        joint = (
            _shared_covariance(stack, covariance, votes)
            if gain is None or view_covariance is None
            else _through_views(stack, mode.view, gain, view_covariance, votes, own_sd=own_sd)
        )
        information = np.maximum(weight[votes], 0)
        root = np.sqrt(information)
        norms = np.linalg.eigvalsh(joint * root[:, :, np.newaxis] * root[:, np.newaxis, :])[:, -1]
        share = np.minimum(1, (1 - KEPT) / np.maximum(norms, 1e-300))[:, np.newaxis]
        removal = (share * information)[:, :, np.newaxis] * joint
        cavity = joint @ inverse(np.eye(size) - removal)
        gap[votes] -= (cavity @ (share * pull[votes])[:, :, np.newaxis])[:, :, 0]
        variance[votes] = cavity.diagonal(axis1=1, axis2=2)
    return gap, np.sqrt(np.maximum(variance, 1e-9))


def _shared_covariance(stack: VoteStack, covariance: Floats, votes: Ints) -> Floats:
    """Return the covariance of votes' differences on each pair, if all judges see the same."""
    query, i, j = (column[votes[:, 0]] for column in (stack.query, stack.i, stack.j))
    variance = covariance[query, i, i] + covariance[query, j, j] - 2 * covariance[query, i, j]
    size = votes.shape[1]
    return np.broadcast_to(variance[:, np.newaxis, np.newaxis], (len(votes), size, size))


def _through_views(
    stack: VoteStack, view: Ints, gain: Floats, views: Floats, votes: Ints, *, own_sd: float
) -> Floats:
    """Return this covariance with own views: G_m V G_n, plus own_sd^2 G_m where m = n."""
    view, i, j = view[votes], stack.i[votes], stack.j[votes]
    covariance_gap, gain_gap = views[view, i] - views[view, j], gain[view, i] - gain[view, j]
    variance = own_sd**2 * (gain[view, i, i] + gain[view, j, j] - 2 * gain[view, i, j])
    alone = variance[:, :, np.newaxis] * (view[:, :, np.newaxis] == view[:, np.newaxis])
    joint: Floats = covariance_gap @ gain_gap.swapaxes(1, 2) + alone
    return joint


def pairs(stack: VoteStack) -> tuple[Ints, Ints]:
    """Return the index of the first vote on each pair, and the number of votes on it."""
    size = stack.prior.shape[1]
    pair = (stack.query * size + stack.i) * size + stack.j
    starts = np.flatnonzero(np.diff(pair, prepend=-1))
    return starts, np.diff(starts, append=len(pair))


def level_chances(stack: VoteStack, curves: Curves, gaps: Floats) -> Floats:
    """Compute level chances at some differences of each vote: [votes, differences, levels]."""
    x = gaps + (curves.bias[stack.judge] * stack.order)[:, np.newaxis]
    slopes, terms = curves.slopes[stack.judge], curves.terms[stack.judge]
    logits = x[:, :, np.newaxis] * slopes[:, np.newaxis, :] + terms[:, np.newaxis, :]
    chances = np.exp(logits - logits.max(2, keepdims=True))
    probabilities: Floats = chances / chances.sum(2, keepdims=True)
    return probabilities


def _count(stack: VoteStack, curves: Curves, gaps: Floats, share: Floats) -> Floats:
    """Count votes at the two points of the grid around each of their nodes, in proportion."""
    shape = (len(curves.bias), 2, len(GRID), curves.slopes.shape[1])
    at = np.clip((gaps - GRID[0]) / STEP, 0, len(GRID) - 1.000001)
    low = at.astype(np.int64)
    kind = stack.judge * 2 + (stack.order > 0)
    cell = (kind[:, np.newaxis] * shape[2] + low) * shape[3]
    cell += (stack.level + curves.top)[:, np.newaxis]
    upper = share * (at - low)
    size = int(np.prod(shape))
    counts = sum_cells(cell.ravel(), (share - upper).ravel(), size)
    counts += sum_cells((cell + shape[3]).ravel(), upper.ravel(), size)
    return counts.reshape(shape)


def _residuals(stack: VoteStack, curves: Curves, gaps: Floats) -> tuple[float, float]:
    """Sum products of residuals of two votes on one pair, and their value if judges erred alike.

    Residuals are relative to the prediction from other pairs. The uncertainty of that prediction
    moves the votes of a pair alike, which is not a shared error, and is subtracted.
    """
    starts, number = pairs(stack)
    if not (number > 1).any():
        return 0.0, 0.0
    judge = np.broadcast_to(stack.judge[:, np.newaxis], gaps.shape)
    bias = (curves.bias[stack.judge] * stack.order)[:, np.newaxis]
    means, spreads = curves.moments(judge, gaps + bias)
    mean = means @ SHARES
    residual = curves.slopes[stack.judge, stack.level + curves.top] - mean
    products = _of_two(residual, starts)
    alike = _of_two(means - mean[:, np.newaxis], starts) @ SHARES
    scale = _of_two(np.sqrt(np.maximum(spreads @ SHARES, 0)), starts)
    return float((products - alike).sum()), float(scale.sum())


def _of_two(values: Floats, starts: Ints) -> Floats:
    """Sum the products of each two different votes of a pair: [pairs, ...]."""
    squares: Floats = np.add.reduceat(values, starts) ** 2 - np.add.reduceat(values**2, starts)
    return squares
