"""Fit a panel of graders, and compute each unit's posterior from its grades."""

from dataclasses import dataclass

import numpy as np
import scipy

from zelo_ray.fitting.calibration import thurstone
from zelo_ray.fitting.calibration.likelihood import (
    Lattice,
    Target,
    build_lattice,
    chunks,
    log_chances,
    posteriors,
)
from zelo_ray.fitting.calibration.raters import GradeTally, describe_raters, find_cut_points
from zelo_ray.fitting.calibration.ratings import (
    Floats,
    Ints,
    Ratings,
    find_distinct_rows,
    has_grades,
    shared_weights,
)
from zelo_ray.records import Rater

BORROWED = 2.0
"""Pseudo-grades that each judge gets besides its own, of no document in particular, in the shares
of the whole panel. They keep cut points finite that a judge's own grades do not determine."""
MAX_STEPS = 1000
NEAR = 1e-3
"""A fit has converged where a Newton step would add less than this to the log likelihood: then no
parameter is further than .045 standard errors from the maximum."""
ROUNDS, STRAYED = 10, 1.5
"""With offsets, a grid is built for a guess of sd, at most `ROUNDS` times, until the fit's sd is
within this factor of the guess."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A fitted panel."""

    judges: tuple[str, ...]
    levels: int
    parameters: Floats
    """of shape [judges, parameters], for a latent divided by ``unit``"""
    unit: float
    """root mean square of the offsets; 1 without them"""
    sd: float
    """standard deviation of a unit's latent: of a query's shift where there are offsets, else 1"""
    cuts: Floats
    """cut points of calibrated grades, of shape [levels - 1], on the scale of the latent"""
    raters: tuple[Rater, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Estimates of units from their grades, of shape [units] each; NaN, and grade -1, without any.

    ``mean`` and ``sd`` are of the latent (without its offsets); ``grade_mean`` and ``grade_sd`` of
    the calibrated grade as a number from 0 to levels - 1, and ``grade`` is the nearest whole
    number. ``at_least`` has the chances of grades 1 to levels - 1 or more, of shape
    [units, levels - 1]; ``log_likelihood`` is of the unit's own grades.
    """

    mean: Floats
    sd: Floats
    grade_mean: Floats
    grade_sd: Floats
    grade: Ints
    at_least: Floats
    log_likelihood: Floats


def learn(
    ratings: Ratings,
    anchor: str | None = None,
    clusters: Ints | None = None,
) -> Model:
    """Fit a panel: how severe each judge is, and how far its grades can be trusted.

    Maximises the likelihood of all grades, with the latents summed out (Bock & Aitkin 1981,
    Psychometrika 46:443) and weak priors for the judges. Judges are taken to err independently of
    each other, given the latent.

    Args:
        ratings: grades; units without any do not matter.
        anchor: the judge whose grades are the scale of calibrated ones, such as the human; None:
            the panel's own scale, the mean of the judges by their weights.
        clusters: of shape [units], what units share (their query), for standard errors of judges
            that allow for errors shared within a cluster; None: units are independent.

    Raises:
        ValueError: the anchor is unknown, or there is no grade.
        ArithmeticError: the maximum was not reached.
    """
    if anchor is not None and anchor not in ratings.judges:
        raise ValueError(f"the anchor {anchor!r} is none of the judges")
    if not ratings.unit.size:
        raise ValueError("there are no grades to learn from")
    grade_counts = _count_grades(ratings)
    unit = 1.0
    if ratings.offset is not None:
        unit = float(np.sqrt(np.mean(ratings.offset**2))) or 1.0
    guess, point = 1.0, _start(grade_counts, ratings.offset is not None)
    for _ in range(ROUNDS):
        target, place = _target(ratings, grade_counts, guess, unit)
        point = _maximum(target, point)
        parameters, sd = target.split(point)
        if 1 / STRAYED < sd / guess < STRAYED:
            break
        guess = sd
    else:
        raise ArithmeticError(f"the spread of the latent did not settle in {ROUNDS} grids")
    covariance = _covariance(target, point, place, clusters)[: parameters.size, : parameters.size]
    spread = 1.0 if ratings.offset is None else float(np.hypot(sd, 1))
    tally = GradeTally(ratings.judges, grade_counts, spread, anchor)
    raters = describe_raters(tally, parameters, covariance)
    weights = np.array([rater.weight for rater in raters])
    cuts = find_cut_points(tally, parameters, weights, *target.density(point)) * unit
    return Model(ratings.judges, ratings.levels, parameters, unit, sd * unit, cuts, raters)


def compute_posterior(model: Model, ratings: Ratings) -> Posterior:
    """Compute the posterior of units from the grades of judges that the model knows.

    A unit's numbers depend, bit for bit, on its own grades alone, and not on their order.

    Args:
        model: a fitted panel.
        ratings: grades of any units; the judges may be fewer than the model's, in any order.

    Raises:
        ValueError: the model does not know a judge, or has other levels.
    """
    if unknown := set(ratings.judges) - set(model.judges):
        raise ValueError(f"the panel was fitted without {', '.join(sorted(unknown))}")
    if ratings.levels != model.levels:
        raise ValueError(f"the panel was fitted with {model.levels} levels, not {ratings.levels}")
    lattice, counts = build_lattice(ratings, model.sd / model.unit, model.unit)
    first, place = find_distinct_rows(counts)
    judge_rows = [model.judges.index(name) for name in ratings.judges]
    parameters = model.parameters[judge_rows]
    logs, _ = log_chances(parameters, lattice, model.levels)
    stretches = lattice.stretches(logs)
    log_prior = lattice.log_prior(model.sd / model.unit)
    counts = counts[first]
    parts = [
        _moments(*posteriors(counts[part], stretches, log_prior), lattice, model)
        for part in chunks(len(first), len(log_prior))
    ]
    columns = np.concatenate(parts, axis=1)[:, place]
    columns[:, ~has_grades(ratings)] = np.nan
    mean, sd, grade_mean, grade_sd, log_likelihood = columns[:5]
    grade = np.nan_to_num(np.floor(grade_mean + 0.5), nan=-1).astype(np.int64)
    return Posterior(mean, sd, grade_mean, grade_sd, grade, columns[5:].T, log_likelihood)


def _moments(chances: Floats, log_likelihood: Floats, lattice: Lattice, model: Model) -> Floats:
    """Compute for each row: mean and sd of latent and grade, log likelihood, chances of grades."""
    x = lattice.places * model.unit
    mean = (chances * x).sum(axis=1)
    variance = (chances * (x - mean[:, np.newaxis]) ** 2).sum(axis=1)
    # A place of the grid represents the step around it, which a cut point may divide.
    step = lattice.step * model.unit
    above = np.array(
        [(chances * np.clip((x - cut) / step + 0.5, 0, 1)).sum(axis=1) for cut in model.cuts]
    )
    grade = above.sum(axis=0)
    odd = 2 * np.arange(1, model.levels)[:, np.newaxis] - 1
    grade_variance = np.maximum((odd * above).sum(axis=0) - grade**2, 0)
    moments = [mean, np.sqrt(variance), grade, np.sqrt(grade_variance), log_likelihood]
    return np.stack([*moments, *above])


def _count_grades(ratings: Ratings) -> Floats:
    """Sum the weights of the grades of each judge, of shape [judges, levels]."""
    cells = ratings.judge * ratings.levels + ratings.grade
    size = len(ratings.judges) * ratings.levels
    sums = np.bincount(cells, shared_weights(ratings), size).astype(np.float64)
    return sums.reshape(-1, ratings.levels)


def _panel_shares(grades: Floats) -> Floats:
    """Return the shares of grades in the whole panel, none of them 0."""
    total = grades.sum(axis=0) + 1
    shares: Floats = total / total.sum()
    return shares


def _start(grades: Floats, with_sd: bool) -> Floats:
    borrowed = grades + BORROWED * _panel_shares(grades)
    shares = borrowed / borrowed.sum(axis=1, keepdims=True)
    point: Floats = thurstone.start(shares).ravel()
    return np.append(point, 0.0) if with_sd else point


def _target(ratings: Ratings, grades: Floats, sd: float, unit: float) -> tuple[Target, Ints]:
    """Build the target of the fit, and the row of each unit; borrowed grades follow these rows."""
    lattice, counts = build_lattice(ratings, sd, unit)
    first, place = find_distinct_rows(counts)
    judges, levels = grades.shape
    kinds = np.arange(judges * levels)
    columns = kinds * lattice.span - lattice.low
    borrowed = scipy.sparse.csr_array(
        (np.ones(len(kinds)), (kinds, columns)), shape=(len(kinds), counts.shape[1])
    )
    times = np.concatenate(
        [
            np.bincount(place, has_grades(ratings), len(first)),
            np.tile(BORROWED * _panel_shares(grades), judges),
        ]
    )
    rows = scipy.sparse.csr_array(scipy.sparse.vstack([counts[first], borrowed]))
    with_sd, told_apart = ratings.offset is not None, (grades > 0).sum(axis=1) > 1
    return Target(judges, levels, lattice, rows, times, with_sd, told_apart), place


def _maximum(target: Target, start: Floats) -> Floats:
    """Find the point of the highest posterior with no slope below 0.

    So a judge that contradicts the others gets no weight, instead of reversing the scale; nor does
    one that has used one grade only, whose slope could be anything.
    """
    width = (len(start) - target.with_sd) // target.judges
    open_ended = np.full(int(target.with_sd), np.inf)
    low, high = thurstone.limits(target.levels)
    lowest = np.append(np.tile(low, target.judges), -open_ended)
    highest = np.append(np.tile(high, target.judges), open_ended)
    highest[: target.judges * width : width] *= target.uses_several_grades
    point: Floats = np.clip(start, lowest, highest)
    for share in (1e-3, 1e-5):  # the first is nearly always enough
        tolerance = share / np.sqrt(target.times.sum())
        optimum = scipy.optimize.minimize(
            target.loss,
            point,
            jac=True,
            method="L-BFGS-B",
            bounds=scipy.optimize.Bounds(lowest, highest),
            options={"maxiter": MAX_STEPS, "ftol": 0, "gtol": tolerance, "maxcor": 30},
        )
        point = optimum.x
        loss, gradient = target.loss(point)
        held = (point <= lowest) & (gradient > 0) | (point >= highest) & (gradient < 0)
        gradient = np.where(held, 0, gradient) * target.times.sum()
        promised = gradient @ np.linalg.solve(_information(target, point)[0], gradient) / 2
        if np.isfinite(loss) and promised < NEAR:
            return point
    raise ArithmeticError(
        f"the panel fit did not converge in {optimum.nit} steps ({optimum.message})"
    )


def _information(target: Target, point: Floats) -> tuple[Floats, Floats]:
    """Return the observed information (outer product of scores, and priors), and the scores."""
    scores = target.scores(point)
    information: Floats = (scores * target.times[:, np.newaxis]).T @ scores
    information += np.diag(target.prior(point)[1])
    return information, scores


def _covariance(target: Target, point: Floats, place: Ints, clusters: Ints | None) -> Floats:
    """Return the covariance of the point: the inverse information, or clusters' sandwich of it."""
    information, scores = _information(target, point)
    inverse: Floats = np.linalg.inv(information).astype(np.float64)
    if clusters is None:
        return inverse
    _, cluster = np.unique(clusters, return_inverse=True)
    shape = (int(cluster.max()) + 1, len(scores))
    sums = scipy.sparse.csr_array((np.ones(len(place)), (cluster, place)), shape=shape) @ scores
    # The priors' information is kept; few clusters make the sums look too much alike.
    unit_scores = scores[place]
    meat = (
        information - unit_scores.T @ unit_scores + sums.T @ sums * shape[0] / max(1, shape[0] - 1)
    )
    root = np.linalg.cholesky(inverse)
    stretch, along = np.linalg.eigh(root.T @ meat @ root)  # never less than if independent
    sandwiched: Floats = (root @ along * np.maximum(stretch, 1)) @ (root @ along).T
    return sandwiched
