"""A figure: any number of somebody against somebody, with its interval over queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from zelo_ray.files.tables import table_of
from zelo_ray.report import charts
from zelo_ray.report.model import Cell, Chart, Section, Table, table


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of ``figures.parquet``.

    Attributes:
        of: whose it is: a judge, a protocol, a ranker.
        against: whom it is measured against, such as ``human``; empty if nobody.
        what: its name, such as ``kappa`` or ``dollars``.
        scale: on which it is measured, such as ``0-3``; empty if there is one only.
        value: NaN where it is not defined.
        low: the lower end of its 95% interval; NaN without one.
        high: the upper end.
        p: the chance of a value as far from none, if it was tested; else NaN.
        items: documents, pairs or votes that it rests on.
        queries: of these.
    """

    of: str
    against: str
    what: str
    scale: str
    value: float
    low: float = nan
    high: float = nan
    p: float = nan
    items: int = 0
    queries: int = 0


def make_figure(
    of: str, against: str, what: str, estimate: Any, *, scale: str = "", items: int = 0
) -> Figure:
    """Return an estimate, which has value, low, high and queries, as a figure."""
    ends = (float(estimate.value), float(estimate.low), float(estimate.high), nan)
    return Figure(of, against, what, scale, *ends, int(items), int(estimate.queries))


def figures_table(figures: Sequence[Figure]) -> pa.Table:
    """Return figures as the table ``figures.parquet``."""
    return table_of(figures, Figure)


Row = Mapping[str, Any]
_ENDS = ("value", "low", "high")


@dataclass(frozen=True, slots=True)
class Shown:
    """How a report shows the figures of a name: the axis, a format, and the value of no effect.

    ``column``: whether the table has them, too; ``ends``: with their intervals.
    """

    axis: str
    form: str = ".3f"
    neutral: float | None = None
    column: bool = True
    ends: bool = True


def figures_section(
    name: str,
    title: str,
    rows: Iterable[Row],
    shown: Mapping[str, Shown],
    caption: str,
    *,
    who: str = "judge",
    against: str = "against",
    scale: str = "scale",
    items: str = "items",
    matrix: bool = False,
    file: str = "figures.parquet",
    more: Sequence[Any] = (),
) -> list[Section]:
    """Show figures as a chart, whose figure and scale the reader selects, and as a table.

    ``rows`` are of ``file``, in the order to show; those of other names are left out, and no
    section is made without any. ``shown`` is by the name of a figure, in the order of columns;
    ``who``, ``against``, ``scale`` and ``items`` are headings; ``matrix``: the chart has a cell for
    every two, and not a line for each.
    """
    figures = [row for row in rows if row["what"] in shown and not isnan(row["value"])]
    if not figures:
        return []
    groups: dict[tuple[str, str], list[Row]] = {}
    for what in shown:
        for row in pick(figures, what=what):
            groups.setdefault((what, row["scale"]), []).append(row)
    draw = _matrix if matrix else _intervals
    pictures = {key: draw(group, shown[key[0]]) for key, group in groups.items()}
    choices = {"figure": {what for what, _ in pictures}, scale: {each for _, each in pictures}}
    used = [n for n, names in enumerate(choices.values()) if len(names) > 1]
    keyed = {tuple(key[n] for n in used): picture for key, picture in pictures.items()}
    part = Chart(keyed, "", tuple([*choices][n] for n in used))
    headings = who, against, scale, items
    return [Section(name, title, [part, _table(figures, shown, headings, caption, file), *more])]


def _intervals(rows: Sequence[Row], how: Shown) -> Markup:
    series: dict[str, dict[str, Row]] = {}
    for row in rows:
        series.setdefault(row["against"], {})[row["of"]] = row
    names, nothing = [*dict.fromkeys(row["of"] for row in rows)], dict.fromkeys(_ENDS, nan)
    ends = {
        against: [[by_name.get(name, nothing)[end] for name in names] for end in _ENDS]
        for against, by_name in series.items()
    }
    return charts.intervals(names, ends, how.axis, how.neutral, form=how.form)


def _matrix(rows: Sequence[Row], how: Shown) -> Markup:
    pairs = {frozenset((row["of"], row["against"])): row for row in rows}
    names = [*dict.fromkeys(name for row in rows for name in (row["against"], row["of"]))]

    def value(a: str, b: str) -> tuple[float, str]:
        row = pairs.get(frozenset((a, b)))
        return (row["value"], f"{cell_of(row).text()}, {row['items']:,}") if row else (nan, "")

    middle = how.neutral or 0.0
    return charts.pair_matrix(names, value, low=2 * middle - 1, middle=middle)


def _table(
    rows: Sequence[Row],
    shown: Mapping[str, Shown],
    headings: tuple[str, str, str, str],
    caption: str,
    file: str,
) -> Table:
    """Return a row for each of whom, against whom and on which scale, a column for each figure."""
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row["of"], row["against"], row["scale"]), {})[row["what"]] = row
    keys = [n for n in range(3) if n == 0 or len({key[n] for key in lines}) > 1]
    columns: dict[str, Any] = {headings[n]: lambda key, n=n: key[n] for n in keys}
    tested = {row["what"] for row in rows if not isnan(row["p"])}

    def cell(key: tuple[str, str, str], what: str) -> Cell | None:
        row, how = lines[key].get(what), shown[what]
        cell_shown = cell_of(row, how.form) if row else None
        return cell_shown if not cell_shown or how.ends else cell_shown._replace(low=nan)

    for what, how in shown.items():
        if how.column and any(what in line for line in lines.values()):
            columns[what] = lambda key, what=what: cell(key, what)
        if what in tested:
            p = "p" if len(tested) == 1 else f"p of {what}"
            columns[p] = lambda key, what=what: Cell(lines[key].get(what, {"p": nan})["p"], ".2g")
    columns[headings[3]] = lambda key: max(row["items"] for row in lines[key].values())
    return table(lines, columns, caption, file=file)


def cell_of(row: Row, form: str = ".3f") -> Cell:
    """Return a figure as a cell."""
    return Cell(row["value"], form, row["low"], row["high"])


def pick(rows: Iterable[Row], **equal: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in equal.items())]


def best_first(rows: Iterable[Row]) -> list[str]:
    """Return of whom figures are, the highest first; those that are not defined come last."""

    def place(row: Row) -> tuple[float, str]:
        return inf if isnan(row["value"]) else -row["value"], row["of"]

    return [row["of"] for row in sorted(rows, key=place)]
