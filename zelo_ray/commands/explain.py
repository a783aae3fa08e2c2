"""Run `explain`: show how a query was judged, or why a document has its score."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite, tanh
from typing import Any

import numpy as np
import pyarrow as pa

from zelo_ray.command_options import ExplainOptions
from zelo_ray.engine.job import Watch
from zelo_ray.errors import NotFoundError
from zelo_ray.files.queries import complete_name, find_query, list_queries, read_pool
from zelo_ray.files.run_record import RUN, read_record, unfinished_message, unfinished_record
from zelo_ray.files.storage import exists
from zelo_ray.files.tables import StoredTable, schema_of, table_of
from zelo_ray.files.wording import counted
from zelo_ray.names import did_you_mean
from zelo_ray.options import JudgingOptions
from zelo_ray.protocols import Judgments, protocol_of_record, recorded_scores
from zelo_ray.protocols.texts import shown_document, shown_query
from zelo_ray.records import Failure, Grade, Score, Vote
from zelo_ray.report.command_lines import command_of
from zelo_ray.report.model import Cell, Part, Report, Section, Table, Value, table
from zelo_ray.report.results import Results

_LISTED = 10  # queries, or documents that a message names


def run(options: ExplainOptions, _watch: Watch | None = None) -> Results:
    """Explain a query or a document, or list the queries."""
    out = options.run
    if unfinished_record(out) is not None:
        raise NotFoundError(unfinished_message(out))
    if not options.query:
        rows = [{"query_id": name, "query": text} for name, text in list_queries(out).items()]
        listed = table(rows, {"query": "query_id", "text": "query"}, open_rows=_LISTED)
        report = Report("Queries", {"queries": len(rows)}, sections=[Section("q", "", [listed])])
        step = command_of("explain", out, "--query", rows[0]["query_id"])
        tables = {"queries": pa.Table.from_pylist(rows)}
        return Results({}, tables, build=lambda _: report, next_command=step)
    query = _Query(out, find_query(out, options.query))
    doc_id = query.find_document(options.doc) if options.doc else None
    best = query.by_rank[0].doc_id if query.by_rank and not doc_id else ""
    return Results(
        {"query_id": query.id, "doc_id": doc_id},
        query.tables(doc_id),
        build=lambda _: query.explain(doc_id, short=options.short),
        next_command=command_of("explain", out, "--query", query.id, "--doc", best) if best else "",
    )


class _Query:
    """The results of a run on one query, with the protocol that explains them."""

    def __init__(self, out: str, query_id: str) -> None:
        self.out, self.id = out.rstrip("/"), query_id
        self.record = read_record(f"{out}/{RUN}") if exists(f"{out}/{RUN}") else {}
        self.options = self.record.get("options", {})
        self.pool, self.protocol = read_pool(out, query_id), protocol_of_record(self.record)
        self.score = recorded_scores(self.record)
        scores, self.failures = (
            self._read("scores", self.score.record),
            self._read("failures", Failure),
        )
        self.judgments = {
            name: self._read(name, kind.record) for name, kind in self.protocol.judgments.items()
        }
        self.scores: dict[str, Score] = {row.doc_id: row for row in scores}
        self.by_rank = sorted(scores, key=lambda score: (score.rank, score.doc_id))
        judging, self.texts = JudgingOptions.model_construct(**self.options), dict[str, str]()
        if pool := self.pool:
            shown = (shown_document(document, pool, judging) for document in pool.documents)
            self.texts = {document.id: document.content for document in shown}
        self.judged = {
            doc_id
            for name, kind in self.protocol.counted.items()
            for row in self.judgments[name]
            for doc_id in kind.documents_of(row)
        }
        if not (self.judged or self.scores or self.failures):
            raise NotFoundError(f"{out} has no judgments of a query {query_id!r}")

    def _read(self, name: str, kind: type) -> list[Any]:
        """Read the query's rows, without unknown columns; none where the file is missing."""
        place = f"{self.out}/{name}.parquet"
        if not exists(place):
            if name == "scores":
                lacks = "has no scores.parquet: is it the --out of a finished run?"
                raise NotFoundError(f"{self.out} {lacks}")
            return []
        schema = schema_of(kind)
        parts = StoredTable(place, schema).rows_of_queries([self.id])
        rows = (row for part in parts for row in part.to_pylist())
        return [kind(**{name: row[name] for name in schema.names if name in row}) for row in rows]

    def tables(self, doc_id: str | None) -> dict[str, pa.Table]:
        """Return all rows on the query, or on one document."""
        tables: dict[str, tuple[type, list[Any]]] = {
            name: (kind.record, [row for row in rows if doc_id in (None, *kind.documents_of(row))])
            for name, kind in self.protocol.judgments.items()
            for rows in [self.judgments[name]]
        }
        scores = [row for row in self.scores.values() if doc_id in (None, row.doc_id)]
        failures = [row for row in self.failures if doc_id in (None, *row.doc_ids)]
        tables |= {"scores": (self.score.record, scores), "failures": (Failure, failures)}
        return {name: table_of(rows, kind) for name, (kind, rows) in tables.items()}

    def find_document(self, name: str) -> str:
        """Find the document with this id, or beginning of an id."""
        failed = {doc_id for failure in self.failures for doc_id in failure.doc_ids}
        doc_ids = [*self.scores, *sorted((self.judged | failed) - {*self.scores})]
        doc_id = complete_name(name, doc_ids)
        if doc_id in doc_ids:
            return doc_id
        if doc_id in self.texts:
            raise NotFoundError(
                f"query {self.id!r} has a document {doc_id!r}, but no judge was asked about it: "
                "failures, --document-limit or the protocol left it out"
            )
        near, listed = did_you_mean(name, doc_ids), ", ".join(doc_ids[: 2 * _LISTED])
        raise NotFoundError(
            f"query {self.id!r} has no judged document {name!r}{near}; it has {listed}"
        )

    def explain(self, doc_id: str | None, *, short: bool) -> Report:
        """Explain the scores and judgments of the query, or of one document."""
        sections, shown = list[Section](), self.options.get("show_query") or ()
        for title, text in (
            (f"Query {self.id}", self.pool and shown_query(self.pool, shown)),
            ("What judges were told counts", self.options.get("instructions")),
            ("The template of their prompts", self.options.get("template")),
            (f"Document {doc_id}", self.texts.get(doc_id or "")),
        ):
            lines = [line for line in str(text or "").splitlines() if line.strip()]
            sections.append(Section("text", title, lines))
        if doc_id:
            parts = [self._headline(doc_id), *self._meaning(doc_id)]
            sections.append(Section("score", "Score", parts))
            sections.append(Section("comparisons", "Comparisons", self._battles(doc_id)))
            sections.append(Section("grades", "Grades", self._grades(doc_id)))
        else:
            parts = [self._documents(), *self._meaning(None)]
            sections.append(Section("documents", "Documents", parts))
        if not short:
            failures = [row for row in self.failures if doc_id in (None, *row.doc_ids)]
            sections.append(Section("judgments", "Judgments", [*self._describe(doc_id)]))
            sections.append(Section("failures", "No judgment", [*_describe_failures(failures)]))
        title = "Why a document has its score" if doc_id else "How a query was judged"
        return Report(title, sections=[section for section in sections if section.parts])

    def _headline(self, doc_id: str) -> Part:
        if score := self.scores.get(doc_id):
            return self.score.describe(score, len(self.scores), self.protocol.noun)
        unscored = self.record.get("summary", {}).get("unscored", {}).get(self.id, {})
        return f"{doc_id}: no score" + (f", as {unscored['message']}" if unscored else "")

    def _documents(self) -> Part:
        columns: dict[str, Any] = {
            "rank": "rank",
            "document": "doc_id",
            "score": lambda row: Cell(row.score, "+z.2f"),
            "±": lambda row: Cell(row.std_error, ".2f"),
            "begins": lambda row: self._begin(row.doc_id),
        }
        rows = self.by_rank
        return table(rows, columns, open_rows=len(rows)) if rows else self._headline("")

    def _begin(self, doc_id: str) -> str:
        return " ".join(self.texts.get(doc_id, "")[:1000].split())[:80]

    def _meaning(self, doc_id: str | None) -> Iterator[str]:
        """Explain in words what a score means."""
        score = self.scores.get(doc_id or "")
        if score and self.score.unit == "logits":
            share = f"{_chance(score.score):.0%}"
            yield f"It beats the query's average document in {share} of comparisons."
        text = self.score.explain
        text = text if isinstance(text, str) else text(self.options)
        if text and self.by_rank:
            yield f"{text[0].upper()}{text[1:].rstrip('.')}."
        learned = self.record.get("summary", {}).get("is_truth_error_learned", False)
        if any(isfinite(score.truth_error) for score in self.by_rank) and not learned:
            yield "The error about people is assumed: no label of people shows it in this run."

    def _battles(self, doc_id: str) -> list[Part]:
        """Show the votes on a document by opponent, the best ranked first."""
        gains, scores = dict[str, list[float]](), self.scores
        for vote in self._rows(Vote):
            if doc_id in (vote.doc_id_a, vote.doc_id_b):
                is_b = vote.doc_id_b == doc_id
                opponent = vote.doc_id_a if is_b else vote.doc_id_b
                gains.setdefault(opponent, []).append(vote.preference * (1 if is_b else -1))
        own, rows = scores.get(doc_id), list[list[Value]]()
        ranks = {name: score.rank for name, score in scores.items()}
        for other in sorted(gains, key=lambda name: (ranks.get(name, 0), name)):
            rival, gained = scores.get(other), np.array(gains[other])
            expected = Cell(_chance(own.score - rival.score), ".0%") if own and rival else None
            counts = [int((gained > 0).sum()), int((gained < 0).sum())]
            mean = Cell(float(gained.mean()), "+z.2f")
            rows.append([ranks.get(other), other, *counts, expected, mean, self._begin(other)])
        columns = ("rank", "against", "won", "lost", "expected", "mean", "begins")
        caption = (
            "Won and lost count its judgments; expected: how often it should win by the two "
            "scores; mean: of the preferences, -1 to 1."
        )
        return [Table(columns, rows, caption, open_rows=len(rows))] if rows else []

    def _grades(self, doc_id: str) -> list[Part]:
        """Show the grades of a document."""
        rows = [grade for grade in self._rows(Grade) if grade.doc_id == doc_id]
        return [table(rows, {"judge": "judge", "grade": "grade"})] if rows else []

    def _rows(self, record: type) -> list[Any]:
        kinds = self.protocol.judgments.items()
        names = [name for name, kind in kinds if kind.record is record]
        return [row for name in names for row in self.judgments[name]]

    def _describe(self, doc_id: str | None) -> Iterator[str]:
        """Yield what judges said of a document, the best opponents first, or of a query.

        The votes and grades of a query are too many to be read.
        """
        ranks = {name: score.rank for name, score in self.scores.items()}
        for name, kind in self.protocol.judgments.items():
            if doc_id is None and kind.record in {Vote, Grade}:
                continue
            rows = [(row, *kind.documents_of(row)) for row in self.judgments[name]]
            rows = [row for row in rows if doc_id in (None, *row[1:])]
            if doc_id:
                rows.sort(key=lambda row: [(ranks.get(name, 0), name) for name in row[1:]])
            for row, *ids in rows:
                yield _headline_of(kind, row, ids, doc_id)
                lines = kind.describe(row).splitlines()
                yield from (f"        {line.strip()}" for line in lines if line.strip())


