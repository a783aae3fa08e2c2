"""Sections of ``agree`` on how far raters agree: with people, all together, and by pairs."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from math import isnan

import numpy as np

from zelo_ray.commands.agree.report.results import (
    AgreementTables,
    estimate_of,
    two_decimals,
)
from zelo_ray.evaluation.agreement import scale_name
from zelo_ray.files.judges import HUMAN
from zelo_ray.files.wording import counted
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.charts.grids import confusion, matrix
from zelo_ray.reports.charts.labels import label
from zelo_ray.reports.parts import Cells, Chart, Figure, ReportTable, Section, TextCell

_OF_TWO = ("kappa-quadratic", "kappa", "alpha-ordinal", "agreement")
_OF_MANY = ("fleiss", "alpha-ordinal", "ac2-quadratic")
"""Coefficients that have a column in tables, if they were computed."""
_SHOWN = 3
"""The number of columns if none of these was computed."""
_PAIRS, _ROWS, _FARTHEST = 200, 12, 5
"""Pairs that a table has and shows at once, and pairs of the table of least agreement."""
_CONFUSIONS, _TABLES = 10, 3
"""Without people, up to so many judges all pairs have a chart of grades, or a table."""
_SCALE = ("coefficient", "scale")
_FILE = "agreement.parquet"
_Key = tuple[Sequence[str], str, str, str]


def people_section(tables: AgreementTables) -> Section | None:
    """Show the agreement of each judge with people."""
    if not tables.has_people:
        return None
    figures: dict[tuple[str, ...], Figure] = {}
    for name in tables.coefficients("many"):
        for scale in tables.scales:
            order = tables.ordered(scale, name)
            rows = [tables.agreement_of(HUMAN, judge, scale, name) for judge in order]
            figures[name, scale] = intervals(order, {"": spans(rows)}, f"{name}, {scale}")
    chart = Chart(
        figures,
        "How far each judge agrees with people on the items that both judged, with 95% "
        "intervals, the best first. A scale such as >=2 counts grades from there on as relevant.",
        _SCALE,
    )
    scale, *cuts = tables.scales
    keys: list[_Key] = [([judge], HUMAN, judge, scale) for judge in tables.best_first]
    parts: list[Chart | ReportTable] = [chart]
    parts.append(_table(tables, ["judge"], _of_two(tables), keys, f"On the scale {scale}."))
    if cuts:
        cells: list[Cells] = [
            [
                TextCell(judge),
                *(
                    estimate_of(tables.agreement_of(HUMAN, judge, cut, tables.leading))
                    for cut in cuts
                ),
            ]
            for judge in tables.best_first
        ]
        caption = f"{tables.leading} of grades from the cut on, or below: relevant or not."
        parts.append(
            ReportTable(["judge", *cuts], cells, caption, frozenset(cuts), _ROWS, file=_FILE),
        )
    return Section("people", "Judges and people", parts)


def _of_two(tables: AgreementTables) -> list[str]:
    names = tables.coefficients("many")
    return [name for name in _OF_TWO if name in names] or names[:_SHOWN]


def _table(
    tables: AgreementTables,
    labels: Sequence[str],
    coefficients: Sequence[str],
    keys: Iterable[_Key],
    caption: str,
) -> ReportTable:
    """Return a table of coefficients with a row for each key.

    Args:
        tables: what was measured.
        labels: names of the first columns.
        coefficients: the other columns, before items and queries.
        keys: the texts of the first columns, two raters (or a panel and ""), and the scale.
        caption: how to read it.
    """
    cells: list[Cells] = []
    for texts, a, b, scale in keys:
        rows = [tables.agreement_of(a, b, scale, name) for name in coefficients]
        sizes = (f"{rows[0]['items']:,}", f"{rows[0]['queries']:,}")
        cells.append([*map(TextCell, texts), *map(estimate_of, rows), *sizes])
    columns = (*labels, *coefficients, "items", "queries")
    return ReportTable(
        columns, cells, caption, frozenset(columns[len(labels) :]), _ROWS, file=_FILE
    )


def panel_section(tables: AgreementTables) -> Section | None:
    """Show the agreement of all judges together."""
    names = tables.coefficients("two")
    if not (tables.panels and names):
        return None
    figures = {
        scale: intervals(
            names,
            {
                panel: spans([tables.agreement_of(panel, "", scale, name) for name in names])
                for panel in tables.panels
            },
            "coefficient",
        )
        for scale in tables.scales
    }
    chart = Chart(
        figures,
        "How far all judges agree, without people and with people as one more judge. If it is "
        "lower with people, judges are closer to each other than to people: they may share an "
        "error.",
        "scale",
    )
    keys: list[_Key] = [
        ([panel, scale], panel, "", scale) for panel in tables.panels for scale in tables.scales
    ]
    shown = [name for name in _OF_MANY if name in names] or names[:_SHOWN]
    caption = f"{counted(len(tables.panel), 'judge')}, on what two or more raters judged."
    table = _table(tables, ["panel", "scale"], shown, keys, caption)
    return Section("panel", "The panel as a whole", (chart, table))


def between_section(tables: AgreementTables) -> Section | None:
    """Show the agreement of judges with each other."""
    if len(tables.judges) < 2 or not tables.leading:
        return None
    names = [*([HUMAN] if tables.has_people else []), *tables.best_first]
    figures: dict[tuple[str, ...], Figure] = {}
    for name in tables.coefficients("many"):
        for scale in tables.scales:
            values = np.array(
                [[tables.agreement_of(a, b, scale, name)["value"] for b in names] for a in names]
            )
            low = 0.0 if name == "agreement" else -1.0
            figures[name, scale] = matrix(
                names, values, None, (1 + low) / 2, low=low, form=two_decimals
            )
    order = ", people first, then the judges by their agreement with people"
    chart = Chart(
        figures,
        f"Every two raters on the items that both judged{order if tables.has_people else ''}. "
        "Blocks of blue are judges that grade alike, often of one model family: as a panel they "
        "are worth fewer than their number.",
        _SCALE,
    )
    return Section("between", "Judges and each other", (chart, *_pair_tables(tables)))


def _pair_tables(tables: AgreementTables) -> Iterator[ReportTable]:
    """Yield the pairs that agree most, and if there are many, those that agree least."""
    scale = tables.scales[0]
    values = {
        pair: tables.agreement_of(*pair, scale, tables.leading)["value"]
        for pair in combinations(tables.judges, 2)
    }
    pairs = sorted((pair for pair in values if not isnan(values[pair])), key=lambda p: -values[p])
    keys: list[_Key] = [((a, b), a, b, scale) for a, b in pairs]
    first = f", the first {_PAIRS:,} of {len(keys):,}" if len(keys) > _PAIRS else ""
    caption = f"The highest agreement first, on the scale {scale}{first}."
    columns = ("judge", "and")
    if keys:
        yield _table(tables, columns, _of_two(tables), keys[:_PAIRS], caption)
    if len(keys) > _ROWS:
        farthest = keys[: -_FARTHEST - 1 : -1]
        yield _table(tables, columns, _of_two(tables), farthest, "The lowest agreement first.")


def confusion_section(tables: AgreementTables) -> Section | None:
    """Show confusion matrices: grades of one rater against grades of another."""
    judges = tables.best_first
    if tables.has_people:
        pairs = {judge: (HUMAN, judge) for judge in judges}
    elif len(judges) <= _CONFUSIONS:
        pairs = {f"{a} and {b}": (a, b) for a, b in combinations(judges, 2)}
    else:
        return None
    levels = tables.record["options"]["levels"]
    counts: dict[tuple[str, str], np.ndarray] = {}
    for row in tables.rows("confusion"):
        if row["scale"] == scale_name(levels):
            a, b, i, j = (row[key] for key in ("rater_a", "rater_b", "grade_a", "grade_b"))
            for key, cell in (((a, b), (i, j)), ((b, a), (j, i))):
                counts.setdefault(key, np.zeros((levels, levels), np.int64))[cell] = row["items"]
    pairs = {name: pair for name, pair in pairs.items() if pair in counts and counts[pair].any()}
    if not pairs:
        return None
    figures = {
        name: confusion(counts[pair], f"grade of {label(pair[1])}", f"grade of {label(pair[0])}")
        for name, pair in pairs.items()
    }
    chart = Chart(
        figures,
        "How many items have which grade by the one (rows) and the other (columns); colours are "
        "shares of a row. Agreement is on the diagonal; right of it, the rater of the columns "
        "graded higher.",
        "judge" if tables.has_people else "judges",
    )
    of_table = [*pairs.values()][: None if len(pairs) <= _TABLES else int(tables.has_people)]
    table = _confusion_table(of_table, counts)
    return Section("confusion", "Confusion matrices", (chart, table) if of_table else (chart,))


def _confusion_table(
    pairs: Sequence[tuple[str, str]], counts: dict[tuple[str, str], np.ndarray]
) -> ReportTable:
    cells: list[Cells] = []
    for a, b in pairs:
        for grade, row in enumerate(counts[a, b]):
            cells.append([TextCell(b), TextCell(a), f"{grade:,}", *(f"{n:,}" for n in row)])
    grades = [f"by it {grade}" for grade in range(len(counts[pairs[0]]))] if pairs else []
    columns = ("judge", "beside", "grade", *grades)
    caption = "Items by the grade of the other rater (rows) and of the judge (columns)."
    return ReportTable(columns, cells, caption, frozenset(columns[2:]), file="confusion.parquet")
