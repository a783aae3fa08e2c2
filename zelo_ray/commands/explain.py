"""Run `explain`: show how a query was judged, or why a document has its score."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from zelo_ray.records import Failure, Grade, Pool, Rater, Score, Vote
from zelo_ray.report.command_lines import command_of
from zelo_ray.report.model import Cell, Part, Report, Section, Table, Value, table
from zelo_ray.report.results import Results

_LISTED = 10  # queries, or documents that a message names


def run(options: ExplainOptions, _watch: Watch | None = None) -> Results:
    """Explain a query or a document, or list the queries.

    Raises:
        NotFoundError: no such results, query or document, or the run is not finished.
    """
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
    record = read_record(f"{out}/{RUN}") if exists(f"{out}/{RUN}") else {}
    query_id = find_query(out, options.query)
    protocol, pool = protocol_of_record(record), read_pool(out, query_id)
    kinds = {name: kind.record for name, kind in protocol.judgments.items()}
    kinds |= {"scores": recorded_scores(record).record, "failures": Failure}
    rows_of = {name: _records(out, name, query_id, kind) for name, kind in kinds.items()}
    held = _Found(
        scores={row.doc_id: row for row in rows_of["scores"]},
        judgments={name: rows_of[name] for name in protocol.judgments},
        failures=rows_of["failures"],
        options=record.get("options", {}),
    )
    found = _Query(out, record, query_id, held, pool)
    doc_id = found.find_document(options.doc) if options.doc else None
    about = {"scores": ("doc_id",)} | {n: k.documents for n, k in protocol.judgments.items()}
    tables = {
        name: [row for row in rows if doc_id in (None, *_documents(row, about.get(name)))]
        for name, rows in rows_of.items()
    }
    best = min(held.scores.values(), key=lambda score: score.rank, default=None)
    more = best is not None and doc_id is None
    words = ("explain", out, "--query", query_id)
    return Results(
        {"query_id": query_id, "doc_id": doc_id},
        {name: table_of(rows, kinds[name]) for name, rows in tables.items()},
        build=lambda _: found.explain(doc_id, short=options.short),
        next_command=command_of(*words, "--doc", best.doc_id) if best and more else "",
    )


def _records(out: str, name: str, query_id: str, kind: type) -> list[Any]:
    """Read a query's rows, without unknown columns; none where the file is missing."""
    place = f"{out.rstrip('/')}/{name}.parquet"
    if not exists(place):
        if name == "scores":
            raise NotFoundError(f"{out} has no scores.parquet: is it the --out of a finished run?")
        return []
    schema = schema_of(kind)
    parts = StoredTable(place, schema).rows_of_queries([query_id])
    rows = (row for part in parts for row in part.to_pylist())
    return [kind(**{name: row[name] for name in schema.names if name in row}) for row in rows]


def _documents(row: Any, names: Sequence[str] | None) -> tuple[str, ...]:
    return row.doc_ids if names is None else tuple(getattr(row, name) for name in names)


@dataclass(frozen=True, slots=True)
class _Found:
    """The results of a run for one query."""

    scores: Mapping[str, Score]
    """by document"""
    judgments: Mapping[str, Sequence[Any]]
    """by the name of their table"""
    failures: Sequence[Failure]
    options: Mapping[str, Any]


