"""Compute means over parts of the queries: by the values of a field, and by difficulty."""

from collections.abc import Iterable, Mapping

import numpy as np

from zelo_ray.commands.bakeoff.outcome import BakeoffOutcome, Slice
from zelo_ray.evaluation.significance import bootstrap_means
from zelo_ray.options import BakeoffOptions

DIFFICULTY = "difficulty (by result)"
_DIFFICULTY = ("hard", "medium", "easy")


def compute_slices(
    outcome: BakeoffOutcome, options: BakeoffOptions, fields: Mapping[str, Mapping[str, str]]
) -> Iterable[Slice]:
    """Yield means over the queries of each value of a field, and by difficulty."""
    ids = outcome.truth.query_ids
    groups = {name: [fields.get(q, {}).get(name, "") for q in ids] for name in options.slices}
    if len(ids) >= len(_DIFFICULTY) * 2:
        groups[DIFFICULTY] = _difficulty(outcome)
    for name, labels in groups.items():
        for value in sorted({label for label in labels if label}, key=_order):
            chosen = np.array([label == value for label in labels])
            for measure, values in outcome.values.items():
                mean, low, high = bootstrap_means(
                    values[:, chosen],
                    resamples=options.resamples,
                    confidence=options.confidence,
                    seed=options.seed,
                )
                ends = zip(mean.tolist(), low.tolist(), high.tolist(), strict=True)
                counts = (~np.isnan(values[:, chosen])).sum(axis=1).tolist()
                for ranker, three, count in zip(outcome.ranker_names, ends, counts, strict=True):
                    yield Slice(name, value, ranker, measure, *three, count)


def _order(value: str) -> tuple[int, str]:
    return (_DIFFICULTY.index(value) if value in _DIFFICULTY else -1, value)


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
