"""Count judgments by query: confusions of two raters, coincidences of many."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

Kind = Literal["confusion", "by_items", "by_ratings"]
"""What a table [..., levels, levels] counts.

* ``confusion``: items, by the grade of rater A (rows) and of rater B; for two raters only.
* ``by_items``: ordered pairs of judgments of one item, those of each item summing to 1.
* ``by_ratings``: the same, those of an item with r judgments summing to r (Krippendorff's
  coincidences), so that the whole sums to the number of judgments.
"""


@dataclass(frozen=True, slots=True)
class RatingMatrix:
    """The judgments of all raters: ``grades`` is [raters, items], -1 where there is none.

    ``queries`` is [items], numbers in the order of the query ids. ``weights`` is [items]: how many
    items each one that the first rater judged stands for, where these were drawn with unequal
    chances. Figures of the first rater are weighted by them; other raters judged what they judged.
    """

    raters: tuple[str, ...]
    grades: NDArray[np.int16]
    queries: Ints
    levels: int
    weights: Floats | None = None

    def choose(self, rows: Sequence[int], items: Any = slice(None)) -> "RatingMatrix":
        """Return some raters, of whom the first is that of all, on some items."""
        return replace(
            self,
            raters=tuple(self.raters[row] for row in rows),
            grades=self.grades[rows][:, items],
            queries=self.queries[items],
            weights=None if self.weights is None else self.weights[items],
        )


@dataclass(frozen=True, slots=True)
class Counts:
    """Tables by query, [queries, levels, levels] each, of the queries that have any."""

    tables: dict[Kind, Floats]
    items: int

    @property
    def queries(self) -> int:
        """Return how many queries have items."""
        return len(next(iter(self.tables.values())))


def ratings_of(grades: pa.Table, levels: int, weights: Floats | None = None) -> RatingMatrix:
    """Build a matrix of grades; several grades of a rater for an item become one.

    That is their median; of two middle ones their mean, and a half goes to the even grade.

    Args:
        grades: query_id, doc_id, judge and grade, from 0 to ``levels`` - 1.
        levels: how many grades there are.
        weights: of the first rows, which are all of one rater; None: not weighted.

    Returns:
        Raters in the order in which they first appear; items by query_id and doc_id.
    """
    raters, of_rater = _codes(grades["judge"])
    queries, documents = (_ranks(grades[name]) for name in ("query_id", "doc_id"))
    width = int(documents.max(initial=0)) + 1
    pairs, of_item = np.unique(queries * width + documents, return_inverse=True)
    values = grades["grade"].to_numpy().astype(np.int64)
    cells = of_rater * len(pairs) + of_item
    at = np.lexsort((values, cells))
    starts = np.flatnonzero(np.diff(cells[at], prepend=-1))
    sizes = np.diff(starts, append=len(at))
    lower, upper = at[starts + (sizes - 1) // 2], at[starts + sizes // 2]
    matrix = np.full(len(raters) * len(pairs), -1, np.int16)
    matrix[cells[lower]] = np.rint((values[lower] + values[upper]) / 2)
    of_items = None
    if weights is not None:
        of_items = np.zeros(len(pairs))
        of_items[of_item[: len(weights)]] = weights
    return RatingMatrix(
        tuple(raters.tolist()),
        matrix.reshape(len(raters), len(pairs)),
        pairs // width,
        levels,
        of_items,
    )


def count_pair(ratings: RatingMatrix, a: int, b: int) -> Counts:
    """Count the confusion of two raters, by their rows, on the items that both judged."""
    items = np.flatnonzero((ratings.grades[a] >= 0) & (ratings.grades[b] >= 0))
    names, queries = np.unique(ratings.queries[items], return_inverse=True)
    levels = ratings.levels
    cells = (queries * levels + ratings.grades[a, items]) * levels + ratings.grades[b, items]
    weights = ratings.weights[items] if ratings.weights is not None and 0 in (a, b) else None
    counted = np.bincount(cells, weights, len(names) * levels**2).astype(np.float64)
    return Counts({"confusion": counted.reshape(len(names), levels, levels)}, len(items))


def count_panel(ratings: RatingMatrix, rows: Ints) -> Counts:
    """Count the coincidences of raters, by their rows, on items that at least two judged."""
    grades = ratings.grades[rows]
    several = np.flatnonzero((grades >= 0).sum(axis=0) >= 2)
    weights = np.ones(len(several))
    if ratings.weights is not None and 0 in rows:
        # what the first rater did not judge is stood for by what it judged
        several = several[ratings.grades[0, several] >= 0]
        weights = ratings.weights[several]
    names, queries = np.unique(ratings.queries[several], return_inverse=True)
    levels = ratings.levels
    counted = np.stack([(grades[:, several] == level).sum(axis=0) for level in range(levels)], 1)
    sizes = counted.sum(axis=1)
    by_items = np.zeros((len(names), levels, levels))
    by_ratings = np.zeros_like(by_items)
    for k in range(levels):
        for m in range(levels):
            pairs = weights * counted[:, k] * (counted[:, m] - (k == m))
            by_items[:, k, m] = np.bincount(queries, pairs / (sizes * (sizes - 1)), len(names))
            by_ratings[:, k, m] = np.bincount(queries, pairs / (sizes - 1), len(names))
    return Counts({"by_items": by_items, "by_ratings": by_ratings}, len(several))


def binarise(counts: Counts, threshold: int) -> Counts:
    """Return the counts as if every grade from the threshold on were 1, and every other 0.

    The weight of an item does not depend on its grades, so sums of cells are exact.
    """
    split = [0, threshold]
    return Counts(
        {
            kind: np.add.reduceat(np.add.reduceat(table, split, axis=1), split, axis=2)
            for kind, table in counts.tables.items()
        },
        counts.items,
    )


def with_coincidences(tables: dict[Kind, Floats]) -> dict[Kind, Floats]:
    """Return the tables with those that follow from them: a confusion gives coincidences."""
    if "confusion" not in tables:
        return tables
    confusion = tables["confusion"]
    coincidences = confusion + np.swapaxes(confusion, -1, -2)
    return {"confusion": confusion, "by_items": coincidences / 2, "by_ratings": coincidences}


def _codes(column: pa.ChunkedArray) -> tuple[NDArray[np.object_], Ints]:
    """Return the texts of a column as they first appear, and each row's place among them."""
    encoded = pa.concat_arrays(column.chunks or [pa.array([], pa.string())]).dictionary_encode()
    texts = encoded.dictionary.to_numpy(zero_copy_only=False)
    return texts, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _ranks(column: pa.ChunkedArray) -> Ints:
    """Return each row's place among the sorted texts of a column."""
    texts, codes = _codes(column)
    return np.argsort(np.argsort(texts))[codes]
