"""Measure rankers against the truth, compare every two of them, and find parts of the queries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf, isnan

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.errors import Stopped
from zelo_ray.evaluation.measures import (
    Measure,
    Ranking,
    Truth,
    default_measures,
    evaluate,
    parse_measures,
    rank_run,
)
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import compare_pairs, label_draws, mean_metrics
from zelo_ray.records import Comparison, Mean

_CELLS = 2**22
"""Resampled labels, and values under them, that are in memory at once: 32 MB each."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Rankers that ranked a query of the truth, measured by all measures, the leading one first."""

    truth: Truth
    runs: Mapping[str, pa.Table]
    """of all rankers, also of those that ranked nothing"""
    names: list[str]
    measures: tuple[Measure, ...]
    compared: tuple[Measure, ...]
    """those without Pairs where nobody named it"""
    rankings: dict[str, Ranking]
    values: dict[str, Floats]
    """by measure, [rankers, queries]"""
    answered: NDArray[np.bool_]
    """[rankers, queries]"""
    means: list[Mean]
    comparisons: list[Comparison]
    label_draws: int
    """0 if the labels are exact"""
    drawn: Callable[[Sequence[Measure]], Iterator[dict[str, Floats]]]
    """yields values of measures under each draw of the labels"""

    @property
    def leading(self) -> str:
        """Return the measure that the rankers are ordered by."""
        return str(self.measures[0])

    @property
    def leading_means(self) -> list[Mean]:
        """Return the means by the leading measure, best first; ties by name, NaN last."""
        rows = [row for row in self.means if row.measure == self.leading]
        return sorted(rows, key=lambda row: (inf if isnan(row.mean) else -row.mean, row.run))

    @property
    def leaderboard(self) -> list[str]:
        """Return the rankers, best first by the leading measure; ties by name, no mean last."""
        return [row.run for row in self.leading_means]


def measure(truth: Truth, runs: Mapping[str, pa.Table], options: BakeoffOptions) -> Measured:
    """Measure every ranker and compare them all.

    A ranker that ranked no query is left out. Means are over all queries of the truth; as usual in
    the field, a query that a ranker did not rank counts as 0. Two rankers are compared on the
    queries that both ranked. `Pairs` is always measured, and compared if it is named.
    """
    compared = parse_measures(options.measures) or default_measures(truth)
    measures = tuple(dict.fromkeys((*compared, *parse_measures(["Pairs"]))))
    rankings = {name: rank_run(truth, run) for name, run in runs.items()}
    rankings = {name: ranking for name, ranking in rankings.items() if ranking.answered.any()}
    if not rankings:
        raise Stopped("no ranker ranked any query of the truth")
    by_ranker = np.stack([evaluate(measures, ranking) for ranking in rankings.values()])
    values = {str(each): by_ranker[:, m] for m, each in enumerate(measures)}
    answered = np.array([ranking.answered for ranking in rankings.values()])
    draws = options.label_draws if np.nan_to_num(truth.std_error).any() else 0
    drawn = partial(_evaluate_draws, truth, [*rankings.values()], draws, options.seed)
    # What a ranker did not answer counts as 0 in its mean, and is left out of comparisons.
    means = [
        Mean(ranker, name, *row)
        for name, metrics in values.items()
        for ranker, row in zip(
            rankings, mean_metrics(metrics, options.confidence).rows(), strict=True
        )
    ]
    both = {
        str(measure): np.where(answered, values[str(measure)], np.nan)
        for measure in measures
        if measure in compared and not measure.kind.about_labels
    }
    comparisons = compare_pairs(
        both, [*rankings], confidence=options.confidence, drawn=drawn(compared)
    )
    return Measured(
        *(truth, runs, [*rankings], measures, compared, rankings, values, answered),
        *(means, comparisons, draws, drawn),
    )


