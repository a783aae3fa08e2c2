"""The objective to maximise: the likelihood of all grades, and the priors of judges."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.fitting.calibration.lattice import FAMILIES, Lattice, chunks, log_chances, posteriors
from zelo_ray.fitting.calibration.ratings import Floats

LOG_SD_SPREAD = 1.0
"""Standard deviation of the prior of log sd, around the root mean square of the offsets."""


@dataclass(frozen=True, slots=True)
class Target:
    """Grades as counts of distinct rows, and what is to be fitted to them.

    The point at which it is taken holds the parameters of judge after judge, and log sd where
    ``with_sd``.
    """

    family: str
    judges: int
    levels: int
    lattice: Lattice
    counts: "scipy.sparse.csr_array"
    times: Floats
    """how many units have each row"""
    with_sd: bool
    told_apart: NDArray[np.bool_]
    """which judges have used two grades or more"""

    def split(self, point: Floats) -> tuple[Floats, float]:
        """Split a point into parameters of shape [judges, parameters], and sd."""
        if self.with_sd:
            return point[:-1].reshape(self.judges, -1), float(np.exp(point[-1]))
        return point.reshape(self.judges, -1), 1.0

    def prior(self, point: Floats) -> tuple[Floats, Floats]:
        """Return means and precisions (inverse variances) of the normal priors of the entries."""
        means, sds = FAMILIES[self.family].priors(self.levels)
        means, precisions = np.tile(means, self.judges), np.tile(sds**-2.0, self.judges)
        if self.with_sd:
            means, precisions = np.append(means, 0.0), np.append(precisions, LOG_SD_SPREAD**-2)
        return means.reshape(point.shape), precisions.reshape(point.shape)

    def loss(self, point: Floats) -> tuple[float, Floats]:
        """Compute the negated log posterior per unit, and its gradient.

        The gradient of a likelihood with a sum inside is the posterior mean of the gradient that
        there were without it (Fisher's identity, as in Bock & Aitkin 1981, Psychometrika 46:443).
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
        logs, by = log_chances(self.family, parameters, self.lattice, self.levels)
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
        logs, by = log_chances(self.family, parameters, self.lattice, self.levels)
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
