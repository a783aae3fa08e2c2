"""Votes of many queries as columns, and the games that these make: one for each pair."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zelo_ray.records import Vote

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SHARES = 2.0**24
"""Parts of a game that a vote is rounded to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Battles:
    """Votes as columns of equal length; queries, documents and judges are numbers.

    A document is its place in the ids of its query, a query its place in ``documents``.
    """

    query: Ints
    a: Ints
    b: Ints
    judge: Ints
    preference: Floats
    """in [-1, 1]; negative: A is more relevant"""
    documents: tuple[tuple[str, ...], ...]
    """the ids of each query's documents, ascending; perhaps some without a vote"""
    judges: tuple[str, ...]
    """their names, ascending"""


@dataclass(frozen=True, slots=True)
class Games:
    """Games between documents, as columns in the order of queries.

    ``i`` and ``j`` are places in a query's documents, ``won`` and ``lost`` the weights with which
    i beat j and lost to it, and ``sizes`` has the number of documents by query.
    """

    query: Ints
    i: Ints
    j: Ints
    won: Floats
    lost: Floats
    sizes: Ints

    @property
    def starts(self) -> Ints:
        """Return by query the place of its first document among all documents."""
        starts: Ints = np.cumsum(self.sizes) - self.sizes
        return starts


def battles_of(
    query_votes: Sequence[Sequence[Vote]], also: Sequence[Iterable[str]] | None = None
) -> Battles:
    """Build the columns of the votes of each query, in the order given.

    ``also`` has for each query ids of documents that may have no vote.
    """
    judges = sorted({vote.judge for votes in query_votes for vote in votes})
    number = {name: place for place, name in enumerate(judges)}
    documents, rows = list[tuple[str, ...]](), list[tuple[float, ...]]()
    for query, votes in enumerate(query_votes):
        ids = {doc_id for vote in votes for doc_id in (vote.doc_id_a, vote.doc_id_b)}
        documents.append(tuple(sorted(ids.union(also[query] if also else ()))))
        place = {doc_id: at for at, doc_id in enumerate(documents[-1])}
        rows += [
            (query, place[v.doc_id_a], place[v.doc_id_b], number[v.judge], v.preference)
            for v in votes
        ]
    columns = np.array(rows, np.float64).reshape(-1, 5).T
    query_, a, b, judge = columns[:4].astype(np.int64)
    return Battles(
        query=query_,
        a=a,
        b=b,
        judge=judge,
        preference=columns[4],
        documents=tuple(documents),
        judges=tuple(judges),
    )


def count_games(battles: Battles, *, by_size: bool = False) -> Games:
    """Count votes: a pair is one game, shared equally by the judges that answered on it.

    Only the sign of a vote counts, or ``by_size`` its size as well; 0 is half a win for each,
    and several votes of one judge on a pair are averaged. A query's numbers depend, bit for
    bit, on its own votes.
    """
    odd = battles.preference[~(np.abs(battles.preference) <= 1)]
    if odd.size:
        raise ValueError(f"a preference lies in [-1, 1], not {odd[0]}")
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    size, judges = int(sizes.max(initial=1)), max(1, len(battles.judges))
    won_by_b = (np.sign(battles.preference) + 1) / 2
    if by_size:
        won_by_b = np.round((battles.preference + 1) / 2 * _SHARES) / _SHARES
    low, high = np.minimum(battles.a, battles.b), np.maximum(battles.a, battles.b)
    pair = (battles.query * size + low) * size + high
    # Sums of halves, and of shares as they are rounded, are exact, so the order of a judge's votes
    # cannot matter; that of the judges is the order of their names.
    keys, of = np.unique(pair * judges + battles.judge, return_inverse=True)
    means = np.bincount(of, np.where(battles.a == low, 1 - won_by_b, won_by_b)) / np.bincount(of)
    pairs, of = np.unique(keys // judges, return_inverse=True)
    won = np.bincount(of, means) / np.bincount(of)
    cells, j = np.divmod(pairs, size)
    query, i = np.divmod(cells, size)
    return Games(query, i, j, won, 1 - won, sizes)


def connected_parts(x: Ints, y: Ints, items: int) -> Ints:
    """Return by item the first of the items that links from ``x`` to ``y`` connect it with.

    In numpy, since `scipy.sparse.csgraph` takes a third of a second to import.
    """
    part = np.arange(items)
    while True:
        near, lower = np.concatenate([part[x], part[y]]), part.copy()
        np.minimum.at(lower, near, np.concatenate([part[y], part[x]]))
        lower = lower[lower]
        if np.array_equal(lower, part):
            return part
        part = lower
