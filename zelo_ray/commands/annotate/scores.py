"""Show scores: their distribution and errors, the share of relevant documents, and raters."""

from collections.abc import Mapping
from functools import lru_cache
from math import isinf, isnan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.annotate.judges import LEVELS, count_judgments
from zelo_ray.files.tables import iter_rows
from zelo_ray.files.wording import counted
from zelo_ray.protocols import protocol_of_record
from zelo_ray.protocols.options import recorded_pooling
from zelo_ray.records import Contest, GradedScore, Verdict, Vote
from zelo_ray.report import charts
from zelo_ray.report.model import Cell, Part, Section, Value, chart, estimate, table
from zelo_ray.report.results import Results

_Z = 1.959964
_NUMBERS = ("score", "std_error", "truth_error", "grade", "disagreement")


@lru_cache(maxsize=1)  # several charts, and the list of queries, look at it
def read_scores(results: Results) -> pa.Table:
    """Return the query and the numbers of each score; those of a query are adjacent."""
    if "scores" not in results:
        return pa.table({"query_id": pa.array([], pa.string())})
    return results.tables["scores"].select(("query_id", *_NUMBERS))


def means_by_query(results: Results, name: str) -> dict[str, float]:
    """Return the mean of the known values of a query's documents, where there are any."""
    scores = read_scores(results)
    if name not in scores.column_names:
        return {}
    finite = scores.filter(pc.is_finite(scores[name])).select(["query_id", name])
    means = finite.group_by("query_id", use_threads=False).aggregate([(name, "mean")])
    return dict(iter_rows(means, "query_id", f"{name}_mean"))


def _values(scores: pa.Table, name: str) -> np.ndarray:
    return np.asarray(scores[name].to_numpy(), np.float64)


def is_graded(results: Results) -> bool:
    """Return whether scores are grades of a panel."""
    return issubclass(protocol_of_record(results.record).score.record, GradedScore)


def error_about_people(results: Results) -> str:
    """Return the name of the error that also has what all judges get wrong."""
    learned = results.record["summary"]["is_truth_error_learned"]
    return f"{'' if learned else 'assumed '}error about people"


def scores_section(results: Results) -> Section:
    """Show the distribution of scores and their errors; nothing of contests and verdicts."""
    scores, protocol = read_scores(results), protocol_of_record(results.record)
    records = {kind.record for name, kind in protocol.counted.items() if name in results}
    parts = list[Part]()
    if not scores.num_rows or records & {Contest, Verdict}:
        return Section("scores", "Scores", parts)
    caption = "The number of documents by score."
    if Vote in records:
        caption += (
            " Two modes mean that documents are either relevant or not; one mode around 0 that "
            "they are hard to distinguish."
        )
    unit = protocol.score.unit
    picture = charts.histogram(_values(scores, "score"), f"score, in {unit}", "documents")
    parts.append(chart(picture, caption))
    errors = {"standard error": "std_error", error_about_people(results): "truth_error"}
    pictures = {
        called: charts.histogram(_values(scores, name), f"{called}, in {unit}", "documents")
        for called, name in errors.items()
        if np.isfinite(_values(scores, name)).any()
    }
    if pictures:
        caption = (
            "How sure the scores are. The standard error is about repeating the same judges; more "
            "judgments make it smaller. The error about people also has what all judges get "
            "wrong; it is assumed unless people's labels (--human) show it."
        )
        parts.append(chart(pictures, caption, "error"))
    return Section("scores", "Scores", parts)


def grades_section(results: Results) -> Section:
    """Show how often each judge gives each grade, and the panel."""
    grades = dict(sorted(count_judgments(results).grades.items()))
    if not grades:
        return Section("grades", "Grades by judge", [])
    if is_graded(results):
        panel = np.bincount(read_scores(results)["grade"].to_numpy(), minlength=LEVELS)
        grades = {"the panel": panel} | grades
    names, counts = [*grades], np.stack([*grades.values()])
    picture = charts.matrix(
        *(names, charts.GRADES, counts / np.maximum(1, counts.sum(axis=1, keepdims=True))),
        form=".0%",
        text=lambda i, j: f"{names[i]}: grade {j} for {counted(int(counts[i, j]), 'document')}",
    )
    caption = "The share of each grade. Judges that saw the same documents should differ little; "
    caption += "one that always gives the same grade is of no use."
    return Section("grades", "Grades by judge", [chart(picture, caption)])


def shares_section(results: Results) -> Section:
    """Show the share of relevant documents, by the panel alone and corrected by people's labels."""
    rows = results.rows("shares")
    if not rows:
        return Section("shares", "How many documents are relevant", [])
    people = max(row["humans"] for row in rows)
    refused = people and all(isnan(row["mean"]) for row in rows)
    corrected = people and not refused

    def form(row: Mapping[str, Any]) -> str:
        return ".2f" if row["measure"] == "grade" else ".1%"

    columns: dict[str, Any] = {
        "measure": lambda row: (
            "mean grade" if row["measure"] == "grade" else f"share of grade {row['measure']}"
        ),
        "by the panel alone": lambda row: Cell(row["panel"], form(row)),
    }
    if corrected:
        columns["corrected by people"] = lambda row: estimate("mean", form(row))(row)
    caption = (
        f"Corrected by {counted(people, 'human grade')}, with 95% intervals. It holds if the "
        "documents that people graded were drawn at random."
        if corrected
        else "People's grades were not drawn at random, and correct nothing."
        if refused
        else "Not corrected: these shares are wrong if all judges are too lenient or too strict. "
        "Some human grades (--human) would show that."
    )
    return Section("shares", "How many documents are relevant", [table(rows, columns, caption)])


def raters_section(results: Results) -> Section:
    """Show the severity, spread and weight of each judge."""
    rows = results.rows("raters")  # the heaviest judges first, and unknown weights last
    rows.sort(key=lambda row: 1.0 if isnan(row["weight"]) else -row["weight"])
    plain = recorded_pooling(results.record["options"]) == "mean"
    columns: dict[str, Any] = {
        "judge": lambda row: "the people" if row["judge"] == "human" else row["judge"],
        "severity": lambda row: _cell(row, "severity", "+z.2f"),
        "spread": lambda row: "∞" if isinf(row["spread"]) else _cell(row, "spread", ".2f"),
        "weight": lambda row: Cell(row["weight"], ".1%"),
        "grades": "grades",
    }
    unused = " The scores weigh all judges equally, and correct no severity." if plain else ""
    caption = (
        "Severity: how much more relevant than for the panel a document must be for the same "
        "grade, in standard deviations of relevance; positive is stricter. Spread: the standard "
        "deviation of a judge's error on the same scale; at 1 it errs as much as documents differ. "
        f"The weight is a judge's share of the information in all grades.{unused}"
    )
    shown = [table(rows, columns, caption)] if rows else []
    return Section("raters", "How the judges grade", shown)


def _cell(row: Mapping[str, Any], name: str, form: str) -> Value:
    value, reach = row[name], _Z * row[f"{name}_error"]
    return Cell(value, form, value - reach, value + reach)
