"""Votes of many queries as columns, and the games that these make: one for each pair."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import Grade, Vote
from zelo_ray.request_key import KEY_LENGTH

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
    query_votes: Sequence[Sequence[Vote]], also: Sequence[Sequence[str]] | None = None
) -> Battles:
    """Build the columns of the votes of each query, in the order given.

    ``also`` has for each query ids of documents that may have no vote.
    """
    judges = sorted({vote.judge for votes in query_votes for vote in votes})
    number = {name: place for place, name in enumerate(judges)}
    documents, rows = list[tuple[str, ...]](), list[tuple[float, ...]]()
    more = also or [()] * len(query_votes)
    for query, (votes, others) in enumerate(zip(query_votes, more, strict=True)):
        ids = {doc_id for vote in votes for doc_id in (vote.doc_id_a, vote.doc_id_b)}
        documents.append(tuple(sorted(ids.union(others))))
        place = {doc_id: at for at, doc_id in enumerate(documents[-1])}
        rows += [
            (query, place[v.doc_id_a], place[v.doc_id_b], number[v.judge], v.preference)
            for v in votes
        ]
    columns = zip(*rows, strict=True) if rows else [()] * 5
    query_, a, b, judge, preference = (np.array(column, np.float64) for column in columns)
    return Battles(
        query=query_.astype(np.int64),
        a=a.astype(np.int64),
        b=b.astype(np.int64),
        judge=judge.astype(np.int64),
        preference=preference,
        documents=tuple(documents),
        judges=tuple(judges),
    )


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
    firsts, graded, alike = dict[str, Vote](), dict[str, str](), list[tuple[str, str]]()
    for vote in votes:
        if len(vote.key) == KEY_LENGTH and firsts.setdefault(vote.key, vote) is not vote:
            alike += zip(_as_shown(firsts[vote.key]), _as_shown(vote), strict=True)
    for grade in grades:
        if len(grade.key) == KEY_LENGTH:
            alike.append((graded.setdefault(grade.key, grade.doc_id), grade.doc_id))
    same: dict[str, str] = {}

    def first_of(doc_id: str) -> str:
        while doc_id in same:
            doc_id = same[doc_id]
        return doc_id

    for pair in alike:
        low, high = sorted(map(first_of, pair))
        if low != high:
            same[high] = low
    merged, counted = list[Vote](), set[str]()
    for vote in votes:
        a, b = first_of(vote.doc_id_a), first_of(vote.doc_id_b)
        if a != b and vote.key not in counted:
            merged.append(replace(vote, doc_id_a=a, doc_id_b=b) if same else vote)
            counted.update([vote.key] if vote.key in firsts else ())
    if not (merged or grades):  # one text alone: nothing else tells of it
        return votes, {}
    texts = {doc_id: first_of(doc_id) for doc_id in same}
    return merged, texts | {first: first for first in texts.values()}


def _as_shown(vote: Vote) -> tuple[str, str]:
    a, b = vote.doc_id_a, vote.doc_id_b
    return (b, a) if vote.swapped else (a, b)


def merge_grades(grades: Sequence[Grade], copies: Mapping[str, str]) -> Sequence[Grade]:
    """Return a query's grades with those of copies as of one document, each answer once."""
    if not copies:
        return grades
    renamed = [replace(grade, doc_id=copies.get(grade.doc_id, grade.doc_id)) for grade in grades]
    return [*{(grade.key, grade.doc_id): grade for grade in renamed}.values()]


def count_games(battles: Battles, *, by_size: bool = False) -> Games:
    """Count votes: a pair is one game, shared equally by the judges that answered on it.

    Only the sign of a vote counts, 0 is half a win for each, and several votes of one judge on a
    pair are averaged. A query's numbers depend, bit for bit, on its own votes only. With
    ``by_size`` a vote shares its game by the size of its preference instead.
    """
    odd = battles.preference[~(np.abs(battles.preference) <= 1)]
    if odd.size:
        raise ValueError(f"a preference lies in [-1, 1], not {odd[0]}")
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    if not len(battles.query):
        nothing = np.zeros(0, dtype=np.int64)
        return Games(nothing, nothing, nothing, np.zeros(0), np.zeros(0), sizes)
    won_by_b = (np.sign(battles.preference) + 1) / 2
    if by_size:
        won_by_b = np.round((battles.preference + 1) / 2 * _SHARES) / _SHARES
    size, judges = int(sizes.max()), len(battles.judges)
    low, high = np.minimum(battles.a, battles.b), np.maximum(battles.a, battles.b)
    pair = (battles.query * size + low) * size + high
    key = pair * judges + battles.judge
    order = np.argsort(key)
    wins = np.where(battles.a == low, 1 - won_by_b, won_by_b)[order]
    # Sums of halves, and of shares as they are rounded, are exact, so the order of a judge's votes
    # cannot matter; that of the judges is the order of their names.
    sums, counts, firsts = _sum_runs(key[order], wins)
    shared, voters, starts = _sum_runs(pair[order][firsts], sums / counts)
    cells, j = np.divmod(pair[order][firsts][starts], size)
    query, i = np.divmod(cells, size)
    won = shared / voters
    return Games(query, i, j, won, 1 - won, sizes)


def _sum_runs(keys: Ints, values: Floats) -> tuple[Floats, Ints, Ints]:
    """Return the sum, the length and the start of each run of equal keys."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return np.add.reduceat(values, starts), np.diff(starts, append=len(keys)), starts


def why_unscored(
    battles: Battles, games: Games, linked: Bools | None = None
) -> dict[int, Unscored]:
    """Return why scores would mean nothing, by the number of each query where they would.

    ``linked`` has the documents that something else than games links with each other: [documents].
    """
    sizes, starts = games.sizes, games.starts
    owner = np.repeat(np.arange(len(sizes)), sizes)
    x, y = starts[games.query] + games.i, starts[games.query] + games.j
    more = np.flatnonzero(linked) if linked is not None else np.zeros(0, np.int64)
    queries, first = np.unique(owner[more], return_index=True)
    x = np.concatenate([x, more])
    y = np.concatenate([y, more[first][np.searchsorted(queries, owner[more])]])
    part = connected_parts(x, y, len(owner))
    reasons = {
        query: _disconnected(battles.documents[query], part[owner == query])
        for query in np.unique(owner[part != part[starts[owner]]]).tolist()
    }
    idle = set(range(len(sizes))) - {*games.query.tolist(), *queries.tolist()}
    return reasons | dict.fromkeys(idle, Unscored.because(UnscoredReason.NO_VOTES))


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


def _disconnected(doc_ids: Sequence[str], labels: Ints) -> Unscored:
    """Return the reason for documents that fall into parts; ``labels`` are the parts' numbers."""
    parts = [np.flatnonzero(labels == n).tolist() for n in dict.fromkeys(labels.tolist())]
    names = [", ".join(_first([doc_ids[at] for at in part])) for part in parts]
    return Unscored.because(
        UnscoredReason.DISCONNECTED, parts=len(parts), names="; ".join(_first(names))
    )


def _first(names: list[str]) -> list[str]:
    return names if len(names) <= 4 else [*names[:3], "…"]
