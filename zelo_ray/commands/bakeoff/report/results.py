"""Read the files of a bake-off, each once, when a section first asks for it."""

from collections.abc import Mapping
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.significance import turned
from zelo_ray.records import Comparison
from zelo_ray.report.source import Source, codes_of
from zelo_ray.report.wording import short

MEAN = ("mean", "low", "high")


class Contest:
    """A bake-off, of which each thing is read once, when a section first asks for it."""

    def __init__(self, source: Source, run: Mapping[str, Any]) -> None:
        self.source, self.run, self.summary = source, run, run["summary"]

    @cached_property
    def means(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the rows of means by measure and arm, the leading measure first."""
        rows = self.source.table("means").to_pylist() if self.source.has("means.parquet") else []
        leading = self.summary["leading"]
        rows = [row for row in rows if row.get("estimate", "panel") == "panel"]
        rows.sort(key=lambda row: row["measure"] != leading)
        by_measure: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            by_measure.setdefault(row["measure"], {})[row["run"]] = row
        return by_measure

    @cached_property
    def arms(self) -> list[str]:
        """Return the arms that have a mean, best first by the leading measure."""
        means = self.means.get(self.summary["leading"], {})
        return [arm for arm in self.summary["standing"] if arm in means]

    def best(self, measure: str) -> str:
        """Return the arm with the highest mean, of equal ones the first of the standing."""
        means = {arm: self.means[measure][arm]["mean"] for arm in self.arms}
        return max(self.arms, key=lambda arm: -np.inf if isnan(means[arm]) else means[arm])

    @cached_property
    def comparisons(self) -> dict[str, list[Comparison]]:
        """Return comparisons by measure, the leading one first, with the better arm as A.

        Where two arms are equal, A is the first of the standing.
        """
        place = {arm: i for i, arm in enumerate(self.summary["standing"])}
        by_measure: dict[str, list[Comparison]] = {measure: [] for measure in self.means}
        for comparison in self.every_comparison:
            if comparison.estimate != "panel":
                continue
            level = comparison.difference == 0 and place[comparison.run_a] > place[comparison.run_b]
            row = turned(comparison) if comparison.difference < 0 or level else comparison
            by_measure.setdefault(row.measure, []).append(row)
        return {measure: rows for measure, rows in by_measure.items() if rows}

    @cached_property
    def every_comparison(self) -> list[Comparison]:
        """Return the comparisons as stored, those by people's labels too."""
        if not self.source.has("comparisons.parquet"):
            return []
        return [Comparison(**row) for row in self.source.table("comparisons").to_pylist()]

    def rivals(self, measure: str, arm: str) -> list[Comparison]:
        """Return comparisons of an arm, as A, with each other one, in the order of the standing."""
        rows = self.comparisons.get(measure, ())
        by_rival = {row.run_b: row for row in rows if row.run_a == arm}
        by_rival |= {row.run_a: turned(row) for row in rows if row.run_b == arm}
        return [by_rival[name] for name in self.arms if name in by_rival]

    def common(self, comparison: Comparison) -> str:
        """Say on how many queries two arms are compared; return "" if on all."""
        queries = self.means[comparison.measure][comparison.run_a]["queries"]
        return (
            f" (on {comparison.queries:,} common queries)" if comparison.queries < queries else ""
        )

    @cached_property
    def unanswered(self) -> dict[str, int]:
        """Return, by arm, the number of queries of the truth that it did not answer."""
        return {arm["name"]: arm["missing"] for arm in self.summary["arms"]}

    @cached_property
    def values(self) -> tuple[list[str], np.ndarray]:
        """Return query ids and the leading measure [queries, arms]; NaN if there is no value."""
        if not (self.source.has("metrics.parquet") and self.arms):
            return [], np.empty((0, 0))
        where = (pc.field("measure") == self.summary["leading"]) & pc.field("run").isin(self.arms)
        table = self.source.table("metrics", where)
        query, query_ids = codes_of(table["query_id"])
        run, runs = codes_of(table["run"])
        values = np.full((len(query_ids), len(self.arms)), np.nan)
        column = {arm: i for i, arm in enumerate(self.arms)}
        values[query, np.array([column[name] for name in runs], dtype=np.int64)[run]] = table[
            "value"
        ].to_numpy()
        if self.source.has("failures.parquet"):
            row = {query_id: i for i, query_id in enumerate(query_ids)}
            for failure in self.source.table("failures").to_pylist():
                if failure["run"] in column and failure["query_id"] in row:
                    values[row[failure["query_id"]], column[failure["run"]]] = np.nan
        return query_ids, values

    @cached_property
    def depths(self) -> dict[str, int]:
        """Return, by arm, the largest number of documents that it ranks for a query."""
        rows = self._ranked.group_by("run").aggregate([("documents", "max")]).to_pylist()
        return {row["run"]: row["documents_max"] for row in rows}

    def documents(self, depth: int) -> dict[str, int]:
        """Count, by arm, the documents that it ranks down to some depth, over all queries."""
        counts = pc.min_element_wise(self._ranked["documents"], depth)
        cut = pa.table({"run": self._ranked["run"], "documents": counts})
        rows = cut.group_by("run").aggregate([("documents", "sum")]).to_pylist()
        return {row["run"]: row["documents_sum"] for row in rows}

    @cached_property
    def _ranked(self) -> pa.Table:
        """Count the documents that each arm ranks for each query: columns run and documents."""
        keys = ["run", "query_id"]
        has_runs = self.source.has("runs.parquet")
        counts = [
            chunk.group_by(keys).aggregate([([], "count_all")])
            for chunk in (self.source.chunks("runs", keys) if has_runs else ())
        ]
        if not counts:
            return pa.table({"run": pa.array([], pa.string()), "documents": pa.array([], "int64")})
        totals = pa.concat_tables(counts).group_by(keys).aggregate([("count_all", "sum")])
        return pa.table({"run": totals["run"], "documents": totals["count_all_sum"]})

    @cached_property
    def texts(self) -> dict[str, str]:
        """Return the texts of queries, where they are known."""
        return {
            contrast["query_id"]: contrast["query"] for contrast in self.run.get("contrasts", [])
        }

    def named(self, query_id: str) -> str:
        """Return a query's name for a chart: its id, and its text if that is known."""
        text = self.texts.get(query_id)
        return short(f"{query_id}: {text}" if text else query_id, 110)
