"""Measure agreement of raters, by pairs and by panels, with intervals over queries.

Two raters are compared on the items that both judged, and a panel on those that at least two of
them judged. Intervals are of a bootstrap over queries, since items of a query are dependent. Two
figures that are compared are of the same samples: a query that is hard for one is hard for both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import nan
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from zelo_ray.evaluation.coefficients import Coefficient, Kind
from zelo_ray.evaluation.ranking import Bools, Floats, Ints, count_cells, encode_texts, rank_texts
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.fitting.grades import median_grades

SAMPLES, CONFIDENCE = 1000, 0.95
_UNDEFINED = 0.05  # of samples may be undefined: else the others are a biased selection


class Estimate(NamedTuple):
    """A value, its 95% interval, and the number of its queries; NaN where it is unknown."""

    value: float
    low: float
    high: float
    queries: int


@lru_cache(maxsize=4)
def draw_samples(queries: int) -> Floats:
    """Return weights of queries, [1 + samples, queries]: all alike, and then those of samples."""
    rng = np.random.default_rng(queries)
    drawn = [rng.integers(0, queries, queries) for _ in range(SAMPLES if queries else 0)]
    counts = [np.ones(queries), *(np.bincount(each, minlength=queries) for each in drawn)]
    return np.array(counts, dtype=np.float64)


def estimate_values(values: Floats, queries: int) -> Estimate:
    """Estimate a figure from its values under `draw_samples`, the first of which is its own.

    The interval is the expanded percentile one (Hesterberg 2015, Am. Stat. 69:371): plain
    percentiles are too narrow for few queries. NaN with fewer than 5 queries, or if the figure is
    undefined in more than one sample of 20.
    """
    value, samples = float(values[0]), np.sort(values[1:][~np.isnan(values[1:])])
    too_few = queries < FEWEST or len(samples) < (1 - _UNDEFINED) * (len(values) - 1)
    if too_few or np.isnan(value) or not len(samples):
        return Estimate(value, nan, nan, queries)
    wider = scipy.special.stdtrit(queries - 1, (1 + CONFIDENCE) / 2)
    wider *= np.sqrt(queries / (queries - 1))
    places = scipy.special.ndtr([-wider, wider]) * (len(samples) - 1)
    low, high = np.interp(places, np.arange(len(samples)), samples)
    return Estimate(value, float(low), float(high), queries)


def estimate(tables: Floats, defined: Bools, figure: Callable[[Floats], Floats]) -> Estimate:
    """Estimate a function of sums of tables, [queries, ...], over the queries that are known."""
    rows = tables[defined]
    if not len(rows):
        return Estimate(nan, nan, nan, 0)
    return estimate_values(figure(np.tensordot(draw_samples(len(rows)), rows, axes=1)), len(rows))


def estimate_share(part: Floats | Ints, total: Floats | Ints) -> Estimate:
    """Estimate the sum of parts over the sum of wholes; both [queries]."""
    return estimate(np.stack([part, total], axis=1).astype(np.float64), total > 0, quotient)


def quotient(sums: Floats) -> Floats:
    """Return the first of two sums over the second, [..., 2] to [...]; NaN where that is 0."""
    part, total = sums[..., 0], sums[..., 1]
    return np.divide(part, total, out=np.full_like(part, np.nan), where=total > 0)


@dataclass(frozen=True, slots=True)
class RatingMatrix:
    """The judgments of all raters: ``grades`` is [raters, items], -1 where there is none.

    ``queries`` is [items], in the order of the ids. ``weights`` is how many items each stands
    for, where those that the first rater judged were drawn with unequal chances; figures of
    that rater are weighted by them.
    """

    raters: tuple[str, ...]
    grades: NDArray[np.int16]
    queries: Ints
    levels: int
    weights: Floats | None = None


def ratings_of(grades: pa.Table, levels: int, weights: Floats | None = None) -> RatingMatrix:
    """Build a matrix from columns query_id, doc_id, judge and grade, with items in their order.

    Several grades of a rater for an item become their median (`median_grades`). ``weights`` are of
    the first rows, which are all of one rater.
    """
    raters, rater = encode_texts(grades["judge"])
    queries, documents = (rank_texts(grades[name]) for name in ("query_id", "doc_id"))
    width = int(documents.max(initial=0)) + 1
    pairs, item = np.unique(queries * width + documents, return_inverse=True)
    values = grades["grade"].to_numpy().astype(np.int64)
    cells = rater * len(pairs) + item
    matrix = np.full((len(raters), len(pairs)), -1, np.int16)
    filled, medians = median_grades(cells, values)
    matrix.flat[filled] = medians
    item_weights = None
    if weights is not None:
        item_weights = np.zeros(len(pairs))
        item_weights[item[: len(weights)]] = weights
    return RatingMatrix(tuple(raters), matrix, pairs // width, levels, item_weights)


class Counts(NamedTuple):
    """Tables by query, [queries, levels, levels] each, of the queries that have any items."""

    tables: dict[Kind, Floats]
    items: int

    @property
    def queries(self) -> int:
        """Return how many queries have items."""
        return len(self.tables["by_items"])

    def scales(self, cuts: Iterable[int]) -> Iterator[tuple[str, "Counts"]]:
        """Yield the scale and the counts: on the whole scale, and binarised at some grades."""
        levels = self.tables["by_items"].shape[-1]
        yield scale_name(levels), self
        for cut in cuts if levels > 2 else ():
            tables = {
                kind: np.add.reduceat(np.add.reduceat(table, [0, cut], axis=1), [0, cut], axis=2)
                for kind, table in self.tables.items()
            }
            yield scale_name(levels, cut), self._replace(tables=tables)

    def compute(self, coefficients: Mapping[str, Coefficient]) -> dict[str, Floats]:
        """Return the values of coefficients, each with those of samples of queries.

        Coefficients of two raters are left out where there are more.
        """
        chosen = {name: each for name, each in coefficients.items() if each.table in self.tables}
        if not self.queries:
            return {name: np.full(1, nan) for name in chosen}
        weights = draw_samples(self.queries)
        if self.queries < FEWEST:
            weights = weights[:1]
        sums = {kind: np.tensordot(weights, table, axes=1) for kind, table in self.tables.items()}
        return {name: coefficient.compute(sums) for name, coefficient in chosen.items()}


def scale_name(levels: int, cut: int | None = None) -> str:
    """Return the name of a scale: ``0-3``, or ``>=2``."""
    return f"0-{levels - 1}" if cut is None else f">={cut}"


def count_ratings(ratings: RatingMatrix, raters: Sequence[str]) -> Counts:
    """Count how two or more raters judge the items that at least two of them judged."""
    rows = [ratings.raters.index(rater) for rater in raters]
    grades, weights, levels = ratings.grades[rows], None, ratings.levels
    several = (grades >= 0).sum(axis=0) >= 2
    if ratings.weights is not None and 0 in rows:
        # what the first rater did not judge is stood for by what it judged
        several &= ratings.grades[0] >= 0
        weights = ratings.weights[several]
    grades = grades[:, several]
    names, queries = np.unique(ratings.queries[several], return_inverse=True)
    shape, items = (len(names), levels, levels), grades.shape[1]
    if len(rows) == 2:
        confusion = count_cells(shape, queries, *grades, weights=weights).astype(np.float64)
        both = confusion + confusion.swapaxes(-1, -2)
        return Counts({"confusion": confusion, "by_items": both / 2, "by_ratings": both}, items)
    grade_counts = np.stack([(grades == level).sum(axis=0) for level in range(levels)], axis=1)
    sizes, weight = grade_counts.sum(axis=1), np.ones(items) if weights is None else weights
    by_items, by_ratings = np.zeros((2, *shape))
    for k, m in product(range(levels), repeat=2):
        pairs = weight * grade_counts[:, k] * (grade_counts[:, m] - (k == m)) / (sizes - 1)
        by_ratings[:, k, m] = np.bincount(queries, pairs, len(names))
        by_items[:, k, m] = np.bincount(queries, pairs / sizes, len(names))
    return Counts({"by_items": by_items, "by_ratings": by_ratings}, items)


class Agreement(NamedTuple):
    """One coefficient of two raters, or of the panel ``rater_a`` (B is "").

    ``scale`` is such as ``0-3``, or ``>=2`` for grades binarised there.
    """

    rater_a: str
    rater_b: str
    scale: str
    coefficient: str
    estimate: Estimate
    items: int


@dataclass(frozen=True, slots=True)
class ConfusionCell:
    """The number of items to which one rater gave one grade, and the other another."""

    rater_a: str
    rater_b: str
    scale: str
    grade_a: int
    grade_b: int
    items: int


class Difference(NamedTuple):
    """By how much more A agrees with people than B, on what all three judged; also in per cent."""

    rater_a: str
    rater_b: str
    scale: str
    coefficient: str
    more: Estimate
    relative: float
    items: int


def measure_agreement(
    ratings: RatingMatrix,
    raters: Sequence[str],
    coefficients: Mapping[str, Coefficient],
    cuts: Sequence[int] = (),
    *,
    panel: str = "",
) -> Iterator[Agreement]:
    """Measure two raters, of whom the first is A; or more, as a ``panel`` of this name.

    ``cuts`` are grades from which a judgment counts as positive, in addition to the whole scale.
    """
    counts, (a, b, *_) = count_ratings(ratings, raters), (panel, "") if panel else raters
    for scale, part in counts.scales(cuts):
        for name, values in part.compute(coefficients).items():
            estimate = estimate_values(values, counts.queries)
            yield Agreement(a, b, scale, name, estimate, counts.items)


def count_confusions(
    ratings: RatingMatrix, pair: Sequence[str], cuts: Sequence[int] = ()
) -> Iterator[ConfusionCell]:
    """Count the judgments of two raters by both their grades, on every scale, zeros too."""
    a, b = pair
    for scale, counts in count_ratings(replace(ratings, weights=None), pair).scales(cuts):
        for (grade_a, grade_b), items in np.ndenumerate(counts.tables["confusion"].sum(axis=0)):
            yield ConfusionCell(a, b, scale, grade_a, grade_b, int(items))


def compare_agreement(
    ratings: RatingMatrix,
    human: str,
    pair: tuple[str, str],
    coefficients: Mapping[str, Coefficient],
    cuts: Sequence[int] = (),
) -> Iterator[Difference]:
    """Compare two raters by their agreement with one that counts as the truth, ``human``.

    Values are NaN, of no items, where they judged nothing in common with the people.
    """
    rows = [ratings.raters.index(name) for name in (human, *pair)]
    common = (ratings.grades[rows] >= 0).all(axis=0)
    shared = replace(ratings, grades=np.where(common, ratings.grades, -1).astype(np.int16))
    sides = (count_ratings(shared, (human, name)).scales(cuts) for name in pair)
    for (scale, first), (_, second) in zip(*sides, strict=True):
        values_a, values_b = (counts.compute(coefficients) for counts in (first, second))
        for name, values in values_a.items():
            more, b = estimate_values(values - values_b[name], first.queries), values_b[name][0]
            relative = 100 * more.value / float(b) if b > 0 else nan
            yield Difference(*pair, scale, name, more, relative, first.items)
