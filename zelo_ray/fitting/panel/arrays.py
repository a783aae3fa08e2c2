"""Typed wrappers of numpy routines, for stacks of matrices and grouped sums."""

import numpy as np

from zelo_ray.fitting.battles import Floats, Ints


def sum_cells(cells: Ints, weights: Floats, length: int) -> Floats:
    """Sum the weights of each cell, in the order given: [length]."""
    return np.bincount(cells, weights, length).astype(np.float64, copy=False)


def inverse(matrices: Floats) -> Floats:
    """Invert each of a stack of matrices.

    Raises:
        ArithmeticError: a matrix is singular.
    """
    try:
        return np.linalg.inv(matrices).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        raise ArithmeticError("a curvature of the panel's fit is singular") from None


def solve(matrices: Floats, right: Floats) -> Floats:
    """Solve each matrix's system for its right-hand side: [systems, unknowns].

    Raises:
        ArithmeticError: a matrix is singular.
    """
    try:
        solution = np.linalg.solve(matrices, right[:, :, np.newaxis])[:, :, 0]
    except np.linalg.LinAlgError:
        raise ArithmeticError("a curvature of the panel's fit is singular") from None
    return solution.astype(np.float64, copy=False)


def multiply(matrices: Floats, vectors: Floats) -> Floats:
    """Multiply each matrix by its vector: [matrices, rows]."""
    products: Floats = (matrices @ vectors[:, :, np.newaxis])[:, :, 0]
    return products


def sum_by_owner(values: Floats, owner: Ints) -> Floats:
    """Sum the rows of each owner: [owners, ...].

    Args:
        values: [rows, ...].
        owner: of each row, not decreasing; each number from 0 to the last occurs.
    """
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    number = np.diff(starts, append=len(owner))
    total = values[starts]
    for place in range(1, int(number.max(initial=0))):
        more = np.flatnonzero(number > place)
        total[more] += values[starts[more] + place]
    return total
