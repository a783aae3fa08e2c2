"""The report of an annotation run: its results, and the behaviour of its judges."""

from collections.abc import Iterator, Mapping
from typing import Any

from zelo_ray.commands.annotate.report import contests, judges, queries, raters, scores, verdicts
from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.commands.annotate.report.tournaments import count_first_king_wins, finished
from zelo_ray.commands.annotate.report.warnings import rank_annotation_warnings
from zelo_ray.commands.annotate.report.wins import winners_section
from zelo_ray.engine.write_results import Summary
from zelo_ray.files.run_record import RUN, is_finished
from zelo_ray.files.wording import counted
from zelo_ray.records import (
    TIE,
    Consensus,
    Contest,
    Failure,
    Grade,
    Rater,
    Score,
    Share,
    Verdict,
    Vote,
    Winner,
)
from zelo_ray.reports.kind import ReportKind
from zelo_ray.reports.parts import Report
from zelo_ray.reports.progress.figures import duration
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.wording import format_cost

SECTIONS = (
    winners_section,
    contests.tournaments_section,
    verdicts.verdicts_section,
    scores.shares_section,
    raters.raters_section,
    judges.judges_section,
    queries.unscored_section,
    queries.failures_section,
    queries.rejected_section,
)
"""Sections of terminal and page. They read no table of votes, grades or scores."""
DETAILS = (
    scores.scores_section,
    raters.grades_section,
    judges.instructions_section,
    judges.agreement_section,
    queries.queries_section,
)
"""Sections of the page alone."""

_LONGEST = 40  # characters of an option that is shown


def build_report(source: Source, run: Mapping[str, Any]) -> Report:
    """Build the report of an annotation run."""
    results = AnnotateResults(source, run)
    summary = results.summary
    return Report(
        title=f"{results.protocol.title} {counted(summary.queries, 'query', 'queries')}",
        tiles=[(name, value) for name, value in _tiles(results) if value],
        lead=[sentence for sentence in _lead(results) if sentence],
        sections=[make(results) for make in SECTIONS],
        make_details=lambda: [make(results) for make in DETAILS],
        find_warnings=lambda: rank_annotation_warnings(results),
        notes=[*summary.notes, *_notes(results)],
        made=_made(results),
    )


def _tiles(results: AnnotateResults) -> Iterator[tuple[str, str]]:
    """Yield figures at a glance; those without a value are left out."""
    summary, unit = results.summary, results.unit
    scored, documents = f"{summary.scored:,}", f"{summary.documents:,}"
    yield "documents scored", scored if scored == documents else f"{scored} of {documents}"
    noun = results.protocol.noun if len(results.kinds) < 2 else "judgment"
    yield f"{noun}s", f"{summary.judgments:,}"
    yield "standard error", _in(summary.std_error, unit)
    yield results.error_about_people, _in(summary.truth_error, unit)
    for name, count in (
        ("split documents", summary.ambiguous),
        ("failed requests", summary.failures),
        ("requests still to ask", summary.missing),
        ("bad input lines", summary.rejected),
        ("sweeps over the input", summary.sweeps if summary.sweeps > 1 else 0),
    ):
        yield name, f"{count:,}" if count else ""
    in_all = _spent(summary.dollars_in_all, summary.unpriced)
    if summary.up_to_date or not is_finished(results.run):  # nothing was judged in this process
        has_cost = summary.dollars_in_all or summary.unpriced
        yield "spent in all" if has_cost else "spent", in_all
        return
    took = sum(summary.seconds.values())
    yield "judged", f"in {duration(took)}" if summary.seconds else ""
    spent = _spent(summary.dollars, summary.unpriced)
    yield "spent", spent
    yield "spent in all", in_all if in_all != spent else ""


def _lead(results: AnnotateResults) -> Iterator[str]:
    """Yield sentences on the results of the judgments."""
    summary = results.summary
    if summary.pilot_of:
        queries = counted(summary.pilot_of, "query", "queries")
        yield f"This was a pilot on {summary.queries:,} of {queries}."
    if results.has_judgments(Contest):
        yield _describe_winners(results)
    if results.has_judgments(Verdict):
        yield _describe_decisions(results)
    if summary.ambiguous:
        yield (
            f"The judges are split on {counted(summary.ambiguous, 'document')}: ambiguous in "
            f"scores.parquet. To leave them out: zelo-ray convert qrels "
            f"{without_credentials(results.source.out)} --grades --without-ambiguous --out FILE"
        )


def _notes(results: AnnotateResults) -> Iterator[str]:
    """Yield which options had no effect, or not on all queries."""
    human, without = results.options.get("human"), results.summary.ungraded
    if (
        human
        and results.graded
        and not any(row["humans"] for row in results.learned_rows("shares"))
    ):
        yield f"{human} has no grade of a graded document, and so had no effect."
    if without:
        have = counted(without, "query has", "queries have")
        yield f"{have} no grades, and so no absolute scores."


def _describe_winners(results: AnnotateResults) -> str:
    held, over = results.tournaments, finished(results.tournaments)
    won, by_chance, of = count_first_king_wins(over)
    if not of:
        return ""
    sentence = f"{len(over):,} of {counted(len(held), 'tournament')} finished"
    first = f"the first king won {won / of:.0%} of them ({by_chance / of:.0%} by chance)"
    return f"{sentence}; {first}."


def _describe_decisions(results: AnnotateResults) -> str:
    total = results.debates.whole
    if not total.pairs:
        return ""
    ties = f", {counted(total.winners[TIE], 'tie')}" if total.winners[TIE] else ""
    flips = (
        f", {total.flipped:,} of them because the two orders differ ({total.reversed:,} reversed, "
        f"{total.half_tied:,} a tie in one order)"
    )
    return f"{counted(total.pairs, 'pair')} judged{ties}{flips if total.flipped else ''}."


def _made(results: AnnotateResults) -> str:
    """Say how the results were made, and what a score means."""
    protocol, options = results.protocol, results.options
    settings = {name: options.get(name) for name in (*sorted(protocol.own_options), "seed")}
    parts = [f"Run {results.run['run_id']}, protocol {protocol.name}"]
    parts += [f"{name} {value}" for name, value in settings.items() if _is_word(value)]
    parts += [name.replace("_", " ") for name, value in settings.items() if value is True]
    explain = protocol.score.explain
    meaning = explain if isinstance(explain, str) else explain(options)
    sentences = [", ".join(parts), *([meaning.removesuffix(".")] if meaning else [])]
    return "".join(f"{sentence}. " for sentence in sentences).rstrip()


def _in(error: float | None, unit: str) -> str:
    return "" if error is None else f"{error:.2f} {unit}"


def _spent(dollars: float, unpriced: int) -> str:
    return format_cost(dollars, unpriced).replace("free", "nothing")


def _is_word(value: object) -> bool:
    """Return whether an option's value is short enough to be shown in a line."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain or (isinstance(value, str) and len(value) <= _LONGEST and "\n" not in value)


ANNOTATE_REPORT = ReportKind(
    RUN,
    ("annotated.jsonl", "scores.parquet"),
    frozenset({"judges", "options", "summary"}),
    {
        "consensus": (Consensus,),
        "contests": (Contest,),
        "failures": (Failure,),
        "grades": (Grade,),
        "raters": (Rater,),
        "scores": (Score,),
        "shares": (Share,),
        "verdicts": (Verdict,),
        "votes": (Vote,),
        "winners": (Winner,),
    },
    build_report,
    lambda record: Summary.from_record("", record["summary"]).complete,
)
"""How results of `annotate` become a report."""
