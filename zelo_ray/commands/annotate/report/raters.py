"""Sections of an annotation run on how its judges grade."""

from collections.abc import Mapping
from math import isinf, isnan
from typing import Any

import numpy as np

from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.protocols.options import recorded_pooling
from zelo_ray.reports.charts import stacks
from zelo_ray.reports.charts.figures import intervals
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section, TextCell
from zelo_ray.reports.wording import Quantity, format_estimate, format_number

_Z = 1.959964
_CLEAR = 0.2  # a severity worth mentioning, in standard deviations of relevance
_RANDOM = 3.0  # a spread from which on grades are nearly random
_PANEL, _HUMAN = "the panel", "human"
_MODELLED = "The panel's grades are corrected for it."
_PLAIN = "The panel's grades weigh all judges equally, and are not corrected for it."


def _weight(row: Mapping[str, Any]) -> float:
    """Return a sort key that puts the heaviest judges first and unknown weights last."""
    return 1.0 if isnan(row["weight"]) else -float(row["weight"])


def raters_section(results: AnnotateResults) -> Section | None:
    """Show the severity, spread and weight of each judge."""
    raters = sorted(results.learned_rows("raters"), key=_weight)
    if not raters:
        return None
    plain = recorded_pooling(results.options) == "mean"
    names = ["the people" if row["judge"] == _HUMAN else row["judge"] for row in raters]
    harsh = intervals(names, {"": _span(raters, "severity")}, "severity", 0.0)
    spread = intervals(names, {"": _span(raters, "spread")}, "spread")
    columns = ("judge", "severity", "spread", "weight", "grades", "it is")
    cells: list[Cells] = [
        [
            *(TextCell(name), _cell(row, "severity", "+z.2f"), _cell(row, "spread", ".2f")),
            *(format_number(row["weight"], ".1%"), f"{row['grades']:,}", TextCell(_describe(row))),
        ]
        for name, row in zip(names, raters, strict=True)
    ]
    return Section(
        "raters",
        "How the judges grade",
        (
            Chart(
                {"": harsh},
                "How much more relevant a document must be for the same grade than with the "
                "panel, in standard deviations of relevance, with a 95% interval: right of 0 is "
                f"stricter, left of it more lenient. {_PLAIN if plain else _MODELLED}",
            ),
            Chart(
                {"": spread},
                "The standard deviation of a judge's error on the same scale, with a 95% interval: "
                "left is more precise. At 1 it errs as much as documents differ; a judge whose "
                "grades are random has no point here, as its error is unbounded.",
            ),
            ReportTable(
                columns,
                cells,
                "The weight is a judge's share of the information in all grades."
                + (" The scores do not use it." if plain else "")
                + (" People are measured like a judge." if "the people" in names else ""),
                frozenset(columns[1:-1]),
            ),
        ),
    )


def _span(raters: list[dict[str, Any]], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    value, error = (
        np.array([row[column] for row in raters], dtype=float) for column in (name, f"{name}_error")
    )
    low, high = value - _Z * error, value + _Z * error
    if name == "spread":
        value[value > _RANDOM] = np.nan
        low = np.maximum(low, 0.0)
    return value, low, high


def _cell(row: Mapping[str, Any], name: str, form: str) -> Quantity:
    value, reach = row[name], _Z * row[f"{name}_error"]
    return (
        Quantity("∞", value)
        if isinf(value)
        else format_estimate(value, value - reach, value + reach, form)
    )


def _describe(row: Mapping[str, Any]) -> str:
    """Describe a judge in plain words."""
    severity, spread = row["severity"], row["spread"]
    if spread > _RANDOM:
        return "nearly random, with hardly any weight"
    sure = abs(severity) > _Z * row["severity_error"] and abs(severity) > _CLEAR
    side = "stricter" if severity > 0 else "more lenient"
    word = f"{side} than the panel" if sure else ""
    steady = "precise" if spread < 0.5 else "imprecise" if spread > 1 else ""
    return ", ".join(part for part in (word, steady) if part) or "like the panel"


def grades_section(results: AnnotateResults) -> Section | None:
    """Show how often each judge gives each grade."""
    counts = results.gradings.counts
    names = sorted(counts)
    if not names:
        return None
    bars = {name: counts[name] for name in names}
    if results.graded and len(results.scores.query_ids):
        bars = {_PANEL: results.scores.counts().sum(axis=0), **bars}
    figure = stacks.grade_bars(list(bars), np.stack(list(bars.values())))
    charts = [
        Chart(
            {"": figure},
            "How often each judge gave each grade. Judges that saw the same documents should "
            "differ little; a judge that always gives the same grade is of no use.",
        )
    ]
    return Section("grades", "Grades by judge", charts)