def _headline_of(kind: Judgments, row: Any, ids: Sequence[str], doc_id: str | None) -> str:
    """Return a judgment in a line: who judged which documents, and what came of it."""
    preference = getattr(row, "preference", None)
    if len(ids) != 2 or preference is None:
        grade = f" {row.grade}" if hasattr(row, "grade") else ""
        return f"  {kind.noun}{grade} by {row.judge} on {' and '.join(ids)}"
    own, other = ids if doc_id != ids[1] else ids[::-1]
    gain = -preference if own == ids[0] else preference
    outcome = "won" if gain > 0 else "lost" if gain < 0 else "tied"
    first = ids[1] if row.swapped else ids[0]
    name = "" if doc_id else f"{own} "
    judged = f"{row.judge}, which saw {first} first"
    return f"  {name}{outcome} {gain:+z.2f} against {other}, by {judged}"


def _describe_failures(failures: Sequence[Failure]) -> Iterator[str]:
    """Yield what gave no judgment, and why: once for each judge, pair and reason."""
    counts = Counter((f.judge, tuple(sorted(f.doc_ids)), f.status, f.reason) for f in failures)
    for (judge, doc_ids, status, reason), times in counts.items():
        often = f", {counted(times, 'time')}" if times > 1 else ""
        yield f"no judgment from {judge} on {' and '.join(doc_ids)}: {status} ({reason}){often}"


def _chance(logits: float) -> float:
    """Return how often a document with this lead in logits wins."""
    return 0.5 + 0.5 * tanh(logits / 2)
