"""The objective of the panel's fit: the likelihood of all grades, and the priors of the judges.

The latent is summed out on an even grid: a unit's latent takes the places i * step, normally
distributed. Where offsets shift it, chances are computed once on a longer grid, the lattice, and
each observation looks up the stretch that begins at its shift. On an even grid the trapezoid sum
of a bell-shaped function is exact up to exp(-2 pi^2 (sd / step)^2), so it needs fewer places than
Gauss-Hermite nodes for units with many grades, whose posterior is narrow.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.fitting.calibration import thurstone
from zelo_ray.fitting.calibration.ratings import Floats, Ratings, count_features

STEP, REACH = 0.1, 5.0
"""Step and half-width of the grid, in standard deviations of the latent."""
SLIP = 1e-6
"""Share of grades that count as accidental, so that no chance is 0."""
CHUNK_CELLS = 2**20
"""Cells of a chunk of posteriors: 8 MB."""
LOG_SD_SPREAD = 1.0
"""Standard deviation of the prior of log sd, around the root mean square of the offsets."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """Places of latents, from -half to half steps, and shifts of low to low + span - 1 steps."""

    step: float
    half: int
    low: int = 0
    span: int = 1

    @property
    def places(self) -> Floats:
        """Return the places where latents may lie, of shape [places]."""
        return np.arange(-self.half, self.half + 1, dtype=np.float64) * self.step

    @property
    def x(self) -> Floats:
        """Return the places where shifted latents may lie: all places, and span - 1 more."""
        first, end = self.low - self.half, self.low + self.half + self.span
        return np.arange(first, end, dtype=np.float64) * self.step

    def log_prior(self, sd: float) -> Floats:
        """Compute the logarithms of the chances of the places."""
        exponent: Floats = -0.5 * (self.places / sd) ** 2
        chances: Floats = exponent - scipy.special.logsumexp(exponent)
        return chances

    def stretches(self, table: Floats) -> Floats:
        """Expand rows over ``x`` to rows over ``places``, one a shift: [rows * span, places]."""
        views = np.lib.stride_tricks.sliding_window_view(table, 2 * self.half + 1, axis=1)
        return views.reshape(-1, 2 * self.half + 1)

    def gathered(self, stretches: Floats) -> Floats:
        """Apply the transpose of ``stretches``: sums of shape [rows, x]."""
        width = 2 * self.half + 1
        blocks = stretches.reshape(-1, self.span, width)
        table = np.zeros((len(blocks), width + self.span - 1))
        for shift in range(self.span):
            table[:, shift : shift + width] += blocks[:, shift]
        return table


@dataclass(frozen=True, slots=True)
class Target:
    """The objective as a function of a point, with the grades as counts of distinct rows.

    A point holds the parameters of one judge after the other, then log sd if ``with_sd``.
    """

    judges: int
    levels: int
    lattice: Lattice
    counts: "scipy.sparse.csr_array"
    times: Floats
    """how many units have each row"""
    with_sd: bool
    uses_several_grades: NDArray[np.bool_]
    """which judges have used two grades or more"""

    def split(self, point: Floats) -> tuple[Floats, float]:
        """Split a point into parameters of shape [judges, parameters], and sd."""
        if self.with_sd:
            return point[:-1].reshape(self.judges, -1), float(np.exp(point[-1]))
        return point.reshape(self.judges, -1), 1.0

    def prior(self, point: Floats) -> tuple[Floats, Floats]:
        """Return means and precisions (inverse variances) of the normal priors of the entries."""
        means, sds = thurstone.priors(self.levels)
        means, precisions = np.tile(means, self.judges), np.tile(sds**-2.0, self.judges)
        if self.with_sd:
            means, precisions = np.append(means, 0.0), np.append(precisions, LOG_SD_SPREAD**-2)
        return means.reshape(point.shape), precisions.reshape(point.shape)

    def loss(self, point: Floats) -> tuple[float, Floats]:
        """Compute the negated log posterior per unit, and its gradient.

        The gradient of a likelihood with a sum inside is the posterior mean of the gradient that
        would hold without it (Fisher's identity, as in Bock & Aitkin 1981, Psychometrika 46:443).
        """
        total, expected, by, shift = self._expected(point)
        gradient = (expected[:, np.newaxis] * by).sum(axis=(2, 3)).ravel()
        if self.with_sd:
            gradient = np.append(gradient, shift)
        means, precisions = self.prior(point)
        off = point - means
        total -= 0.5 * float(precisions @ off**2)
        units = self.times.sum()
        return -total / units, -(gradient - precisions * off) / units

    def density(self, point: Floats) -> tuple[Floats, Floats]:
        """Return the places of the shifted latent, and the share of all grades given at each."""
        held = self._expected(point)[1].sum(axis=(0, 1))
        return self.lattice.x, held / held.sum()

    def scores(self, point: Floats) -> Floats:
        """Compute the derivatives of each row's log likelihood, [rows, entries of the point]."""
        parameters, sd = self.split(point)
        logs, by = log_chances(parameters, self.lattice, self.levels)
        stretches, log_prior = self.lattice.stretches(logs), self.lattice.log_prior(sd)
        width = by.shape[1]
        gradient = np.empty((len(self.times), len(point)))
        columns = self.levels * self.lattice.span
        for part in chunks(len(self.times), len(log_prior)):
            chances, _ = posteriors(self.counts[part], stretches, log_prior)
            if self.with_sd:
                gradient[part, -1] = chances @ self._by_log_sd(log_prior, sd)
            counts = self.counts[part].tocsc()
            for judge in range(self.judges):
                judge_counts = counts[:, judge * columns : (judge + 1) * columns].tocsr()
                for parameter in range(width):
                    slopes = self.lattice.stretches(by[judge, parameter])
                    gradient[part, judge * width + parameter] = (
                        (judge_counts @ slopes) * chances
                    ).sum(axis=1)
        return gradient

    def _expected(self, point: Floats) -> tuple[float, Floats, Floats, float]:
        """Compute the log likelihood, and the expected grades on the lattice, [judges, levels, x].

        Return also the derivatives of their log chances, and that of the likelihood by log sd.
        """
        parameters, sd = self.split(point)
        logs, by = log_chances(parameters, self.lattice, self.levels)
        stretches, log_prior = self.lattice.stretches(logs), self.lattice.log_prior(sd)
        total, held = 0.0, np.zeros_like(stretches)
        where = np.zeros(len(log_prior))
        for part in chunks(len(self.times), len(log_prior)):
            chances, likelihoods = posteriors(self.counts[part], stretches, log_prior)
            total += float(self.times[part] @ likelihoods)
            chances *= self.times[part, np.newaxis]
            held += self.counts[part].T @ chances
            where += chances.sum(axis=0)
        expected = self.lattice.gathered(held).reshape(self.judges, self.levels, -1)
        return total, expected, by, float(where @ self._by_log_sd(log_prior, sd))

    def _by_log_sd(self, log_prior: Floats, sd: float) -> Floats:
        squares = (self.lattice.places / sd) ** 2
        derivatives: Floats = squares - np.exp(log_prior) @ squares
        return derivatives


def build_lattice(
    ratings: Ratings, sd: float, scale: float
) -> "tuple[Lattice, scipy.sparse.csr_array]":
    """Build a lattice for the grades, and their counts on it; offsets are divided by ``scale``."""
    step, half = STEP * sd, round(REACH / STEP)
    if ratings.offset is None:
        return Lattice(step, half), count_features(ratings, None, 0, 1)
    shifts = ratings.offset / (scale * step)
    low = int(np.floor(shifts.min(initial=0)))
    span = int(np.floor(shifts.max(initial=0))) + 2 - low
    return Lattice(step, half, low, span), count_features(ratings, shifts, low, span)


def log_chances(parameters: Floats, lattice: Lattice, levels: int) -> tuple[Floats, Floats]:
    """Compute the logarithms of the chances of grades along the lattice, and their derivatives.

    Returns:
        Shape [judges * levels, x], and [judges, parameters, levels, x].
    """
    chances, by = thurstone.cells(parameters, lattice.x)
    # Rounding may leave a chance of 0 slightly negative.
    chances = (1 - SLIP) * np.maximum(chances, 0) + SLIP / levels
    by = (1 - SLIP) * by / chances[:, np.newaxis]
    return np.log(chances).reshape(-1, chances.shape[-1]), by


def posteriors(
    counts: "scipy.sparse.csr_array", stretches: Floats, log_prior: Floats
) -> tuple[Floats, Floats]:
    """Compute each unit's posterior: a row depends, bit for bit, on its own grades alone.

    Returns:
        Chances of the places, of shape [units, places], and the log likelihood of each unit.
    """
    # Sparse times dense adds up row by row, in the order of the features; BLAS need not.
    exponent = counts @ stretches + log_prior
    top = exponent.max(axis=1, keepdims=True)
    chances = np.exp(exponent - top)
    total = chances.sum(axis=1, keepdims=True)
    chances /= total
    return chances, (top + np.log(total))[:, 0]


def chunks(units: int, places: int) -> list[slice]:
    """Split units into slices whose posteriors fit in memory together."""
    step = max(1, CHUNK_CELLS // places)
    return [slice(start, min(start + step, units)) for start in range(0, units, step)]
