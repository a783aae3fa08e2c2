"""Votes of many queries as columns, the input of every fit of battles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from statistics import fmean
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.records import Grade, Score, Vote
from zelo_ray.request_key import KEY_LENGTH

AnyScore = TypeVar("AnyScore", bound=Score)
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
    documents: tuple[tuple[str, ...], ...]
    """the ids of each query's documents, ascending; perhaps some without a vote"""
    judges: tuple[str, ...]
    """their names, ascending"""


def merge_copies(
    votes: Sequence[Vote], grades: Sequence[Grade] = ()
) -> tuple[Sequence[Vote], dict[str, str]]:
    """Return a query's votes with documents of one text as one opponent.

    Votes with one request's key are one answer, given to one prompt: what they show first has one
    text, and so has what they show second. Such an answer counts once, and one about a text and
    itself not at all. Grades with one key are of one text, too.

    Returns:
        The votes; and by the id of each document with a copy, the first id of its text.
    """
    keyed = [vote for vote in votes if len(vote.key) == KEY_LENGTH]  # others name no request
    firsts: dict[str, Vote] = {}
    for vote in keyed:
        firsts.setdefault(vote.key, vote)
    texts_graded: dict[str, list[str]] = {}
    for grade in grades:
        if len(grade.key) == KEY_LENGTH:
            texts_graded.setdefault(grade.key, []).append(grade.doc_id)
    twins = [ids for ids in texts_graded.values() if len(ids) > 1]
    if len(firsts) == len(keyed) and not twins:
        return votes, {}
    same: dict[str, str] = {}

    def first_of(doc_id: str) -> str:
        while doc_id in same:
            doc_id = same[doc_id]
        return doc_id

    pairs = [(ids[0], other) for ids in twins for other in ids[1:]]
    for vote in keyed:
        pairs += zip(_as_shown(firsts[vote.key]), _as_shown(vote), strict=True)
    for one, other in pairs:
        low, high = sorted((first_of(one), first_of(other)))
        if low != high:
            same[high] = low
    merged, counted = list[Vote](), set[str]()
    for vote in votes:
        a, b = first_of(vote.doc_id_a), first_of(vote.doc_id_b)
        if a != b and vote.key not in counted:
            merged.append(replace(vote, doc_id_a=a, doc_id_b=b))
            counted.update([vote.key] if len(vote.key) == KEY_LENGTH else ())
    if not (merged or grades):  # one text alone: nothing else tells of it
        return votes, {}
    ids = {doc_id for vote in votes for doc_id in (vote.doc_id_a, vote.doc_id_b)}
    ids |= {grade.doc_id for grade in grades}
    texts = {doc_id: first_of(doc_id) for doc_id in ids}
    with_copies = {*(texts[doc_id] for doc_id in same)}
    return merged, {doc_id: first for doc_id, first in texts.items() if first in with_copies}


def _as_shown(vote: Vote) -> tuple[str, str]:
    a, b = vote.doc_id_a, vote.doc_id_b
    return (b, a) if vote.swapped else (a, b)


def with_copies(scores: Sequence[AnyScore], copies: Mapping[str, str]) -> tuple[AnyScore, ...]:
    """Return a query's scores with those of the copies that `merge_copies` put together."""
    if not (copies and scores):
        return tuple(scores)
    ids: dict[str, list[str]] = {}
    for doc_id, first in copies.items():
        ids.setdefault(first, []).append(doc_id)
    rows = [
        replace(score, doc_id=doc_id)
        for score in scores
        for doc_id in ids.get(score.doc_id, [score.doc_id])
    ]
    mean = fmean(row.score for row in rows)
    rows.sort(key=lambda row: (-row.score, row.doc_id))
    return tuple(
        replace(row, score=round(row.score - mean, 12) + 0.0, rank=rank)
        for rank, row in enumerate(rows, start=1)
    )


def battles_of(
    query_votes: Sequence[Sequence[Vote]], also: Sequence[Sequence[str]] | None = None
) -> Battles:
    """Build the columns of the votes of each query, in the order given.

    Args:
        query_votes: the votes of each query.
        also: for each query, ids of documents that may have no vote.
    """
    votes = list(chain.from_iterable(query_votes))
    more = [()] * len(query_votes) if also is None else also
    queries = np.arange(len(query_votes))
    lengths = [[len(row) for row in rows] for rows in (query_votes, more)]
    names = [
        *(vote.doc_id_a for vote in votes),
        *(vote.doc_id_b for vote in votes),
        *chain.from_iterable(more),
    ]
    query = np.repeat(queries, lengths[0])
    places, documents = _placed(
        np.concatenate([query, query, np.repeat(queries, lengths[1])]),
        pa.array(names, pa.string()),
        len(query_votes),
    )
    judge, judges = _numbered(pa.array([vote.judge for vote in votes], pa.string()))
    return Battles(
        query=query,
        a=places[: len(votes)],
        b=places[len(votes) : 2 * len(votes)],
        judge=judge,
        preference=np.array([vote.preference for vote in votes], dtype=np.float64),
        documents=documents,
        judges=judges,
    )


def _numbered(texts: pa.Array) -> tuple[Ints, tuple[str, ...]]:
    """Replace each text by its place among the distinct ones, ascending; return also these."""
    coded = texts.dictionary_encode()
    names, numbers = np.unique(np.asarray(coded.dictionary, dtype=object), return_inverse=True)
    return numbers[np.asarray(coded.indices)].astype(np.int64), tuple(names.tolist())


def _placed(query: Ints, texts: pa.Array, queries: int) -> tuple[Ints, tuple[tuple[str, ...], ...]]:
    """Replace each text by its place among the distinct ones of its query; return also these."""
    coded = texts.dictionary_encode()
    names = coded.dictionary
    order = np.asarray(pc.array_sort_indices(names), dtype=np.int64)
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    keys, inverse = np.unique(
        query * max(1, len(names)) + rank[np.asarray(coded.indices)], return_inverse=True
    )
    of_query, of_name = np.divmod(keys, max(1, len(names)))
    starts = np.searchsorted(of_query, np.arange(queries + 1))
    ids = names.take(pa.array(order[of_name])).to_pylist()
    documents = tuple(tuple(ids[start:stop]) for start, stop in pairwise(starts.tolist()))
    return (np.arange(len(keys)) - starts[of_query])[inverse], documents
