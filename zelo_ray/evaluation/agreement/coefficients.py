"""Compute the coefficients of pairs of raters and of panels, on the scale and binarised."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import isnan
from typing import Literal, Protocol

import numpy as np

from zelo_ray.evaluation.agreement.counts import (
    Counts,
    Floats,
    Kind,
    RatingMatrix,
    binarise,
    count_pair,
    count_panel,
    with_coincidences,
)
from zelo_ray.evaluation.agreement.intervals import FEWEST, interval, sample_tables
from zelo_ray.evaluation.agreement.ratios import Weights


class Module(Protocol):
    """One coefficient."""

    __name__: str
    TABLE: Kind

    def values(self, table: Floats, weights: Weights) -> Floats:
        """Return the coefficient of each table: [..., levels, levels] to [...]."""


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A coefficient's module, weights and number of raters: ``many`` are three or more."""

    module: Module
    raters: Literal["two", "any", "many"]
    weights: Weights = "nominal"

    def weighing(self, levels: int) -> Weights:
        """Return its weights: nominal for two categories, where all weights are the same."""
        return "nominal" if levels == 2 else self.weights

    def of(self, tables: Mapping[Kind, Floats]) -> Floats:
        """Return its value for each table of its kind, made by `counts.with_coincidences`."""
        table = tables[self.module.TABLE]
        return self.module.values(table, self.weighing(table.shape[-1]))


@dataclass(frozen=True, slots=True)
class Agreement:
    """One coefficient of two raters, or of a panel, whose name is ``rater_a`` (B is "" then).

    ``scale`` is such as ``0-3``, or ``>=2`` for grades binarised there; ``low`` and ``high`` are
    its 95% interval over samples of queries. ``items`` and ``queries`` count what it is based on.
    """

    rater_a: str
    rater_b: str
    scale: str
    coefficient: str
    value: float
    low: float
    high: float
    items: int
    queries: int


@dataclass(frozen=True, slots=True)
class ConfusionCell:
    """The number of items to which one rater gave one grade, and the other another."""

    rater_a: str
    rater_b: str
    scale: str
    grade_a: int
    grade_b: int
    items: int


def measure_agreement(
    ratings: RatingMatrix,
    panels: Mapping[str, Sequence[str]],
    coefficients: Mapping[str, Coefficient],
    *,
    thresholds: Iterable[int],
    resamples: int,
    seed: int,
) -> tuple[list[Agreement], list[ConfusionCell]]:
    """Measure all pairs of raters, and panels of three or more.

    Args:
        ratings: the judgments of all raters.
        panels: raters that are measured together, by the panel's name; panels of fewer than three
            are skipped, as they add nothing to the pairs.
        coefficients: by name.
        thresholds: grades from which a judgment counts as positive, in addition to the whole scale.
        resamples: how many samples of queries are drawn.
        seed: of the samples.

    Returns:
        Coefficients by pair (the rater that comes first in the ratings is A), then by panel; scales
        and coefficients in the order given. Confusions of the same pairs and scales, zeros too.
    """
    records: list[Agreement] = []
    confused: list[ConfusionCell] = []
    cuts = [threshold for threshold in thresholds if ratings.levels > 2]
    for a, b in combinations(range(len(ratings.raters)), 2):
        names = ratings.raters[a], ratings.raters[b]
        of_two = {n: c for n, c in coefficients.items() if c.raters != "many"}
        for scale, counts in binarised_scales(count_pair(ratings, a, b), ratings.levels, cuts):
            records += _measure((*names, scale), counts, of_two, resamples, seed)
        plain = count_pair(replace(ratings, weights=None), a, b)  # a confusion counts judgments
        for scale, counts in binarised_scales(plain, ratings.levels, cuts):
            confused += _cells(names, scale, counts)
    of_many = {n: c for n, c in coefficients.items() if c.raters != "two"}
    for panel, raters in panels.items():
        if len(raters) > 2:
            rows = np.array([ratings.raters.index(rater) for rater in raters])
            for scale, counts in binarised_scales(count_panel(ratings, rows), ratings.levels, cuts):
                records += _measure((panel, "", scale), counts, of_many, resamples, seed)
    return records, confused


def scale_name(levels: int, threshold: int | None = None) -> str:
    """Return the name of a scale: ``0-3``, or ``>=2``."""
    return f"0-{levels - 1}" if threshold is None else f">={threshold}"


def binarised_scales(
    counts: Counts, levels: int, cuts: Iterable[int]
) -> Iterator[tuple[str, Counts]]:
    """Yield the counts on the whole scale, and binarised at some grades, by the scale's name."""
    yield scale_name(levels), counts
    for threshold in cuts:
        yield scale_name(levels, threshold), binarise(counts, threshold)


def _measure(
    where: tuple[str, str, str],
    counts: Counts,
    coefficients: Mapping[str, Coefficient],
    resamples: int,
    seed: int,
) -> Iterator[Agreement]:
    totals = with_coincidences(
        {kind: t.sum(axis=0, keepdims=True) for kind, t in counts.tables.items()}
    )
    enough = resamples if counts.queries >= FEWEST else 0
    drawn = [with_coincidences(tables) for tables in sample_tables(counts.tables, enough, seed)]
    estimates: dict[tuple[str, Weights], tuple[float, float, float]] = {}
    for name, coefficient in coefficients.items():
        key = (
            coefficient.module.__name__,
            coefficient.weighing(totals[coefficient.module.TABLE].shape[-1]),
        )
        if key not in estimates:
            value = float(coefficient.of(totals)[0])
            samples = [coefficient.of(tables) for tables in drawn]
            ends = interval(np.concatenate([np.empty(0), *samples]), counts.queries)
            estimates[key] = value, *((np.nan, np.nan) if isnan(value) else ends)
        yield Agreement(*where, name, *estimates[key], counts.items, counts.queries)


def _cells(raters: tuple[str, str], scale: str, counts: Counts) -> Iterator[ConfusionCell]:
    total = counts.tables["confusion"].sum(axis=0)
    for (grade_a, grade_b), items in np.ndenumerate(total):
        yield ConfusionCell(*raters, scale, grade_a, grade_b, int(items))
