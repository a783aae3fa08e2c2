"""The page of an annotation run: scores, judges, and every comparison."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.commands.agree.report.consensus import consensus_section
from zelo_ray.commands.annotate.report import contests, judges, queries, raters, scores, verdicts
from zelo_ray.commands.annotate.report.results import Annotation
from zelo_ray.commands.annotate.report.tournaments import ended, stayed
from zelo_ray.commands.annotate.report.warnings import rank_of_annotation
from zelo_ray.formats.record import RUN
from zelo_ray.formats.wording import counted
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
from zelo_ray.report.charts.stacks import GRADES
from zelo_ray.report.kind import ReportKind
from zelo_ray.report.parts import Report, Section
from zelo_ray.report.source import Source
from zelo_ray.report.wording import number, paid


def trust_section(annotation: Annotation) -> Section | None:
    """Show how far to trust the panel, where people graded some of the documents."""
    return consensus_section(annotation.learned("consensus"))


SECTIONS = (
    contests.winners_section,
    contests.tournaments_section,
    verdicts.verdicts_section,
    scores.scores_section,
    scores.shares_section,
    trust_section,
    raters.raters_section,
    raters.grades_section,
    judges.told_section,
    judges.judges_section,
    judges.agreement_section,
    queries.ambiguous_section,
    queries.uncertain_section,
    queries.unscored_section,
    queries.failures_section,
    queries.queries_section,
)

_LONGEST = 40  # characters of an option that is named


def build_report(source: Source, run: Mapping[str, Any]) -> Report:
    """Build the report of an annotation run."""
    summary, options, annotation = run["summary"], run["options"], Annotation(source, run)
    spent = paid(summary["dollars_in_all"], summary["unpriced"])
    split = annotation.ambiguous.num_rows
    protocol, noun = annotation.protocol, annotation.protocol.noun
    tiles = [
        ("queries", f"{summary['queries']:,}"),
        ("documents scored", f"{summary['scored']:,}"),
        (f"{noun}s", f"{summary['judgments']:,}"),
        *([("split documents", f"{split:,}")] if split and annotation.graded else []),
        *([("failed requests", f"{summary['failures']:,}")] if summary["failures"] else []),
        ("spent in all", spent),
    ]
    waiting = f", {summary['missing']:,} still to ask" if summary.get("missing") else ""
    lost = f"; {counted(failed, 'request')} without one" if (failed := summary["failures"]) else ""
    done = (
        f"{summary['scored']:,} of {counted(summary['documents'], 'document')} scored from "
        f"{counted(summary['judgments'], noun)}{lost}{waiting}."
    )
    made = f"Run {run['run_id']}, protocol {protocol.name}"
    settings = {name: options.get(name) for name in (*sorted(protocol.own_options), "seed")}
    parts = [f"{name} {value}" for name, value in settings.items() if _is_word(value)]
    parts += [name.replace("_", " ") for name, value in settings.items() if value is True]
    return Report(
        title=f"{protocol.title} {counted(summary['queries'], 'query', 'queries')}",
        tiles=tiles,
        lead=[
            sentence for sentence in (done, _outcome(annotation), _reading(annotation)) if sentence
        ],
        sections=(),
        make_details=lambda: [make(annotation) for make in SECTIONS],
        find_warnings=lambda: rank_of_annotation(annotation),
        notes=summary.get("notes", ()),
        made=", ".join((made, *parts)) + ".",
    )


def _outcome(annotation: Annotation) -> str:
    """Summarize the judgments in a sentence."""
    if annotation.gives(Contest):
        return _won(annotation)
    if annotation.gives(Verdict):
        return _decided(annotation)
    if not annotation.graded or not len(annotation.scores.query_ids):
        return ""
    counts = annotation.scores.counts()
    shares = counts.sum(axis=0) / counts.sum()
    grades = ", ".join(
        f"{share:.0%} {name[2:]}" for name, share in zip(GRADES, shares, strict=True)
    )
    answered = int((counts[:, 3] > 0).sum())
    return (
        f"Of the documents {grades}. {answered:,} of {counted(len(counts), 'query', 'queries')} "
        f"{'has' if answered == 1 else 'have'} a document that answers fully (grade 3)."
    )


def _won(annotation: Annotation) -> str:
    held, over = annotation.tournaments, ended(annotation.tournaments)
    won, by_chance, of = stayed(over)
    if not of:
        return ""
    sentence = f"{len(over):,} of {counted(len(held), 'tournament')} came to an end"
    first = f"the first king won {won / of:.0%} of them, by chance it would be {by_chance / of:.0%}"
    return f"{sentence}; {first}."


def _decided(annotation: Annotation) -> str:
    total = annotation.debates.whole
    if not total.pairs:
        return ""
    ties = f", {counted(total.winners[TIE], 'tie')}" if total.winners[TIE] else ""
    flips = (
        f", {total.flipped:,} of them because the two orders differ ({total.turned:,} turned "
        f"round, {total.half_tied:,} a tie in one order)"
    )
    return f"{counted(total.pairs, 'pair')} judged{ties}{flips if total.flipped else ''}."


def _reading(annotation: Annotation) -> str:
    """Explain what a score means."""
    explain = annotation.protocol.score.explain
    explanation = explain if isinstance(explain, str) else explain(annotation.run["options"])
    return f"{explanation.removesuffix('.')}." if explanation else ""


def _is_word(value: object) -> bool:
    """Return whether an option's value is short enough to be shown in a line."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain or (isinstance(value, str) and len(value) <= _LONGEST and "\n" not in value)


def _headline(_source: Source, record: Mapping[str, Any]) -> tuple[str, str]:
    error = record["summary"].get("std_error")
    if error is None:
        return "judgments", f"{record['summary']['judgments']:,}"
    return "mean std_error", number(error)


ANNOTATE_REPORT = ReportKind(
    RUN,
    frozenset({"options", "summary"}),
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
    _headline,
)
"""How results of `annotate` become a report."""
