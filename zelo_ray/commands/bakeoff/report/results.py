"""Read the files of a bake-off, each once, when a section first asks for it."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.significance import swap_rankers
from zelo_ray.files.tables import codes_of
from zelo_ray.records import Comparison
from zelo_ray.reports.source import Source
from zelo_ray.reports.wording import short

MEAN = ("mean", "low", "high")


class BakeoffResults:
    """The files of a bake-off, each read once, when a section first asks for it."""

    def __init__(self, source: Source, run: Mapping[str, Any]) -> None:
        self.source, self.run, self.summary = source, run, run["summary"]
        self.leading: str = self.summary["leading"]
        self.queries: int = self.summary["truth"]["queries"]

    @property
    def families(self) -> Mapping[str, Any]:
        """Return the model families that rankers share with judges; empty if not looked for."""
        return self.summary.get("kin") or {}

    @property
    def people(self) -> Mapping[str, Any]:
        """Return the record of people's labels; empty if there are none."""
        return self.summary.get("people") or {}

    def is_leading(self) -> pc.Expression:
        """Return the filter of a table for rows of the leading measure."""
        return pc.field("measure") == self.summary["leading"]

    @cached_property
    def means(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the rows of means by measure and ranker, the leading measure first."""
        rows = [row for row in self.source.rows("means") if row.get("estimate", "panel") == "panel"]
        rows.sort(key=lambda row: row["measure"] != self.leading)
        by_measure: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            by_measure.setdefault(row["measure"], {})[row["run"]] = row
        return by_measure

    @cached_property
    def costs(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the rows of means that are times or prices, by ranker and figure."""
        rows = self.source.rows("means")
        return {(row["run"], row["measure"]): row for row in rows if row.get("estimate") == "cost"}

    @cached_property
    def rankers(self) -> list[str]:
        """Return the rankers that have a mean, best first by the leading measure."""
        means = self.means.get(self.leading, {})
        return [ranker for ranker in self.summary["standing"] if ranker in means]

    def best(self, measure: str) -> str:
        """Return the ranker with the highest mean; of equal ones, the first of the leaderboard."""
        means = {ranker: self.means[measure][ranker]["mean"] for ranker in self.rankers}
        return max(means, key=lambda ranker: -np.inf if isnan(means[ranker]) else means[ranker])

    @cached_property
    def comparisons(self) -> dict[str, list[Comparison]]:
        """Return comparisons by measure, the leading one first, with the better ranker as A.

        Where two are equal, A is the first of the leaderboard.
        """
        place = {ranker: i for i, ranker in enumerate(self.summary["standing"])}
        by_measure: dict[str, list[Comparison]] = {measure: [] for measure in self.means}
        for comparison in self.all_comparisons:
            if comparison.estimate != "panel":
                continue
            level = comparison.difference == 0 and place[comparison.run_a] > place[comparison.run_b]
            row = swap_rankers(comparison) if comparison.difference < 0 or level else comparison
            by_measure.setdefault(row.measure, []).append(row)
        return {measure: rows for measure, rows in by_measure.items() if rows}

    @cached_property
    def equal_measures(self) -> list[str]:
        """Return the measures by which all rankers are equal on every query."""
        return [
            measure
            for measure, rows in self.comparisons.items()
            if not any(row.wins or row.losses for row in rows) and any(row.queries for row in rows)
        ]

    @cached_property
    def all_comparisons(self) -> list[Comparison]:
        """Return the comparisons as stored, those by people's labels too."""
        return [Comparison(**row) for row in self.source.rows("comparisons")]

    def rivals(self, measure: str, ranker: str) -> list[Comparison]:
        """Return comparisons of a ranker, as A, with each other one, in the leaderboard's order."""
        by_rival = comparisons_by_rival(ranker, self.comparisons.get(measure, ()))
        return [by_rival[name] for name in self.rankers if name in by_rival]

    def describe_common_queries(self, comparison: Comparison) -> str:
        """Say on how many queries two rankers are compared; return "" if on all."""
        mean = self.means.get(comparison.measure, {}).get(comparison.run_a, {})
        queries = mean.get("queries", self.queries)
        return (
            f" (on {comparison.queries:,} common queries)" if comparison.queries < queries else ""
        )

    @cached_property
    def unjudged(self) -> pa.Table | None:
        """Return the unjudged documents high in rankings; None if there is no such table."""
        return self.source.table("unjudged") if self.source.has("unjudged.parquet") else None

    @cached_property
    def unanswered(self) -> dict[str, int]:
        """Return, by ranker, the number of queries of the truth that it did not rank."""
        return {ranker["name"]: ranker["missing"] for ranker in self.summary["rankers"]}

    @cached_property
    def values(self) -> tuple[list[str], np.ndarray]:
        """Return query ids and the leading measure [queries, rankers]; NaN if there is no value."""
        if not (self.source.has("metrics.parquet") and self.rankers):
            return [], np.empty((0, 0))
        where = self.is_leading() & pc.field("run").isin(self.rankers)
        table = self.source.table("metrics", where)
        query, query_ids = codes_of(table["query_id"])
        run, runs = codes_of(table["run"])
        values = np.full((len(query_ids), len(self.rankers)), np.nan)
        column = {ranker: i for i, ranker in enumerate(self.rankers)}
        values[query, np.array([column[name] for name in runs], dtype=np.int64)[run]] = table[
            "value"
        ].to_numpy()
        row = {query_id: i for i, query_id in enumerate(query_ids)}
        for failure in self.source.rows("failures"):
            if failure["run"] in column and failure["query_id"] in row:
                values[row[failure["query_id"]], column[failure["run"]]] = np.nan
        return query_ids, values

    def documents(self, depth: int) -> dict[str, int]:
        """Count, by ranker, the documents that it ranks down to some depth, over all queries."""
        counts = pc.min_element_wise(self._ranked["documents"], depth)
        cut = pa.table({"run": self._ranked["run"], "documents": counts})
        rows = cut.group_by("run").aggregate([("documents", "sum")]).to_pylist()
        return {row["run"]: row["documents_sum"] for row in rows}

    @cached_property
    def _ranked(self) -> pa.Table:
        """Count the documents that each ranker ranks for each query: columns run and documents."""
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
    def query_texts(self) -> dict[str, str]:
        """Return the texts of queries, where they are known."""
        return {
            contrast["query_id"]: contrast["query"] for contrast in self.run.get("contrasts", [])
        }

    def query_label(self, query_id: str) -> str:
        """Return a query's name for a chart: its id, and its text if that is known."""
        text = self.query_texts.get(query_id)
        return short(f"{query_id}: {text}" if text else query_id, 110)


def comparisons_by_rival(ranker: str, comparisons: Iterable[Comparison]) -> dict[str, Comparison]:
    """Return a ranker's comparisons by its rival, each with the ranker as A."""
    by_rival = dict[str, Comparison]()
    for row in comparisons:
        if row.run_a == ranker:
            by_rival[row.run_b] = row
        elif row.run_b == ranker:
            by_rival[row.run_a] = swap_rankers(row)
    return by_rival


def closest_first(ranker: str, comparisons: Iterable[Comparison]) -> list[Comparison]:
    """Return a ranker's comparisons, with it as A, the smallest lead first."""
    return sorted(
        comparisons_by_rival(ranker, comparisons).values(), key=lambda row: row.difference
    )
