"""Read rankers and comparisons from the results of a bake-off, and draw the latter."""

from collections.abc import Iterable, Sequence
from math import inf, isnan
from typing import Any

import numpy as np
from markupsafe import Markup

from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import significance_of, swap_rankers
from zelo_ray.records import Comparison, Mean
from zelo_ray.report import charts
from zelo_ray.report.results import Results


def rankers_of(results: Results) -> list[str]:
    """Return the rankers that took part, best first by the leading measure."""
    return [row["run"] for row in results.rows("leaderboard") if row["ranked"]]


def means_of(results: Results, estimate: str = "panel") -> dict[str, dict[str, Mean]]:
    """Return means by measure and ranker, the leading measure first."""
    found: dict[str, dict[str, Mean]] = {}
    for row in results.rows("means", estimate=estimate):
        found.setdefault(row["measure"], {})[row["run"]] = Mean(**row)
    return found


def best_by(means: dict[str, Mean], rankers: Iterable[str]) -> str:
    """Return the ranker with the highest mean; of equal ones, the first."""
    values = {name: means[name].mean for name in rankers}
    return max(values, key=lambda name: -inf if isnan(values[name]) else values[name])


def comparisons_of(results: Results, estimate: str = "panel") -> dict[str, list[Comparison]]:
    """Return comparisons by measure, the better ranker as A; of equal ones, the leader."""
    place = {name: n for n, name in enumerate(rankers_of(results))}
    found: dict[str, list[Comparison]] = {}
    for values in results.rows("comparisons", estimate=estimate):
        row = Comparison(**values)
        is_behind = row.difference == 0 and place[row.run_a] > place[row.run_b]
        row = swap_rankers(row) if row.difference < 0 or is_behind else row
        found.setdefault(row.measure, []).append(row)
    return found


def against(ranker: str, rows: Iterable[Comparison]) -> list[Comparison]:
    """Return a ranker's comparisons, with it as A, the smallest lead first."""
    own = [row for row in rows if ranker in (row.run_a, row.run_b)]
    seen = [row if row.run_a == ranker else swap_rankers(row) for row in own]
    return sorted(seen, key=lambda row: row.difference)


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
