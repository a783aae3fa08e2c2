"""Reduce repeated votes to one vote each."""

from dataclasses import replace

import numpy as np

from zelo_ray.evaluation.agreement.votes import Ballots, most_frequent_sign


def reduce_repeats(cast: Ballots, *, lenient: bool = False) -> Ballots:
    """Reduce the votes of each rater on each row to one, by majority.

    A row is a pair in one order of presentation; if that is unknown, the order in which the votes
    name the documents counts.

    Args:
        cast: the votes.
        lenient: reduce the votes in both orders to one, too. If one order has a winner and the
            other a tie, the winner counts; with different winners it is a tie (as in JudgeBench:
            Tan et al. 2024, arXiv:2410.12784).
    """
    order = np.where(cast.shown != 0, cast.shown, cast.named)
    shape = (len(cast.judges), int(cast.rater.max(initial=0)) + 1, len(cast.pairs) or 1, 2)
    at = (cast.judge, cast.rater, cast.pair, (order + 1) // 2)
    rows, place = np.unique(np.ravel_multi_index(at, shape), return_inverse=True)
    counts = np.bincount(3 * place.reshape(-1) + cast.sign + 1, minlength=3 * len(rows))
    sign = most_frequent_sign(counts.reshape(-1, 3))
    if lenient:
        pairs, place = np.unique(rows // 2, return_inverse=True)
        rows, sign = 2 * pairs, np.sign(np.bincount(place.reshape(-1), sign, len(pairs)))
    judge, rater, pair, _ = (column.astype(np.int64) for column in np.unravel_index(rows, shape))
    none = np.zeros(len(rows), np.int64)
    signs = sign.astype(np.int64)
    return replace(cast, judge=judge, rater=rater, pair=pair, sign=signs, shown=none, named=none)
