"""Fit the Bradley-Terry model to the games of many queries at once.

In the model (Bradley & Terry 1952, Biometrika 39:324) document i beats j with probability
1 / (1 + exp(s_j - s_i)). The maximum likelihood has no finite place for a document that never
lost (Yan 2014, arXiv 1411.1168), and sparse battles nearly always hold one, so scores are the
maximum of the posterior under a Gaussian prior, which always exists and is unique.
"""

import numpy as np

from zelo_ray.fitting.battles import Floats, Games, Ints

MAX_STEPS = 500
"""Newton needs about 6 for judges' votes, and some 60 where weights differ by twelve decades."""
CHUNK_CELLS = 2**17
"""Cells of the matrices that are solved together: a megabyte, so that the work stays in cache."""
_TOLERANCE = 1e-8  # largest last step of a score, in logits


def fit_games(
    games: Games, sd: float | Floats, mean: Floats | None = None, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Fit scores at the maximum of the posterior, with Laplace's standard errors, in logits.

    ``sd`` is of the prior of a score, or of each document's (infinite: maximum likelihood),
    ``mean`` its mean, and ``start`` scores near the maximum: [documents]. Scores are centred on
    0 in each query, and errors are those after centring; they depend, bit for bit, on the
    query's own games alone. Raise `ArithmeticError` if the maximum was not reached.
    """
    starts, total = games.starts, int(games.sizes.sum())
    width = np.broadcast_to(np.asarray(sd, np.float64), total)
    if not (width > 0).all():
        raise ValueError(f"prior_sd must be positive, not {width.min()}")
    precision, centre = width**-2.0, np.zeros(total) if mean is None else mean
    start = centre if start is None else start
    scores, errors = np.zeros((2, total))
    played = np.searchsorted(games.query, np.arange(len(games.sizes) + 1))
    for size in np.unique(games.sizes[games.sizes > 0]).tolist():
        queries = np.flatnonzero(games.sizes == size)
        step = max(1, CHUNK_CELLS // size**2)
        for chunk in (queries[at : at + step] for at in range(0, len(queries), step)):
            where = starts[chunk, np.newaxis] + np.arange(size)
            counts = played[chunk + 1] - played[chunk]
            first = np.repeat(played[chunk] - (np.cumsum(counts) - counts), counts)
            part = np.repeat(np.arange(len(chunk)), counts), first + np.arange(len(first))
            prior = precision[where], centre[where]
            scores[where], errors[where] = _maximise(games, part, prior, start[where])
    return scores, errors


def _maximise(
    games: Games, part: tuple[Ints, Ints], prior: tuple[Floats, Floats], start: Floats
) -> tuple[Floats, Floats]:
    """Maximise by damped Newton steps, each query until its own step is short.

    ``part`` has the rows of some games, with the place of their query in the precision and the mean
    of ``prior``, and in ``start``: [queries, documents].
    """
    (query, rows), (precision, mean) = part, prior
    queries, size = mean.shape
    row, column, won, lost = (c[rows] for c in (games.i, games.j, games.won, games.lost))
    x, y = query * size + row, query * size + column
    mean = mean - mean.mean(axis=1, keepdims=True)
    scores = start - start.mean(axis=1, keepdims=True)
    moving = np.ones(queries, dtype=np.bool_)
    diagonal = np.arange(mean.size) * size + np.tile(np.arange(size), queries)

    def derivatives() -> tuple[Floats, Floats]:
        """Compute the slope of the log posterior, and its curvature."""
        flat = scores.ravel()
        odds = np.exp(np.minimum(flat[y] - flat[x], 700))  # exp overflows beyond this
        wins = 1 / (1 + odds)
        pull, weight = won * odds * wins - lost * wins, (won + lost) * odds * wins**2
        gradient = np.bincount(x, pull, mean.size) - np.bincount(y, pull, mean.size)
        # The games do not see a shift of all scores: 1/K in each cell gives it a curvature of 1.
        curvature = np.full((queries, size, size), 1 / size)
        cells = curvature.ravel()
        cells[x * size + column] -= weight
        cells[y * size + row] -= weight
        own = np.bincount(x, weight, mean.size) + np.bincount(y, weight, mean.size)
        cells[diagonal] += own + precision.ravel()
        return gradient.reshape(mean.shape) - precision * (scores - mean), curvature

    for _ in range(MAX_STEPS):
        slope, curvature = derivatives()
        step = np.asarray(np.linalg.solve(curvature, slope[:, :, np.newaxis])[:, :, 0], np.float64)
        scores += np.where(moving[:, np.newaxis], damping(step) * step, 0)
        moving &= ~(np.abs(step).max(axis=1) <= _TOLERANCE)
        if not moving.any():
            break
    else:
        raise ArithmeticError(
            f"Bradley-Terry: {moving.sum()} of {queries} queries did not converge in "
            f"{MAX_STEPS} steps"
        )
    inverse = np.asarray(np.linalg.inv(derivatives()[1]), np.float64)
    by_row, all_ = inverse.mean(axis=2), inverse.mean(axis=(1, 2))
    variances = np.diagonal(inverse, axis1=1, axis2=2) - 2 * by_row + all_[:, np.newaxis]
    scores -= scores.mean(axis=1, keepdims=True)
    return scores, np.sqrt(np.maximum(variances, 0))


def damping(step: Floats) -> Floats:
    """Return the share of each Newton step to take, so that every step increases the posterior.

    Along a step in which two scores part by at most b, the curvature changes by at most a factor
    exp(b t). So log(1 + b) / b of the step is certain to increase it (Sun & Tran-Dinh 2019, Math.
    Program. 178:145), and so is the whole step where b < 1.79, which is faster near the maximum.
    """
    gap = np.ptp(step, axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(gap < 1.75, 1.0, np.log1p(gap) / gap)
