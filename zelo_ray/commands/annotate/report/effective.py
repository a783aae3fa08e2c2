"""Estimate how many independent judges a panel is worth."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import inf, isinf, isnan, nan

import numpy as np

from zelo_ray.commands.annotate.report.panel_warnings import are_alike
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.families import families_of
from zelo_ray.fitting.effective_judges import bound_effective_number, grade_correlation

_UNKNOWN = frozenset({"unknown"})


def describe_worth(results: AnnotateResults) -> str:
    """Say how many independent judges the panel counts for, unless a warning says so."""
    (low, high), names = independent_judges(results), measured_judges(results)
    if isnan(low) or are_alike(*mean_agreement(results)):
        return ""
    if isinf(high):
        return (
            f"The model families of these {len(names)} judges are unknown, as they are "
            f"recordings. By their judgments they are worth as few as {low:.1f} judges with "
            "independent errors."
        )
    if isnan(high):
        return (
            f"These {len(names)} judges are of one model family, and by their judgments are worth "
            f"as few as {low:.1f} judges with independent errors. Judges of another family would "
            "show how many."
        )
    return (
        f"Judges with common errors are worth fewer: these {len(names)} are worth {low:.1f} to "
        f"{high:.1f} judges with independent errors. {low:.1f} if everything that they have in "
        f"common is an error, {high:.1f} if only what a family has beyond the others is. Only "
        "people's grades can show more; recorded panels were near the lower end."
    )


def independent_judges(results: AnnotateResults) -> tuple[float, float]:
    """Return the lowest and highest number of independent judges that the panel counts for.

    Both are NaN if unknown; the upper end alone is NaN if all are of one family, and infinite if
    no family is known.
    """
    names, correlations = measured_judges(results), _correlations(results)
    if len(names) < 2 or np.isnan(correlations).any():
        return nan, nan
    families = [family_of(name) for name in names]
    low, high = bound_effective_number(correlations, families)
    return low, inf if all(family == _UNKNOWN for family in families) else high


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


def family_of(name: str) -> frozenset[str]:
    """Return the model families of a judge; "unknown" for recordings, named by their file."""
    return _UNKNOWN if name.startswith("recorded:") else families_of(name)


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
