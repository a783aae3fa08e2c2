"""Analyse votes on pairs: position bias, circular triples, agreement of judges and with people.

Only the sign of a vote counts here: which document is the better one, or a tie. All counts are by
query, so that those of a sample of queries are sums of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.evaluation.agreement import (
    Agreement,
    Difference,
    RatingMatrix,
    compare_agreement,
    measure_agreement,
    scale_name,
)
from zelo_ray.evaluation.coefficients import Coefficient
from zelo_ray.evaluation.ranking import Floats, Ints, count_cells, encode_texts

CHANCE = 0.25
"""The share of circular triples if every pair is decided by the toss of a coin: two of the eight
results of three pairs are circular (Kendall & Babington Smith 1940, Biometrika 31:324)."""
B_BETTER, TIE, A_BETTER = range(3)
"""Verdicts on a pair as grades; without ties, where both decided, 0 is B and 1 is A."""
WITH_TIES, A_OR_NOT, DECIDED = scale_name(3), scale_name(3, A_BETTER), scale_name(2)
"""The scales of verdicts: all three; A is better or not; A or B, where neither has a tie."""


@dataclass(frozen=True, slots=True)
class VoteTable:
    """Votes as numbers; a pair is two documents of a query, in the order of their ids.

    ``pairs`` are the places of the query and of both documents, [pairs, 3]. Of each vote there
    are the places of its judge and its pair; the sign, 1 if the pair's first document is
    better, -1 if the second is, 0 for a tie; which was shown first (0: unknown), and which is
    named A; and the person who cast it.
    """

    query_ids: list[str]
    judges: list[str]
    pairs: Ints
    judge: Ints
    pair: Ints
    sign: Ints
    shown: Ints
    named: Ints
    rater: Ints


def encode_votes(votes: pa.Table, query_ids: list[str] | None = None) -> VoteTable:
    """Encode votes, with the columns of `records.Vote`, as numbers.

    ``swapped`` is null where the order is not known; ``rater`` is the person, where several count
    as one judge. ``query_ids`` are all queries in the order to use; None: as they appear.
    """
    names, query = encode_texts(votes["query_id"])
    if query_ids is not None:
        place = {name: i for i, name in enumerate(query_ids)}
        query = np.array([place[name] for name in names], dtype=np.int64)[query]
    sides = pa.concat_arrays([votes[n].combine_chunks() for n in ("doc_id_a", "doc_id_b")])
    # by their ids, so that the same votes in another order are the same pairs
    a, b = np.split(pc.rank(sides, tiebreaker="dense").to_numpy().astype(np.int64), 2)
    named = np.where(a < b, 1, -1)
    triples = np.stack([query, np.minimum(a, b), np.maximum(a, b)], axis=1)
    pairs, pair = np.unique(triples, axis=0, return_inverse=True)
    judges, judge = encode_texts(votes["judge"])
    swapped = pc.cast(votes["swapped"], pa.int64()).fill_null(-1).to_numpy()
    rater = np.zeros(len(votes), np.int64)
    if "rater" in votes.column_names:
        rater = encode_texts(pc.fill_null(votes["rater"], ""))[1]
    return VoteTable(
        query_ids=names if query_ids is None else query_ids,
        judges=judges,
        pairs=pairs,
        judge=judge,
        pair=pair.reshape(-1),
        # A preference below 0 is for A.
        sign=(-named * np.sign(votes["preference"].to_numpy())).astype(np.int64),
        shown=named * np.array([1, -1, 0])[swapped],
        named=named,
        rater=rater,
    )


def _most_frequent_sign(counts: Ints) -> Floats:
    """Return the sign whose count, [..., 3], is the greatest; 0 if none is, NaN without votes."""
    most = counts.max(axis=-1, keepdims=True)
    leads = (counts == most).sum(axis=-1) == 1
    sign = np.where(leads, counts.argmax(axis=-1) - 1.0, 0.0)
    return np.where(most[..., 0] == 0, np.nan, sign)


def reduce_repeats(votes: VoteTable, *, lenient: bool = False) -> VoteTable:
    """Reduce the votes of each rater on each row to one, by majority.

    A row is a pair in one order of presentation; if that is unknown, as the votes name them. If
    ``lenient``, both orders become one, too: a winner beside a tie counts, and different winners
    are a tie (as in JudgeBench: Tan et al. 2024, arXiv:2410.12784).
    """
    order = np.where(votes.shown != 0, votes.shown, votes.named)
    shape = (len(votes.judges), int(votes.rater.max(initial=0)) + 1, len(votes.pairs) or 1, 2)
    at = np.ravel_multi_index((votes.judge, votes.rater, votes.pair, (order + 1) // 2), shape)
    rows, row = np.unique(at, return_inverse=True)
    sign = _most_frequent_sign(count_cells((len(rows), 3), row, votes.sign + 1))
    if lenient:
        rows, row = np.unique(rows // 2, return_inverse=True)
        rows, sign = 2 * rows, np.sign(np.bincount(row, sign, len(rows)))
    judge, rater, pair, _ = (column.astype(np.int64) for column in np.unravel_index(rows, shape))
    none, signs = np.zeros(len(rows), np.int64), sign.astype(np.int64)
    return replace(votes, judge=judge, rater=rater, pair=pair, sign=signs, shown=none, named=none)


def _count_votes(votes: VoteTable) -> Ints:
    """Count votes for the second document of a pair, ties, for its first: [judges, pairs, 3]."""
    counts: Ints = count_cells(
        (len(votes.judges), len(votes.pairs), 3), votes.judge, votes.pair, votes.sign + 1
    )
    return counts


def judge_verdicts(votes: VoteTable) -> Floats:
    """Return each judge's verdict on each pair, [judges, pairs], as `VoteTable.sign`.

    The most frequent outcome of its votes counts; if no single outcome has the most votes, as when
    the winner changes with the order, it is a tie. NaN where a judge gave no vote.
    """
    return _most_frequent_sign(_count_votes(votes))


def panel_verdicts(verdicts: Floats) -> Floats:
    """Return the verdict of most judges on each pair, from theirs, [judges, pairs] to [pairs]."""
    return _most_frequent_sign(np.stack([(verdicts == s).sum(axis=0) for s in (-1, 0, 1)], axis=1))


def count_first_shown(votes: VoteTable) -> Ints:
    """Count the results of what was shown first: lost, tied, won, [judges, queries, 3]."""
    mask = votes.shown != 0
    outcome = (votes.sign * votes.shown)[mask] + 1
    return _count_by_query(votes, votes.judge[mask], votes.pair[mask], outcome)


def count_both_orders(votes: VoteTable) -> Ints:
    """Count pairs seen in both orders, [judges, queries, 3]: same winner, other winner, one tie.

    Several votes in one order count by majority, as in `judge_verdicts`. A tie in both orders
    counts as the same winner: the judge was consistent.
    """

    def verdicts(order: int) -> Floats:
        rows = votes.shown == order
        judge, pair, sign = votes.judge[rows], votes.pair[rows], votes.sign[rows]
        return judge_verdicts(replace(votes, judge=judge, pair=pair, sign=sign))

    difference = np.abs(verdicts(1) - verdicts(-1))  # 0 the same, 2 another winner, 1 one tie
    judge, pair = np.nonzero(~np.isnan(difference))
    outcome = np.array([0, 2, 1])[difference[judge, pair].astype(np.int64)]
    return _count_by_query(votes, judge, pair, outcome)


def _count_by_query(votes: VoteTable, judge: Ints, pair: Ints, outcome: Ints) -> Ints:
    shape = (len(votes.judges), len(votes.query_ids), 3)
    counts: Ints = count_cells(shape, judge, votes.pairs[pair, 0], outcome)
    return counts


def count_circular(votes: VoteTable, verdicts: Floats) -> Ints:
    """Count triples of documents by one judge's verdicts: circular, in order, with a tie.

    Of shape [queries, 3], of triples with all pairs judged. One is circular if each document beats
    one of the others; one with a tie is ambiguous.
    """
    counts = np.zeros((len(votes.query_ids), 3), np.int64)
    places = np.flatnonzero(~np.isnan(verdicts))
    query = votes.pairs[places, 0]  # ascending, for pairs are sorted
    for rows in np.split(places, np.flatnonzero(np.diff(query)) + 1):
        if len(rows) < 3:
            continue
        documents, ends = np.unique(votes.pairs[rows, 1:], return_inverse=True)
        first, second = ends.reshape(-1, 2).T
        beats, judged = np.zeros((2, len(documents), len(documents)))
        beats[first, second] = verdicts[rows] > 0
        beats[second, first] = verdicts[rows] < 0
        judged[first, second] = judged[second, first] = 1.0
        decided = beats + beats.T
        # Closed walks of three steps count triples: a circular one three times, for its three
        # starts, an undirected one six times, for three starts and two directions.
        circular = round(float(np.sum(beats @ beats * beats.T)) / 3)
        clear, triples = (round(float(np.sum(m @ m * m)) / 6) for m in (decided, judged))
        counts[votes.pairs[rows[0], 0]] = circular, clear - circular, triples - clear
    return counts


def cross_votes(votes: VoteTable, one: int, other: int, weights: Floats | None = None) -> Floats:
    """Count how often two judges' votes on a pair have which signs, [queries, 3, 3].

    On each pair, every vote of the judge with more votes counts once, in equal shares against
    the votes of the other. So a judge's vote is compared with that of every person, as in
    FastChat (Zheng et al. 2023, NeurIPS, "Judging LLM-as-a-judge", appendix D). ``weights`` are
    of the pairs.
    """
    first, second = _count_votes(votes)[[one, other]]
    fewer = np.minimum(first.sum(axis=1), second.sum(axis=1))
    products = first[:, :, np.newaxis] * second[:, np.newaxis, :]
    shares = products / np.maximum(fewer, 1)[:, np.newaxis, np.newaxis]
    if weights is not None:
        shares *= weights[:, np.newaxis, np.newaxis]
    totals = np.zeros((len(votes.query_ids), 3, 3))
    np.add.at(totals, votes.pairs[:, 0], shares)
    return totals


def confusion(votes: VoteTable, one: Floats, other: Floats) -> Ints:
    """Count how often two judges' verdicts on a pair have which signs, [queries, 3, 3]."""
    mask = ~np.isnan(one) & ~np.isnan(other)
    signs = ((side[mask] + 1).astype(np.int64) for side in (one, other))
    counts: Ints = count_cells((len(votes.query_ids), 3, 3), votes.pairs[mask, 0], *signs)
    return counts


