"""Read the files of an annotation run, each once, when a section first asks for it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.commands.annotate.report import (
    debates,
    details,
    grade_counts,
    tournaments,
    vote_counts,
)
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.tables import query_starts, schema_of
from zelo_ray.protocols import Judgments, Protocol, protocol_of_record
from zelo_ray.records import Contest, Grade, GradedScore, Verdict
from zelo_ray.reports.source import Source

_NUMBERS = (
    *("score", "std_error", "truth_error", "grade", "disagreement"),
    *("absolute_score", "absolute_error"),
)

ROWS = 200
"""The most rows of a table of unscored queries."""
VOTES = 3_000_000
"""If there are more votes, the agreement of judges is measured on about so many."""
LEAST = 10
"""The number of least certain queries that a page lists in any case, by each figure."""


def least_certain(values: Mapping[str, float], sign: int) -> list[str]:
    """Return the least certain queries; with sign 1, the smallest values are the least certain."""
    return nsmallest(LEAST, values, key=lambda query_id: sign * values[query_id])


@dataclass(frozen=True, slots=True)
class ScoreColumns:
    """All scores by document; those of a query are adjacent."""

    query_ids: list[str]
    starts: np.ndarray
    """place of each query's first document"""
    columns: Mapping[str, np.ndarray]
    """the numeric columns of `zelo_ray.records.Score` and its subclasses, [documents] each"""

    def means(self, name: str) -> dict[str, float]:
        """Return, by query, the mean of the known values of its documents, where there are any."""
        values = self.columns.get(name)
        if values is None or not len(values):
            return {}
        mask = np.isfinite(values)
        counts = np.add.reduceat(mask.astype(float), self.starts)
        sums = np.add.reduceat(np.where(mask, values, 0.0), self.starts)
        triples = zip(self.query_ids, sums, counts, strict=True)
        return {query_id: float(total / count) for query_id, total, count in triples if count}

    def counts(self, levels: int = 4) -> np.ndarray:
        """Count the documents of each query with each grade, [queries, levels]."""
        grades = self.columns["grade"]
        masks = [(grades == level).astype(np.int64) for level in range(levels)]
        return np.stack([np.add.reduceat(mask, self.starts) for mask in masks], axis=1)

    def finite_values(self, name: str) -> np.ndarray:
        """Return the known values of a column."""
        values = self.columns.get(name, np.empty(0))
        numbers: np.ndarray = values[np.isfinite(values)]
        return numbers


