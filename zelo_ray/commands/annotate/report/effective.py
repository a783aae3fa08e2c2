"""Say how many independent judges the panel of a run is worth."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import inf, isinf, isnan, nan

import numpy as np

from zelo_ray.commands.annotate.report.panel_warnings import lessened, say_the_same
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.families import families_of
from zelo_ray.fitting.effective import correlation_of, ends

_UNKNOWN = frozenset({"unknown"})


def describe_worth(results: AnnotateResults) -> str:
    """Say how many independent judges the panel counts for, unless a warning says so."""
    (low, high), names = worth(results), names_of(results)
    if isnan(low) or lessened(low, high, len(names)) or say_the_same(*same(results)):
        return ""
    if isinf(high):
        return (
            f"The families of these {len(names)} judges are not known, since they are recordings; "
            f"by what they say they count for as few as {low:.1f} that err apart."
        )
    if isnan(high):
        return (
            f"These {len(names)} judges are of one family, and by what they say count for as few "
            f"as {low:.1f} that err apart; judges of another family would tell how many."
        )
    return (
        f"Judges that err together count as fewer: these {len(names)} are worth between {low:.1f} "
        f"and {high:.1f} that err apart. {low:.1f} if all that they have in common were wrong, "
        f"{high:.1f} if only what one family has beyond the others were. Only people's grades can "
        "tell more; recorded panels lay near the lower end."
    )


def worth(results: AnnotateResults) -> tuple[float, float]:
    """Return the lowest and highest number of independent judges that the panel counts for.

    Both are NaN where nothing can be told, the upper end alone where all are of one family; it is
    infinite where the family of none is known.
    """
    names, correlations = names_of(results), _correlations(results)
    if len(names) < 2 or np.isnan(correlations).any():
        return nan, nan
    families = [family_of(name) for name in names]
    low, high = ends(correlations, families)
    return low, inf if all(family == _UNKNOWN for family in families) else high


def same(results: AnnotateResults) -> tuple[float, int]:
    """Return two judges' mean agreement on votes, or correlation of grades, and the fewest items.

    It is NaN where it is not known of every two.
    """
    names, correlations = names_of(results), _correlations(results)
    if len(names) < 2:
        return nan, 0
    mean = float(correlations[~np.eye(len(names), dtype=bool)].mean())
    if results.gradings.counts:
        tables = results.gradings.confusion.values()
        return mean, min((int(table.sum()) for table in tables), default=0)
    return (1 + mean) / 2, min(results.panel.pairs.values(), default=0)


def family_of(name: str) -> frozenset[str]:
    """Return the families of a judge; unknown for a recording, which has the name of its file."""
    return _UNKNOWN if name.startswith("recorded:") else families_of(name)


def _correlations(results: AnnotateResults) -> np.ndarray:
    """Return the correlations of judgments, [judges, judges]; NaN where they are unknown."""
    names, gradings, panel = names_of(results), results.gradings, results.panel
    if gradings.counts:
        empty = np.zeros((1, 1))
        return _matrix(names, lambda *two: correlation_of(gradings.confusion.get(two, empty)))
    return _matrix(names, lambda *two: 2 * panel.agreement(*two)[0] - 1)


def names_of(results: AnnotateResults) -> list[str]:
    """Return the judges that graded, or else those that voted."""
    return sorted(results.gradings.counts or results.panel.votes)


def _matrix(names: Sequence[str], of_two: Callable[[str, str], float]) -> np.ndarray:
    """Build the matrix of judges' correlations; ``names`` are in ascending order."""
    correlations = np.eye(len(names))
    for (i, first), (j, second) in combinations(enumerate(names), 2):
        correlations[i, j] = correlations[j, i] = of_two(first, second)
    return correlations
