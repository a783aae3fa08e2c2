"""The section of a bake-off on people's labels: what they change, and how sure that is."""

from collections.abc import Sequence

import numpy as np

from zelo_ray.commands.bakeoff.significance import significance_of, turned
from zelo_ray.present.html.contest import Contest
from zelo_ray.present.html.figures import intervals
from zelo_ray.present.html.page import Cells, Chart, Figure, Section, Table, Text, interval, number
from zelo_ray.present.people import by_estimate, heading, leading, remarks, sentences
from zelo_ray.records import Comparison, Estimate

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
    told = [*remarks(people)]
    if people["way"]:
        found = by_estimate(contest.every_comparison, people["measures"][0])
        confidence = contest.run["options"]["confidence"]
        told = [heading(people), *[*sentences(found, people, confidence)][:_LEAD], *told]
    return told


def people_section(contest: Contest) -> Section | None:
    """Show the difference of every two arms by the panel, by people, and by both together."""
    people = contest.summary.get("people")
    if not (people and people["way"]):
        return None
    figures: dict[str, Figure] = {}
    rows: list[Comparison] = []
    for measure in people["measures"]:
        found = by_estimate(contest.every_comparison, measure)
        figures[measure] = _forest(found, measure, people["leader"])
        rows += found.get("corrected", ())
    chart = Chart(
        figures,
        "By how much the arm that leads by the corrected measure is above each other one, with "
        "intervals. A corrected point is filled where the difference is sure after correction for "
        "all comparisons. The measure is divided by the ideal of the panel's grades in every case.",
        "measure",
    )
    return Section("people", "What people's labels change", (chart, _table(contest, rows)))


def _forest(found: dict[Estimate, list[Comparison]], measure: str, best: str) -> Figure:
    rivals = leading(found.get("corrected", ()), best)
    series = {}
    for estimate, name in _CALLED.items():
        of = {one.run_b: one for one in found.get(estimate, ()) if one.run_a == best}
        of |= {one.run_a: turned(one) for one in found.get(estimate, ()) if one.run_b == best}
        if of:
            rows = [of[one.run_b] for one in rivals]
            ends = ([getattr(one, end) for one in rows] for end in ("difference", "low", "high"))
            value, low, high = (np.array(end, dtype=float) for end in ends)
            series[name] = (value, low, high)
    hollow = {i for i, one in enumerate(rivals) if not significance_of(one).is_significant}
    title = f"{best} minus the other, {measure}"
    return intervals([one.run_b for one in rivals], series, title, 0.0, hollow=hollow)


def _table(contest: Contest, rows: Sequence[Comparison]) -> Table:
    """List every corrected comparison beside that of the panel alone."""
    alone = {
        (one.run_a, one.run_b, one.measure): one
        for measure in {row.measure for row in rows}
        for estimate, found in by_estimate(contest.every_comparison, measure).items()
        if estimate in ("panel", "graded")
        for one in found
    }
    cells: list[Cells] = []
    for one in rows:
        panel = alone[one.run_a, one.run_b, one.measure]
        sure = "significant" if significance_of(one).is_significant else "not significant"
        cells.append(
            [
                *(Text(one.run_a), Text(one.run_b), one.measure, sure),
                *(number(one.difference, "+.4f"), interval(one.low, one.high, "+.4f")),
                *(number(panel.difference, "+.4f"), interval(panel.low, panel.high, "+.4f")),
                f"{one.p_holm:.3g}",
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
