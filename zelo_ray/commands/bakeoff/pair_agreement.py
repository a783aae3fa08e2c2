"""Measure on which share of pairs of documents rankers agree with the panel, and with people."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome
from zelo_ray.evaluation.measures import Truth, evaluate, parse_measure, rank_run
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
    labelled: dict[_Labels, pa.Table] = {"truth": _table_of(outcome.truth)}
    if labels is not None:
        labelled["people"] = _mean_grades(labels, outcome.truth.query_ids)
    runs = {entry.name: entry.run for entry in outcome.rankers}
    rows = [
        row
        for name, table in labelled.items()
        for ranker in outcome.ranker_names
        if (row := _agree(name, table, ranker, runs[ranker], options))
    ]
    return {"pairs": (PairAgreement, rows)}


def _table_of(truth: Truth) -> pa.Table:
    query_ids = pa.array(truth.query_ids, pa.string()).take(pa.array(truth.query))
    columns = {"query_id": query_ids, "doc_id": truth.doc_ids, "relevance": truth.relevance}
    return pa.table(columns)


def _mean_grades(labels: PeoplesLabels, query_ids: list[str]) -> pa.Table:
    """Return people's mean grades of the documents of some queries."""
    rows = labels.rows.filter(pc.is_in(labels.rows["query_id"], pa.array(query_ids, pa.string())))
    means = rows.filter(pc.is_valid(rows["grade"])).group_by(_ITEM).aggregate([("grade", "mean")])
    return means.rename_columns([*_ITEM, "relevance"])


def _agree(
    name: _Labels, labels: pa.Table, ranker: str, run: pa.Table, options: BakeoffOptions
) -> PairAgreement | None:
    """Measure one ranker by some labels; None where it ranks no two documents that they order."""
    ids = pa.table({column: run[column].cast(labels.schema.field(column).type) for column in _ITEM})
    ranked = labels.join(ids, _ITEM, join_type="left semi").sort_by(
        [(column, "ascending") for column in _ITEM]
    )
    if not len(ranked):
        return None
    truth = Truth(ranked)
    values = evaluate([parse_measure("Pairs")], rank_run(truth, run, ties=options.ties))
    values = values[:, ~np.isnan(values[0])]
    if not values.size:
        return None
    figures = bootstrap_means(
        values, resamples=options.resamples, confidence=options.confidence, seed=options.seed
    )
    mean, low, high = (float(figure[0]) for figure in figures)
    pairs = count_unequal_pairs(truth)
    return PairAgreement(ranker, name, mean, low, high, values.shape[1], pairs)


def count_unequal_pairs(truth: Truth) -> int:
    """Count the pairs of documents of one query that differ in relevance."""
    queries = np.bincount(truth.query)
    alike = np.unique(np.stack([truth.query, truth.relevance]), axis=1, return_counts=True)[1]
    return int((queries * (queries - 1)).sum() - (alike * (alike - 1)).sum()) // 2
