"""What the grades of a panel come to: means with their errors, and a fit of each judge.

In the fit (Thurstone 1927, Psychol. Rev. 34:273; Samejima 1969, Psychometrika Monograph 17) a judge
sees a document's relevance x, which is normal with standard deviation 1, with an error of its own,
and cuts what it sees into grades: P(grade >= k | x) = Phi(a x - t_k), with t_1 < t_2 < ... Its
spread is 1 / a, and it is harsh where its cuts lie high.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.records import Rater

LEVELS = 4
_TYPICAL_WEIGHT = 4.0
"""Degrees of freedom for which the run's variance between judges counts in a unit's own."""
_ROUNDING = 1e-9
"""Weights that differ by less are equal: a judge's repeats add up to 1 up to rounding."""


@dataclass(frozen=True, slots=True)
class Ratings:
    """Grades of units (documents), one entry an observation; repeats of a judge share one vote.

    Units are numbers from 0, judges their places in ``judges``. A grade is from 0 to 3, and whole
    but for means of several criteria.
    """

    unit: Ints
    judge: Ints
    grade: Floats
    units: int
    judges: tuple[str, ...]

    @property
    def weights(self) -> Floats:
        """Return the weight of each observation: 1 over the repeats of its judge and unit."""
        cells = self.unit * max(1, len(self.judges)) + self.judge
        _, place, repeats = np.unique(cells, return_inverse=True, return_counts=True)
        return np.asarray(1 / repeats[place])

    @property
    def judge_means(self) -> tuple[Ints, Floats]:
        """Return the mean of each judge's grades of a unit: the unit and the mean."""
        judges = max(1, len(self.judges))
        cells, place = np.unique(self.unit * judges + self.judge, return_inverse=True)
        return cells // judges, np.bincount(place, self.grade) / np.bincount(place)

    def matrix(self) -> NDArray[np.int16]:
        """Return grades as [judges, units], -1 where a judge gave none; of several the median."""
        cells, medians = median_grades(self.judge * self.units + self.unit, self.grade)
        matrix = np.full(len(self.judges) * self.units, -1, np.int16)
        matrix[cells] = medians
        return matrix.reshape(len(self.judges), self.units)


