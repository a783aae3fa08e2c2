"""How many judges the panel of a run is worth, in words."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import isnan, nan

import numpy as np

from zelo_ray.families import families_of
from zelo_ray.fitting.effective import correlation_of, ends
from zelo_ray.present.findings.judging import lessened
from zelo_ray.present.html.judged import Annotation


def told(annotation: Annotation) -> str:
    """How many judges that err apart the panel counts for, where that is no finding."""
    (low, high), names = worth(annotation), _names(annotation)
    if isnan(low) or lessened(low, high, len(names)):
        return ""
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


def worth(annotation: Annotation) -> tuple[float, float]:
    """For how many judges that err apart the panel counts, from and to.

    Both are NaN where nothing can be told, and the end alone where all are of one family.
    """
    names, gradings, panel = _names(annotation), annotation.gradings, annotation.panel
    if len(names) < 2:
        return nan, nan
    if gradings.counts:
        empty = np.zeros((1, 1))
        found = _matrix(names, lambda *two: correlation_of(gradings.confusion.get(two, empty)))
    else:
        found = _matrix(names, lambda *two: 2 * panel.agreement(*two)[0] - 1)
    if np.isnan(found).any():
        return nan, nan
    return ends(found, [families_of(name) for name in names])


def _names(annotation: Annotation) -> list[str]:
    """The judges that graded, or else those that voted."""
    return sorted(annotation.gradings.counts or annotation.panel.votes)


def _matrix(names: Sequence[str], of_two: Callable[[str, str], float]) -> np.ndarray:
    """Correlations of what judges said, of names in ascending order."""
    found = np.eye(len(names))
    for (i, one), (j, other) in combinations(enumerate(names), 2):
        found[i, j] = found[j, i] = of_two(one, other)
    return found