class AnnotateResults:
    """An annotation run; each file is read once, when a section first needs it."""

    def __init__(self, source: Source, run: Mapping[str, Any]) -> None:
        self.source, self.run = source, run
        self.options: Mapping[str, Any] = run["options"]
        self.summary = Summary.from_record(source.out, run["summary"])
        learned = self.summary.is_truth_error_learned
        self.error_about_people = f"{'' if learned else 'assumed '}error about people"

    @cached_property
    def protocol(self) -> Protocol:
        """Return the protocol, which defines the judgments and scores."""
        return protocol_of_record(self.run)

    @cached_property
    def kinds(self) -> dict[str, Judgments]:
        """Return, by table, the kinds of judgments that have a file, single documents first."""
        by_table = {
            name: kind
            for name, kind in self.protocol.counted.items()
            if self.source.has(f"{name}.parquet")
        }
        return dict(sorted(by_table.items(), key=lambda item: len(item[1].documents)))

    def has_judgments(self, *records: type) -> bool:
        """Return whether the run has judgments of one of these kinds."""
        return any(kind.record in records for kind in self.kinds.values())

    @cached_property
    def graded(self) -> bool:
        """Return whether scores are grades of a panel."""
        return issubclass(self.protocol.score.record, GradedScore)

    @cached_property
    def unit(self) -> str:
        """Return the unit of scores."""
        return self.protocol.score.unit

    @cached_property
    def listed(self) -> list[details.ListedQuery]:
        """Return the queries that the page lists, in the order of the input, with their scores."""
        telling = self._queries_to_list() if self.sampled else []
        in_all, seed = self.summary.queries, self.options.get("seed", 0)
        listed = details.choose_queries(self.source.lines("annotated.jsonl"), in_all, telling, seed)
        by_id = {entry.query_id: entry for entry in listed}
        for query_id, table in details.by_query(self.rows_of("scores", by_id)):
            if query_id in by_id:
                by_id[query_id].scores = table
        return listed

    @property
    def sampled(self) -> bool:
        """Return whether the page lists only some of the queries."""
        return self.summary.queries > details.QUERIES

    def rows_of(self, name: str, query_ids: Collection[str]) -> Iterator[pa.Table]:
        """Yield the rows of a table for the given queries; for all if the page lists all."""
        if self.sampled:
            return self.source.of_queries(name, query_ids)
        return self.source.chunks(name, self.source.columns(name))

    def _queries_to_list(self) -> list[str]:
        """Return the queries to look at first: uncertain, disputed, without scores, or failed."""
        query_ids = list[str]()
        for sign, values in (
            *((-1, self.scores.means(name)) for name in ("std_error", "disagreement")),
            (1, self.panel.by_query),
        ):
            query_ids += least_certain(values, sign)
        query_ids += self.ambiguous["query_id"].slice(0, ROWS).to_pylist()
        query_ids += list(self.summary.unscored)[:ROWS]
        if self.source.has("failures.parquet"):
            query_ids += [row["query_id"] for row in self.source.head("failures", ROWS)[0]]
        return list(dict.fromkeys(query_ids))

    @cached_property
    def places(self) -> dict[str, int]:
        """Return, by query, its place in the list."""
        return {entry.query_id: place for place, entry in enumerate(self.listed)}

    @cached_property
    def scores(self) -> ScoreColumns:
        """Return all scores."""
        return self._read[0]

    @cached_property
    def ambiguous(self) -> pa.Table:
        """Return the scores of documents on which judges are split, the most split first."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[ScoreColumns, pa.Table]:
        names = self.source.columns("scores")
        numbers = [name for name in _NUMBERS if name in names]
        parts: dict[str, list[np.ndarray]] = {name: [np.empty(0)] for name in numbers}
        query_ids: list[str] = []
        first: list[int] = []
        split: list[pa.Table] = []
        so_far = 0
        for chunk in self.source.chunks("scores", names):
            for name in numbers:
                parts[name].append(chunk[name].to_numpy().astype(np.float64))
            at = query_starts(chunk)
            query_ids += chunk["query_id"].take(at).to_pylist()
            first += (at + so_far).tolist()
            so_far += chunk.num_rows
            if "ambiguous" in names:
                split.append(chunk.filter(chunk["ambiguous"]))
        columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
        scores = ScoreColumns(query_ids, np.array(first, dtype=np.int64), columns)
        ambiguous = (
            pa.concat_tables(split)
            if split
            else pa.table({"query_id": pa.array([], pa.string()), "disagreement": []})
        )
        return scores, ambiguous.sort_by([("disagreement", "descending")])

    @property
    def vote_stride(self) -> int:
        """Return n, where every n-th stretch of votes is read to measure agreement."""
        return max(1, self.summary.judgments // VOTES)

    @cached_property
    def panel(self) -> vote_counts.VoteCounts:
        """Return the votes of the judges on pairs, counted."""
        for name, kind in self.kinds.items():
            if kind.as_votes:
                columns = kind.columns or schema_of(kind.record).names
                chunks = self.source.chunks(name, columns, self.vote_stride)
                return vote_counts.count_votes(map(kind.as_votes, chunks))
        return vote_counts.VoteCounts()

    @cached_property
    def tournaments(self) -> list[tournaments.Tournament]:
        """Return the tournaments of the run; none without contests."""
        has_tables = self.source.has("contests.parquet", "winners.parquet", "failures.parquet")
        if not (has_tables and self.has_judgments(Contest)):
            return []
        return tournaments.read_tournaments(self.source.out, self.options.get("repeats", 1))

    @cached_property
    def debates(self) -> debates.Debates:
        """Return the verdicts of the judges, counted."""
        if not self.has_judgments(Verdict):
            return debates.Debates()
        return debates.count_decisions(self.source.out)

    @cached_property
    def gradings(self) -> grade_counts.GradeCounts:
        """Return the grades of the judges, counted."""
        if not self.has_judgments(Grade):
            return grade_counts.GradeCounts()
        return grade_counts.count_grades(self.source.chunks("grades", grade_counts.COLUMNS))

    def learned_rows(self, name: str) -> list[dict[str, Any]]:
        """Return the rows of a table fitted to all grades; none where scores use no grades."""
        return self.source.rows(name) if self.protocol.learn else []
