"""Scores of many queries as columns, named and ranked."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Battles, Floats, Ints
from zelo_ray.fitting.truth_error import truth_errors
from zelo_ray.reasons import Unscored


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of many queries as columns, by query and rank."""

    query: Ints
    doc: Ints
    """places, as in `Battles`"""
    score: Floats
    std_error: Floats
    truth_error: Floats
    comparisons: Ints
    rank: Ints
    reasons: dict[int, Unscored]
    """why there are none, by the number of each query without scores"""


def ranked(
    battles: Battles, reasons: Mapping[int, Unscored], scores: Floats, errors: Floats, share: float
) -> Scored:
    """Rank the documents of each query, best first; equal scores by document id.

    Args:
        battles: the votes.
        reasons: the queries without scores.
        scores: of all documents of the battles, in their order.
        errors: their standard errors.
        share: what judges get wrong together, of the spread of a query's scores.
    """
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    query = np.repeat(np.arange(len(sizes)), sizes)
    starts = np.cumsum(sizes) - sizes
    doc = np.arange(len(query)) - starts[query]
    places = np.concatenate([starts[battles.query] + side for side in (battles.a, battles.b)])
    comparisons = np.bincount(places, minlength=len(query))
    # The digits past the twelfth are rounding, which must not break a tie. Adding 0 turns -0 to 0.
    score, error = (np.round(numbers, 12) + 0.0 for numbers in (scores, errors))
    beyond = np.round(truth_errors(query, score, error, share), 12)
    order = np.lexsort((doc, -score, query))
    rank = doc + 1  # by query and rank, the place in the query is the rank
    has_scores = np.ones(len(sizes), dtype=np.bool_)
    has_scores[list(reasons)] = False
    rows, of = order[has_scores[query[order]]], has_scores[query]
    numbers = (score[rows], error[rows], beyond[rows])
    return Scored(query[rows], doc[rows], *numbers, comparisons[rows], rank[of], dict(reasons))