class _Query:
    """Results of one query, with the protocol that explains them."""

    def __init__(
        self,
        out: str,
        record: Mapping[str, Any],
        query_id: str,
        held: _Found,
        pool: Pool | None,
    ) -> None:
        self.out, self.record, self.id, self.held, self.pool = out, record, query_id, held, pool
        self.protocol, self.kind = protocol_of_record(record), recorded_scores(record)
        self.by_rank = sorted(held.scores.values(), key=lambda score: (score.rank, score.doc_id))
        options = JudgingOptions.model_construct(**held.options)
        documents = pool.documents if pool else ()
        shown = [shown_document(document, pool, options) for document in documents if pool]
        self.texts = {document.id: document.content for document in shown}
        self.judged = {
            doc_id
            for name, kind in self.protocol.counted.items()
            for row in held.judgments[name]
            for doc_id in kind.documents_of(row)
        }
        if not (self.judged or held.scores or held.failures):
            raise NotFoundError(f"{out} has no judgments of a query {query_id!r}")

    def find_document(self, name: str) -> str:
        """Find the document with this id, or beginning of an id.

        Raises:
            NotFoundError: there is none, or several.
        """
        failed = {doc_id for failure in self.held.failures for doc_id in failure.doc_ids}
        doc_ids = [*self.held.scores, *sorted((self.judged | failed) - {*self.held.scores})]
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
        options, sections = self.held.options, list[Section]()
        shown = options.get("show_query") or ()
        for title, text in (
            (f"Query {self.id}", self.pool and shown_query(self.pool, shown)),
            ("What judges were told counts", options.get("instructions")),
            ("The template of their prompts", options.get("template")),
            (f"Document {doc_id}", self.texts.get(doc_id or "")),
        ):
            lines = [line for line in str(text or "").splitlines() if line.strip()]
            sections.append(Section("text", title, lines))
        scores: list[Part] = [self._headline(doc_id)] if doc_id else [self._documents()]
        if doc_id:
            sections += [Section("score", "Score", [*scores, *self._meaning(doc_id)])]
            sections += [self._battles(doc_id), self._grades(doc_id)]
        else:
            sections.append(Section("documents", "Documents", [*scores, *self._meaning(None)]))
        if not short:
            failures = [f for f in self.held.failures if doc_id in (None, *f.doc_ids)]
            sections.append(Section("judgments", "Judgments", [*self._describe(doc_id)]))
            sections.append(Section("failures", "No judgment", [*_describe_failures(failures)]))
        title = "Why a document has its score" if doc_id else "How a query was judged"
        return Report(title, sections=[section for section in sections if section.parts])

    def _headline(self, doc_id: str) -> str:
        if score := self.held.scores.get(doc_id):
            return self.kind.describe(score, len(self.held.scores), self.protocol.noun)
        unscored = self.record.get("summary", {}).get("unscored", {}).get(self.id, {})
        return f"{doc_id}: no score" + (f", as {unscored['message']}" if unscored else "")

    def _documents(self) -> Part:
        if not self.by_rank:
            return self._headline("")
        columns: dict[str, Any] = {
            "rank": "rank",
            "document": "doc_id",
            "score": lambda row: Cell(row.score, "+z.2f"),
            "±": lambda row: Cell(row.std_error, ".2f"),
            "begins": lambda row: self._begin(row.doc_id),
        }
        return table(self.by_rank, columns, open_rows=len(self.by_rank))

    def _begin(self, doc_id: str) -> str:
        return " ".join(self.texts.get(doc_id, "")[:1000].split())[:80]

    def _meaning(self, doc_id: str | None) -> Iterator[str]:
        """Explain in words what a score means."""
        score = self.held.scores.get(doc_id or "")
        if score and self.kind.unit == "logits":
            share = f"{_chance(score.score):.0%}"
            yield f"It beats the query's average document in {share} of comparisons."
        text = self.kind.explain
        text = text if isinstance(text, str) else text(self.held.options)
        if text and self.by_rank:
            yield f"{text[0].upper()}{text[1:].rstrip('.')}."
        learned = self.record.get("summary", {}).get("is_truth_error_learned", False)
        if any(isfinite(score.truth_error) for score in self.by_rank) and not learned:
            yield "The error about people is assumed: no label of people shows it in this run."

    def _battles(self, doc_id: str) -> Section:
        """Show the votes on a document by opponent, the best ranked first."""
        gains, scores = dict[str, list[float]](), self.held.scores
        for vote in self._rows(Vote):
            if doc_id in (vote.doc_id_a, vote.doc_id_b):
                is_b = vote.doc_id_b == doc_id
                opponent = vote.doc_id_a if is_b else vote.doc_id_b
                gains.setdefault(opponent, []).append(vote.preference * (1 if is_b else -1))
        own, rows = scores.get(doc_id), list[list[Value]]()
        ranks = {name: score.rank for name, score in scores.items()}
        for other in sorted(gains, key=lambda name: (ranks.get(name, 0), name)):
            rival, given = scores.get(other), np.array(gains[other])
            expected = Cell(_chance(own.score - rival.score), ".0%") if own and rival else None
            counts = [int((given > 0).sum()), int((given < 0).sum())]
            mean = Cell(float(given.mean()), "+z.2f")
            rows.append([ranks.get(other), other, *counts, expected, mean, self._begin(other)])
        columns = ("rank", "against", "won", "lost", "expected", "mean", "begins")
        caption = (
            "Won and lost count its judgments; expected: how often it should win by the two "
            "scores; mean: of the preferences, -1 to 1."
        )
        shown = Table(columns, rows, caption, open_rows=len(rows))
        return Section("comparisons", "Comparisons", [shown] if rows else [])

    def _grades(self, doc_id: str) -> Section:
        """Show the grades of a document, with the severity and weight of each judge."""
        place, raters = f"{self.out}/raters.parquet", dict[str, Mapping[str, Any]]()
        if exists(place):
            stored = StoredTable(place, schema_of(Rater)).read().to_pylist()
            raters = {row["judge"]: row for row in stored}
        rows: list[list[Value]] = []
        for grade in self._rows(Grade):
            if grade.doc_id == doc_id:
                rater = raters.get(grade.judge, {})
                weight = [Cell(rater.get("severity"), "+z.2f"), Cell(rater.get("weight"), ".0%")]
                rows.append([grade.judge, grade.grade, *weight])
        caption = "Severity: positive is stricter than the panel. Weight: share of the information."
        shown = Table(("judge", "grade", "severity", "weight"), rows, caption)
        return Section("grades", "Grades", [shown] if rows else [])

    def _rows(self, record: type) -> list[Any]:
        judgments = self.held.judgments
        names = [n for n, kind in self.protocol.judgments.items() if kind.record is record]
        return [row for name in names for row in judgments[name]]

    def _describe(self, doc_id: str | None) -> Iterator[str]:
        """Yield what judges said of a document, the best opponents first, or of a query.

        The votes and grades of a query are too many to be read.
        """
        ranks = {name: score.rank for name, score in self.held.scores.items()}
        for name, kind in self.protocol.judgments.items():
            if doc_id is None and kind.record in {Vote, Grade}:
                continue
            rows = [(row, *kind.documents_of(row)) for row in self.held.judgments[name]]
            rows = [row for row in rows if doc_id in (None, *row[1:])]
            for row, *ids in sorted(
                rows, key=lambda row: [(ranks.get(name, 0), name) for name in row[1:] if doc_id]
            ):
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
