"""A figure: any number of somebody against somebody, with its interval over queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from zelo_ray.files.tables import table_of
from zelo_ray.report import charts
from zelo_ray.report.charts import Floats
from zelo_ray.report.model import Cell, Chart, Section, Table, Value, chart


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
    of: str, against: str, what: str, found: Any, *, scale: str = "", items: int = 0
) -> Figure:
    """Return an estimate, which has value, low, high and queries, as a figure."""
    return Figure(
        of,
        against,
        what,
        scale,
        float(found.value),
        float(found.low),
        float(found.high),
        items=int(items),
        queries=int(found.queries),
    )


def figures_table(figures: Sequence[Figure]) -> pa.Table:
    """Return figures as the table ``figures.parquet``."""
    return table_of(figures, Figure)


Row = Mapping[str, Any]


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
    scales: Mapping[str, str] | None = None,
    more: Sequence[Any] = (),
) -> Section | None:
    """Show figures as a chart, whose figure and scale the reader selects, and as a table.

    Args:
        name: the section's anchor.
        title: its heading.
        rows: of ``figures.parquet``, in the order to show; those of other names are left out.
        shown: by the name of a figure, in the order of the table's columns.
        caption: what the figures mean, and how to read them.
        who: what has figures, as the heading of its column.
        against: the same of whom they are measured against.
        scale: the same of scales.
        scales: what scales are called.
        more: further parts.
    """
    found = [row for row in rows if row["what"] in shown and not isnan(row["value"])]
    if not found:
        return None
    named = {scale: (scales or {}).get(scale, scale) for scale in {row["scale"] for row in found}}
    headings = (who, against, scale)
    parts: list[Any] = [_chart(found, shown, caption, named, scale)]
    parts.append(_table(found, shown, headings, named))
    return Section(name, title, [*parts, *more])


def _chart(
    rows: Sequence[Row],
    shown: Mapping[str, Shown],
    caption: str,
    named: Mapping[str, str],
    heading: str,
) -> Chart:
    groups: dict[tuple[str, str], list[Row]] = {}
    for what in shown:
        for row in rows:
            if row["what"] == what:
                groups.setdefault((what, named[row["scale"]]), []).append(row)
    pictures: dict[tuple[str, str], Markup] = {}
    for (what, scale), group in groups.items():
        how, names = shown[what], [*dict.fromkeys(row["of"] for row in group)]
        series: dict[str, list[Row]] = {}
        for row in group:
            series.setdefault(row["against"], []).append(row)
        columns = {against: _columns(names, each) for against, each in series.items()}
        pictures[what, scale] = charts.intervals(
            names, columns, how.axis, how.neutral, form=how.form
        )
    if len(pictures) == 1:
        return chart(next(iter(pictures.values())), caption)
    if len({scale for _, scale in pictures}) == 1:
        return chart({what: picture for (what, _), picture in pictures.items()}, caption, "figure")
    return chart(pictures, caption, "figure", heading)


def _columns(names: Sequence[str], rows: Sequence[Row]) -> tuple[Floats, Floats, Floats]:
    by_name = {row["of"]: row for row in rows}
    value, low, high = (
        np.array([by_name[name][end] if name in by_name else nan for name in names])
        for end in ("value", "low", "high")
    )
    return value, low, high


def _table(
    rows: Sequence[Row],
    shown: Mapping[str, Shown],
    headings: tuple[str, str, str],
    named: Mapping[str, str],
) -> Table:
    """Return a row for each of whom, against whom and on which scale, a column for each figure.

    Where a figure was tested, its p follows.
    """
    lines: dict[tuple[str, str, str], dict[str, Row]] = {}
    for row in rows:
        lines.setdefault((row["of"], row["against"], row["scale"]), {})[row["what"]] = row
    against = len({key[1] for key in lines}) > 1
    scaled = len({key[2] for key in lines}) > 1
    names = [
        what
        for what, how in shown.items()
        if how.column and any(what in line for line in lines.values())
    ]
    tested = any(not isnan(row["p"]) for row in rows)
    columns = [headings[0], *([headings[1]] * against), *([headings[2]] * scaled)]
    cells: list[list[Value]] = []
    for (of, whom, scale), line in lines.items():
        keys = [of, *([whom] * against), *([named[scale]] * scaled)]
        figures: list[Value] = []
        for name in names:
            cell = cell_of(line[name], shown[name].form) if name in line else None
            figures.append(cell if not cell or shown[name].ends else cell._replace(low=nan))
        p = next((row["p"] for row in line.values() if not isnan(row["p"])), nan)
        figures += [Cell(p, ".2g")] if tested else []
        cells.append([*keys, *figures, max(row["items"] for row in line.values())])
    columns += [*names, *(["p"] if tested else []), "items"]
    return Table(columns, cells, file="figures.parquet")


def cell_of(row: Row, form: str = ".3f") -> Cell:
    """Return a figure as a cell."""
    return Cell(row["value"], form, row["low"], row["high"])


def pick(rows: Iterable[Row], **equal: Any) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in equal.items())]


def best_first(rows: Iterable[Row]) -> list[str]:
    """Return of whom figures are, the highest first; those that are not defined come last."""
    order = sorted(rows, key=lambda row: (isnan(row["value"]), -row["value"], row["of"]))
    return [row["of"] for row in order]
