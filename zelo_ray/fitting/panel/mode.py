"""Find the most likely scores given votes and grades, and the curvature there."""

from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.panel.arrays import inverse, multiply, solve, sum_by_owner, sum_cells
from zelo_ray.fitting.panel.columns import VoteStack
from zelo_ray.fitting.panel.curves import Curves

MAX_STEPS = 200
BOLD_STEPS = 20
"""The first steps are shortened only where a difference moves by more than 2; those after so many
are shortened so that each is certain to increase the posterior."""
ROUGH = 0.3
"""Tolerance of the fit without judges' own views, which is the start of the one with them."""
NEGLIGIBLE_SD = 1e-3
"""Own views of judges with at most this sd are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The maximum of the posterior of a stack, and the curvature there.

    A *view* is a query as one judge sees it: t = s + w. Without own views there is one view per
    query, which is s.
    """

    s: Floats
    """[queries, documents]"""
    curvature: Floats
    """negated Hessian of the log posterior in s, w having been maximised over: its inverse is
    Laplace's covariance of s. [queries, documents, documents]"""
    t: Floats
    """[views, documents]"""
    view: Ints
    """of each vote"""
    view_query: Ints
    """of each view"""
    gain: Floats | None
    """(I + own_sd^2 L)^-1 with L the Laplacian of the view's votes; None without own views"""


def maximise(stack: VoteStack, curves: Curves, own_sd: float, tol: float = 1e-6) -> Mode:
    """Find the most likely scores of each query in a stack, by Newton's method.

    A query's numbers do not depend, bit for bit, on the others in the stack.

    Args:
        stack: the queries.
        curves: of the judges.
        own_sd: sd of a judge's own view of a document.
        tol: largest last step of a score; steps shrink quadratically.

    Raises:
        ArithmeticError: the maximum was not reached.
    """
    if own_sd <= NEGLIGIBLE_SD:
        s = _climb(stack, curves, 0.0, stack.prior, tol)[0]
        return _mode_without_views(stack, curves, s)
    start = _climb(stack, curves, 0.0, stack.prior, max(tol, ROUGH))[0]
    s, t = _climb(stack, curves, own_sd, start, tol)
    return _mode_with_views(stack, curves, own_sd, s, t)


def _climb(
    stack: VoteStack, curves: Curves, own_sd: float, start: Floats, tol: float
) -> tuple[Floats, Floats]:
    """Return the most likely scores and views of all queries, found side by side."""
    owner, view = _views(stack, len(curves.bias), own_sd)
    s, t = start.copy(), start[owner]
    moving, rows, part = np.arange(len(s)), np.arange(len(t)), stack
    factors = None
    for number in range(MAX_STEPS):
        fresh = factors is None or not own_sd or _recomputes_curvature(number)
        laplacian, pull = _derivatives(part, curves, view, t[rows], fresh)
        if fresh or factors is None:
            factors = _factors(part, laplacian, own_sd, owner)
        next_s, next_t = _newton(
            part, factors, s[moving], t[rows], pull=pull, owner=owner, own_sd=own_sd
        )
        step = next_t - t[rows]
        spread = np.zeros(len(moving))
        np.maximum.at(spread, owner, np.ptp(step, axis=1))
        np.maximum.at(spread, owner, np.abs(step).max(1))
        cut = _cut(spread, curves, number)[:, np.newaxis]
        s[moving] += cut * (next_s - s[moving])
        t[rows] += cut[owner] * step
        far = ~(spread <= tol)
        if not far.all():
            moving, rows, part = moving[far], rows[far[owner]], part.select(far)
            factors = _Factors(factors.gain[far[owner]], factors.curvature[far])
            owner, view = _views(part, len(curves.bias), own_sd)
        if not moving.size:
            return s, t
    raise ArithmeticError(
        f"panel: {moving.size} of {len(s)} queries did not converge in {MAX_STEPS} steps"
    )


def _recomputes_curvature(number: int) -> bool:
    """Return whether a step computes the curvature again, or reuses that of the previous step.

    With own views, curvature costs far more than a gradient, and near the maximum the old one
    is good enough. The answer depends only on the step's number, so results do not depend on which
    queries share a stack.
    """
    return number < 2 or number % 3 == 1 or number >= BOLD_STEPS


def _cut(spread: Floats, curves: Curves, number: int) -> Floats:
    """Return the share of a Newton step to take.

    Where differences change by at most r, curvature changes by a factor of at most exp(b), with
    b = 2 r times the steepest slope: log(1 + b) / b of the step is certain to climb (Sun &
    Tran-Dinh 2019, Math. Program. 178:145). That is far too cautious if one level of many is steep.
    """
    if number < BOLD_STEPS:
        return np.minimum(1.0, 2 / np.maximum(spread, 1e-300))
    wide = 2 * float(curves.slopes.max()) * spread
    return np.where(wide < 1.75, 1.0, np.log1p(wide) / np.maximum(wide, 1.0))


