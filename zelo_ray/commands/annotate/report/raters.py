"""Sections of an annotation run on how its judges grade: each beside the panel, and by pairs."""

from collections.abc import Mapping
from math import isinf, isnan
from typing import Any

import numpy as np

from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.evaluation.wilson import wilson
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.formats.wording import counted
from zelo_ray.protocols.graded import is_plain
from zelo_ray.reports.charts import stacks
from zelo_ray.reports.charts.figures import intervals
from zelo_ray.reports.charts.grids import matrix
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section, TextCell
from zelo_ray.reports.wording import Quantity, estimate, number

_Z = 1.959964
_CLEAR = 0.2  # a severity that is worth a word, in standard deviations of relevance
_RANDOM = 3.0  # a spread from which on grades tell next to nothing
_COEFFICIENTS = {
    "kappa, quadratic weights": "kappa-quadratic",
    "kappa": "kappa",
    "share of equal grades": "agreement",
}
_PANEL = "the panel's word"
_MODELLED = "The panel's word takes this out."
_PLAIN = "The panel's word takes every judge alike, and does not take this out."


def _weight(row: Mapping[str, Any]) -> float:
    """Return a sort key that puts the heaviest judges first and unknown weights last."""
    return 1.0 if isnan(row["weight"]) else -float(row["weight"])


def raters_section(results: AnnotateResults) -> Section | None:
    """Show the severity, spread and weight of each judge."""
    raters = sorted(results.learned("raters"), key=_weight)
    if not raters:
        return None
    plain = is_plain(results.options)
    names = ["the people" if row["judge"] == HUMAN else row["judge"] for row in raters]
    harsh = intervals(names, {"": _span(raters, "severity")}, "severity", 0.0)
    spread = intervals(names, {"": _span(raters, "spread")}, "spread")
    columns = ("judge", "severity", "spread", "weight", "grades", "it is")
    cells: list[Cells] = [
        [
            *(TextCell(name), _cell(row, "severity", "+z.2f"), _cell(row, "spread", ".2f")),
            *(number(row["weight"], ".1%"), f"{row['grades']:,}", TextCell(_describe(row))),
        ]
        for name, row in zip(names, raters, strict=True)
    ]
    return Section(
        "raters",
        "How the judges grade",
        (
            Chart(
                {"": harsh},
                "How much more relevant than for the panel a document must be for the same grade, "
                "in standard deviations of relevance, with a 95% interval: right of 0 is harsher, "
                f"left of it kinder. {_PLAIN if plain else _MODELLED}",
            ),
            Chart(
                {"": spread},
                "The standard deviation of a judge's error on the same scale, with a 95% interval: "
                "left is steadier. At 1 it errs as much as documents differ; a judge that is as "
                "good as random has no point here, for its error has no end.",
            ),
            ReportTable(
                columns,
                cells,
                "The weight is a judge's share of what all grades tell."
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
        else estimate(value, value - reach, value + reach, form)
    )


def _describe(row: Mapping[str, Any]) -> str:
    """Describe a judge in plain words."""
    severity, spread = row["severity"], row["spread"]
    if spread > _RANDOM:
        return "as good as random, and hardly heard"
    sure = abs(severity) > _Z * row["severity_error"] and abs(severity) > _CLEAR
    word = ("harsher than the panel" if severity > 0 else "kinder than the panel") if sure else ""
    steady = "steady" if spread < 0.5 else "unsteady" if spread > 1 else ""
    return ", ".join(part for part in (word, steady) if part) or "like the panel"


def grades_section(results: AnnotateResults) -> Section | None:
    """Show how often each judge gives each grade, and agreement within and between judges."""
    counts = results.gradings.counts
    names = sorted(counts)
    if not names:
        return None
    bars = {name: counts[name] for name in names}
    if results.graded and len(results.scores.query_ids):
        bars = {_PANEL: results.scores.counts().sum(axis=0), **bars}
    figure = stacks.rows(list(bars), np.stack(list(bars.values())))
    charts = [
        Chart(
            {"": figure},
            "How often each judge gave which grade. Judges that saw the same documents should "
            "differ little; one that gives one grade throughout tells nothing.",
        )
    ]
    charts += _agreement(results, names) + _repeats(results)
    return Section("grades", "Grades by judge", charts)


def _agreement(results: AnnotateResults, names: list[str]) -> list[Chart]:
    gradings = results.gradings
    if not gradings.confusion or not any(table.any() for table in gradings.confusion.values()):
        return []
    figures = {}
    for title, coefficient in _COEFFICIENTS.items():
        values = np.full((len(names), len(names)), np.nan)
        hover = [[""] * len(names) for _ in names]
        for i, first in enumerate(names):
            for j, second in enumerate(names):
                if i != j:
                    values[i, j], on = gradings.agreement(first, second, coefficient)
                    text = f"{number(values[i, j], '.3f')} on {counted(on, 'document')}"
                    hover[i][j] = f"{first} and {second}: {text}"
        low = 0.0 if coefficient == "agreement" else -1.0
        figures[title] = matrix(names, values, hover, (1 + low) / 2, low=low, form=_two)
    caption = (
        "How far two judges agree on the documents that both graded. Kappa takes off what chance "
        "would reach: 0 is no better than chance, 1 the same grades throughout; with quadratic "
        "weights a difference of one grade counts a ninth of one of three. zelo-ray agree has more "
        "coefficients, with intervals."
    )
    return [Chart(figures, caption, "measure")]


def _two(value: float) -> str:
    return number(value, ".2f")


def _repeats(results: AnnotateResults) -> list[Chart]:
    repeated = results.gradings.repeated
    if not repeated:
        return []
    names = sorted(repeated)
    documents, alike = np.array([repeated[name] for name in names], dtype=float).T
    low, high = wilson(alike / documents, documents)
    figure = intervals(names, {"": (alike / documents, low, high)}, "share graded the same")
    return [
        Chart(
            {"": figure},
            "On which share of the documents that a judge was asked about several times it gave "
            "the same grade every time, with a 95% interval.",
        )
    ]
