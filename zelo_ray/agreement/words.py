"""Words on pairs as ratings: 0 is "B is better", 1 "a tie", 2 "A is better"."""

import numpy as np

from zelo_ray.agreement.counts import Floats, Ints, Ratings
from zelo_ray.agreement.votes import Ballots

WORDS = 3
A_BETTER = 2
"""The threshold at which words are cut into "A is better" and not."""


def word_ratings(cast: Ballots, said: Floats, turn: Ints) -> Ratings:
    """What raters say of pairs, as ratings.

    Args:
        cast: the votes; its queries are in the order of their ids.
        said: their words, of `votes.words`, [raters, pairs].
        turn: 1 where A is the first document of a pair, -1 where it is the second, [pairs].
    """
    grades = np.where(np.isnan(said), -1, np.nan_to_num(said * turn) + 1).astype(np.int16)
    return Ratings(tuple(cast.judges), grades, cast.pairs[:, 0], WORDS)


def decided(ratings: Ratings) -> Ratings:
    """The same without ties: 0 is "B is better", 1 "A is better"."""
    grades = np.array([0, -1, 1, -1], np.int16)[ratings.grades]  # the last is no word, too
    return Ratings(ratings.raters, grades, ratings.queries, 2)


def first_named(cast: Ballots, votes: Ints) -> Ints:
    """Which document of each pair some votes name as A: 1 the first one, -1 the second one.

    Where they have any pair both ways round, A means nothing, and is the first by id throughout.

    Args:
        cast: the votes.
        votes: 1 or -1, whether A of a vote is the first document of its pair, [votes]; 0 for a
            vote that does not count.
    """
    sums, counts = (np.bincount(cast.pair, v, len(cast.pairs)) for v in (votes, np.abs(votes)))
    if (np.abs(sums) < counts).any():
        return np.ones(len(cast.pairs), np.int64)
    return np.where(sums < 0, -1, 1)
