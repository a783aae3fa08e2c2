"""Measure how far judges agree on average."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import nan

import numpy as np

from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.fitting.effective_judges import grade_correlation


def mean_agreement(results: AnnotateResults) -> tuple[float, int]:
    """Return two judges' mean agreement on votes, or correlation of grades, and the fewest items.

    It is NaN unless it is known for every pair of judges.
    """
    names, correlations = measured_judges(results), _correlations(results)
    if len(names) < 2:
        return nan, 0
    mean = float(correlations[~np.eye(len(names), dtype=bool)].mean())
    if results.gradings.counts:
        tables = results.gradings.confusion.values()
        return mean, min((int(table.sum()) for table in tables), default=0)
    return (1 + mean) / 2, min(results.panel.pairs.values(), default=0)


def _correlations(results: AnnotateResults) -> np.ndarray:
    """Return the correlations of judgments, [judges, judges]; NaN where they are unknown."""
    names, gradings, panel = measured_judges(results), results.gradings, results.panel
    if gradings.counts:
        empty = np.zeros((1, 1))
        return _matrix(names, lambda *two: grade_correlation(gradings.confusion.get(two, empty)))
    return _matrix(names, lambda *two: 2 * panel.agreement(*two)[0] - 1)


def measured_judges(results: AnnotateResults) -> list[str]:
    """Return the judges that graded, or else those that voted."""
    return sorted(results.gradings.counts or results.panel.votes)


def _matrix(names: Sequence[str], of_two: Callable[[str, str], float]) -> np.ndarray:
    """Build the matrix of judges' correlations; ``names`` are in ascending order."""
    correlations = np.eye(len(names))
    for (i, first), (j, second) in combinations(enumerate(names), 2):
        correlations[i, j] = correlations[j, i] = of_two(first, second)
    return correlations
