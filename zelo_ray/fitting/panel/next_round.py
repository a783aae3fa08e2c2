"""Choose the pairs of a later round, and estimate what another round could gain."""

from collections.abc import Collection
from random import Random

import numpy as np
import scipy
from numpy.typing import NDArray

from zelo_ray.fitting.battles import Bools, Floats, Ints


def choose_pairs(
    mean: Floats,
    covariance: Floats,
    asked_pairs: Collection[tuple[int, int]] | Bools,
    *,
    count: int,
    most_per_document: int,
    depth: int = 10,
    draws: int = 16,
    fill: bool = True,
    seed: int | str = 0,
) -> list[tuple[int, int]]:
    """Choose the pairs of a query whose votes improve its DCG most.

    A pair promises |gain_i - gain_j| |discount_i - discount_j| where a draw of the posterior puts
    its two the other way round, on average over draws, times v / (1 + v), with v the variance of
    their difference: the share of it that one vote removes. Gains are exp(score).

    Args:
        mean: scores, in logits: [documents].
        covariance: [documents, documents].
        asked_pairs: pairs not to ask again, in any order; or a matrix that is true at them.
        count: how many pairs at most.
        most_per_document: how many of them may hold the same document.
        depth: ranks below it do not count.
        draws: of the posterior.
        fill: whether pairs that gain nothing at the top follow those that do, by the chance that
            their order is wrong, times v / (1 + v): they improve the order as a whole.
        seed: of the draws; take the query's id into it.

    Returns:
        Pairs, the smaller place first, the most promising pair first.
    """
    documents = len(mean)
    scores = _draws(mean, covariance, draws, seed)
    gains = np.exp(scores - scores.max(1, keepdims=True))
    place = np.empty(documents, dtype=np.int64)
    place[_best_first(mean)] = np.arange(documents)
    discount = _discounts(documents, depth)[place]
    lead = discount[:, np.newaxis] - discount
    loss = np.zeros((documents, documents))
    for gain in gains:  # one at a time: a pool may be large
        # Inverted in a draw: the one with the higher discount has the lower gain.
        loss += np.maximum(-(gain[:, np.newaxis] - gain) * lead, 0) / draws
    spread = covariance.diagonal()
    variance = np.maximum(spread[:, np.newaxis] + spread - 2 * covariance, 0)
    reduction = variance / (1 + variance)
    sure = np.abs(mean[:, np.newaxis] - mean) / np.sqrt(np.maximum(variance, 1e-12))
    i, j = np.triu_indices(documents, 1)
    free = ~_matrix(asked_pairs, documents)[i, j]
    # Rounded, so that every machine chooses the same pairs, whatever its last digits.
    worth = np.round((loss * reduction)[i, j], 9)
    fallback = np.round((scipy.special.ndtr(-sure) * reduction)[i, j], 9)
    order = np.lexsort((j, i, -fallback, -worth))
    wanted = order[(free & ((worth > 0) | fill))[order]]
    return _spread(i[wanted], j[wanted], np.full(documents, most_per_document), count)


def _spread(i: Ints, j: Ints, votes_left: Ints, count: int) -> list[tuple[int, int]]:
    """Take the first pairs in which both documents have battles left."""
    chosen: list[tuple[int, int]] = []
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        if len(chosen) >= count:
            break
        if votes_left[a] and votes_left[b]:
            votes_left[[a, b]] -= 1
            chosen.append((a, b))
    return chosen


def expected_loss(
    mean: Floats,
    covariance: Floats,
    *,
    depth: int = 10,
    draws: int = 64,
    seed: int | str = 0,
) -> float:
    """Return the NDCG that the order by ``mean`` is expected to lose under the posterior.

    Args:
        mean: scores of one query, in logits: [documents].
        covariance: [documents, documents].
        depth: of the NDCG; gains are exp(score).
        draws: of the posterior.
        seed: of the draws; take the query's id into it.

    Returns:
        1 - NDCG, between 0 and 1, on average over draws.
    """
    scores = _draws(mean, covariance, draws, seed)
    gains = np.exp(scores - scores.max(1, keepdims=True))
    discount = _discounts(len(mean), depth)
    ideal = -np.sort(-gains, 1) @ discount
    return float(np.mean(1 - gains[:, _best_first(mean)] @ discount / ideal))


def _best_first(mean: Floats) -> Ints:
    return np.argsort(-np.round(mean, 9), kind="stable")


def _discounts(documents: int, depth: int) -> Floats:
    """Return the discounts of the ranks (Järvelin & Kekäläinen 2002, ACM TOIS 20:422)."""
    ranks = np.arange(documents)
    return np.where(ranks < depth, 1 / np.log2(ranks + 2), 0.0)


def _draws(mean: Floats, covariance: Floats, draws: int, seed: int | str) -> Floats:
    """Draw scores from the posterior: [draws, documents].

    Chance comes from `random.Random`, whose numbers no version of Python changes.
    """
    rng, documents = Random(seed), len(mean)
    uniform = [rng.random() for _ in range(draws * documents)]
    normal = scipy.special.ndtri(np.clip(uniform, 1e-12, 1 - 1e-12)).reshape(draws, documents)
    # A centred covariance is singular.
    padded = covariance + (1e-9 * (1 + covariance.diagonal().max())) * np.eye(documents)
    drawn: Floats = mean + normal @ np.linalg.cholesky(padded).T
    return drawn


def _matrix(asked_pairs: Collection[tuple[int, int]] | Bools, documents: int) -> NDArray[np.bool_]:
    if isinstance(asked_pairs, np.ndarray):
        return asked_pairs | asked_pairs.T
    matrix = np.zeros((documents, documents), dtype=bool)
    for i, j in asked_pairs:
        matrix[i, j] = matrix[j, i] = True
    return matrix
