"""The page of an annotation run: scores, judges, and every comparison."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.report import judges, queries, raters, scores
from zelo_ray.report.judged import Annotation
from zelo_ray.report.page import Page, plural
from zelo_ray.report.source import Source
from zelo_ray.report.stacks import GRADES

SECTIONS = (
    scores.scores_section,
    scores.shares_section,
    raters.raters_section,
    raters.grades_section,
    judges.judges_section,
    judges.agreement_section,
    queries.ambiguous_section,
    queries.uncertain_section,
    queries.unscored_section,
    queries.failures_section,
    queries.queries_section,
)

_LOGITS = (
    "A score is in logits, centred on the query's judged documents: a document one logit "
    "above another wins 73% of their battles. ± is a standard error. Scores of different "
    "queries share no zero"
)
_POOLED = {
    "thurstone": "the mean of what a document's grade may be, given what the judges said and how "
    "each of them grades; ± is its standard deviation",
    "median": "the median of the judges' grades",
    "majority": "the grade that most judges gave",
}
_POOLED["beta"] = _POOLED["thurstone"]


def annotation_page(source: Source, run: Mapping[str, Any]) -> Page:
    """The page of a run that judged the documents of queries."""
    summary, options, annotation = run["summary"], run["options"], Annotation(source, run)
    spent = f"${summary['dollars_in_all']:,.4f}" + (" + ?" if summary["unpriced"] else "")
    split = annotation.ambiguous.num_rows
    tiles = [
        ("queries", f"{summary['queries']:,}"),
        ("documents scored", f"{summary['scored']:,}"),
        ("judgments", f"{summary['judgments']:,}"),
        *([("split documents", f"{split:,}")] if annotation.kind == "grades" else []),
        ("failed requests", f"{summary['failures']:,}"),
        ("spent in all", spent),
    ]
    unpriced = " and calls of unknown price" if summary["unpriced"] else ""
    done = (
        f"{summary['scored']:,} of {plural(summary['documents'], 'document')} scored from "
        f"{plural(summary['judgments'], 'judgment')}; {plural(summary['failures'], 'request')} "
        f"without one, {plural(summary['rejected'], 'bad input line')}, "
        f"{plural(len(summary['unscored']), 'query', 'queries')} without scores. "
        f"Spent in all: ${summary['dollars_in_all']:,.4f}{unpriced}."
    )
    made = f"Run {run['run_id']}, protocol {options['protocol']}"
    which = ["pooling" if annotation.kind == "grades" else "cycles", "seed"]
    which += ["repeats"] if options.get("repeats", 1) > 1 else []
    parts = (f"{name} {options[name]}" for name in which if name in options)
    return Page(
        title=f"Relevance scores of {plural(summary['queries'], 'query', 'queries')}",
        tiles=tiles,
        lead=[said for said in (done, _outcome(annotation), _reading(annotation)) if said],
        notes=(", ".join((made, *parts)) + ".",),
        sections=[make(annotation) for make in SECTIONS],
    )


def _outcome(annotation: Annotation) -> str:
    """What the grades come to, in a sentence."""
    if annotation.kind != "grades" or not len(annotation.scores.query_ids):
        return ""
    counts = annotation.scores.counts()
    shares = counts.sum(axis=0) / counts.sum()
    told = ", ".join(f"{share:.0%} {name[2:]}" for name, share in zip(GRADES, shares, strict=True))
    answered = int((counts[:, 3] > 0).sum())
    return (
        f"Of the documents {told}. {answered:,} of {plural(len(counts), 'query', 'queries')} "
        f"{'has' if answered == 1 else 'have'} a document that answers fully (grade 3)."
    )


def _reading(annotation: Annotation) -> str:
    """What a score is."""
    options = annotation.run["options"]
    if annotation.kind == "battles":
        return f"{_LOGITS}."
    if annotation.kind == "both":
        return (
            f"{_LOGITS}; absolute scores do: each is the score, shifted by what "
            f"{plural(options.get('grades', 5), 'grade')} of each query tell of where it stands."
        )
    return (
        "Grades are 0 irrelevant, 1 marginal (on topic, does not answer), 2 relevant (answers in "
        "part), 3 highly relevant (answers fully). A score is on that scale, the same for all "
        f"queries: {_POOLED.get(options.get('pooling', ''), _POOLED['thurstone'])}."
    )
