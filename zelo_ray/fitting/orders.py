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
from itertools import chain

import numpy as np

from zelo_ray.fitting.battles import Floats, battles_of, count_games
from zelo_ray.fitting.bradley_terry import MAX_STEPS, damping
from zelo_ray.fitting.scores import Fit, rank_documents, why_unscored
from zelo_ray.fitting.truth_error import SHARE
from zelo_ray.records import Vote

_TOL = 1e-10  # largest last step of a score, in logits
Order = tuple[int, ...]
"""Places of documents, the best first."""


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
        orders = orders_of(query_votes[number], ids)
        scores = np.zeros((2, len(ids)))
        if number not in reasons:
            scores[:] = fit_orders(orders, len(ids), prior_sd)
        fitted.append(scores)
        shown = np.fromiter(chain.from_iterable(orders), np.int64)
        calls.append(np.bincount(shown, minlength=len(ids)))
    scores, errors = np.concatenate(fitted, axis=1)
    query_ids = [votes[0].query_id if votes else "" for votes in query_votes]
    comparisons = np.concatenate(calls)
    return rank_documents(
        battles, reasons, query_ids, (scores, errors), share, comparisons=comparisons
    )


def orders_of(votes: Sequence[Vote], doc_ids: Sequence[str]) -> list[Order]:
    """Return the orders that votes on these documents came from: those of one key are one order."""
    number = {doc_id: place for place, doc_id in enumerate(doc_ids)}
    wins: dict[str, Counter[int]] = defaultdict(Counter)
    for vote in votes:
        sign = (vote.preference > 0) - (vote.preference < 0)
        wins[vote.key][number[vote.doc_id_a]] -= sign
        wins[vote.key][number[vote.doc_id_b]] += sign
    return sorted(tuple(sorted(of, key=lambda p: (-of[p], p))) for of in wins.values())


def fit_orders(orders: Sequence[Order], documents: int, prior_sd: float) -> tuple[Floats, Floats]:
    """Fit scores by Newton's method, centred on 0, and their standard errors, in logits."""
    if not 0 < prior_sd < np.inf:
        raise ValueError(f"prior_sd must be positive and finite, not {prior_sd}")
    voters = Counter(frozenset(order) for order in orders)
    # A row for each choice: who could be taken, who was, and what it counts.
    choices = [
        (order[place:], 1 / voters[frozenset(order)])
        for order in orders
        for place in range(len(order) - 1)
    ]
    weight = np.array([[share] for _, share in choices])
    missing = np.full((len(choices), documents), -np.inf)
    for row, (rest, _) in enumerate(choices):
        missing[row, list(rest)] = 0
    taken = np.bincount([rest[0] for rest, _ in choices], weight[:, 0], documents)
    precision, scores = prior_sd**-2, np.zeros(documents)
    for _ in range(MAX_STEPS):
        logits = missing + scores
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        chance = powers / powers.sum(axis=1, keepdims=True)
        expected = weight * chance
        slope = taken - expected.sum(axis=0) - precision * scores
        curvature = np.diag(expected.sum(axis=0) + precision) - expected.T @ chance
        step: Floats = np.asarray(np.linalg.solve(curvature, slope), float)
        scores = scores + damping(step[np.newaxis])[0] * step
        if np.abs(step).max() <= _TOL:
            break
    else:
        raise ArithmeticError(f"Plackett-Luce: no convergence in {MAX_STEPS} steps")
    # The likelihood does not see a shift of all scores, in whose direction the prior alone holds.
    variances = np.diagonal(np.linalg.inv(curvature)) - 1 / (documents * precision)
    return scores - scores.mean(), np.sqrt(np.maximum(variances, 0))
