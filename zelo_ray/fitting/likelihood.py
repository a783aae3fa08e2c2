"""The posterior of Bradley-Terry scores: derivatives, a starting point, and Newton steps.

Sums run over the games that were played only, which are few compared with all pairs of documents.
"""

from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Bools, Floats, Ints

ROWS = 32
"""Larger triangular matrices are inverted in halves."""


@dataclass(frozen=True, slots=True)
class GameStack:
    """The games of queries with equally many documents, as columns; queries ascend."""

    queries: int
    documents: int
    query: Ints
    i: Ints
    j: Ints
    """places of two documents, i before j; each pair stands once"""
    won: Floats
    """the weight with which i beat j"""
    lost: Floats

    def select_queries(self, queries: Bools) -> "GameStack":
        """Return the games of some of the queries, which are numbered anew."""
        if queries.all():
            return self
        mask = queries[self.query]
        number = (np.cumsum(queries) - 1)[self.query[mask]]
        names = (number, self.i[mask], self.j[mask])
        return GameStack(
            int(queries.sum()), self.documents, *names, self.won[mask], self.lost[mask]
        )


def newton_start(stack: GameStack, precision: float) -> Floats:
    """Return a start for Newton's method: some four steps from it suffice, and nine from 0.

    The logarithm of wins to losses, stretched since opponents differ too, and two steps along the
    diagonal of the curvature. Scores are centred, as every Newton step leaves them.
    """
    size = stack.queries * stack.documents
    x, y = _cells(stack)
    won, lost = (
        np.bincount(x, i_has, size) + np.bincount(y, j_has, size)
        for i_has, j_has in ((stack.won, stack.lost), (stack.lost, stack.won))
    )
    odds = (won + 1) / (lost + 1)
    scores: Floats = 1.3 * np.log(odds).reshape(stack.queries, stack.documents)
    for _ in range(2):
        gradient, weights = _slopes(scores, stack, precision)
        diagonal = _sum_by_document(x, y, weights, size).reshape(scores.shape) + precision
        step: Floats = gradient / diagonal
        scores += damping(step) * step
    centred: Floats = scores - scores.mean(axis=1, keepdims=True)
    return centred


def _cells(stack: GameStack) -> tuple[Ints, Ints]:
    """Return the indices of both documents of each game in a flat array of all scores."""
    first = stack.query * stack.documents
    return first + stack.i, first + stack.j


def _sum_by_document(x: Ints, y: Ints, weights: Floats, size: int) -> Floats:
    """Sum the weights of the games of each document."""
    return np.asarray(np.bincount(x, weights, size) + np.bincount(y, weights, size), np.float64)


def _slopes(scores: Floats, stack: GameStack, precision: float) -> tuple[Floats, Floats]:
    """Compute the gradient of the log posterior, and the curvature of each game."""
    x, y = _cells(stack)
    flat = scores.ravel()
    odds = np.exp(np.minimum(flat[y] - flat[x], 700))  # exp overflows beyond this
    wins = 1 / (1 + odds)
    loses = odds * wins
    pull = stack.won * loses - stack.lost * wins
    gradient = np.bincount(x, pull, scores.size) - np.bincount(y, pull, scores.size)
    return gradient.reshape(scores.shape) - precision * scores, (
        (stack.won + stack.lost) * wins * loses
    )


def derivatives(scores: Floats, stack: GameStack, precision: float) -> tuple[Floats, Floats]:
    """Compute the gradient of the log posterior, and its negated Hessian plus 1/K in each cell.

    The likelihood does not see a shift of all scores; the 1/K gives that direction a curvature of
    1, moves nothing else, and so lets one routine serve with a prior and without.
    """
    gradient, weights = _slopes(scores, stack, precision)
    (x, y), size = _cells(stack), stack.documents
    curvature = np.full((stack.queries, size, size), 1 / size)
    flat = curvature.ravel()
    flat[x * size + stack.j] -= weights
    flat[y * size + stack.i] -= weights
    flat[np.arange(scores.size) * size + np.tile(np.arange(size), stack.queries)] += (
        _sum_by_document(x, y, weights, scores.size) + precision
    )
    return gradient, curvature


def damping(step: Floats) -> Floats:
    """Return the share of each Newton step to take, so that every step increases the posterior.

    Along a step in which two scores part by at most b, the curvature changes by at most a factor
    exp(b t). So log(1 + b) / b of the step is certain to increase it (Sun & Tran-Dinh 2019, Math.
    Program. 178:145), and so is the whole step where b < 1.79, which is faster near the maximum.
    """
    spread = np.ptp(step, axis=1, keepdims=True)
    return np.where(spread < 1.75, 1.0, np.log1p(spread) / np.maximum(spread, 1.0))


def inverse_root(matrices: Floats) -> Floats:
    """Compute the lower triangular R with R'R the inverse of each matrix.

    R is the inverse of the Cholesky factor. It takes a third of the work of the whole inverse,
    whose diagonal is the sums of squares of R's columns. The result for a matrix does not depend,
    bit for bit, on the others of the stack.

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
