"""The likelihood of grades with the latent summed out, on an even grid.

A unit's latent takes the places i * step of a grid, normally distributed. Where offsets shift it,
chances are computed once on a longer grid, the lattice, and each observation looks up the stretch
that begins at its shift. On an even grid the trapezoid sum of a bell-shaped function is exact up
to exp(-2 pi^2 (sd / step)^2), and so needs fewer places than Gauss-Hermite nodes do for units with
many grades, whose posterior is narrow.
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
import scipy

from zelo_ray.fitting.calibration import beta, thurstone
from zelo_ray.fitting.calibration.ratings import Floats, Ratings, counted

FAMILIES: dict[str, ModuleType] = {"thurstone": thurstone, "beta": beta}

STEP, REACH = 0.1, 5.0
"""Of the grid, in standard deviations of the latent."""
SLIP = 1e-6
"""Share of grades that are taken for slips of the finger, so that no chance is 0."""
CHUNK_CELLS = 2**20
"""Cells of a chunk of posteriors: 8 MB."""


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


def lay(ratings: Ratings, sd: float, scale: float) -> "tuple[Lattice, scipy.sparse.csr_array]":
    """Build a lattice for these grades, and their counts on it, with offsets over ``scale``."""
    step, half = STEP * sd, round(REACH / STEP)
    if ratings.offset is None:
        return Lattice(step, half), counted(ratings, None, 0, 1)
    shifts = ratings.offset / (scale * step)
    low = int(np.floor(shifts.min(initial=0)))
    span = int(np.floor(shifts.max(initial=0))) + 2 - low
    return Lattice(step, half, low, span), counted(ratings, shifts, low, span)


def log_chances(
    family: str, parameters: Floats, lattice: Lattice, levels: int
) -> tuple[Floats, Floats]:
    """Compute the logarithms of the chances of grades along the lattice, and their derivatives.

    Returns:
        Shape [judges * levels, x], and [judges, parameters, levels, x].
    """
    chances, by = FAMILIES[family].cells(parameters, lattice.x, levels)
    # Rounding may leave a chance of 0 a little below.
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