def _evaluate_draws(
    truth: Truth, rankings: Sequence[Ranking], draws: int, seed: int, measures: Sequence[Measure]
) -> Iterator[dict[str, Floats]]:
    """Evaluate under resampled labels, one draw at a time: by measure [rankers, queries]."""
    labels = label_draws(truth.relevance, truth.std_error, draws, seed)
    values = len(rankings) * len(measures) * len(truth.query_ids)
    at_once = max(1, _CELLS // max(1, values, len(truth.relevance)))
    while chunk := [*islice(labels, at_once)]:
        stacked = np.stack(chunk)
        # [draws, measures, rankers, queries]
        drawn = np.stack([evaluate(measures, ranking, stacked) for ranking in rankings], axis=2)
        for draw in drawn:
            yield {str(each): draw[m] for m, each in enumerate(measures)}


DIFFICULTY = "difficulty (by result)"
RELEVANT = "relevant documents (by truth)"
_DIFFICULTY = ("hard", "medium", "easy")
_RELEVANT = {"0": 0, "1": 1, "2-5": 5, "6+": np.inf}
"""By the name of a step, the most relevant documents of its queries."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The mean of a measure over some of the queries, with its interval."""

    slice: str
    value: str
    run: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int


def compute_slices(
    measured: Measured, options: BakeoffOptions, fields: Mapping[str, Mapping[str, str]]
) -> Iterator[Slice]:
    """Yield means by each field of ``options.slices``, by relevant documents and by difficulty.

    ``fields`` are those of the queries with their values, by query id.
    """
    ids = measured.truth.query_ids
    groups = {name: [fields.get(q, {}).get(name, "") for q in ids] for name in options.slices}
    if len({*(relevant := _count_relevant(measured))} - {""}) > 1:
        groups[RELEVANT] = relevant
    if len(ids) >= len(_DIFFICULTY) * 2:
        groups[DIFFICULTY] = _difficulty(measured)
    for name, labels in groups.items():
        steps = {RELEVANT: [*_RELEVANT], DIFFICULTY: _DIFFICULTY}.get(name, sorted({*labels}))
        for value in (step for step in steps if step and step in labels):
            chosen = np.array([label == value for label in labels])
            for measure, values in measured.values.items():
                means = mean_metrics(values[:, chosen], options.confidence)
                for ranker, row in zip(measured.names, means.rows(), strict=True):
                    yield Slice(name, value, ranker, measure, *row)


def relevant_from(measures: Sequence[Measure], truth: Truth) -> float | None:
    """Return the least relevance that is relevant: that of the first measure which has one.

    Where no measure has one, it is that of the measures which suit the truth. None where the truth
    is zELO scores, whose 0 depends on the other documents of a query, and no measure names one.
    """
    for measure in (*measures, *default_measures(truth)):
        kind, parameters = measure.kind, dict(measure.parameters)
        has_rel = "rel" in parameters or not (kind.exclusive and parameters)
        if "rel" in kind.parameters and has_rel and (truth.kind != "scores" or "rel" in parameters):
            return float(parameters.get("rel", kind.parameters["rel"].default))
    return None


def _count_relevant(measured: Measured) -> list[str]:
    """Return how many documents of each query are relevant, in steps; "" where nothing says it."""
    truth = measured.truth
    threshold = relevant_from(measured.measures, truth)
    if threshold is None:
        return [""] * len(truth.query_ids)
    counts = np.bincount(truth.query, truth.relevance >= threshold, len(truth.query_ids))
    return [next(n for n, most in _RELEVANT.items() if count <= most) for count in counts]


def _difficulty(measured: Measured) -> list[str]:
    """Split the queries into thirds by the mean of the rankers; "" if none ranked the query."""
    values = np.where(measured.answered, measured.values[measured.leading], np.nan)
    counts = (~np.isnan(values)).sum(axis=0)
    queries = np.flatnonzero(counts)
    means = np.nansum(values, axis=0)[queries] / counts[queries]
    thirds = np.argsort(np.argsort(means, kind="stable"), kind="stable") * 3 // len(queries)
    labels = [""] * len(counts)
    for query, third in zip(queries, thirds, strict=True):
        labels[query] = _DIFFICULTY[third]
    return labels
