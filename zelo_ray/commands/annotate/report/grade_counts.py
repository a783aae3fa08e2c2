"""Count the grades of judges and their agreement."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.evaluation.agreement import COEFFICIENTS, ratings_of
from zelo_ray.evaluation.agreement.counts import with_coincidences
from zelo_ray.reports.source import codes_of

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
    repeated: dict[str, tuple[int, int]] = field(default_factory=dict)
    """for judges asked several times: documents, and those that always got the same grade"""

    def agreement(self, one: str, other: str, coefficient: str) -> tuple[float, int]:
        """Return a coefficient of two judges (NaN if undefined), and its number of documents."""
        table = self.confusion.get((min(one, other), max(one, other)))
        if table is None or not table.any():
            return float("nan"), 0
        definition = COEFFICIENTS[coefficient]
        tables = with_coincidences({"confusion": table[np.newaxis].astype(np.float64)})
        values = definition.module.values(tables[definition.module.TABLE], definition.weights)
        return float(values[0]), int(table.sum())


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
    keys = ["judge", "query_id", "doc_id"]
    by_document = chunk.group_by(keys).aggregate(
        [("grade", "count"), ("grade", "min"), ("grade", "max")]
    )
    several = by_document.filter(pc.greater(by_document["grade_count"], 1))
    same = pc.equal(several["grade_min"], several["grade_max"]).to_pylist()
    for name, equal in zip(several["judge"].to_pylist(), same, strict=True):
        documents, alike = totals.repeated.get(name, (0, 0))
        totals.repeated[name] = documents + 1, alike + equal
    ratings = ratings_of(chunk, LEVELS)
    hot = [(row == np.arange(LEVELS)[:, np.newaxis]).astype(np.int64) for row in ratings.grades]
    for (i, first), (j, second) in combinations(enumerate(ratings.raters), 2):
        (low, a), (high, b) = sorted([(first, i), (second, j)])
        totals.confusion[low, high] = totals.confusion.get((low, high), 0) + hot[a] @ hot[b].T