def median_grades(cells: Ints, grades: Floats | Ints) -> tuple[Ints, Floats]:
    """Return the distinct cells, ascending, and the median of the grades that stand in each.

    Of two middle ones it is their mean, and a half goes to the even grade.
    """
    at = np.lexsort((grades, cells))
    cells, starts, sizes = np.unique(cells[at], return_index=True, return_counts=True)
    middle = grades[at[starts + (sizes - 1) // 2]] + grades[at[starts + sizes // 2]]
    return cells, np.rint(middle / 2)


def mean(ratings: Ratings) -> Floats:
    """Return the mean grade of each unit, in which every judge counts once; NaN without any."""
    unit, means = ratings.judge_means
    with np.errstate(invalid="ignore"):
        count = np.bincount(unit, minlength=ratings.units)
        return np.asarray(np.bincount(unit, means, ratings.units) / count)


def _judge_squares(ratings: Ratings) -> tuple[Ints, Floats]:
    """Return the number of judges of each unit, and their summed squares about their mean."""
    unit, means = ratings.judge_means
    squares = np.bincount(unit, (means - mean(ratings)[unit]) ** 2, ratings.units)
    return np.bincount(unit, minlength=ratings.units), squares.astype(np.float64)


def typical_variance(ratings: Ratings) -> float:
    """Return the mean over units of the variance between their judges; NaN if none has two."""
    judges, squares = _judge_squares(ratings)
    shared = judges > 1
    return float((squares[shared] / (judges[shared] - 1)).mean()) if shared.any() else np.nan


def mean_errors(ratings: Ratings, typical: float) -> Floats:
    """Return the standard error of each unit's mean grade; NaN where the typical variance is.

    Two or three judges show little of their own variance: it is shrunk towards the run's
    `typical_variance`, as if that were known from five judges.
    """
    judges, squares = _judge_squares(ratings)
    freedom = np.maximum(judges - 1, 0)
    variance = (_TYPICAL_WEIGHT * typical + squares) / (_TYPICAL_WEIGHT + freedom)
    with np.errstate(divide="ignore", invalid="ignore"):  # a unit without judges
        return np.where(judges > 0, np.sqrt(variance / judges), np.nan)


def round_grades(values: Floats) -> Ints:
    """Return the nearest whole grades, of two equally near ones the even one; -1 for NaN."""
    return np.nan_to_num(np.rint(np.round(values, 9)), nan=-1).astype(np.int64)


def median(ratings: Ratings) -> Floats:
    """Return the median grade of each unit, midway between two where votes tie; NaN without any."""
    cells = ratings.unit * LEVELS + round_grades(ratings.grade)
    votes = np.bincount(cells, ratings.weights, ratings.units * LEVELS).reshape(-1, LEVELS)
    half, reached = votes.sum(axis=1, keepdims=True) / 2, votes.cumsum(axis=1)
    lower = (reached >= half - _ROUNDING).argmax(axis=1)
    upper = (reached > half + _ROUNDING).argmax(axis=1)
    return np.where(half[:, 0] > 0, (lower + upper) / 2, np.nan)


def disagreement(ratings: Ratings) -> Floats:
    """Return the mean difference of two judges' grades of each unit; NaN with fewer than two."""
    unit, means = ratings.judge_means
    order = np.lexsort((means, unit))
    unit, means = unit[order], means[order]
    judges = np.bincount(unit, minlength=ratings.units)
    rank = np.arange(len(unit)) - (judges.cumsum() - judges)[unit]
    # In ascending order, the sum over pairs adds a grade once for each below it and takes it off
    # once for each above.
    total = np.bincount(unit, means * (2 * rank + 1 - judges[unit]), ratings.units)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(judges > 1, total / (judges * (judges - 1) / 2), np.nan)


def grade_correlation(confusion: Floats) -> float:
    """Return Pearson's correlation of two judges' grades; NaN where one of them never varies.

    ``confusion`` has how often each pair of grades occurred, [levels, levels].
    """
    first, second = np.indices(confusion.shape).reshape(2, -1)
    if not confusion.any():
        return float("nan")
    spread = np.cov(first, second, aweights=confusion.ravel(), ddof=0)
    product = float(spread[0, 0] * spread[1, 1])
    return float(spread[0, 1]) / product**0.5 if product > 0 else float("nan")


# --- a fit of each judge ------------------------------------------------------------------------

_X = np.linspace(-5, 5, 101)
_LOG_PRIOR = -0.5 * _X**2 - np.log(np.exp(-0.5 * _X**2).sum())
_DENSITY = np.exp(_LOG_PRIOR)
_SLIP = 1e-6
"""Share of grades that count as accidental, so that no chance is 0."""
_LOWEST, _STEEPEST = 0.1, 5.0
"""A judge of a smaller slope grades at random. Judges that agree better than the steepest repeat
each other's errors, and the latent would become that common error."""
_MEANS, _SDS = np.array([1.0, 0, 0, 0]), np.array([1.0, 5, 2, 2])
"""Of the normal priors of a judge's parameters, which matter only where nothing else does."""
_BORROWED = 2.0
"""Pseudo-grades that each judge gets besides its own, in the shares of the whole panel. They keep
cut points finite that a judge's own grades do not determine."""
_NUDGE = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """Judges as fitted beside each other."""

    judges: tuple[str, ...]
    parameters: Floats
    """slope, first cut, and the logarithms of the steps to the next cuts: [judges, 4]"""
    cuts: Floats
    """where calibrated grades begin on the scale of relevance: [3]"""
    raters: tuple[Rater, ...]


def learn_panel(ratings: Ratings, anchor: str | None = None) -> Panel:
    """Fit how severe each judge is, and how far its grades can be trusted.

    Maximise the likelihood of all grades with the latents summed out (Bock & Aitkin 1981,
    Psychometrika 46:443). Judges are taken to err independently, given the latent. ``anchor``
    is the judge, such as people, whose shares of grades calibrated grades have; None: the mean
    of the judges' shares, by their weights. Raise `ArithmeticError` if the maximum was not
    reached.
    """
    if not ratings.unit.size:
        raise ValueError("there are no grades to learn from")
    judges = len(ratings.judges)
    counts, place = _patterns(ratings)
    times = np.bincount(place).astype(np.float64)
    grade_shares = np.zeros((judges, LEVELS))
    np.add.at(grade_shares, (ratings.judge, round_grades(ratings.grade)), ratings.weights)
    borrowed = _BORROWED * grade_shares.sum(axis=0) / grade_shares.sum(axis=0).sum()
    shares = grade_shares + borrowed + 1e-3
    shares /= shares.sum(axis=1, keepdims=True)
    cuts = np.sqrt(2) * scipy.special.ndtri(shares.cumsum(axis=1)[:, :-1])
    gaps = np.log(np.maximum(np.diff(cuts, axis=1), 1e-3))
    start = np.hstack([np.ones((judges, 1)), cuts[:, :1], gaps])

    def loss(point: Floats) -> tuple[float, Floats]:
        parameters = point.reshape(judges, LEVELS)
        chances, likelihood = _chances(counts, parameters)
        logs = _log_cells(parameters)
        expected = (counts.T @ (chances * times[:, np.newaxis])).reshape(judges, LEVELS, -1)
        joint = np.exp(logs) * _DENSITY
        at_all = joint.sum(axis=2, keepdims=True)
        expected += borrowed[:, np.newaxis] * joint / at_all
        value = times @ likelihood + (borrowed @ np.log(at_all[:, :, 0]).T).sum()
        slope = np.empty_like(parameters)
        for entry, step in enumerate(np.eye(LEVELS) * _NUDGE):
            rise = _log_cells(parameters + step) - _log_cells(parameters - step)
            slope[:, entry] = (expected * rise).sum(axis=(1, 2)) / (2 * _NUDGE)
        distance = (parameters - _MEANS) / _SDS
        value -= 0.5 * (distance**2).sum()
        return -value / times.sum(), (-(slope - distance / _SDS) / times.sum()).ravel()

    optimum = scipy.optimize.minimize(
        loss,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, _STEEPEST), *[(None, None)] * (LEVELS - 1)] * judges,
        options={"maxiter": 1000, "ftol": 1e-13, "gtol": 1e-6, "maxcor": 30},
    )
    if not (np.isfinite(optimum.fun) and optimum.status in (0, 2)):
        raise ArithmeticError(f"the panel fit did not converge ({optimum.message})")
    panel = np.array([name != anchor for name in ratings.judges])

    def traits(point: Floats) -> Floats:
        return _traits(point.reshape(judges, LEVELS), grade_shares, panel)

    parameters, values = optimum.x.reshape(judges, LEVELS), traits(optimum.x)
    curvature = _differences(lambda point: loss(point)[1], optimum.x)
    covariance = np.linalg.pinv((curvature + curvature.T) / 2 * times.sum(), hermitian=True)
    with np.errstate(invalid="ignore"):  # a judge that grades at random has an infinite spread
        rises = _differences(traits, optimum.x)
        errors = np.sqrt(np.maximum(np.einsum("etj,ef,ftj->tj", rises, covariance, rises), 0))
    shows_none = (grade_shares > 0).sum(axis=1) < 2  # a judge of one grade alone
    values[1, shows_none] = errors[1, shows_none] = np.nan
    weights = _weights(parameters, grade_shares, panel)
    counts = np.rint(grade_shares.sum(axis=1)).astype(np.int64)
    columns = (values[0], errors[0], values[1], errors[1], weights, counts)
    raters = tuple(map(Rater, ratings.judges, *(column.tolist() for column in columns)))
    shares_of = np.where(panel, np.nan_to_num(weights), 0.0) if anchor is None else ~panel * 1.0
    below = (shares_of @ (np.exp(_log_cells(parameters)) @ _DENSITY)).cumsum()[:-1]
    edges = np.append(_X, 2 * _X[-1] - _X[-2]) - (_X[1] - _X[0]) / 2
    at = np.append(0, _DENSITY.cumsum())
    return Panel(ratings.judges, parameters, np.interp(below, at, edges), raters)


