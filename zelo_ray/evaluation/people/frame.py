"""Collect the documents that rankers rank within a measure's depth, with their weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import expit

from zelo_ray.evaluation.measures import Linear, Measure, Ranking, Truth, linear_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOP = 3
"""The highest grade that people give, where the truth has scores instead of grades."""
LEAST_IDEAL = 1.0
"""The smallest ideal, in gains of one document of grade 1 at the top. Otherwise one label of 3 in a
query without relevant documents would outweigh all others."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The documents within a measure's depth of any ranker, [rows]."""

    measure: Measure
    linear: Linear
    query_ids: list[str]
    """of the truth, [queries]"""
    query: Ints
    """the place of each row's query in them, [rows]"""
    doc_ids: list[str]
    """[rows]"""
    weight: Floats
    """what a gain of 1 adds to a ranker's metric of the query, [rankers, rows]"""
    panel: Floats
    """the panel's grade, [rows]; NaN if unjudged"""
    answered: NDArray[np.bool_]
    """[rankers, queries]"""

    def by_query(self, values: Floats) -> Floats:
        """Sum over the documents of each query: [rankers, rows] to [rankers, queries]."""
        return np.stack([np.bincount(self.query, row, len(self.query_ids)) for row in values])

    def rows_of(self, query_ids: Sequence[str], doc_ids: Sequence[str]) -> Ints:
        """Return the rows of some documents; -1 for one beyond the depth of every ranker."""
        pairs = zip((self.query_ids[q] for q in self.query), self.doc_ids, strict=True)
        place = {pair: row for row, pair in enumerate(pairs)}
        rows = [place.get(pair, -1) for pair in zip(query_ids, doc_ids, strict=True)]
        return np.array(rows, np.int64)


def build_frame(measure: Measure, rankings: Mapping[str, Ranking]) -> Frame:
    """Collect the documents that determine a measure.

    nDCG is divided by the ideal of the *panel's* grades, a number fixed beforehand: with the ideal
    of people's labels the metric would not be linear in them, and its interval would be too narrow.

    Args:
        measure: one that is linear in the labels.
        rankings: of every ranker, against one truth.

    Raises:
        MeasureError: the measure is not linear in the labels.
    """
    linear = linear_of(measure)
    truth = next(iter(rankings.values())).truth
    grades = panel_grades(truth)
    parts = [_part_of(ranking, linear) for ranking in rankings.values()]
    doc_ids = pa.concat_arrays([part.doc_ids for part in parts]).dictionary_encode()
    names, codes = doc_ids.dictionary, doc_ids.indices.to_numpy().astype(np.int64)
    query = np.concatenate([part.query for part in parts])
    keys, first, row = np.unique(
        query * max(1, len(names)) + codes, return_index=True, return_inverse=True
    )
    ranker = np.repeat(np.arange(len(parts)), [len(part.query) for part in parts])
    weight = np.zeros((len(parts), len(keys)))
    weight[ranker, row] = np.concatenate([part.discount for part in parts])
    judged = np.concatenate([part.row for part in parts])[first]
    weight /= _ideals(truth, grades, linear)[query[first]]
    panel = np.where(judged < 0, np.nan, np.append(grades, np.nan)[judged])
    return Frame(
        measure=measure,
        linear=linear,
        query_ids=truth.query_ids,
        query=query[first],
        doc_ids=names.take(pa.array(codes[first])).to_pylist(),
        weight=weight,
        panel=panel,
        answered=np.array([ranking.answered for ranking in rankings.values()]),
    )


def label_sizes(frame: Frame, floor: float = 0.25) -> Floats:
    """Return how much a label could change a difference of two rankers, [rows].

    It is the largest possible change; if above 0, at least ``floor`` of the mean, so that no weight
    becomes too large.
    """
    answered = frame.answered[:, frame.query]
    high = np.where(answered, frame.weight, -np.inf).max(axis=0)
    low = np.where(answered, frame.weight, np.inf).min(axis=0)
    apart = np.where(answered.sum(axis=0) > 1, high - low, 0.0)
    counts = apart > 0
    if counts.any():
        apart[counts] = np.maximum(apart[counts], floor * apart[counts].mean())
    return apart


def panel_grades(truth: Truth) -> Floats:
    """Return the panel's grade of each row of a truth, on people's scale from 0.

    A zELO score is the logit of winning against an average document: the chance, times 3.
    """
    if truth.kind == "scores":
        return np.asarray(TOP * expit(truth.relevance))
    return np.maximum(truth.relevance, 0.0)


@dataclass(frozen=True, slots=True)
class _Part:
    """The first documents of one ranker."""

    query: Ints
    doc_ids: pa.Array
    row: Ints
    discount: Floats


def _part_of(ranking: Ranking, linear: Linear) -> _Part:
    counts = ranking.counts
    longest = int(counts.max(initial=1))
    discounts = np.zeros(longest)
    weights = linear.discounts(longest if linear.depth is None else min(linear.depth, longest))
    discounts[: len(weights)] = weights
    query = np.repeat(np.arange(len(counts)), counts)
    discount = discounts[ranking.places]
    if ranking.bounds is not None:  # the mean over all orders of tied documents
        first, last = ranking.bounds
        upto = np.append(0.0, np.cumsum(discounts))
        discount = (upto[last + 1] - upto[first]) / (last - first + 1)
    inside = np.flatnonzero(discount > 0)
    doc_ids = ranking.ids(inside)
    return _Part(query[inside], doc_ids, ranking.rows[inside], discount[inside])


def _ideals(truth: Truth, grades: Floats, linear: Linear) -> Floats:
    """Return the divisors of a metric, [queries]: the panel's own ideal, or 1."""
    if not linear.ideal:
        return np.ones(len(truth.query_ids))
    gains = linear.gains(grades)
    order = np.lexsort((-gains, truth.query))
    query = truth.query[order]
    starts = np.searchsorted(query, np.arange(len(truth.query_ids)))
    rank = np.arange(len(order)) - starts[query]
    inside = np.ones(len(order), np.bool_) if linear.depth is None else rank < linear.depth
    discounts = linear.discounts(int(rank.max(initial=0)) + 1)
    terms = gains[order[inside]] * discounts[rank[inside]]
    sums = np.bincount(query[inside], terms, len(truth.query_ids))
    ideals: Floats = np.maximum(sums, LEAST_IDEAL * linear.gains(np.ones(1))[0])
    return ideals