def _views(stack: VoteStack, judges: int, own_sd: float) -> tuple[Ints, Ints]:
    """Return the query of each view, and the view of each vote."""
    if not own_sd:
        return np.arange(len(stack.places)), stack.query
    # A query without votes has a view as well, of no judge, so that every query has one.
    keys = stack.query * (judges + 1) + stack.judge
    silent = np.setdiff1d(np.arange(len(stack.places)), stack.query) * (judges + 1) + judges
    kinds = np.unique(np.concatenate([keys, silent]))
    return kinds // (judges + 1), np.searchsorted(kinds, keys)


@dataclass(frozen=True, slots=True)
class _Factors:
    """The parts of the curvature that a step needs."""

    gain: Floats
    """[views, documents, documents]; without own views empty: [views]"""
    curvature: Floats
    """of s: [queries, documents, documents]"""


def _factors(stack: VoteStack, laplacian: Floats, own_sd: float, owner: Ints) -> _Factors:
    if own_sd:
        return _Factors(*_eliminate(stack, laplacian, own_sd, owner))
    laplacian[:, *_diagonal(stack.prior)] += stack.precision
    return _Factors(np.empty(len(owner)), laplacian)


def _newton(
    stack: VoteStack,
    factors: _Factors,
    s: Floats,
    t: Floats,
    *,
    pull: Floats,
    owner: Ints,
    own_sd: float,
) -> tuple[Floats, Floats]:
    """Return the maximum of the quadratic through the log posterior: scores, and views.

    With the gain G = (I + v L)^-1, v = own_sd^2, a view is t = G (v (L t + pull) + s), in which
    v G L = I - G.
    """
    if not own_sd:
        reached = s + solve(factors.curvature, pull - (s - stack.prior) * stack.precision)
        return reached, reached
    base = t / own_sd**2
    gradient = base + multiply(factors.gain, pull - base)
    right = sum_by_owner(gradient, owner) + stack.prior * stack.precision
    reached = solve(factors.curvature, right)
    return reached, own_sd**2 * gradient + multiply(factors.gain, reached[owner])


def _derivatives(
    stack: VoteStack, curves: Curves, view: Ints, t: Floats, curved: bool = True
) -> tuple[Floats, Floats]:
    """Compute the negated Hessian (a Laplacian) and the gradient of each view's log likelihood.

    The Laplacian is empty if it is not wanted.
    """
    _, weight, pull = vote_derivatives(stack, curves, view, t)
    views, size = t.shape
    row = view * size
    gradient = sum_cells(row + stack.i, pull, views * size)
    gradient -= sum_cells(row + stack.j, pull, views * size)
    laplacian = np.empty(0)
    if curved:
        cell = (row + stack.i) * size + stack.j
        upper = sum_cells(cell, weight, views * size * size).reshape(views, size, size)
        laplacian = -(upper + upper.swapaxes(1, 2))
        laplacian[:, *_diagonal(t)] = -laplacian.sum(2)
    return laplacian, gradient.reshape(views, size)


def vote_derivatives(
    stack: VoteStack, curves: Curves, view: Ints, t: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return each vote's difference, and its log likelihood's curvature (negated) and slope."""
    flat, size = t.ravel(), t.shape[1]
    gap = flat[view * size + stack.i] - flat[view * size + stack.j]
    mean, variance = curves.moments(stack.judge, gap + curves.bias[stack.judge] * stack.order)
    slope = curves.slopes[stack.judge, stack.level + curves.top]
    return gap, stack.weight * variance, stack.weight * (slope - mean)


def _eliminate(
    stack: VoteStack, laplacian: Floats, own_sd: float, owner: Ints
) -> tuple[Floats, Floats]:
    """Eliminate the views: return their gains, and the curvature that they leave in s.

    With S = (L + I/v)^-1, v = own_sd^2, a view adds I/v - S/v^2 = (I - G)/v, where G = S/v.
    """
    diagonal = np.arange(laplacian.shape[1])
    narrowed = own_sd**2 * laplacian
    narrowed[:, diagonal, diagonal] += 1
    gain = inverse(narrowed)
    added = gain / -(own_sd**2)
    added[:, diagonal, diagonal] += own_sd**-2
    curvature = sum_by_owner(added, owner)
    curvature[:, diagonal, diagonal] += stack.precision
    return gain, curvature


def _diagonal(t: Floats) -> tuple[Ints, Ints]:
    places = np.arange(t.shape[1])
    return places, places


def _mode_without_views(stack: VoteStack, curves: Curves, s: Floats) -> Mode:
    curvature, _ = _derivatives(stack, curves, stack.query, s)
    curvature[:, *_diagonal(s)] += stack.precision
    every = np.arange(len(s))
    return Mode(s=s, curvature=curvature, t=s, view=stack.query, view_query=every, gain=None)


def _mode_with_views(stack: VoteStack, curves: Curves, own_sd: float, s: Floats, t: Floats) -> Mode:
    owner, view = _views(stack, len(curves.bias), own_sd)
    laplacian, _ = _derivatives(stack, curves, view, t)
    gain, curvature = _eliminate(stack, laplacian, own_sd, owner)
    return Mode(s=s, curvature=curvature, t=t, view=view, view_query=owner, gain=gain)
