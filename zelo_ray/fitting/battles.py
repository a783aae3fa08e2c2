"""Votes of many queries as columns: what every fit of battles takes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from zelo_ray.records import Vote

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


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
    swapped: Bools
    """whether the judge saw B first; ``preference`` is turned back already"""
    documents: tuple[tuple[str, ...], ...]
    """the ids of each query's documents, ascending; perhaps some without a vote"""
    judges: tuple[str, ...]
    """their names, ascending"""


def battles_of(
    query_votes: Sequence[Sequence[Vote]], also: Sequence[Sequence[str]] | None = None
) -> Battles:
    """The votes of each query, in the order given.

    Args:
        query_votes: the votes of each query.
        also: for each query, ids of documents that may have no vote.
    """
    more = also or [()] * len(query_votes)
    ids = [
        tuple(sorted({d for vote in votes for d in (vote.doc_id_a, vote.doc_id_b)}.union(extra)))
        for votes, extra in zip(query_votes, more, strict=True)
    ]
    judges = tuple(sorted({vote.judge for votes in query_votes for vote in votes}))
    of_judge = {name: place for place, name in enumerate(judges)}
    rows = [
        (
            *(number, place[vote.doc_id_a], place[vote.doc_id_b], of_judge[vote.judge]),
            *(vote.preference, vote.swapped),
        )
        for number, (votes, own) in enumerate(zip(query_votes, ids, strict=True))
        for place in [{doc_id: place for place, doc_id in enumerate(own)}]
        for vote in votes
    ]
    query, a, b, judge, preference, swapped = zip(*rows, strict=True) if rows else ((),) * 6
    return Battles(
        query=np.array(query, dtype=np.int64),
        a=np.array(a, dtype=np.int64),
        b=np.array(b, dtype=np.int64),
        judge=np.array(judge, dtype=np.int64),
        preference=np.array(preference, dtype=np.float64),
        swapped=np.array(swapped, dtype=np.bool_),
        documents=tuple(ids),
        judges=judges,
    )
