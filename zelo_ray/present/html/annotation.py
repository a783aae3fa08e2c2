"""The page of an annotation run: scores, judges, and every comparison."""

from collections.abc import Mapping
from typing import Any

from zelo_ray.present.html import contests, judges, queries, raters, scores, verdicts
from zelo_ray.present.html.judged import JUDGMENTS, Annotation
from zelo_ray.present.html.page import Page, plural
from zelo_ray.present.html.source import Source
from zelo_ray.present.html.stacks import GRADES
from zelo_ray.present.html.tournaments import ended, stayed
from zelo_ray.records import TIE

SECTIONS = (
    contests.winners_section,
    contests.tournaments_section,
    verdicts.verdicts_section,
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
    "above another wins 73% of their {}. ± is a standard error. Scores of different "
    "queries share no zero"
)
_TITLES = {"contests": "Best answers to", "verdicts": "Verdicts on the answers to"}
_SETTINGS = {
    "battles": ("cycles", "seed"),
    "both": ("cycles", "seed"),
    "grades": ("pooling", "seed"),
    "contests": ("order", "decide", "seed"),
    "verdicts": ("cycles", "rounds", "seed"),
}
"""The options that a page names."""
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
    noun = JUDGMENTS.get(annotation.kind, "judgment")
    tiles = [
        ("queries", f"{summary['queries']:,}"),
        ("documents scored", f"{summary['scored']:,}"),
        (f"{noun}s", f"{summary['judgments']:,}"),
        *([("split documents", f"{split:,}")] if annotation.kind == "grades" else []),
        ("failed requests", f"{summary['failures']:,}"),
        ("spent in all", spent),
    ]
    unpriced = " and calls of unknown price" if summary["unpriced"] else ""
    waiting = f", {summary['missing']:,} still to ask" if summary.get("missing") else ""
    done = (
        f"{summary['scored']:,} of {plural(summary['documents'], 'document')} scored from "
        f"{plural(summary['judgments'], noun)}; {plural(summary['failures'], 'request')} "
        f"without one{waiting}, {plural(summary['rejected'], 'bad input line')}, "
        f"{plural(len(summary['unscored']), 'query', 'queries')} without scores. "
        f"Spent in all: ${summary['dollars_in_all']:,.4f}{unpriced}."
    )
    made = f"Run {run['run_id']}, protocol {options['protocol']}"
    which = [*_SETTINGS[annotation.kind], *(["repeats"] if options.get("repeats", 1) > 1 else [])]
    parts = [f"{name} {options[name]}" for name in which if options.get(name) is not None]
    parts += ["both orders"] if options.get("both_orders") else []
    return Page(
        title=f"{_TITLES.get(annotation.kind, 'Relevance scores of')} "
        f"{plural(summary['queries'], 'query', 'queries')}",
        tiles=tiles,
        lead=[said for said in (done, _outcome(annotation), _reading(annotation)) if said],
        notes=(", ".join((made, *parts)) + ".",),
        sections=[make(annotation) for make in SECTIONS],
    )


def _outcome(annotation: Annotation) -> str:
    """What the judgments come to, in a sentence."""
    if annotation.kind == "contests":
        return _won(annotation)
    if annotation.kind == "verdicts":
        return _decided(annotation)
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


def _won(annotation: Annotation) -> str:
    held, over = annotation.tournaments, ended(annotation.tournaments)
    won, by_chance, of = stayed(over)
    if not of:
        return ""
    told = f"{len(over):,} of {plural(len(held), 'tournament')} came to an end"
    first = f"the first king won {won / of:.0%} of them, by chance it would be {by_chance / of:.0%}"
    return f"{told}; {first}."


def _decided(annotation: Annotation) -> str:
    whole = annotation.debates.whole
    if not whole.pairs:
        return ""
    flips = (
        f", {whole.flipped:,} of them because the two orders differ ({whole.turned:,} turned "
        f"round, {whole.half_tied:,} a tie in one order)"
    )
    return (
        f"{plural(whole.pairs, 'pair')} judged, {plural(whole.winners[TIE], 'tie')}"
        f"{flips if whole.both else ''}."
    )


def _reading(annotation: Annotation) -> str:
    """What a score is."""
    options = annotation.run["options"]
    if annotation.kind == "battles":
        return f"{_LOGITS.format('battles')}."
    if annotation.kind == "contests":
        return (
            f"{_LOGITS.format('contests')}. Who was king at the end is no matter of scores, and "
            "need not have the highest: winners.parquet tells."
        )
    if annotation.kind == "verdicts":
        return (
            f"{_LOGITS.format('verdicts')}. They rest on who won which pair; what a judge scored "
            "stands in verdicts.parquet."
        )
    if annotation.kind == "both":
        return (
            f"{_LOGITS.format('battles')}; absolute scores do: each is the score, shifted by what "
            f"{plural(options.get('grades', 5), 'grade')} of each query tell of where it stands."
        )
    return (
        "Grades are 0 irrelevant, 1 marginal (on topic, does not answer), 2 relevant (answers in "
        "part), 3 highly relevant (answers fully). A score is on that scale, the same for all "
        f"queries: {_POOLED.get(options.get('pooling', ''), _POOLED['thurstone'])}."
    )
