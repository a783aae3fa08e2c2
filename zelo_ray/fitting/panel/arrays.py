"""Routines of numpy with the types that they have here."""

import numpy as np

from zelo_ray.fitting.battles import Floats, Ints


def sums(cells: Ints, weights: Floats, length: int) -> Floats:
    """The sum of the weights of each cell, added in the order given: [length]."""
    return np.bincount(cells, weights, length).astype(np.float64, copy=False)


def inverse(matrices: Floats) -> Floats:
    """Of each of a stack of matrices."""
    return np.linalg.inv(matrices).astype(np.float64, copy=False)


def solved(matrices: Floats, right: Floats) -> Floats:
    """Each matrix's system with its right-hand side: [systems, unknowns]."""
    found = np.linalg.solve(matrices, right[:, :, np.newaxis])[:, :, 0]
    return found.astype(np.float64, copy=False)