def _differences(function: Callable[[Floats], Floats], point: Floats) -> Floats:
    """Return the derivatives of a function by each entry of its point."""
    steps = np.eye(point.size) * _NUDGE
    return np.stack([(function(point + s) - function(point - s)) / (2 * _NUDGE) for s in steps])


def calibrate(panel: Panel, ratings: Ratings) -> tuple[Floats, Floats, Floats]:
    """Return by unit the mean and the standard deviation of its calibrated grade.

    Return also the chances of grades 1 to 3 or more, [units, 3]; all NaN without grades. A unit's
    numbers depend, bit for bit, on its own grades alone. The judges may be some of the panel's.
    """
    rows = [panel.judges.index(name) for name in ratings.judges]
    counts, place = _patterns(ratings)
    chances, _ = _chances(counts, panel.parameters[rows])
    # A place of the grid represents the step around it, which a cut point may divide.
    step = _X[1] - _X[0]
    reach = np.clip((_X - panel.cuts[:, np.newaxis]) / step + 0.5, 0, 1)
    above = np.stack([(chances * each).sum(axis=1) for each in reach], axis=1)[place]
    above[np.bincount(ratings.unit, minlength=ratings.units) == 0] = np.nan
    grade = above.sum(axis=1)
    variance = (above * (2 * np.arange(1, LEVELS) - 1)).sum(axis=1) - grade**2
    return grade, np.sqrt(np.maximum(variance, 0)), above


