"""Analyse judges' votes on pairs: position bias, circular triples, agreement of judges.

Only the sign of a vote counts here: which document is the better one, or a tie. All counts are by
query, so that those of a sample of queries are sums of them.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

CHANCE = 0.25
"""The share of circular triples if every pair is decided by the toss of a coin: two of the eight
results of three pairs are circular (Kendall & Babington Smith 1940, Biometrika
31:324)."""


@dataclass(frozen=True, slots=True)
class Ballots:
    """Votes as numbers. A pair is two documents of a query, in the order of their ids."""

    query_ids: list[str]
    judges: list[str]
    pairs: Ints
    """places of the query and of its two documents, [pairs, 3]"""
    judge: Ints
    """the judge of each vote, [votes]"""
    pair: Ints
    """the pair of each vote, [votes]"""
    sign: Ints
    """1: the first document of the pair is better, -1: the second, 0: a tie, [votes]."""
    shown: Ints
    """1: the first document of the pair was shown first, -1: the second, 0: unknown, [votes]."""
    named: Ints
    """1: the row has the first document of the pair as A, -1: the second, [votes]."""
    rater: Ints
    """the person who cast it, where people count as one judge; a number, [votes]"""


def encode_votes(votes: pa.Table, query_ids: list[str] | None = None) -> Ballots:
    """Encode votes as numbers.

    Args:
        votes: columns of `records.Vote`: query_id, doc_id_a, doc_id_b, judge, preference, swapped;
            the last may be null where the order is not known. Where several people count as one
            judge, a column rater holds the person.
        query_ids: all queries in the order to use; None: as they appear.
    """
    queries = votes["query_id"].combine_chunks().dictionary_encode()
    names: list[str] = queries.dictionary.to_pylist()
    query = queries.indices.to_numpy().astype(np.int64)
    if query_ids is not None:
        place = {name: i for i, name in enumerate(query_ids)}
        query = np.array([place[name] for name in names], dtype=np.int64)[query]
    sides = pa.concat_arrays([votes[n].combine_chunks() for n in ("doc_id_a", "doc_id_b")])
    # by their ids, so that the same votes in another order are the same pairs
    a, b = np.split(pc.rank(sides, tiebreaker="dense").to_numpy().astype(np.int64), 2)
    turn = np.where(a < b, 1, -1)
    triples = np.stack([query, np.minimum(a, b), np.maximum(a, b)], axis=1)
    pairs, pair = np.unique(triples, axis=0, return_inverse=True)
    judge = votes["judge"].combine_chunks().dictionary_encode()
    swapped = pc.cast(votes["swapped"], pa.int64()).fill_null(-1).to_numpy()
    return Ballots(
        query_ids=names if query_ids is None else query_ids,
        judges=judge.dictionary.to_pylist(),
        pairs=pairs,
        judge=judge.indices.to_numpy().astype(np.int64),
        pair=pair.reshape(-1),
        # A preference below 0 is for A.
        sign=(-turn * np.sign(votes["preference"].to_numpy())).astype(np.int64),
        shown=turn * np.array([1, -1, 0])[swapped],
        named=turn,
        rater=_raters(votes),
    )


def _raters(votes: pa.Table) -> Ints:
    if "rater" not in votes.column_names:
        return np.zeros(len(votes), np.int64)
    names = votes["rater"].combine_chunks().fill_null("").dictionary_encode()
    codes: Ints = names.indices.to_numpy().astype(np.int64)
    return codes


def count_first_shown(cast: Ballots) -> Ints:
    """Count votes by the result of the document shown first: lost, tied, won.

    Returns:
        Of shape [judges, queries, 3]; votes whose order is unknown are left out.
    """
    mask = cast.shown != 0
    outcome = (cast.sign * cast.shown)[mask] + 1
    return _counts(cast, cast.judge[mask], cast.pairs[cast.pair[mask], 0], outcome)


def count_both_orders(cast: Ballots) -> Ints:
    """Count pairs that a judge saw in both orders: same winner, other winner, one tie.

    Several votes in one order count by majority, as in `words`. A tie in both orders counts as the
    same winner: the judge was consistent.

    Returns:
        Of shape [judges, queries, 3].
    """
    cells = cast.judge * len(cast.pairs) + cast.pair
    verdicts = []
    for order in (1, -1):
        rows = cast.shown == order
        cell, place = np.unique(cells[rows], return_inverse=True)
        counts = np.bincount(3 * place.reshape(-1) + cast.sign[rows] + 1, minlength=3 * len(cell))
        verdicts.append((cell, most_frequent_sign(counts.reshape(-1, 3)).astype(np.int64)))
    (first_cells, first), (second_cells, second) = verdicts
    cell, i, j = np.intersect1d(first_cells, second_cells, assume_unique=True, return_indices=True)
    apart = np.abs(first[i] - second[j])  # 0 the same, 2 another winner, 1 one tie
    judge, pair = np.divmod(cell, max(1, len(cast.pairs)))
    return _counts(cast, judge, cast.pairs[pair, 0], np.array([0, 2, 1])[apart])


def count_votes(cast: Ballots, judge: int) -> Ints:
    """Count a judge's votes on each pair: for its second document, ties, its first, [pairs, 3]."""
    rows = cast.judge == judge
    cells = cast.pair[rows] * 3 + cast.sign[rows] + 1
    return np.bincount(cells, minlength=3 * len(cast.pairs)).reshape(-1, 3)


