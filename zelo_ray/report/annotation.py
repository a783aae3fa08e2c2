"""The page of an annotation run: scores, judges, and every comparison."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.report import judges, queries
from zelo_ray.report.judged import Annotation
from zelo_ray.report.page import Page, plural
from zelo_ray.report.source import Source

SECTIONS = (
    queries.scores_section,
    judges.judges_section,
    judges.agreement_section,
    queries.uncertain_section,
    queries.unscored_section,
    queries.failures_section,
    queries.queries_section,
)


def annotation_page(source: Source, run: Mapping[str, Any]) -> Page:
    """The page of a run that judged the documents of queries."""
    summary, options, annotation = run["summary"], run["options"], Annotation(source, run)
    spent = f"${summary['dollars_in_all']:,.4f}" + (" + ?" if summary["unpriced"] else "")
    tiles = (
        ("queries", f"{summary['queries']:,}"),
        ("documents scored", f"{summary['scored']:,}"),
        ("judgments", f"{summary['judgments']:,}"),
        ("failed requests", f"{summary['failures']:,}"),
        ("spent in all", spent),
    )
    unpriced = " and calls of unknown price" if summary["unpriced"] else ""
    lead = (
        (
            f"{summary['scored']:,} of {plural(summary['documents'], 'document')} scored from "
            f"{plural(summary['judgments'], 'judgment')}; {plural(summary['failures'], 'request')} "
            f"without one, {plural(summary['rejected'], 'bad input line')}, "
            f"{plural(len(summary['unscored']), 'query', 'queries')} without scores. "
            f"Spent in all: ${summary['dollars_in_all']:,.4f}{unpriced}."
        ),
        (
            "A score is in logits, centred on the query's judged documents: a document one logit "
            "above another wins 73% of their battles. ± is a standard error. Scores of different "
            "queries share no zero."
        ),
    )
    made = f"Run {run['run_id']}, protocol {options['protocol']}"
    parts = (f"{name} {options[name]}" for name in ("cycles", "seed") if name in options)
    return Page(
        title=f"Relevance scores of {plural(summary['queries'], 'query', 'queries')}",
        tiles=tiles,
        lead=lead,
        notes=(", ".join((made, *parts)) + ".",),
        sections=[make(annotation) for make in SECTIONS],
    )
