"""Coefficients of agreement between raters, as functions of tables of counts.

Every coefficient compares how far judgments of one item are apart with how far they would be by
chance. Tables add up over queries, so a bootstrap over queries is a matrix product.

Two raters are compared on the items that both judged, and more raters on those that at least two of
them judged. If all judgments are of one grade, every coefficient but the percent agreement is NaN;
MCC is NaN as soon as one of the two gives one grade throughout, where kappa is 0. The categories
are those of the scale, used or not.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zelo_ray.errors import OptionError
from zelo_ray.evaluation.ranking import Floats, Ints, encode_texts
from zelo_ray.names import did_you_mean

Kind = Literal["confusion", "by_items", "by_ratings"]
"""What a table [..., levels, levels] counts.

* ``confusion``: items, by the grade of rater A (rows) and of rater B; for two raters only.
* ``by_items``: ordered pairs of judgments of one item, those of each item summing to 1.
* ``by_ratings``: the same, those of an item with r judgments summing to r (Krippendorff's
  coincidences), so that the whole sums to the number of judgments.
"""
Weights = Literal["nominal", "linear", "quadratic", "ordinal"]
_SMALL = 1e-12


def _by_margins(a: Floats, b: Floats, far: Floats, n: Floats) -> Floats:  # noqa: ARG001 - others need n
    """Return the distance of raters who grade at random, each with its own shares of grades."""
    return np.asarray(np.einsum("...i,...ij,...j->...", a, np.broadcast_to(far, _square(a)), b))


def _without_replacement(a: Floats, b: Floats, far: Floats, n: Floats) -> Floats:
    """Return the distance of two of the n judgments."""
    return np.asarray(_by_margins(a, b, far, n) * n / (n - 1))


def _by_guessing(a: Floats, b: Floats, far: Floats, n: Floats) -> Floats:  # noqa: ARG001 - as others
    """Return the distance on items that raters can only guess (Gwet 2008)."""
    levels = a.shape[-1]
    return np.asarray(1 - (1 - far).sum() / (levels * (levels - 1)) * (a * (1 - a)).sum(axis=-1))


def _square(shares: Floats) -> tuple[int, ...]:
    return (*shares.shape, shares.shape[-1])


class Coefficient(NamedTuple):
    """A coefficient: for how many raters (``many``: three or more), of which table, and how.

    ``chance`` gives the distance by chance from the shares of grades (of A and B), the distances of
    grades, and the sum of the table; None: it is not corrected for chance.
    """

    raters: Literal["two", "any", "many"]
    table: Kind
    weights: Weights = "nominal"
    chance: Callable[[Floats, Floats, Floats, Floats], Floats] | None = _by_margins
    is_correlation: bool = False
    """whether agreement beyond chance is divided by the spreads of both raters"""

    def of(self, tables: Mapping[Kind, Floats]) -> Floats:
        """Return its value for each table of its kind: [..., levels, levels] to [...]."""
        table = tables[self.table]
        rows, columns = table.sum(axis=-1), table.sum(axis=-2)
        n = rows.sum(axis=-1)
        with np.errstate(invalid="ignore", divide="ignore"):
            a, b = rows / n[..., np.newaxis], columns / n[..., np.newaxis]
            far = self._distances(a)
            seen = (table * far).sum(axis=(-2, -1)) / n
            if self.chance is None:
                return np.where(n > 0, 1 - seen, np.nan)
            chance = scale = self.chance(a, b, far, n)
            if self.is_correlation:
                scale = np.sqrt((1 - (a**2).sum(axis=-1)) * (1 - (b**2).sum(axis=-1)))
            value = (chance - seen) / scale
        defined = ((a + b > 0).sum(axis=-1) > 1) & (scale > _SMALL)
        return np.where(defined, value, np.nan)

    def _distances(self, shares: Floats) -> Floats:
        """Return the distances of grades, at most 1: of all tables, or of each for ordinal ones."""
        if self.weights == "ordinal":  # squared numbers of judgments between, half of the ends
            ranks = np.cumsum(shares, axis=-1) - shares / 2
            return np.asarray((ranks[..., :, np.newaxis] - ranks[..., np.newaxis, :]) ** 2)
        levels = np.arange(shares.shape[-1])
        apart = np.abs(np.subtract.outer(levels, levels)).astype(np.float64)
        power = {"nominal": 0, "linear": 1, "quadratic": 2}[self.weights]
        return np.where(apart > 0, (apart / apart.max()) ** power, 0.0)


COEFFICIENTS: dict[str, Coefficient] = {
    # Cohen 1960, Educ. Psychol. Meas. 20:37; weighted 1968, Psychol. Bull. 70:213
    "kappa": Coefficient("two", "confusion"),
    "kappa-linear": Coefficient("two", "confusion", "linear"),
    "kappa-quadratic": Coefficient("two", "confusion", "quadratic"),
    # Scott 1955, Public Opin. Q. 19:321; Fleiss 1971, Psychol. Bull. 76:378, of many
    "pi": Coefficient("two", "by_items"),
    "fleiss": Coefficient("many", "by_items"),
    # Krippendorff 2011, Computing Krippendorff's Alpha-Reliability
    "alpha-nominal": Coefficient("any", "by_ratings", "nominal", _without_replacement),
    "alpha-ordinal": Coefficient("any", "by_ratings", "ordinal", _without_replacement),
    "alpha-interval": Coefficient("any", "by_ratings", "quadratic", _without_replacement),
    # Gwet 2008, Br. J. Math. Stat. Psychol. 61:29: not near 0 if almost all grades are one
    "ac1": Coefficient("any", "by_items", "nominal", _by_guessing),
    "ac2-linear": Coefficient("any", "by_items", "linear", _by_guessing),
    "ac2-quadratic": Coefficient("any", "by_items", "quadratic", _by_guessing),
    "agreement": Coefficient("any", "by_items", chance=None),
    # Matthews 1975, BBA 405:442; of many grades Gorodkin 2004, Comput. Biol. Chem. 28:367
    "mcc": Coefficient("two", "confusion", is_correlation=True),
}
"""By name. Fleiss' kappa of two raters is Scott's pi, and is reported as that."""


def choose_coefficients(names: Iterable[str]) -> dict[str, Coefficient]:
    """Return the coefficients of these names, all if none is given; refuse an unknown one."""
    wanted = tuple(names) or tuple(COEFFICIENTS)
    if unknown := [name for name in wanted if name not in COEFFICIENTS]:
        choices, near = ", ".join(COEFFICIENTS), did_you_mean(unknown[0], COEFFICIENTS)
        raise OptionError(f"unknown coefficient {unknown[0]!r}{near}; there are {choices}")
    return {name: COEFFICIENTS[name] for name in wanted}


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


class Counts(NamedTuple):
    """Tables by query, [queries, levels, levels] each, of the queries that have any items."""

    tables: dict[Kind, Floats]
    items: int

    @property
    def queries(self) -> int:
        """Return how many queries have items."""
        return len(self.tables["by_items"])

    def binarise(self, threshold: int) -> "Counts":
        """Return the counts of judgments below a grade, and from it on."""
        split = [0, threshold]
        return self._replace(
            tables={
                kind: np.add.reduceat(np.add.reduceat(table, split, axis=1), split, axis=2)
                for kind, table in self.tables.items()
            }
        )


def ratings_of(grades: pa.Table, levels: int, weights: Floats | None = None) -> RatingMatrix:
    """Build a matrix from columns query_id, doc_id, judge and grade, with items in their order.

    Several grades of a rater for an item become their median, of two middle ones their mean, where
    a half goes to the even grade. ``weights`` are of the first rows, which are all of one rater.
    """
    raters, rater = encode_texts(grades["judge"])
    queries, documents = (_rank(grades[name]) for name in ("query_id", "doc_id"))
    width = int(documents.max(initial=0)) + 1
    pairs, item = np.unique(queries * width + documents, return_inverse=True)
    values = grades["grade"].to_numpy().astype(np.int64)
    cells = rater * len(pairs) + item
    at = np.lexsort((values, cells))
    starts = np.flatnonzero(np.diff(cells[at], prepend=-1))
    sizes = np.diff(starts, append=len(at))
    lower, upper = at[starts + (sizes - 1) // 2], at[starts + sizes // 2]
    matrix = np.full(len(raters) * len(pairs), -1, np.int16)
    matrix[cells[lower]] = np.rint((values[lower] + values[upper]) / 2)
    item_weights = None
    if weights is not None:
        item_weights = np.zeros(len(pairs))
        item_weights[item[: len(weights)]] = weights
    shape = len(raters), len(pairs)
    return RatingMatrix(tuple(raters), matrix.reshape(shape), pairs // width, levels, item_weights)


def count_pair(ratings: RatingMatrix, a: int, b: int) -> Counts:
    """Count the confusion of two raters, by their rows, on the items that both judged."""
    items = np.flatnonzero((ratings.grades[a] >= 0) & (ratings.grades[b] >= 0))
    names, queries = np.unique(ratings.queries[items], return_inverse=True)
    levels = ratings.levels
    cells = (queries * levels + ratings.grades[a, items]) * levels + ratings.grades[b, items]
    weights = ratings.weights[items] if ratings.weights is not None and 0 in (a, b) else None
    counted = np.bincount(cells, weights, len(names) * levels**2).astype(np.float64)
    confusion = counted.reshape(len(names), levels, levels)
    both = confusion + np.swapaxes(confusion, -1, -2)
    tables: dict[Kind, Floats] = {"confusion": confusion, "by_items": both / 2, "by_ratings": both}
    return Counts(tables, len(items))


def count_panel(ratings: RatingMatrix, rows: Sequence[int]) -> Counts:
    """Count the coincidences of raters, by their rows, on items that at least two judged."""
    grades = ratings.grades[[*rows]]
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
    by_items, by_ratings = np.zeros((2, len(names), levels, levels))
    for k in range(levels):
        for m in range(levels):
            pairs = weights * counted[:, k] * (counted[:, m] - (k == m)) / (sizes - 1)
            by_ratings[:, k, m] = np.bincount(queries, pairs, len(names))
            by_items[:, k, m] = np.bincount(queries, pairs / sizes, len(names))
    return Counts({"by_items": by_items, "by_ratings": by_ratings}, len(several))


def _rank(column: pa.ChunkedArray) -> Ints:
    """Return each row's place among the sorted texts of a column."""
    texts, codes = encode_texts(column)
    return np.argsort(np.argsort(np.array(texts, dtype=object)))[codes]
