"""Sections of an annotation run on its scores: their distribution and their errors."""

from math import isnan

import numpy as np

from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.files.wording import counted
from zelo_ray.protocols.options import recorded_pooling
from zelo_ray.records import Contest, Verdict, Vote
from zelo_ray.reports.charts import stacks
from zelo_ray.reports.charts.figures import histogram, intervals
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section
from zelo_ray.reports.wording import format_estimate, format_number, short

_QUERIES = 1000
"""How many queries have a column of their own."""
_BOTH = (
    " It is about repeating the same judges. The error about people also includes errors that all "
    "judges share, which more calls do not reduce."
)
_ASSUMED = (
    " How large these are is assumed, since no label of people shows it in this run: grades of "
    "people (--human) would."
)


def scores_section(results: AnnotateResults) -> Section | None:
    """Show the distribution of scores and their errors; None for contests and verdicts."""
    if not len(results.scores.query_ids) or results.has_judgments(Contest, Verdict):
        return None
    make = (
        _chart_grades
        if results.graded
        else _chart_comparisons
        if results.has_judgments(Vote)
        else _chart_scores
    )
    return Section("scores", "Scores", make(results))


def _chart_scores(results: AnnotateResults) -> list[Chart]:
    """Draw scores of which only the unit is known, and their errors."""
    unit, scores = results.unit, results.scores
    charts = [
        Chart(
            {"": histogram(scores.finite_values("score"), f"score, in {unit}", "documents")},
            "The number of documents by score.",
        )
    ]
    if len(scores.finite_values("std_error")):
        charts.append(_errors(results, "standard error", f"How sure the scores are.{_BOTH}"))
    return charts


def _errors(results: AnnotateResults, called: str, caption: str) -> Chart:
    """Draw the distribution of score errors, and of errors about people where they are known."""
    scores, unit = results.scores, results.unit
    panel = histogram(scores.finite_values("std_error"), f"{called}, in {unit}", "documents")
    if not len(beyond := scores.finite_values("truth_error")):
        return Chart({"": panel}, caption.replace(_BOTH, ""))
    people = histogram(beyond, f"{results.error_about_people}, in {unit}", "documents")
    learned = results.summary.is_truth_error_learned
    name, caption = ("about people", caption) if learned else ("assumed", caption + _ASSUMED)
    return Chart({"the panel's own": panel, name: people}, caption, "error")


def _chart_comparisons(results: AnnotateResults) -> list[Chart]:
    scores = results.scores
    return [
        Chart(
            {"": histogram(scores.finite_values("score"), "score, in logits", "documents")},
            "The number of documents by score. Two modes mean that documents are either relevant "
            "or not; one mode around 0 that they are hard to distinguish.",
        ),
        _errors(
            results,
            "standard error",
            "The precision of the scores: the panel distinguishes two documents of a query if "
            f"their scores differ by some two of these. More cycles move it to the left.{_BOTH}",
        ),
    ]


def _chart_grades(results: AnnotateResults) -> list[Chart]:
    scores, options = results.scores, results.options
    pooling = recorded_pooling(options)
    counts = scores.counts()
    best = (stacks.LEVELS - 1 - np.argmax(counts[:, ::-1] > 0, axis=1)).astype(np.int64)
    figures = {
        "all documents": stacks.grade_columns(counts.sum(axis=0), "documents"),
        "the best of each query": stacks.grade_columns(
            np.bincount(best, minlength=stacks.LEVELS), "queries"
        ),
    }
    kind = "grade" if pooling == "mean" else "calibrated grade"
    answered = int((counts[:, stacks.LEVELS - 1] > 0).sum())
    meaning = {
        "mean": "the mean of the judges' grades",
        "median": "the median of the judges' grades",
        "majority": "the majority of the judges",
    }
    charts = [
        Chart(
            figures,
            f"The number of documents by {kind}, and of queries by that of their best document: "
            f"{answered:,} of {counted(len(counts), 'query', 'queries')} have one that answers "
            "fully (grade 3). A query whose best is 0 or 1 has no answer among its candidates.",
            "of",
        ),
        Chart(
            {"": histogram(scores.finite_values("score"), "score, in grades", "documents")},
            f"The panel's score, from 0 to 3: {meaning.get(pooling, 'its mean grade')}. For "
            "documents between two grades, a threshold decides on their relevance.",
        ),
    ]
    order = np.argsort(-(counts @ np.arange(stacks.LEVELS)) / counts.sum(axis=1), kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(_QUERIES, len(order))).astype(np.int64)]
    names = [short(scores.query_ids[place], 60) for place in shown]
    title = "queries, those with the highest grades first"
    which = (
        "The share of each grade among a query's documents."
        if len(shown) == len(order)
        else f"The share of each grade among a query's documents, for {len(shown):,} of "
        f"{len(order):,} queries, evenly spread."
    )
    charts.append(Chart({"": stacks.grade_columns_by_name(names, counts[shown], title)}, which))
    if len(scores.finite_values("std_error")):
        caption = (
            "The precision of the scores: the standard deviation of what a document's grade may "
        )
        caption += f"be, given what the judges said. More judges move it to the left.{_BOTH}"
        charts.append(_errors(results, "standard deviation", caption))
    return charts


def shares_section(results: AnnotateResults) -> Section | None:
    """Show the share of relevant documents, by the panel alone and corrected by human labels."""
    rows = results.learned_rows("shares")
    if not rows:
        return None
    humans = max(row["humans"] for row in rows)
    refused = humans and all(isnan(row["mean"]) for row in rows)
    humans = 0 if refused else humans
    share_rows = [row for row in rows if row["measure"] != "grade"]
    panel, mean, low, high = (
        np.array([row[name] for row in share_rows], dtype=float)
        for name in ("panel", "mean", "low", "high")
    )
    names = [f"grade {row['measure'].removeprefix('>=')} or higher" for row in share_rows]
    unknown = np.full(len(share_rows), np.nan)
    series = {"panel alone": (panel, unknown, unknown)}
    if humans:
        series["corrected by people"] = (mean, low, high)
    figure = intervals(names, series, "share of documents")
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    columns = ["measure", "by the panel alone"]
    columns += ["corrected by people"] if humans else []
    cells: list[Cells] = []
    for row in rows:
        is_mean = row["measure"] == "grade"
        form = ".2f" if is_mean else ".1%"
        what = "mean grade" if is_mean else f"share of grade {row['measure']}"
        corrected = [format_estimate(row["mean"], row["low"], row["high"], form)] if humans else []
        cells.append([what, format_number(row["panel"], form), *corrected])
    caption = (
        f"Corrected by {counted(humans, 'human grade')}, with 95% intervals. It holds if the "
        "documents that people graded were drawn at random."
        if humans
        else "People's grades were not drawn at random, and correct nothing."
        if refused
        else "Not corrected: these shares are wrong if all judges are too lenient or too strict. "
        "Some human grades (--human) would show that."
    )
    documents = counted(max(row["documents"] for row in rows), "document")
    table = ReportTable(columns, cells, caption, frozenset(columns[1:]))
    chart = Chart({"": figure}, f"The share of {documents} with at least each grade.")
    return Section("shares", "How many documents are relevant", (chart, table))
