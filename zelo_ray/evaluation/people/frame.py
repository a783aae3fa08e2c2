"""Collect the documents that rankers rank within a measure's depth, with their weights."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import scipy

from zelo_ray.evaluation.measures import Linear, Measure, parse_measure
from zelo_ray.evaluation.ranking import Bools, Floats, Ints, Ranking, Truth

TOP = 3
"""The highest grade that people give, where the truth has scores instead of grades."""
LEAST_IDEAL = 1.0
"""The smallest ideal, in gains of a document of grade 1 at the top: else one label of 3 in a query
without relevant documents would outweigh all others."""


@dataclass(frozen=True)
class Frame:
    """The documents within a measure's depth of any ranker, [rows].

    ``query`` is the place of each row in ``query_ids``, those of the truth; ``weight`` what a gain
    of 1 adds to a ranker's metric of the query, [rankers, rows]; ``panel`` the panel's grade, NaN
    if unjudged; ``ideal`` what gains are divided by (``weight`` includes it), [queries];
    ``answered`` is [rankers, queries].
    """

    measure: Measure
    linear: Linear
    query_ids: list[str]
    query: Ints
    doc_ids: list[str]
    weight: Floats
    panel: Floats
    ideal: Floats
    answered: Bools

    @cached_property
    def ids(self) -> list[tuple[str, str]]:
        """Return query and document of each row."""
        return [*zip((self.query_ids[q] for q in self.query), self.doc_ids, strict=True)]

    def by_query(self, values: Floats) -> Floats:
        """Sum over the documents of each query: [rankers, rows] to [rankers, queries]."""
        return np.stack([np.bincount(self.query, row, len(self.query_ids)) for row in values])

    def find_rows(self, ids: Iterable[tuple[str, ...]]) -> Ints:
        """Return the rows of some documents; -1 for one beyond the depth of every ranker."""
        place: dict[tuple[str, ...], int] = {pair: row for row, pair in enumerate(self.ids)}
        return np.array([place.get(pair, -1) for pair in ids], np.int64)

    def divided_by(self, ideal: Floats) -> "Frame":
        """Return the same with other divisors, [queries]; metrics are 0 where one is 0."""
        scale = np.divide(self.ideal, ideal, out=np.zeros(len(ideal)), where=ideal > 0)
        return replace(self, weight=self.weight * scale[self.query], ideal=ideal)


def build_frame(measure: Measure, rankings: Mapping[str, Ranking]) -> Frame:
    """Collect the documents that determine a measure, or raise `OptionError` if it is not linear.

    nDCG is divided by the ideal of the *panel's* grades, so that it is linear in people's
    labels: a gain on the panel's scale, not people's own nDCG. Once every document is labelled,
    `Frame.divided_by` and `ideals_by_people` make it that.
    """
    linear, truth = measure.linear, next(iter(rankings.values())).truth
    grades = _panel_grades(truth)
    parts = [_first_ranks(ranking, linear) for ranking in rankings.values()]
    queries, documents, rows, discounts = zip(*parts, strict=True)
    doc_ids = pa.concat_arrays(documents).dictionary_encode()
    names, codes = doc_ids.dictionary, doc_ids.indices.to_numpy().astype(np.int64)
    query = np.concatenate(queries)
    keys = query * max(1, len(names)) + codes
    keys, first, row = np.unique(keys, return_index=True, return_inverse=True)
    ranker = np.repeat(np.arange(len(parts)), [len(part) for part in queries])
    weight = np.zeros((len(parts), len(keys)))
    weight[ranker, row] = np.concatenate(discounts)
    judged = np.concatenate(rows)[first]
    ideals = np.ones(len(truth.query_ids))
    if linear.ideal:  # the panel's own, but at least that of one document of grade 1
        least = LEAST_IDEAL * linear.gains(np.ones(1))[0]
        ideals = np.maximum(_ideals(truth.query, linear.gains(grades), linear, len(ideals)), least)
    weight /= ideals[query[first]]
    return Frame(
        measure=measure,
        linear=linear,
        query_ids=truth.query_ids,
        query=query[first],
        doc_ids=names.take(pa.array(codes[first])).to_pylist(),
        weight=weight,
        panel=np.where(judged < 0, np.nan, np.append(grades, np.nan)[judged]),
        ideal=ideals,
        answered=np.array([ranking.answered for ranking in rankings.values()]),
    )


def _panel_grades(truth: Truth) -> Floats:
    """Return the panel's grade of each row of a truth, on people's scale from 0.

    A zELO score is the logit of winning against an average document: the chance, times 3.
    """
    if truth.kind == "scores":
        return np.asarray(TOP * scipy.special.expit(truth.relevance))
    return np.maximum(truth.relevance, 0.0)


def _first_ranks(ranking: Ranking, linear: Linear) -> tuple[Ints, pa.Array, Ints, Floats]:
    """Return query, document, row of the truth and discount of what a ranker ranks first."""
    longest = int(ranking.counts.max(initial=1))
    weights = linear.discounts(longest if linear.depth is None else min(linear.depth, longest))
    discount = np.pad(weights, (0, longest - len(weights)))[ranking.places]
    inside = np.flatnonzero(discount > 0)
    return ranking.queries[inside], ranking.ids(inside), ranking.rows[inside], discount[inside]


def ideals_by_people(
    frame: Frame, truth: Truth, ids: Collection[tuple[str, ...]], gains: Floats
) -> Floats | None:
    """Return the ideals of people's own labels, [queries]; None where a document lacks a label.

    ``ids`` are of the query and the document of each label, and ``gains`` are its own, [labels].
    """
    names = (truth.query_ids[q] for q in truth.query)
    judged = zip(names, truth.doc_ids.to_pylist(), strict=True)
    if len(ids) < len(truth.query) or not {*ids}.issuperset([*judged, *frame.ids]):
        return None
    place = {query_id: n for n, query_id in enumerate(truth.query_ids)}
    query = np.array([place.get(query_id, -1) for query_id, _ in ids], np.int64)
    in_frame = query >= 0
    return _ideals(query[in_frame], gains[in_frame], frame.linear, len(place))


def _ideals(query: Ints, gains: Floats, linear: Linear, queries: int) -> Floats:
    """Return the sum of discounted gains in their best order, [queries]."""
    order = np.lexsort((-gains, query))
    query = query[order]
    rank = np.arange(len(order)) - np.searchsorted(query, query)
    inside = rank < (len(order) if linear.depth is None else linear.depth)
    discounts = linear.discounts(int(rank.max(initial=0)) + 1)
    terms = gains[order[inside]] * discounts[rank[inside]]
    return np.bincount(query[inside], terms, queries).astype(np.float64)


def on_panel_scale(measure: Measure) -> str:
    """Name what an nDCG becomes if people's gains are divided by the ideal of the panel's grades.

    It is not people's own nDCG: where many documents are relevant it is near it, and where few are
    it is less than half of it (``benchmarks/people.py``).
    """
    return f"{str(measure).replace('nDCG', 'gain', 1)} on the panel's scale"


def select_correctable(
    measures: Iterable[Measure], *, scores: bool = False
) -> tuple[tuple[Measure, ...], dict[str, str]]:
    """Return the measures that are linear in the labels, and why others are left out.

    People give grades, not scores: nDCG replaces zelo_nDCG, and a measure is left out if its
    ``rel`` is a score (where the truth has ``scores``). If no measure is left, nDCG@10 is used.
    """
    chosen, left_out = list[Measure](), dict[str, str]()
    for measure in measures:
        if measure.kind.about_labels:
            continue
        if not measure.kind.linear:
            left_out[str(measure)] = "not linear in the labels"
        elif scores and "rel" in measure.kind.parameters:
            left_out[str(measure)] = "its rel is a score, and people give grades"
        else:
            chosen.append(by_grades(measure))
    return tuple(dict.fromkeys(chosen)) or (parse_measure("nDCG@10"),), left_out


def by_grades(measure: Measure) -> Measure:
    """Return what people's grades measure in place of a measure of scores."""
    return replace(measure, name="nDCG") if measure.name == "zelo_nDCG" else measure
