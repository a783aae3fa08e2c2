"""Measure on which share of pairs of documents rankers agree with the panel, and with people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome
from zelo_ray.evaluation.measures import Lists, Ranking, Truth, rank_run
from zelo_ray.evaluation.measures.columns import Ints
from zelo_ray.evaluation.measures.concordance import count_pairs, rank_levels
from zelo_ray.evaluation.measures.lists import Floats, ratio
from zelo_ray.evaluation.significance import bootstrap_means
from zelo_ray.formats.judgments.labels import PeoplesLabels
from zelo_ray.options import BakeoffOptions

_ITEM = ["query_id", "doc_id"]
_Labels = Literal["truth", "people"]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """The mean share of a query's pairs of documents that a ranker orders as these labels do.

    It is the measure ``Pairs`` of the documents that the ranker ranks. Pairs of equal relevance do
    not count; ``pairs`` are the others, ``queries`` those that have any.
    """

    run: str
    labels: _Labels
    mean: float
    low: float
    high: float
    queries: int
    pairs: int


def measure_pair_agreement(
    outcome: BakeoffOutcome, labels: PeoplesLabels | None, options: BakeoffOptions
) -> dict[str, tuple[type, list[Any]]]:
    """Return the result file ``pairs``: a row for a ranker and the truth, or people's labels."""
    measured = [
        _Measured(ranker, "truth", *_restrict(outcome.truth, ranking))
        for ranker, ranking in outcome.rankings.items()
    ]
    if labels is not None and len(people := _mean_grades(labels, outcome.truth.query_ids)):
        truth = Truth(people)
        runs = {entry.name: entry.run for entry in outcome.rankers}
        for ranker in outcome.ranker_names:
            ranking = rank_run(truth, runs[ranker], ties=options.ties)
            measured.append(_Measured(ranker, "people", *_restrict(truth, ranking)))
    return {"pairs": (PairAgreement, [*_estimate(measured, options)])}


@dataclass(frozen=True, slots=True)
class _Measured:
    """The measure ``Pairs`` of a ranker by some labels, [queries]; NaN where there is no pair."""

    run: str
    labels: _Labels
    values: Floats
    pairs: int


def _restrict(truth: Truth, ranking: Ranking) -> tuple[Floats, int]:
    """Measure a ranking by the labels of the documents that it ranks; count their pairs, too."""
    rows = np.sort(ranking.rows[ranking.rows >= 0])
    relevance = np.full(len(truth.relevance), np.nan)
    relevance[rows] = truth.relevance[rows]
    values = np.full(len(truth.query_ids), np.nan)
    for block in ranking.blocks:
        lists = Lists(block, np.append(relevance, np.nan)[np.newaxis], expected=False)
        net, unequal = count_pairs(lists.judged, rank_levels(lists))
        values[block.queries] = (1 + ratio(net, unequal, np.nan)[0]) / 2
    return values, count_unequal_pairs(truth.query[rows], truth.relevance[rows])


def _estimate(measured: Sequence[_Measured], options: BakeoffOptions) -> Iterator[PairAgreement]:
    """Yield the means with intervals; rankers with pairs of the same queries are drawn together."""
    masks = [(~np.isnan(entry.values)).tobytes() + entry.labels.encode() for entry in measured]
    agreements: dict[int, PairAgreement] = {}
    for mask in dict.fromkeys(masks):
        places = [i for i, other_mask in enumerate(masks) if other_mask == mask]
        values = np.stack([measured[i].values for i in places])
        values = values[:, ~np.isnan(values[0])]
        if not values.size:
            continue
        figures = bootstrap_means(
            values, resamples=options.resamples, confidence=options.confidence, seed=options.seed
        )
        for i, (mean, low, high) in zip(places, np.stack(figures, axis=1).tolist(), strict=True):
            entry, queries = measured[i], values.shape[1]
            agreements[i] = PairAgreement(
                entry.run, entry.labels, mean, low, high, queries, entry.pairs
            )
    yield from (agreements[i] for i in sorted(agreements))


def _mean_grades(labels: PeoplesLabels, query_ids: list[str]) -> pa.Table:
    """Return people's mean grades of the documents of some queries."""
    rows = labels.rows.filter(pc.is_in(labels.rows["query_id"], pa.array(query_ids, pa.string())))
    means = rows.filter(pc.is_valid(rows["grade"])).group_by(_ITEM).aggregate([("grade", "mean")])
    return means.rename_columns([*_ITEM, "relevance"])


def count_unequal_pairs(query: Ints, relevance: Floats) -> int:
    """Count the pairs of documents of one query that differ in relevance; both [documents]."""
    if not len(query):
        return 0
    levels, level = np.unique(relevance, return_inverse=True)
    documents = np.bincount(query)
    alike = np.unique(query * len(levels) + level, return_counts=True)[1]
    return int((documents * (documents - 1)).sum() - (alike * (alike - 1)).sum()) // 2