def verdict_ratings(
    votes: VoteTable, verdicts: Floats, orientation: Ints, weights: Floats | None = None
) -> RatingMatrix:
    """Build ratings from raters' verdicts on pairs, of queries in the order of their ids.

    ``weights`` are of the pairs that the first rater judged.
    """
    signs = np.nan_to_num(verdicts * orientation)
    grades = np.where(np.isnan(verdicts), -1, signs + 1).astype(np.int16)
    return RatingMatrix(tuple(votes.judges), grades, votes.pairs[:, 0], 3, weights)


def find_orientation(votes: VoteTable, people: pa.Table) -> Ints:
    """Return the document of each pair that people name A: 1 the first by id, -1 the second.

    Of shape [pairs]. If they name any pair in both orders, A has no meaning, and it is always 1.
    The votes of the people come first in ``votes``.
    """
    direction = np.where(pc.less(people["doc_id_a"], people["doc_id_b"]).to_numpy(), 1, -1)
    pair = votes.pair[: len(direction)]
    sums = np.bincount(pair, direction, len(votes.pairs))
    if (np.abs(sums) < np.bincount(pair, minlength=len(votes.pairs))).any():
        return np.ones(len(votes.pairs), np.int64)
    return np.where(sums < 0, -1, 1)


def agreement_with_people(
    ratings: RatingMatrix, coefficients: Mapping[str, Coefficient]
) -> Iterator[Agreement]:
    """Measure how well each rater agrees with the people, the first rater, on all three scales."""
    people, *raters = ratings.raters
    for rater in raters:
        for part in (ratings, _decided(ratings)):
            yield from measure_agreement(part, (people, rater), coefficients, [A_BETTER])


def compare_raters(
    ratings: RatingMatrix, raters: Iterable[str], coefficients: Mapping[str, Coefficient]
) -> list[Difference]:
    """Compare every two raters by how well they agree with the people, the first of all."""
    return [
        row
        for part in (ratings, _decided(ratings))
        for pair in combinations(raters, 2)
        for row in compare_agreement(part, ratings.raters[0], pair, coefficients, [A_BETTER])
    ]


def _decided(ratings: RatingMatrix) -> RatingMatrix:
    """Return the ratings without ties."""
    grades = np.array([0, -1, 1, -1], np.int16)[ratings.grades]  # -1, the last, stays -1
    return replace(ratings, grades=grades, levels=2)
