"""Votes to scores and their errors: the Bradley-Terry model, fitted to many queries at once.

In the model (Bradley & Terry 1952, Biometrika 39:324) document i beats j with probability
1 / (1 + exp(s_j - s_i)). The maximum likelihood has no finite place for a document that never
lost (Yan 2014, arXiv 1411.1168), and sparse battles nearly always hold one, so scores are the
maximum of the posterior under a Gaussian prior, which always exists and is unique.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from zelo_ray.fitting.battles import (
    Battles,
    Floats,
    Games,
    Ints,
    battles_of,
    count_games,
    merge_copies,
    why_unscored,
)
from zelo_ray.fitting.truth_error import SHARE, truth_errors
from zelo_ray.reasons import Unscored
from zelo_ray.records import AbsoluteScore, Score, Vote

MAX_STEPS = 500
"""Newton needs about 6 for judges' votes, and some 60 where weights differ by twelve decades."""
CHUNK_CELLS = 2**17
"""Cells of the matrices that are solved together: a megabyte, so that the work stays in cache."""
_TOLERANCE = 1e-8  # largest last step of a score, in logits


def fit_games(
    games: Games, sd: float | Floats, mean: Floats | None = None, start: Floats | None = None
) -> tuple[Floats, Floats]:
    """Fit scores at the maximum of the posterior, with Laplace's standard errors, in logits.

    A query's numbers depend, bit for bit, on its own games alone.

    Args:
        games: of all queries.
        sd: of the prior of a score, or of each document's; infinite for the maximum likelihood,
            which is finite where wins lead from each document to every other.
        mean: of the prior, [documents]; None for 0.
        start: scores near the maximum, if any are known.

    Returns:
        Scores, centred on 0 in each query, and their errors after centring, [documents] each.

    Raises:
        ValueError: the prior makes no sense.
        ArithmeticError: the maximum was not reached.
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


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of fitting one query: its scores by rank, or the reason why there are none."""

    scores: tuple[Score, ...] = ()
    reason: Unscored | None = None


def score_votes(
    query_votes: Sequence[Sequence[Vote]],
    prior_sd: float = 2.5,
    share: float = SHARE,
    *,
    by_size: bool = False,
) -> list[Fit]:
    """Turn the votes of many queries into scores: a fit for each, in the order given.

    A pair counts as one game, shared equally by the judges that answered on it, since judges err
    together: the sign of a vote is its word, and 0 is half a win for each. A judge that is missing
    is missing. Documents of one text are one (`merge_copies`). A fit depends, bit for bit, on the
    votes of its query alone, and not on their order.

    Args:
        query_votes: the votes of each query.
        prior_sd: standard deviation of the prior of a score, in logits.
        share: what judges get wrong together, of the spread of a query's scores: see
            `fitting.truth_error`.
        by_size: whether a vote of preference p is (1 + p) / 2 of a win, whatever its sign. The
            errors are those of whole wins, and so too large.

    Raises:
        ValueError: a preference is not in [-1, 1], or the prior makes no sense.
    """
    pools = [merge_copies(votes) for votes in query_votes]
    battles = battles_of([votes for votes, _ in pools])
    games = count_games(battles, by_size=by_size)
    fits = rank_documents(
        battles,
        why_unscored(battles, games),
        [votes[0].query_id if votes else "" for votes in query_votes],
        fit_games(games, prior_sd),
        share,
    )
    return [add_copies(fit, copies) for fit, (_, copies) in zip(fits, pools, strict=True)]


def rank_documents(
    battles: Battles,
    reasons: Mapping[int, Unscored],
    query_ids: Sequence[str],
    fitted: tuple[Floats, Floats],
    share: float,
    *,
    comparisons: Ints | None = None,
    shifts: tuple[Floats, Floats] | None = None,
) -> list[Fit]:
    """Rank the documents of each query, best first; equal scores by document id.

    Args:
        battles: the votes.
        reasons: the queries without scores.
        query_ids: of all queries.
        fitted: the scores of all documents of the battles, in their order, and standard errors.
        share: what judges get wrong together, of the spread of a query's scores.
        comparisons: what each document's score rests on; None: its votes.
        shifts: by query, what makes its scores absolute, and the error of that; if there is any.
    """
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    query, starts = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
    if comparisons is None:
        places = [starts[battles.query] + side for side in (battles.a, battles.b)]
        comparisons = np.bincount(np.concatenate(places), minlength=len(query))
    # The digits past the twelfth are rounding, which must not break a tie. Adding 0 turns -0 to 0.
    score, error = (np.round(numbers, 12) + 0.0 for numbers in fitted)
    columns = [score.tolist(), error.tolist(), comparisons.tolist()]
    if shifts:
        absolute = score + shifts[0][query], np.hypot(error, shifts[1][query])
        columns += [[round(number, 12) + 0.0 for number in part.tolist()] for part in absolute]
    columns.append(np.round(truth_errors(query, score, error, share), 12).tolist())
    rows, fits = [*zip(*columns, strict=True)], list[Fit]()
    record: Callable[..., Score] = AbsoluteScore if shifts else Score
    for number, (ids, start) in enumerate(zip(battles.documents, starts.tolist(), strict=True)):
        found = zip(ids, rows[start : start + len(ids)], strict=True)
        best = enumerate(sorted(found, key=lambda row: -row[1][0]), 1)
        scores = (
            record(
                query_ids[number], doc_id, *about[:3], rank, *about[3:], truth_error=people_error
            )
            for rank, (doc_id, (*about, people_error)) in best
        )
        reason = reasons.get(number)
        fits.append(Fit(() if reason else tuple(scores), reason))
    return fits


def add_copies(fit: Fit, copies: Mapping[str, str]) -> Fit:
    """Return a fit with the scores of the copies that `merge_copies` put together."""
    if not (copies and fit.scores):
        return fit
    ids: dict[str, list[str]] = {}
    for doc_id, first in copies.items():
        ids.setdefault(first, []).append(doc_id)
    rows = [
        replace(score, doc_id=doc_id)
        for score in fit.scores
        for doc_id in ids.get(score.doc_id, [score.doc_id])
    ]
    mean = fmean(row.score for row in rows)
    rows.sort(key=lambda row: (-row.score, row.doc_id))
    return Fit(
        tuple(
            replace(row, score=round(row.score - mean, 12) + 0.0, rank=rank)
            for rank, row in enumerate(rows, start=1)
        )
    )
