"""Build the report of an annotation run: its scores, and the behaviour of its judges."""

from collections.abc import Iterator, Mapping
from typing import Any

from zelo_ray.commands.annotate import answers, judges, queries, scores
from zelo_ray.commands.annotate.warnings import find_warnings
from zelo_ray.engine.bookkeeping import format_dollars
from zelo_ray.files.tables import StoredTable, schema_of
from zelo_ray.files.wording import counted
from zelo_ray.protocols import protocol_of_record
from zelo_ray.providers.registry import judges_without_prompt
from zelo_ray.records import Failure, Score
from zelo_ray.report.model import Cell, Report, Section, Table, Value, table
from zelo_ray.report.progress import duration
from zelo_ray.report.results import Results

_ROWS = 200  # of unscored queries
_LINES = 10  # of rejected input


def build_report(results: Results, query: str = "") -> Report:
    """Build the report of a run; its page lists ``query`` in any case."""
    summary, protocol = results.record["summary"], protocol_of_record(results.record)
    pilot = summary["pilot_of"] and counted(summary["pilot_of"], "query", "queries")
    for name, record in {**protocol.tables, "scores": Score, "failures": Failure}.items():
        if name in results:  # a table of other columns is refused before anything is shown
            StoredTable(f"{results.out.rstrip('/')}/{name}.parquet", schema_of(record))
    sections = [
        answers.winners_section(results),
        answers.tournaments_section(results),
        answers.verdicts_section(results),
        scores.shares_section(results),
        scores.raters_section(results),
        judges.judges_section(results),
        *_problems(results),
    ]
    return Report(
        title=f"Relevance scores of {counted(summary['queries'], 'query', 'queries')}",
        tiles={name: value for name, value in _tiles(results) if value is not None},
        lead=[f"This was a pilot on {summary['queries']:,} of {pilot}."] if pilot else [],
        sections=[section for section in sections if section.parts],
        page_sections=lambda: [
            scores.scores_section(results),
            scores.grades_section(results),
            judges.agreement_section(results),
            _instructions(results),
            queries.queries_section(results, query),
        ],
        find_warnings=lambda: find_warnings(results),
        notes=[*summary["notes"], *_notes(results)],
        made=_made(results),
        names=[*results.record["judges"]],
    )


def _tiles(results: Results) -> Iterator[tuple[str, Value]]:
    """Yield figures at a glance; None is left out."""
    summary, protocol = results.record["summary"], protocol_of_record(results.record)
    scored, documents = summary["scored"], summary["documents"]
    yield "documents scored", scored if scored == documents else f"{scored:,} of {documents:,}"
    kinds = judges.judgments_of(results)
    yield f"{protocol.noun if len(kinds) < 2 else 'judgment'}s", summary["judgments"]
    for name, error in (
        ("standard error", summary["std_error"]),
        (scores.error_about_people(results), summary["truth_error"]),
    ):
        yield name, None if error is None else f"{error:.2f} {protocol.score.unit}"
    for name, figure in (
        ("split documents", "ambiguous"),
        ("failed requests", "failures"),
        ("requests still to ask", "missing"),
        ("bad input lines", "rejected"),
    ):
        yield name, summary[figure] or None
    in_all = _spent(summary["dollars_in_all"], summary["unpriced"])
    if not results.is_current:
        seconds = sum(summary["seconds"].values())
        yield "judged", f"in {duration(seconds)}" if seconds else None
        yield "spent", (spent := _spent(summary["dollars"], summary["unpriced"]))
        in_all = in_all if in_all != spent else None
    yield "spent in all", in_all


def _spent(dollars: float, unpriced: int) -> Value:
    if unpriced:
        return f"{format_dollars(dollars)} + ?"
    return Cell(dollars, "$") if dollars else "nothing"


def _notes(results: Results) -> Iterator[str]:
    """Yield which options had no effect, or not on all queries."""
    human, without = results.record["options"].get("human"), results.record["summary"]["ungraded"]
    graded = scores.is_graded(results)
    if human and graded and not any(row["humans"] for row in results.rows("shares")):
        yield f"{human} has no grade of a graded document, and so had no effect."
    if without:
        have = counted(without, "query has", "queries have")
        yield f"{have} no grades, and so no absolute scores."


def _problems(results: Results) -> Iterator[Section]:
    """Yield what is missing, with the reasons: queries, requests, lines of the input."""
    summary = results.record["summary"]
    unscored = [*summary["unscored"].items()]
    rows = [(queries.cut(name, 60), reason["message"]) for name, reason in unscored[:_ROWS]]
    found = Table(("query", "reason"), rows, file="run.json", total=len(unscored))
    yield Section("unscored", "Queries without scores", [found] if rows else [])
    reasons = sorted(summary["reasons"].items(), key=lambda item: -item[1])
    found = Table(("requests", "reason"), [(n, reason) for reason, n in reasons])
    yield Section("failures", "Failed requests", [found] if reasons else [])
    if summary["rejected"] and "rejected" in results:
        lines, total = results.tables["rejected"].head(_LINES)
        columns = {name: name for name in ("file", "line", "reason")}
        found = table(lines.to_pylist(), columns, file="rejected.parquet", total=total)
        yield Section("rejected", "Rejected input lines", [found] if total else [])


def _instructions(results: Results) -> Section:
    """Show the instructions and the template, and who read them."""
    options, names = results.record["options"], [*results.record["judges"]]
    parts = list[Table]()
    without = judges_without_prompt(names)
    where = "These words were in every prompt"
    if without:
        where = f"All judges but {', '.join(without)} read these words"
        where = "No judge of this run reads prompts" if len(without) == len(names) else where
    shown = ", ".join(options.get("show_query") or ())
    for name, text, caption in (
        ("instructions", options.get("instructions"), f"{where}; people who label see them."),
        ("template", options.get("template"), "Prompts were built from this template."),
        ("fields", shown, "Judges saw these fields with each query."),
    ):
        if lines := [line for line in str(text or "").splitlines() if line.strip()]:
            parts.append(Table((name,), [(line,) for line in lines], caption))
    return Section("instructions", "What counts as relevant", parts)


def _made(results: Results) -> str:
    """Say how the results were made, and what a score means."""
    options: Mapping[str, Any] = results.record["options"]
    protocol = protocol_of_record(results.record)
    words = f"Run {results.record['run_id']}, protocol {protocol.name}, seed {options.get('seed')}"
    explain = protocol.score.explain
    meaning = explain if isinstance(explain, str) else explain(options)
    return f"{words}. {meaning}".strip()