def judge_verdicts(cast: Ballots) -> Floats:
    """Return each judge's verdict on each pair from all its votes: 1, 0, -1 as `Ballots.sign`.

    The most frequent outcome counts; if no single outcome has the most votes, as when the winner
    changes with the order, it is a tie.

    Returns:
        Of shape [judges, pairs]; NaN where a judge gave no vote.
    """
    return np.stack(
        [most_frequent_sign(count_votes(cast, judge)) for judge in range(len(cast.judges))]
    )


def panel_verdicts(said: Floats) -> Floats:
    """Return the panel's verdict on each pair, by most of its judges, [pairs]; see `words`."""
    counts = np.stack([(said == sign).sum(axis=0) for sign in (-1, 0, 1)], axis=1)
    return most_frequent_sign(counts)


def count_circular(cast: Ballots, preferences: Floats) -> Ints:
    """Count triples of documents with all pairs judged: circular, in order, with a tie.

    A triple is circular if each document beats one of the others. A triple with a tie is ambiguous
    and is counted separately.

    Args:
        cast: the votes.
        preferences: one judge's verdict on each pair, [pairs]; NaN where there is none.

    Returns:
        Of shape [queries, 3].
    """
    counts = np.zeros((len(cast.query_ids), 3), np.int64)
    places = np.flatnonzero(~np.isnan(preferences))
    query = cast.pairs[places, 0]  # ascending, for pairs are sorted
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    for rows in np.split(places, starts[1:]):
        if len(rows) >= 3:
            counts[cast.pairs[rows[0], 0]] = _circles(cast.pairs[rows, 1:], preferences[rows])
    return counts


def cross_votes(cast: Ballots, one: int, other: int, weights: Floats | None = None) -> Floats:
    """Count, by query, how often two judges' votes on the same pair have which signs.

    On each pair, every vote of the judge with more votes counts once, in equal shares against the
    votes of the other. So a judge's vote is compared with that of every person, as in FastChat
    (Zheng et al. 2023, NeurIPS, "Judging LLM-as-a-judge", appendix D), where people are one judge
    here; and n votes against m do not count n times m. `confusion` takes one verdict per judge.
    ``weights`` are of the pairs.

    Returns:
        Of shape [queries, 3, 3]: by the sign (-1, 0, 1) of the one and of the other.
    """
    first, second = count_votes(cast, one), count_votes(cast, other)
    fewer = np.minimum(first.sum(axis=1), second.sum(axis=1))
    products = first[:, :, np.newaxis] * second[:, np.newaxis, :]
    shares: Floats = products / np.maximum(fewer, 1)[:, np.newaxis, np.newaxis]
    if weights is not None:
        shares *= weights[:, np.newaxis, np.newaxis]
    totals = np.zeros((len(cast.query_ids), 3, 3))
    np.add.at(totals, cast.pairs[:, 0], shares)
    return totals


def confusion(cast: Ballots, one: Floats, other: Floats) -> Ints:
    """Count, by query, how often two judges' verdicts on the same pair have which signs.

    Args:
        cast: the votes.
        one: a row of `words`, or of `majority`, [pairs].
        other: another.

    Returns:
        Of shape [queries, 3, 3]: by the sign (-1, 0, 1) of the one and of the other.
    """
    mask = ~np.isnan(one) & ~np.isnan(other)
    at = [cast.pairs[mask, 0], *((side[mask] + 1).astype(np.int64) for side in (one, other))]
    shape = (len(cast.query_ids), 3, 3)
    cells = np.ravel_multi_index(at, shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def _counts(cast: Ballots, judge: Ints, query: Ints, outcome: Ints) -> Ints:
    shape = (len(cast.judges), len(cast.query_ids), 3)
    cells = np.ravel_multi_index([judge, query, outcome], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def most_frequent_sign(each: Ints) -> Floats:
    """Return the sign whose column is the greatest, 0 if none is, NaN without votes, [rows]."""
    maximum = each.max(axis=1, keepdims=True)
    word: Floats = np.where((each == maximum).sum(axis=1) == 1, each.argmax(axis=1) - 1.0, 0.0)
    word[maximum[:, 0] == 0] = np.nan
    return word


def _circles(pairs: Ints, preferences: Floats) -> tuple[int, int, int]:
    """Count the triples of one query: circular, in order, with a tie."""
    documents, places = np.unique(pairs, return_inverse=True)
    first, second = places.reshape(-1, 2).T
    beats = np.zeros((len(documents), len(documents)))
    beats[first, second] = preferences > 0
    beats[second, first] = preferences < 0
    judged = np.zeros_like(beats)
    judged[first, second] = judged[second, first] = 1.0
    decided = beats + beats.T
    # Closed walks of three steps count triples: a circular one three times, for its three starts,
    # an undirected one six times, for three starts and two directions.
    circular = round(float(np.sum(beats @ beats * beats.T)) / 3)
    clear, triples = (round(float(np.sum(m @ m * m)) / 6) for m in (decided, judged))
    return circular, clear - circular, triples - clear
