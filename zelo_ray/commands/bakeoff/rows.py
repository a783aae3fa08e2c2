"""Define the rows of a bake-off's own tables, and read rankers and comparisons from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isnan
from typing import Any, Literal

import numpy as np
from markupsafe import Markup

from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import significance_of, swap_rankers
from zelo_ray.records import Comparison, Mean, Status
from zelo_ray.report import charts
from zelo_ray.report.results import Results

FOREST = """By how much the ranker with the highest mean is above each other one, on the queries
that both ranked, with the interval of each pair. A point is filled where the difference is
significant after correction for all comparisons."""


@dataclass(frozen=True, slots=True)
class Place:
    """A ranker on the leaderboard; those that ranked nothing come last, without a mean.

    ``families`` are those that it shares with the ``judges`` of the truth, ``unpriced`` counts
    answers without a known price, and ``note`` says why it was asked no more.
    """

    run: str
    measure: str
    mean: float
    low: float
    high: float
    ranked: int
    missing: int
    dollars: float
    unpriced: int
    note: str
    families: tuple[str, ...]
    judges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unjudged:
    """An unjudged document among the first of a run."""

    run: str
    query_id: str
    doc_id: str
    rank: int


@dataclass(frozen=True, slots=True)
class Unranked:
    """One query that a ranker did not answer, and why; ``missing``: a run file does not hold it."""

    run: str
    query_id: str
    status: Status | Literal["missing"]
    reason: str
    attempts: int


@dataclass(frozen=True, slots=True)
class Slice:
    """The mean of a measure over some of the queries, with its interval."""

    slice: str
    value: str
    run: str
    measure: str
    mean: float
    low: float
    high: float
    queries: int


@dataclass(frozen=True, slots=True)
class Contrast:
    """A document of a query where the best ranker, A, and another differ most.

    ``relevance`` is NaN where the truth does not know it, and a rank 0 where a ranker lacks it.
    """

    query_id: str
    query: str
    run_a: str
    run_b: str
    value_a: float
    value_b: float
    doc_id: str
    text: str
    relevance: float
    rank_a: int
    rank_b: int


def rankers_of(results: Results) -> list[str]:
    """Return the rankers that took part, best first by the leading measure."""
    return [row.run for row in results.records("leaderboard", Place) if row.ranked]


def means_of(results: Results, estimate: str = "panel") -> dict[str, dict[str, Mean]]:
    """Return means by measure and ranker, the leading measure first."""
    found: dict[str, dict[str, Mean]] = {}
    for row in results.records("means", Mean, estimate=estimate):
        found.setdefault(row.measure, {})[row.run] = row
    return found


def best_by(means: dict[str, Mean], rankers: Iterable[str]) -> str:
    """Return the ranker with the highest mean; of equal ones, the first."""
    values = {name: means[name].mean for name in rankers}
    return max(values, key=lambda name: -inf if isnan(values[name]) else values[name])


def comparisons_of(results: Results, estimate: str = "panel") -> dict[str, list[Comparison]]:
    """Return comparisons by measure, the better ranker as A; of equal ones, the leader."""
    place = {name: n for n, name in enumerate(rankers_of(results))}
    found: dict[str, list[Comparison]] = {}
    for row in results.records("comparisons", Comparison, estimate=estimate):
        is_behind = row.difference == 0 and place[row.run_a] > place[row.run_b]
        is_behind |= row.difference < 0
        found.setdefault(row.measure, []).append(swap_rankers(row) if is_behind else row)
    return found


def both_ways(rows: Iterable[Comparison]) -> dict[tuple[str, str, str], Comparison]:
    """Return comparisons by measure, A and B, each also with A and B exchanged."""
    pairs = (each for row in rows for each in (row, swap_rankers(row)))
    return {(row.measure, row.run_a, row.run_b): row for row in pairs}


def against(ranker: str, rows: Iterable[Comparison]) -> list[Comparison]:
    """Return a ranker's comparisons by one measure, with it as A, the smallest lead first."""
    own = [row for row in both_ways(rows).values() if row.run_a == ranker]
    return sorted(own, key=lambda row: row.difference)


def ends(rows: Sequence[Any], name: str) -> tuple[Floats, Floats, Floats]:
    """Return a figure of some rows with its interval, [rows] each."""
    value, low, high = (
        np.array([getattr(row, each) for row in rows], float) for each in (name, "low", "high")
    )
    return value, low, high


def forest(best: str, rows: Iterable[Comparison]) -> Markup:
    """Draw by how much a ranker is above each other one; a ring is not significant."""
    shown = against(best, rows)
    return charts.intervals(
        [row.run_b for row in shown],
        {"": ends(shown, "difference")},
        f"{best} minus the other",
        0.0,
        hollow={n for n, row in enumerate(shown) if not significance_of(row).is_significant},
        form="+.3f",
    )
