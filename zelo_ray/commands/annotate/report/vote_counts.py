"""Count votes, agreement of judges on pairs, and wins of the document shown first."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from zelo_ray.files.tables import codes_of

COLUMNS = ("query_id", "doc_id_a", "doc_id_b", "judge", "preference", "swapped")
"""The columns of votes that `count_votes` reads."""


@dataclass(slots=True)
class VoteCounts:
    """Counts of votes, by judge.

    Two judges agree on a pair by 1 for the same sign, 1/2 if one of them ties, and 0 for opposite
    signs. For a judge that was asked several times the majority of its votes counts.
    """

    votes: dict[str, int] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    """votes for the document shown first; a tie is half a vote"""
    tied: dict[str, int] = field(default_factory=dict)
    """votes that were ties"""
    agreed: dict[tuple[str, str], float] = field(default_factory=dict)
    pairs: dict[tuple[str, str], int] = field(default_factory=dict)
    """the number of pairs on which both judges voted"""
    by_query: dict[str, float] = field(default_factory=dict)
    """the mean agreement over all pairs of documents and judges of a query"""

    def agreement(self, one: str, other: str) -> tuple[float, int]:
        """Return the share of pairs on which two judges agree (NaN without any), and the number."""
        key = (min(one, other), max(one, other))
        pairs = self.pairs.get(key, 0)
        return (self.agreed[key] / pairs if pairs else float("nan")), pairs


def count_votes(chunks: Iterable[pa.Table]) -> VoteCounts:
    """Count votes that come in chunks of whole queries."""
    totals = VoteCounts()
    for chunk in chunks:
        _add(totals, chunk)
    return totals


def _add(totals: VoteCounts, votes: pa.Table) -> None:
    judge, judges = codes_of(votes["judge"])
    queries, query_ids = codes_of(votes["query_id"])
    documents, doc_ids = codes_of(
        pa.chunked_array(votes["doc_id_a"].chunks + votes["doc_id_b"].chunks)
    )
    a, b = documents[: len(judge)].astype(np.int64), documents[len(judge) :].astype(np.int64)
    sign = np.sign(votes["preference"].to_numpy())
    swapped = votes["swapped"].to_numpy()
    toward_first = (1 + np.where(swapped, sign, -sign)) / 2
    counts = np.bincount(judge, minlength=len(judges))
    firsts = np.bincount(judge, weights=toward_first, minlength=len(judges))
    ties = np.bincount(judge, weights=sign == 0, minlength=len(judges))
    for name, count, first, tied in zip(judges, counts, firsts, ties, strict=True):
        totals.tied[name] = totals.tied.get(name, 0) + int(tied)
        totals.votes[name] = totals.votes.get(name, 0) + int(count)
        totals.first[name] = totals.first.get(name, 0.0) + float(first)

    pair = (queries.astype(np.int64) * len(doc_ids) + np.minimum(a, b)) * len(doc_ids)
    keys, place = np.unique(pair + np.maximum(a, b), return_inverse=True)
    sums, tallies = np.zeros((2, len(keys), len(judges)))
    np.add.at(sums, (place, judge), np.where(a < b, sign, -sign))
    np.add.at(tallies, (place, judge), 1)
    signs = np.where(tallies > 0, np.sign(sums), np.nan)
    query = keys // len(doc_ids) ** 2
    agreed, pairs = np.zeros(len(query_ids)), np.zeros(len(query_ids))
    for i in range(len(judges)):
        for j in range(i + 1, len(judges)):
            agreement = 1 - np.abs(signs[:, i] - signs[:, j]) / 2
            mask = ~np.isnan(agreement)
            key = (min(judges[i], judges[j]), max(judges[i], judges[j]))
            totals.agreed[key] = totals.agreed.get(key, 0.0) + float(agreement[mask].sum())
            totals.pairs[key] = totals.pairs.get(key, 0) + int(mask.sum())
            agreed += np.bincount(query[mask], weights=agreement[mask], minlength=len(query_ids))
            pairs += np.bincount(query[mask], minlength=len(query_ids))
    shares = zip(query_ids, agreed, pairs, strict=True)
    totals.by_query |= {name: float(share / n) for name, share, n in shares if n}
