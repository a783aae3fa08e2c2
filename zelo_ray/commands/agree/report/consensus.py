"""Sections on trust: how often people say what a panel says, by how far its judges agree."""

from collections.abc import Mapping, Sequence
from typing import Any

from zelo_ray.commands.agree.consensus import answer, called, kinds, titled
from zelo_ray.commands.agree.report.results import Measured
from zelo_ray.fitting.calibration.consensus import ALL, GRADES, LEVELS
from zelo_ray.records import Consensus
from zelo_ray.report.charts.figures import intervals, spans
from zelo_ray.report.parts import Cells, Chart, Figure, Section, Table, Text
from zelo_ray.report.wording import estimate

TRUST = 0.97
"""From which share of words that people share a panel is taken blindly, if nothing else is said."""


def of_judges(measured: Measured) -> Section | None:
    """Show how far to trust the panel, for `agree`."""
    return consensus_section(measured.rows("consensus"), _trust(measured), _voters(measured))


def answers(measured: Measured) -> str:
    """Say when to trust the panel without people; for documents on the whole scale only."""
    sentences = []
    for (about, scale), rows in kinds(_records(measured.rows("consensus"))).items():
        sentence = answer(rows, _trust(measured), called(about, _voters(measured)))
        if sentence and (about != GRADES or "-" in scale):
            sentences.append(f"{titled(about, scale)}: {sentence}")
    return (
        f"How far to trust the panel. {'. '.join(_capital(text) for text in sentences)}."
        if sentences
        else ""
    )


def consensus_section(
    records: Sequence[Mapping[str, Any]], trust: float = TRUST, voters: int = 0
) -> Section | None:
    """Show how often people say what a panel says, by how far its judges agree.

    Args:
        records: rows of the table ``consensus``.
        trust: the share from which the panel is taken without asking people.
        voters: how many judges voted.
    """
    if not records:
        return None
    rows = _records(records)
    figures: dict[str, Figure] = {}
    cells: list[Cells] = []
    for (about, scale), group in kinds(rows).items():
        by_level = {row.level: row for row in group}
        level_rows = [by_level[level] for level in (*LEVELS, ALL) if level in by_level]
        counted_rows = [row for row in level_rows if row.items]
        title = titled(about, scale)
        level_names = called(about, voters)
        names = [level_names[row.level] for row in counted_rows]
        series = {"": spans([_columns(row) for row in counted_rows], ("same", "low", "high"))}
        notes = [f", {row.share:.0%}" for row in counted_rows]
        figures[title] = intervals(names, series, "people say the same", trust, notes=notes)
        for row in level_rows:
            same = estimate(row.same, row.low, row.high)
            counts = (f"{row.items:,}", "" if about == GRADES else f"{row.tied:,}")
            cells.append(
                [Text(title), Text(level_names[row.level]), f"{row.share:.1%}", same, *counts]
            )
    caption = (
        "How often people say what most judges say, by how many of the judges do; the share of all "
        f"pairs or documents stands behind each. The dotted line is {trust:g}, from which the "
        "panel's word may be taken blindly: where an interval lies right of it."
    )
    columns = ("of", "judges", "share", "people say the same", "of so many", "people tie")
    note = (
        "Pairs that people tie are left out, and counted. A pair on which as many judges say the "
        "one as the other is half right; a judge that ties does not agree. Intervals are 95%, over "
        "queries."
    )
    table = Table(columns, cells, note, frozenset(columns[2:]), 6)
    return Section("consensus", "When the judges agree", (Chart(figures, caption, "of"), table))


def _records(rows: Sequence[Mapping[str, Any]]) -> list[Consensus]:
    return [Consensus(**row) for row in rows]


def _columns(row: Consensus) -> dict[str, float]:
    return {name: getattr(row, name) for name in ("same", "low", "high")}


def _trust(measured: Measured) -> float:
    return float(measured.record["options"].get("trust", TRUST))


def _voters(measured: Measured) -> int:
    return len(measured.record.get("voters", ()))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
