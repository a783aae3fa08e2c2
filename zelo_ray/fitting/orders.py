"""Orders to scores and their errors: the Plackett-Luce model, fitted query by query.

In the model (Luce 1959, Individual Choice Behavior; Plackett 1975, Applied Statistics 24:193) the
best of a group is i with probability exp(s_i) / sum_j exp(s_j), then the best of the rest, and so
on. For two documents it is Bradley-Terry's. An order of k documents has the information of k - 1
choices, not of its k(k - 1)/2 pairs: if these counted as battles of their own, errors would be far
too small (figures: docs/protocols.md). Scores are the maximum of the posterior under a
Gaussian prior, and errors are Laplace's, as in `zelo_ray.fitting.bradley_terry`.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zelo_ray.fitting.battles import Bools, Floats, Ints, battles_of, count_games
from zelo_ray.fitting.bradley_terry import MAX_STEPS, damping
from zelo_ray.fitting.scores import Fit, rank_documents, why_unscored
from zelo_ray.fitting.truth_error import SHARE
from zelo_ray.records import Vote

_TOL = 1e-10  # largest last step of a score, in logits


class OrderStack(NamedTuple):
    """Orders of one query's documents, as rows of equal length."""

    documents: int
    places: Ints
    """[orders, longest]: the documents' numbers, the best first; 0 where an order has ended"""
    shown: Bools
    """whether an order has a document at a place"""
    weight: Floats
    """what each order counts"""


def score_orders(
    query_votes: Sequence[Sequence[Vote]], prior_sd: float = 2.5, share: float = SHARE
) -> list[Fit]:
    """Turn the votes of many queries into scores, where the votes of one key are one order.

    Orders of the same documents, by several judges or repeats, share one vote, since they err
    together. A score's ``comparisons`` are the orders that its document is in.
    """
    if any(vote.key == "" for votes in query_votes for vote in votes):
        raise ValueError("a vote has no key, so nobody knows which order it is of")
    battles = battles_of(query_votes)
    reasons = why_unscored(battles, count_games(battles))
    fitted, calls = [np.zeros((2, 0))], [np.zeros(0, np.int64)]
    for number, ids in enumerate(battles.documents):
        stack = stack_orders(query_votes[number], ids)
        blank = np.zeros((2, len(ids)))
        fitted.append(blank if number in reasons else np.stack(fit_orders(stack, prior_sd)))
        calls.append(np.bincount(stack.places[stack.shown], minlength=len(ids)))
    scores, errors = np.concatenate(fitted, axis=1)
    query_ids = [votes[0].query_id if votes else "" for votes in query_votes]
    comparisons = np.concatenate(calls)
    return rank_documents(
        battles, reasons, query_ids, (scores, errors), share, comparisons=comparisons
    )


def stack_orders(votes: Sequence[Vote], doc_ids: Sequence[str]) -> OrderStack:
    """Build the orders that the votes of one query came from: those of one key are one order.

    ``doc_ids`` are the query's documents, ascending.
    """
    number = {doc_id: place for place, doc_id in enumerate(doc_ids)}
    wins: dict[str, Counter[int]] = defaultdict(Counter)
    for vote in votes:
        sign = (vote.preference > 0) - (vote.preference < 0)
        wins[vote.key][number[vote.doc_id_a]] -= sign
        wins[vote.key][number[vote.doc_id_b]] += sign
    orders = sorted(
        tuple(sorted(wins_by_place, key=lambda place: (-wins_by_place[place], place)))
        for wins_by_place in wins.values()
    )
    longest = max(map(len, orders), default=0)
    places = np.zeros((len(orders), longest), dtype=np.int64)
    for row, order in enumerate(orders):
        places[row, : len(order)] = order
    shown = np.arange(longest) < np.array([len(order) for order in orders])[:, np.newaxis]
    voters = Counter(frozenset(order) for order in orders)
    weight = np.array([1 / voters[frozenset(order)] for order in orders])
    return OrderStack(len(doc_ids), places, shown.reshape(places.shape), weight)


def fit_orders(stack: OrderStack, prior_sd: float) -> tuple[Floats, Floats]:
    """Fit scores by Newton's method, centred on 0, and their standard errors, in logits."""
    if not 0 < prior_sd < np.inf:
        raise ValueError(f"prior_sd must be positive and finite, not {prior_sd}")
    precision = prior_sd**-2
    scores = np.zeros(stack.documents)
    for _ in range(MAX_STEPS):
        gradient, curvature = order_derivatives(scores, stack)
        curvature[np.diag_indices_from(curvature)] += precision
        step: Floats = np.asarray(np.linalg.solve(curvature, gradient - precision * scores), float)
        scores = scores + damping(step[np.newaxis])[0] * step
        if np.abs(step).max() <= _TOL:
            break
    else:
        raise ArithmeticError(f"Plackett-Luce: no convergence in {MAX_STEPS} steps")
    # The likelihood does not see a shift of all scores, in whose direction the prior alone holds.
    variances = np.diagonal(np.linalg.inv(curvature)) - 1 / (stack.documents * precision)
    return scores - scores.mean(), np.sqrt(np.maximum(variances, 0))


def order_derivatives(scores: Floats, stack: OrderStack) -> tuple[Floats, Floats]:
    """Compute the gradient of the log-likelihood, and its negated Hessian."""
    size, longest = stack.documents, stack.places.shape[1]
    gradient, diagonal = np.zeros(size), np.zeros(size)
    logits = np.where(stack.shown, scores[stack.places], -np.inf)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    squares = np.zeros(size * size)
    for place in range(longest - 1):  # the last document is no choice
        choices = powers[:, place:]
        going = stack.shown[:, place + 1]
        total = choices.sum(axis=1, keepdims=True)
        chance = np.divide(choices, total, out=np.zeros_like(choices), where=total > 0)
        weight = np.where(going, stack.weight, 0.0)
        where = stack.places[:, place:]
        expected = weight[:, np.newaxis] * chance
        gradient += np.bincount(where[:, 0], weight, size)
        gradient -= np.bincount(where.ravel(), expected.ravel(), size)
        diagonal += np.bincount(where.ravel(), expected.ravel(), size)
        cells = where[:, :, np.newaxis] * size + where[:, np.newaxis]
        products = expected[:, :, np.newaxis] * chance[:, np.newaxis]
        squares += np.bincount(cells.ravel(), products.ravel(), size * size)
    return gradient, np.diag(diagonal) - squares.reshape(size, size)
