"""Stacks of symmetric positive definite matrices."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROWS = 32
"""From this size on, halves are inverted apart."""


def inverse_root(matrices: Floats) -> Floats:
    """Compute the lower triangular R with R'R the inverse of each matrix.

    The inverse of the Cholesky factor: a third of the work of a whole inverse, whose
    diagonal is the sums of squares of the columns of R. What is found for a
    matrix does not depend, bit for bit, on the others of the stack.

    Args:
        matrices: of shape [n, size, size].

    Raises:
        ArithmeticError: a matrix is not positive definite.
    """
    try:
        factors = np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
    except np.linalg.LinAlgError:
        raise ArithmeticError("a curvature is not positive definite") from None
    return _triangular_inverse(factors)


def _triangular_inverse(lower: Floats) -> Floats:
    size = lower.shape[1]
    inverse = np.zeros_like(lower)
    if size > ROWS:
        half = size // 2
        first, last = slice(half), slice(half, size)
        inverse[:, first, first] = _triangular_inverse(lower[:, first, first])
        inverse[:, last, last] = _triangular_inverse(lower[:, last, last])
        across = lower[:, last, first] @ inverse[:, first, first]
        inverse[:, last, first] = -inverse[:, last, last] @ across
        return inverse
    diagonal = 1 / np.diagonal(lower, axis1=1, axis2=2)
    for row in range(size):
        products = lower[:, row, np.newaxis, :row] @ inverse[:, :row, :row]
        inverse[:, row, :row] = -products[:, 0] * diagonal[:, row, np.newaxis]
        inverse[:, row, row] = diagonal[:, row]
    return inverse
