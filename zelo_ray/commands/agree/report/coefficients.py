"""Sections of ``agree`` on how far raters agree: with people, all together, and by pairs."""

from math import isnan

import numpy as np

from zelo_ray.commands.agree.report.results import Measured, said
from zelo_ray.formats.interchange.verdicts import HUMAN
from zelo_ray.report.charts.figures import intervals, spans
from zelo_ray.report.charts.grids import confusion, matrix
from zelo_ray.report.charts.labels import label
from zelo_ray.report.parts import Cells, Chart, Figure, Section, Table, Text
from zelo_ray.report.wording import number

_SHOWN = ("kappa", "kappa-quadratic", "alpha-ordinal", "agreement")
"""Coefficients of which tables have a column."""
_PAIRS, _ROWS = 200, 12
"""How many pairs a table names, and shows at once."""
_CONFUSIONS = 10
"""Of so many judges without people all pairs have a table of grades."""
_SCALE = ("coefficient", "scale")


def people_section(measured: Measured) -> Section | None:
    """Show the agreement of each judge with people."""
    if not measured.people:
        return None
    figures: dict[tuple[str, ...], Figure] = {}
    for name in measured.coefficients("many"):
        for scale in measured.scales:
            order = measured.ordered(scale, name)
            rows = [measured.of(HUMAN, judge, scale, name) for judge in order]
            figures[name, scale] = intervals(order, {"": spans(rows)}, f"{name}, {scale}")
    chart = Chart(
        figures,
        "How far each judge agrees with the people on the items that both judged, with its 95% "
        "interval, the closest first. A scale such as >=2 takes grades from there on as relevant.",
        _SCALE,
    )
    shown = [name for name in _SHOWN if name in measured.coefficients("many")]
    scale = measured.scales[0]
    cells: list[Cells] = []
    for judge in measured.best_first:
        rows = [measured.of(HUMAN, judge, scale, name) for name in shown]
        counts = measured.of(HUMAN, judge, scale, measured.leading)
        sizes = (f"{counts['items']:,}", f"{counts['queries']:,}")
        cells.append([Text(judge), *map(said, rows), *sizes])
    columns = ("judge", *shown, "items", "queries")
    caption = f"On the scale {scale}; agreement.parquet has all."
    table = Table(columns, cells, caption, frozenset(columns[1:]), _ROWS)
    return Section("people", "Judges and people", (chart, table))


def panel_section(measured: Measured) -> Section | None:
    """Show the agreement of all judges together."""
    names = measured.coefficients("two")
    if not (measured.panels and names):
        return None
    figures = {
        scale: intervals(
            names,
            {
                panel: spans([measured.of(panel, "", scale, name) for name in names])
                for panel in measured.panels
            },
            "coefficient",
        )
        for scale in measured.scales
    }
    chart = Chart(
        figures,
        "How far all judges agree, on what two or more of them judged, and the same with the "
        "people as one more judge. Where the people pull it down, judges are closer to each other "
        "than to people: they may share an error.",
        "scale",
    )
    return Section("panel", "The panel as a whole", (chart,))


def between_section(measured: Measured) -> Section | None:
    """Show the agreement of judges with each other."""
    names = [*([HUMAN] if measured.people else []), *measured.best_first]
    if len(measured.judges) < 2 or not measured.scales:
        return None
    figures: dict[tuple[str, ...], Figure] = {}
    for name in measured.coefficients("many"):
        for scale in measured.scales:
            values = np.array(
                [[measured.of(a, b, scale, name)["value"] for b in names] for a in names]
            )
            low = 0.0 if name == "agreement" else -1.0
            figures[name, scale] = matrix(names, values, None, (1 + low) / 2, low=low, form=_two)
    chart = Chart(
        figures,
        "Every two raters on the items that both judged"
        + (
            ", the people first and then the judges by how close they are to them."
            if measured.people
            else "."
        )
        + " Blocks of blue are judges that grade alike, often of one family: as a panel they are "
        "worth less than their number.",
        _SCALE,
    )
    scale, leading = measured.scales[0], measured.leading
    judges = measured.judges
    pairs = [(a, b) for i, a in enumerate(judges) for b in judges[i + 1 :]]
    agreements = [(a, b, measured.of(a, b, scale, leading)) for a, b in pairs]
    agreements = [entry for entry in agreements if not isnan(entry[2]["value"])]
    agreements.sort(key=lambda entry: -entry[2]["value"])
    columns = ("judge", "and", leading, "items")
    cells: list[Cells] = [
        [Text(a), Text(b), said(row), f"{row['items']:,}"] for a, b, row in agreements[:_PAIRS]
    ]
    caption = f"The closest pairs on the scale {scale}" + (
        f", the first {_PAIRS:,} of {len(agreements):,}." if len(agreements) > _PAIRS else "."
    )
    table = Table(columns, cells, caption, frozenset(columns[2:]), _ROWS)
    return Section("between", "Judges and each other", (chart, table) if cells else (chart,))


def _two(value: float) -> str:
    return number(value, ".2f")


def confusion_section(measured: Measured) -> Section | None:
    """Show which grades of one rater meet which grades of another."""
    if measured.people:
        pairs = {judge: (HUMAN, judge) for judge in measured.best_first}
    elif len(measured.judges) <= _CONFUSIONS:
        judges = measured.judges
        pairs = {f"{a} and {b}": (a, b) for i, a in enumerate(judges) for b in judges[i + 1 :]}
    else:
        return None
    levels = measured.record["options"]["levels"]
    tables: dict[tuple[str, str], np.ndarray] = {}
    for row in measured.rows("confusion"):
        if row["scale"] == measured.scales[0]:
            a, b, i, j = (row[key] for key in ("rater_a", "rater_b", "grade_a", "grade_b"))
            for key, cell in (((a, b), (i, j)), ((b, a), (j, i))):
                tables.setdefault(key, np.zeros((levels, levels), np.int64))[cell] = row["items"]
    figures = {
        name: confusion(tables[pair], f"grade of {label(pair[1])}", f"grade of {label(pair[0])}")
        for name, pair in pairs.items()
        if pair in tables and tables[pair].any()
    }
    if not figures:
        return None
    chart = Chart(
        figures,
        "How many items got which grade by the one (rows) and by the other (columns); colours are "
        "shares of a row. Agreement stands on the diagonal; what lies right of it the rater of the "
        "columns graded higher.",
        "judge" if measured.people else "judges",
    )
    return Section("confusion", "Which grades meet", (chart,))
