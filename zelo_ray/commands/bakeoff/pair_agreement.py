"""Measure on which share of pairs of documents rankers agree with the panel, and with people."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome
from zelo_ray.evaluation.measures import Ranking, Truth, evaluate, parse_measure, rank_run
from zelo_ray.evaluation.significance import bootstrap_means
from zelo_ray.formats.judgments.labels import PeoplesLabels
from zelo_ray.options import BakeoffOptions

_ITEM = ["query_id", "doc_id"]


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """The mean share of a query's pairs of documents that a ranker orders as these labels do.

    Pairs of equal relevance do not count; ``pairs`` are the others, ``queries`` those that have
    any. It is the measure ``Pairs``.
    """

    run: str
    labels: Literal["truth", "people"]
    mean: float
    low: float
    high: float
    queries: int
    pairs: int


def measure_pair_agreement(
    outcome: BakeoffOutcome, labels: PeoplesLabels | None, options: BakeoffOptions
) -> dict[str, tuple[type, list[Any]]]:
    """Return the result file ``pairs``: a row for a ranker and the truth, or people's labels."""
    rows = [*_agree("truth", outcome.truth, outcome.rankings, options)]
    if labels is not None and (people := _truth_of(labels, outcome.truth.query_ids)):
        runs = {entry.name: entry.run for entry in outcome.rankers}
        rankings = {
            name: rank_run(people, runs[name], ties=options.ties) for name in outcome.ranker_names
        }
        rows += _agree("people", people, rankings, options)
    return {"pairs": (PairAgreement, rows)}


def _truth_of(labels: PeoplesLabels, query_ids: list[str]) -> Truth | None:
    """Return people's mean grades of the documents of some queries; None without any."""
    rows = labels.rows.filter(pc.is_in(labels.rows["query_id"], pa.array(query_ids, pa.string())))
    graded = rows.filter(pc.is_valid(rows["grade"]))
    if not len(graded):
        return None
    means = graded.group_by(_ITEM).aggregate([("grade", "mean")])
    return Truth(means.rename_columns({"grade_mean": "relevance"}))


def _agree(
    name: Literal["truth", "people"],
    truth: Truth,
    rankings: dict[str, Ranking],
    options: BakeoffOptions,
) -> Iterator[PairAgreement]:
    measure = [parse_measure("Pairs")]
    values = np.stack([evaluate(measure, ranking)[0] for ranking in rankings.values()])
    values = values[:, ~np.isnan(values).any(axis=0)]
    if not values.size:
        return
    figures = bootstrap_means(
        values, resamples=options.resamples, confidence=options.confidence, seed=options.seed
    )
    pairs = count_unequal_pairs(truth)
    for ranker, (mean, low, high) in zip(rankings, np.stack(figures, axis=1).tolist(), strict=True):
        yield PairAgreement(ranker, name, mean, low, high, values.shape[1], pairs)


def count_unequal_pairs(truth: Truth) -> int:
    """Count the pairs of documents of one query that differ in relevance."""
    queries = np.bincount(truth.query)
    alike = np.unique(np.stack([truth.query, truth.relevance]), axis=1, return_counts=True)[1]
    return int((queries * (queries - 1)).sum() - (alike * (alike - 1)).sum()) // 2
