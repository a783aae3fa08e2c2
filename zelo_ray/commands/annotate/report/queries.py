"""Sections of an annotation run on its queries: problematic ones, and all of them."""

from collections import Counter
from collections.abc import Callable, Mapping

from zelo_ray.commands.annotate.report import details
from zelo_ray.commands.annotate.report.results import ROWS, AnnotateResults
from zelo_ray.commands.annotate.report.tournaments import finished
from zelo_ray.files.run_record import RUN
from zelo_ray.files.wording import counted
from zelo_ray.records import Contest, Verdict
from zelo_ray.reports.parts import Cells, Queries, ReportTable, Section, TextCell
from zelo_ray.reports.source import without_credentials
from zelo_ray.reports.wording import short

_UNSCORED, _REASONS, _REJECTED = 10, 3, 10
"""Rows of unscored queries, reasons and rejected lines that are shown at once."""
_ANSWERS = " Judges refer to A and B as Answer 1 and Answer 2."


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
            f" {len(listed):,} of {in_all:,} queries: the least certain, those that failed, and a "
            "random sample in runs of ten; all of them are in the tables of scores and in "
            "annotated.jsonl."
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
