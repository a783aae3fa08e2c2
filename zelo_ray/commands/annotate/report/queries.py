"""Sections of an annotation run on its queries: problematic ones, and all of them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from math import nan

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.annotate.report import details, grade_counts
from zelo_ray.commands.annotate.report.results import ROWS, AnnotateResults, least_certain
from zelo_ray.commands.annotate.report.tournaments import finished
from zelo_ray.formats.run_record import RUN
from zelo_ray.formats.wording import counted
from zelo_ray.records import Contest, Grade, Verdict
from zelo_ray.reports.parts import Cells, Queries, ReportTable, Section, TextCell
from zelo_ray.reports.source import without_credentials
from zelo_ray.reports.wording import format_number, short

_OPEN, _JUDGES = 20, 8
"""Split documents that are shown at once, and the most judges that have their own column."""
_UNSCORED, _REASONS, _REJECTED = 10, 3, 10
"""Rows of unscored queries, reasons and rejected lines that are shown at once."""
_ANSWERS = " Judges refer to A and B as Answer 1 and Answer 2."


def uncertain_section(results: AnnotateResults) -> Section | None:
    """List the queries that need a second look."""
    if not len(results.scores.query_ids):
        return None
    errors, differ = (results.scores.means(name) for name in ("std_error", "disagreement"))
    agreement = results.panel.by_query
    error = "standard deviation" if results.graded else "standard error"
    moved = f"The largest {error}s: asking the same judges again might change these most."
    measures = {
        f"mean {error}": (errors, ".2f", moved, -1),
        "judges differ by": (differ, ".2f", "Where judges differ most, in grades.", -1),
        "judges agree on": (agreement, ".0%", "Where judges agree least.", 1),
    }
    measures = {name: measure for name, measure in measures.items() if measure[0]}
    columns = ("query", *measures)
    parts: list[ReportTable] = []
    shown: list[set[str]] = []
    for values, _, caption, sign in measures.values():
        query_ids = least_certain(values, sign)
        if set(query_ids) in shown:  # the same rows, if there are few queries
            continue
        shown.append(set(query_ids))
        rows: list[Cells] = [
            [
                results.query_link(query_id),
                *(
                    format_number(all_.get(query_id, nan), form)
                    for all_, form, _, _ in measures.values()
                ),
            ]
            for query_id in query_ids
        ]
        parts.append(ReportTable(columns, rows, caption, frozenset(measures)))
    return Section("uncertain", "The least certain queries", parts) if parts else None


def ambiguous_section(results: AnnotateResults) -> Section | None:
    """List the documents on which the judges are split, with the grades given."""
    split = results.ambiguous
    if not split.num_rows:
        return None
    shown = split.slice(0, ROWS).to_pylist()
    by_document = _grades_by_document(results, {(row["query_id"], row["doc_id"]) for row in shown})
    judges = sorted({judge for grades in by_document.values() for judge in grades})
    apart = judges if len(judges) <= _JUDGES else []
    rows: list[Cells] = []
    for row in shown:
        grades = by_document.get((row["query_id"], row["doc_id"]), {})
        texts = [", ".join(map(str, grades.get(judge, ()))) for judge in apart]
        tally = Counter(grade for judge_grades in grades.values() for grade in judge_grades)
        counts = ", ".join(f"{grade} ({n:,})" for grade, n in sorted(tally.items()))
        rows.append(
            [
                *(
                    results.query_link(row["query_id"]),
                    TextCell(results.document_label(row["query_id"], row["doc_id"])),
                ),
                *(texts or [counts]),
                *(str(row["grade"]), format_number(row["disagreement"], ".2f")),
            ]
        )
    which = [short(judge, 40) for judge in apart] or ["grades"]
    columns = ("query", "document", *which, "panel", "differ by")
    limit = results.options.get("ambiguous")
    caption = (
        f"{counted(split.num_rows, 'document')} on which the grades of two judges differ by "
        + (f"{limit:g} or more" if limit else "much")
        + " on average: the panel's grade is a compromise between different opinions. They can be "
        "left out of the qrels."
    )
    if split.num_rows > ROWS:
        caption += f" The first {ROWS}; scores.parquet has all."
    numbers = frozenset((*which, *columns[-2:]))
    table = ReportTable(columns, rows, caption, numbers, _OPEN)
    return Section("ambiguous", "Documents on which the judges are split", (table,))


def _grades_by_document(
    results: AnnotateResults, items: Set[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, list[int]]]:
    """Return, by document, the grades that each judge gave it."""
    by_document: dict[tuple[str, str], dict[str, list[int]]] = {}
    if not results.has_judgments(Grade):
        return by_document
    query_ids = pa.array(sorted({query_id for query_id, _ in items}))
    for chunk in results.source.chunks("grades", grade_counts.COLUMNS):
        for row in chunk.filter(pc.is_in(chunk["query_id"], query_ids)).to_pylist():
            if (row["query_id"], row["doc_id"]) in items:
                by_judge = by_document.setdefault((row["query_id"], row["doc_id"]), {})
                by_judge.setdefault(row["judge"], []).append(row["grade"])
    return by_document


def unscored_section(results: AnnotateResults) -> Section | None:
    """List the queries without scores, with the reasons."""
    unscored = results.summary.unscored
    rows: list[Cells] = [
        [short(name, 60), TextCell(reason.message)] for name, reason in [*unscored.items()][:ROWS]
    ]
    caption = f"The first {ROWS} of {len(unscored):,}." if len(unscored) > ROWS else ""
    table = ReportTable(("query", "reason"), rows, caption, open_rows=_UNSCORED, file=RUN)
    return Section("unscored", "Queries without scores", (table,)) if rows else None


def failures_section(results: AnnotateResults) -> Section | None:
    """Count the failed requests, by reason."""
    reasons = sorted(results.summary.reasons.items(), key=lambda item: -item[1])
    rows: list[Cells] = [[f"{count:,}", TextCell(reason)] for reason, count in reasons]
    numbers = frozenset(("requests",))
    table = ReportTable(
        *(("requests", "reason"), rows, "", numbers), open_rows=_REASONS, file="failures.parquet"
    )
    return Section("failures", "Failed requests", (table,)) if rows else None


def rejected_section(results: AnnotateResults) -> Section | None:
    """List the first of the rejected input lines, with the reasons."""
    in_all = results.summary.rejected
    if not (in_all and results.source.has("rejected.parquet")):
        return None
    lines, _ = results.source.head("rejected", _REJECTED)
    rows: list[Cells] = [
        [TextCell(line["file"]), f"{line['line']:,}", TextCell(short(line["reason"], 400))]
        for line in lines
    ]
    caption = f"The first {len(rows)} of {in_all:,}; rejected.parquet has all."
    numbers = frozenset(("line",))
    table = ReportTable(
        ("file", "line", "reason"), rows, caption if in_all > len(rows) else "", numbers
    )
    return Section("rejected", "Rejected input lines", (table,)) if rows else None


def requests_section(results: AnnotateResults) -> Section | None:
    """List the failed requests one by one."""
    if not results.source.has("failures.parquet"):
        return None
    failures, in_all = results.source.head("failures", ROWS)
    rows = [
        [
            results.query_link(failure["query_id"]),
            TextCell(_named(results, failure["query_id"], failure["doc_ids"])),
            *(failure["judge"], failure["status"], TextCell(short(failure["reason"], 400))),
        ]
        for failure in failures
    ]
    columns = ("query", "documents", "judge", "status", "reason")
    caption = f"The first {ROWS} of {in_all:,}; failures.parquet has all." if rows else ""
    table = ReportTable(columns, rows, caption if in_all > ROWS else "")
    return Section("requests", "Failed requests one by one", (table,)) if rows else None


def _named(results: AnnotateResults, query_id: str, doc_ids: Sequence[str]) -> str:
    """Name documents by id; for one or two, with the beginnings of their texts."""
    if len(doc_ids) > 2:
        return short(", ".join(doc_ids), 120)
    return " / ".join(results.document_label(query_id, doc_id) for doc_id in doc_ids)


def queries_section(results: AnnotateResults) -> Section:
    """List every query with its documents, and their judgments at a click."""
    source, notes, kings = results.source, _notes(results), _kings(results)
    kinds = results.kinds
    chunks = [(kind, results.rows_of(name, results.places)) for name, kind in kinds.items()]
    listed = results.listed[: details.pack(results.listed, chunks)]
    items = [
        {
            "query": entry.query,
            "notes": [entry.query_id, counted(len(entry.documents), "document")]
            + [form(values[entry.query_id]) for values, form in notes if entry.query_id in values]
            + _winner(kings.get(entry.query_id, Counter())),
            "packed": entry.packed,
        }
        for entry in listed
    ]
    in_all = results.summary.queries
    carried = sum(len(entry.packed) > len(kinds) for entry in listed) if kinds else 0
    what = " and ".join(f"{kind.noun}s" for kind in kinds.values())
    caption = "Open a query to see its documents by rank."
    if carried:
        caption += f" A click on a document shows its {what}, with each judge's words."
        caption += _ANSWERS if results.has_judgments(Contest, Verdict) else ""
    if in_all > len(listed):
        caption += (
            f" {len(listed):,} of {in_all:,} queries: those that other sections name, and a random "
            "sample in runs of ten; all of them are in the tables of scores and in annotated.jsonl."
            if results.sampled
            else f" The first {len(listed):,} of {in_all:,} queries; all of them are in "
            "scores.parquet and annotated.jsonl."
        )
    if 0 < carried < len(listed):
        caption += f" This page has the {what} of {carried:,} of them."
    files = " and ".join(f"{kind}.parquet" for kind in kinds) or "no file"
    elsewhere = (
        f"The {what or 'judgments'} of this query, if there are any, did not fit into this page. "
        f"They are in {files}; zelo-ray explain {without_credentials(source.out)} "
        "--query … --doc … shows a "
        "document's."
    )
    part = Queries(items, caption, elsewhere, results.unit, results.protocol.score.scale)
    return Section("queries", "Queries", (part,))


def _kings(results: AnnotateResults) -> dict[str, Counter[str]]:
    """Count, by query, the tournaments that each document won."""
    wins: dict[str, Counter[str]] = {}
    for tournament in finished(results.tournaments):
        wins.setdefault(tournament.query_id, Counter())[tournament.winner_id] += 1
    return wins


def _winner(kings: Counter[str]) -> list[str]:
    """Say which document won a query's tournaments, or most of them."""
    return [
        f"won by {short(name, 60)}" + (f" ({won} of {kings.total()})" if kings.total() > 1 else "")
        for name, won in kings.most_common(1)
    ]


def _notes(
    results: AnnotateResults,
) -> list[tuple[Mapping[str, float], Callable[[float], str]]]:
    """Return the notes beside a query's text: values by query, and how to format each."""
    scores = results.scores
    notes: list[tuple[Mapping[str, float], Callable[[float], str]]] = []
    if results.graded:
        notes.append((scores.means("score"), "mean {:.2f}".format))
    notes.append((scores.means("std_error"), "± {:.2f}".format))
    assumed = "" if results.summary.is_truth_error_learned else ", assumed"
    notes.append((scores.means("truth_error"), f"about people ± {{:.2f}}{assumed}".format))
    notes.append((scores.means("disagreement"), "judges differ by {:.2f}".format))
    notes.append((results.panel.by_query, "judges agree on {:.0%}".format))
    return notes
