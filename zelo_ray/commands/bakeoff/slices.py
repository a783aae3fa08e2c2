"""Compute means over parts of the queries: by field, relevant documents, difficulty."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Slice
from zelo_ray.commands.bakeoff.thresholds import find_threshold
from zelo_ray.evaluation.significance import mean_metrics

DIFFICULTY = "difficulty (by result)"
RELEVANT = "relevant documents (by truth)"
_DIFFICULTY = ("hard", "medium", "easy")
_RELEVANT = ("0", "1", "2-5", "6+")
_LAST = (0, 1, 5)
_ORDERS = (_DIFFICULTY, _RELEVANT)


def compute_slices(
    outcome: BakeoffOutcome, options: BakeoffOptions, fields: Mapping[str, Mapping[str, str]]
) -> Iterable[Slice]:
    """Yield means over the queries of each value of a field, by relevant documents and difficulty.

    The number of relevant documents is left out where it is alike for all queries.
    """
    ids = outcome.truth.query_ids
    groups = {name: [fields.get(q, {}).get(name, "") for q in ids] for name in options.slices}
    if len({*(relevant := _count_relevant(outcome))} - {""}) > 1:
        groups[RELEVANT] = relevant
    if len(ids) >= len(_DIFFICULTY) * 2:
        groups[DIFFICULTY] = _difficulty(outcome)
    for name, labels in groups.items():
        for value in _in_order({label for label in labels if label}):
            chosen = np.array([label == value for label in labels])
            for measure, values in outcome.values.items():
                means = mean_metrics(values[:, chosen], options.confidence)
                columns = (means.mean, means.low, means.high, means.queries)
                rows = zip(*(column.tolist() for column in columns), strict=True)
                for ranker, row in zip(outcome.ranker_names, rows, strict=True):
                    yield Slice(name, value, ranker, measure, *row)


def _in_order(values: set[str]) -> Sequence[str]:
    """Return values by size where they are steps, else by name."""
    for order in _ORDERS:
        if values <= {*order}:
            return [value for value in order if value in values]
    return sorted(values)


def _count_relevant(outcome: BakeoffOutcome) -> list[str]:
    """Return how many documents of each query are relevant, in steps; "" where nothing says it."""
    truth = outcome.truth
    threshold = find_threshold(outcome.measures, truth)
    if threshold is None:
        return [""] * len(truth.query_ids)
    counts = np.bincount(truth.query, truth.relevance >= threshold, len(truth.query_ids))
    return [_RELEVANT[sum(count > last for last in _LAST)] for count in counts]


def _difficulty(outcome: BakeoffOutcome) -> list[str]:
    """Split the queries into thirds by the mean of the rankers; "" if none ranked the query."""
    values = np.where(outcome.answered, outcome.values[outcome.leading], np.nan)
    counts = (~np.isnan(values)).sum(axis=0)
    queries = np.flatnonzero(counts)
    means_of = np.nansum(values, axis=0)[queries] / counts[queries]
    thirds = np.argsort(np.argsort(means_of, kind="stable"), kind="stable") * 3 // len(queries)
    labels = [""] * len(counts)
    for query, third in zip(queries, thirds, strict=True):
        labels[query] = _DIFFICULTY[third]
    return labels
