"""The section of a bake-off on people's labels: what they change, and how sure that is."""

from collections.abc import Sequence

import numpy as np

from zelo_ray.commands.bakeoff.report.people import (
    by_estimate,
    heading,
    leading,
    remarks,
    sentences,
)
from zelo_ray.commands.bakeoff.report.results import Contest
from zelo_ray.commands.bakeoff.significance import significance_of, turned
from zelo_ray.records import Comparison, Estimate
from zelo_ray.report.charts.figures import intervals
from zelo_ray.report.parts import Cells, Chart, Figure, Section, Table, Text
from zelo_ray.report.wording import interval, number

_CALLED: dict[Estimate, str] = {
    "corrected": "the panel, corrected by people",
    "panel": "the panel alone",
    "graded": "the panel's scores as grades",
    "people": "people's labels alone",
}
_LEAD, _OPEN = 3, 30


def people_sentences(contest: Contest) -> list[str]:
    """Return the sentences on people's labels for the top of the page."""
    people = contest.summary.get("people")
    if not people:
        return []
    lines = [*remarks(people)]
    if people["way"]:
        comparisons = by_estimate(contest.every_comparison, people["measures"][0])
        confidence = contest.run["options"]["confidence"]
        lines = [heading(people), *[*sentences(comparisons, people, confidence)][:_LEAD], *lines]
    return lines


def people_section(contest: Contest) -> Section | None:
    """Show the difference of every two arms by the panel, by people, and by both together."""
    people = contest.summary.get("people")
    if not (people and people["way"]):
        return None
    figures: dict[str, Figure] = {}
    rows: list[Comparison] = []
    for measure in people["measures"]:
        comparisons = by_estimate(contest.every_comparison, measure)
        figures[measure] = _forest(comparisons, measure, people["leader"])
        rows += comparisons.get("corrected", ())
    chart = Chart(
        figures,
        "By how much the arm that leads by the corrected measure is above each other one, with "
        "intervals. A corrected point is filled where the difference is sure after correction for "
        "all comparisons. The measure is divided by the ideal of the panel's grades in every case.",
        "measure",
    )
    return Section("people", "What people's labels change", (chart, _table(contest, rows)))


def _forest(by_estimate: dict[Estimate, list[Comparison]], measure: str, best: str) -> Figure:
    rivals = leading(by_estimate.get("corrected", ()), best)
    series = {}
    for estimate, name in _CALLED.items():
        of = {row.run_b: row for row in by_estimate.get(estimate, ()) if row.run_a == best}
        of |= {row.run_a: turned(row) for row in by_estimate.get(estimate, ()) if row.run_b == best}
        if of:
            rows = [of[row.run_b] for row in rivals]
            ends = ([getattr(row, end) for row in rows] for end in ("difference", "low", "high"))
            value, low, high = (np.array(end, dtype=float) for end in ends)
            series[name] = (value, low, high)
    hollow = {i for i, row in enumerate(rivals) if not significance_of(row).is_significant}
    title = f"{best} minus the other, {measure}"
    return intervals([row.run_b for row in rivals], series, title, 0.0, hollow=hollow)


def _table(contest: Contest, rows: Sequence[Comparison]) -> Table:
    """List every corrected comparison beside that of the panel alone."""
    alone = {
        (pair.run_a, pair.run_b, pair.measure): pair
        for measure in {row.measure for row in rows}
        for estimate, comparisons in by_estimate(contest.every_comparison, measure).items()
        if estimate in ("panel", "graded")
        for pair in comparisons
    }
    cells: list[Cells] = []
    for comparison in rows:
        panel = alone[comparison.run_a, comparison.run_b, comparison.measure]
        sure = "significant" if significance_of(comparison).is_significant else "not significant"
        cells.append(
            [
                *(Text(comparison.run_a), Text(comparison.run_b), comparison.measure, sure),
                *(
                    number(comparison.difference, "+.4f"),
                    interval(comparison.low, comparison.high, "+.4f"),
                ),
                *(number(panel.difference, "+.4f"), interval(panel.low, panel.high, "+.4f")),
                f"{comparison.p_holm:.3g}",
            ]
        )
    numbers = ("A minus B", "interval", "panel alone", "its interval", "p (Holm)")
    caption = (
        "Corrected differences (prediction-powered: Angelopoulos et al. 2023; Oosterhuis et al. "
        "2024), and what the panel alone said. comparisons.parquet has all three estimates."
    )
    return Table(
        ("A", "B", "measure", "they are", *numbers), cells, caption, frozenset(numbers), _OPEN
    )