def _patterns(ratings: Ratings) -> "tuple[scipy.sparse.csr_array, Ints]":
    """Count each unit's grades by judge and grade; return the distinct rows, and each unit's."""
    width = len(ratings.judges) * LEVELS
    cells = ratings.unit * width + ratings.judge * LEVELS + round_grades(ratings.grade)
    counts = np.bincount(cells, ratings.weights, ratings.units * width)
    rows = counts.astype(np.float64).reshape(ratings.units, width)
    _, first, place = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)  # as they first appear, so that sums keep their order
    return scipy.sparse.csr_array(rows[first[order]]), np.argsort(order)[place.reshape(-1)]


def _log_cells(parameters: Floats) -> Floats:
    """Return the logarithms of the chances of grades where relevance is `_X`: [judges, 4, x]."""
    cuts = np.hstack([parameters[:, 1:2], np.exp(parameters[:, 2:])]).cumsum(axis=1)
    reach = parameters[:, :1, np.newaxis] * _X - cuts[:, :, np.newaxis]
    # Computed from the nearer tail, so that small chances keep their digits.
    upper, lower = scipy.special.ndtr(reach), scipy.special.ndtr(-reach)
    between = np.where(reach[:, 1:] < 0, upper[:, :-1] - upper[:, 1:], lower[:, 1:] - lower[:, :-1])
    chances = np.concatenate([lower[:, :1], between, upper[:, -1:]], axis=1)
    logs: Floats = np.log((1 - _SLIP) * np.maximum(chances, 0) + _SLIP / LEVELS)
    return logs


def _chances(counts: "scipy.sparse.csr_array", parameters: Floats) -> tuple[Floats, Floats]:
    """Return the posterior of relevance by row, [rows, x], and the log likelihood of each row."""
    # Sparse times dense adds up row by row, in the order of the columns; BLAS need not.
    exponent = counts @ _log_cells(parameters).reshape(-1, len(_X)) + _LOG_PRIOR
    top = exponent.max(axis=1, keepdims=True)
    chances = np.exp(exponent - top)
    total = chances.sum(axis=1, keepdims=True)
    return chances / total, (top + np.log(total))[:, 0]


def _traits(parameters: Floats, grade_shares: Floats, panel: NDArray[np.bool_]) -> Floats:
    """Return severity and spread of each judge, in standard deviations of relevance: [2, judges].

    Severity is the mean distance of a judge's cut points from the panel's, weighted by how many
    documents lie there, so that one which a judge never reaches does not matter.
    """
    slope = parameters[:, :1]
    sighted = slope[:, 0] > _LOWEST
    with np.errstate(divide="ignore", invalid="ignore"):
        cuts = np.hstack([parameters[:, 1:2], np.exp(parameters[:, 2:])]).cumsum(axis=1) / slope
        near = np.exp(-0.5 * np.minimum(np.abs(np.nan_to_num(cuts)), 8) ** 2)
        weight = grade_shares.sum(axis=1, keepdims=True) * slope**2 * near
        weight = np.where((sighted & panel)[:, np.newaxis], weight, 0)
        usual = (weight * np.where(weight > 0, cuts, 0)).sum(axis=0) / weight.sum(axis=0)
        harsher = (near * (cuts - np.maximum.accumulate(usual))).sum(axis=1) / near.sum(axis=1)
        spread = 1 / slope[:, 0]
    return np.stack([np.where(sighted, harsher, np.nan), np.where(sighted, spread, np.inf)])


def _weights(parameters: Floats, grade_shares: Floats, panel: NDArray[np.bool_]) -> Floats:
    """Return each judge's share of the information in grades; NaN for the anchor."""
    chances = np.exp(_log_cells(parameters))
    slope = np.gradient(chances, _X, axis=-1)
    information = (slope**2 / chances).sum(axis=1) @ _DENSITY * grade_shares.sum(axis=1)
    information = np.where(panel, information, np.nan)
    if np.nansum(information) < _ROUNDING:
        information = np.where(panel, 1.0, np.nan)
    weights: Floats = information / np.nansum(information)
    return weights
