"""What a bake-off left: each of its files read once, when a section first asks for it."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow.compute as pc

from zelo_ray.report.page import short
from zelo_ray.report.source import Source, codes_of

_SPAN = ("mean", "low", "high")


class Contest:
    """A bake-off, of which each thing is read once, when a section first asks for it."""

    def __init__(self, source: Source, run: Mapping[str, Any]) -> None:
        self.source, self.run, self.summary = source, run, run["summary"]

    @cached_property
    def means(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Rows of means by measure and arm; the leading measure first."""
        rows = self.source.table("means").to_pylist() if self.source.has("means.parquet") else []
        leading = self.summary["leading"]
        rows.sort(key=lambda row: row["measure"] != leading)
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            found.setdefault(row["measure"], {})[row["run"]] = row
        return found

    @cached_property
    def arms(self) -> list[str]:
        """The arms that have a mean, best first by the leading measure."""
        first = next(iter(self.means.values()), {})
        worst = float("-inf")
        return sorted(first, key=lambda arm: (-or_else(first[arm]["mean"], worst), arm))

    @cached_property
    def comparisons(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of comparisons by measure, the leading measure first."""
        if not self.source.has("comparisons.parquet"):
            return {}
        found: dict[str, list[dict[str, Any]]] = {measure: [] for measure in self.means}
        for row in self.source.table("comparisons").to_pylist():
            found.setdefault(row["measure"], []).append(row)
        return {measure: rows for measure, rows in found.items() if rows}

    @cached_property
    def values(self) -> tuple[list[str], np.ndarray]:
        """Query ids, and the leading measure [queries, arms], NaN where it is not there."""
        if not (self.source.has("metrics.parquet") and self.arms):
            return [], np.empty((0, 0))
        where = (pc.field("measure") == self.summary["leading"]) & pc.field("run").isin(self.arms)
        table = self.source.table("metrics", where)
        query, query_ids = codes_of(table["query_id"])
        run, runs = codes_of(table["run"])
        values = np.full((len(query_ids), len(self.arms)), np.nan)
        places = np.array([self.arms.index(name) for name in runs], dtype=np.int64)
        values[query, places[run]] = table["value"].to_numpy()
        return query_ids, values

    @cached_property
    def texts(self) -> dict[str, str]:
        """Texts of queries, where they are known."""
        return {each["query_id"]: each["query"] for each in self.run.get("contrasts", [])}

    def named(self, query_id: str) -> str:
        """A query as a chart names it: its id, and its text if that is known."""
        text = self.texts.get(query_id)
        return short(f"{query_id}: {text}" if text else query_id, 110)


def or_else(value: float, other: float) -> float:
    """A value, or another one if it is NaN."""
    return other if np.isnan(value) else value


def turned(row: Mapping[str, Any], best: str) -> dict[str, Any] | None:
    """A comparison as seen from one arm; None if that has no part in it."""
    if row["run_a"] == best:
        return dict(row)
    if row["run_b"] != best:
        return None
    return {
        **row,
        "run_a": best,
        "run_b": row["run_a"],
        "difference": -row["difference"],
        "low": -row["high"],
        "high": -row["low"],
        "p_better": 1 - row["p_better"],
    }


def spans(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str] = _SPAN
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A value and the ends of its interval, each [rows]; NaN where a row has none."""
    value, low, high = (np.array([row.get(n, np.nan) for row in rows], dtype=float) for n in names)
    return value, low, high
