"""Count the grades of judges and their agreement."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pyarrow as pa

from zelo_ray.files.tables import codes_of

COLUMNS = ("query_id", "doc_id", "judge", "grade")
"""The columns of grades that `count_grades` reads."""
LEVELS = 4


@dataclass(slots=True)
class GradeCounts:
    """Counts of grades, by judge. For a judge asked several times, its median grade counts."""

    counts: dict[str, np.ndarray] = field(default_factory=dict)
    """how often a judge gave each grade, [levels]"""
    confusion: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    """by two judges (in order of name) their confusion matrix, [levels, levels]"""


def count_grades(chunks: Iterable[pa.Table]) -> GradeCounts:
    """Count grades that come in chunks of whole queries."""
    totals = GradeCounts()
    for chunk in chunks:
        _add(totals, chunk)
    return totals


def _add(totals: GradeCounts, chunk: pa.Table) -> None:
    judge, judges = codes_of(chunk["judge"])
    cells = np.bincount(judge * LEVELS + chunk["grade"].to_numpy(), minlength=len(judges) * LEVELS)
    for name, counts in zip(judges, cells.reshape(-1, LEVELS), strict=True):
        totals.counts[name] = totals.counts.get(name, 0) + counts
    from zelo_ray.evaluation.coefficients import ratings_of  # noqa: PLC0415 - votes need none of it

    ratings = ratings_of(chunk, LEVELS)
    hot = [(row == np.arange(LEVELS)[:, np.newaxis]).astype(np.int64) for row in ratings.grades]
    for (i, first), (j, second) in combinations(enumerate(ratings.raters), 2):
        (low, a), (high, b) = sorted([(first, i), (second, j)])
        totals.confusion[low, high] = totals.confusion.get((low, high), 0) + hot[a] @ hot[b].T
