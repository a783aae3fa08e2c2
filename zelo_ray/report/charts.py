"""Draw charts as SVG and HTML that need no script and fit any width.

Places along the width are percentages, so that letters keep their size when a page is narrow.
Colours are variables of the page's style. Values stand in ``<title>``, where a pointer finds them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise, zip_longest
from math import ceil, floor, log10

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike, NDArray

from zelo_ray.report.model import Cell, without_place, write_number

Floats = NDArray[np.float64]
GRADES = ("0 irrelevant", "1 marginal", "2 relevant", "3 highly relevant")
"""What grades are called."""

_COLOURS = 8
_LINE, _TEXT = 13, 16
"""Pixels of the line of a point, and of the name above it."""
_TICKS = 5
_NAME = 60
"""Characters of a name on a chart; the whole of it is its title."""
_BINS = 40
_BLANK = "<td></td>"
_POINTS = 2000
"""Points of a scatter plot; of more a sample is drawn."""


def intervals(
    names: Sequence[str],
    series: Mapping[str, Sequence[ArrayLike]],
    title: str,
    line_at: float | None = None,
    *,
    notes: Sequence[str] = (),
    hollow: Collection[int] = (),
    form: str = ".3f",
) -> Markup:
    """Draw points with intervals: a row for each name, a colour for each series.

    Args:
        names: of the rows.
        series: values, and the lower and upper ends of their intervals, [names] each, by name.
        title: of the axis.
        line_at: where a line stands for no difference.
        notes: what follows the names, in a lighter colour.
        hollow: places of names whose points are rings.
        form: of numbers.
    """
    tables = {
        name: np.array([np.asarray(column, np.float64) for column in columns]).reshape(3, -1)
        for name, columns in series.items()
    }
    known = np.concatenate([table.ravel() for table in tables.values()] or [np.zeros(0)])
    scale = _Scale.of(known if line_at is None else np.append(known, line_at))
    height, marks = 4, list[Markup]()
    for place, (name, note) in enumerate(zip_longest(names, notes, fillvalue="")):
        height += _TEXT
        marks.append(_label(name, height - 5, note))
        for number, (label, table) in enumerate(tables.items()):
            figure = Cell(
                float(table[0, place]), form, float(table[1, place]), float(table[2, place])
            )
            told = f"{name}, {label}: {figure.text()}" if label else f"{name}: {figure.text()}"
            kind = f"c{number % _COLOURS}" + (" hollow" if place in hollow else "")
            marks.append(_interval(figure, scale, height + 4, kind, told))
            height += _LINE
        height += 2
    lines = [] if line_at is None else [scale.line(line_at, height, "zero")]
    body = Markup("").join([scale.grid(height), *lines, *marks, scale.axis(height, title)])
    keys = [*tables] if len(tables) > 1 else []
    return _legend(keys) + _svg(body, height + 36)


def _interval(figure: Cell, scale: "_Scale", y: float, kind: str, told: str) -> Markup:
    if figure.value is None or np.isnan(figure.value):
        return Markup("")
    bar = Markup("")
    if not np.isnan(figure.low):
        bar = Markup('<line x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            scale.at(figure.low), scale.at(figure.high), y, y
        )
    point = Markup('<circle cx="{}" cy="{}" r="4.5"/>').format(scale.at(figure.value), y)
    return Markup('<g class="{}"><title>{}</title>{}{}</g>').format(kind, told, bar, point)


def histogram(values: ArrayLike, title: str, of: str, bins: int = _BINS) -> Markup:
    """Draw how often values occur; ``of`` is the noun for what is counted."""
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    counts, edges = np.histogram(known, bins=bins)
    scale = _Scale.of(edges)
    parts = [*zip(counts.tolist(), pairwise(edges.tolist()), strict=True)]
    told = [f"{n:,} {of} from {low:.2f} to {high:.2f}" for n, (low, high) in parts]
    spans = [(scale.percent(low), scale.percent(high)) for _, (low, high) in parts]
    bars, height = _bars(counts, spans, told)
    return _svg(bars + scale.axis(height, f"{title} ({of} by value)"), height + 36)


def columns(
    names: Sequence[str], counts: Sequence[int], of: str, *, grades: bool = False
) -> Markup:
    """Draw a column for each name, with its share; ``of`` is the noun for what is counted."""
    total, width = max(1, sum(counts)), 100 / max(1, len(names))
    told = [f"{name}: {n:,} {of}, {n / total:.1%}" for name, n in zip(names, counts, strict=True)]
    spans = [((i + 0.1) * width, (i + 0.9) * width) for i in range(len(names))]
    bars, height = _bars(np.asarray(counts), spans, told, grades=grades)
    words = [
        Markup('<text class="middle" x="{}%" y="{}">{}</text>').format(
            f"{(a + b) / 2:.2f}", y, text
        )
        for (a, b), name, n in zip(spans, names, counts, strict=True)
        for y, text in ((height + 15, name), (height + 30, f"{n / total:.0%}"))
    ]
    return _svg(bars + Markup("").join(words), height + 36)


def _bars(
    counts: NDArray[np.int64],
    spans: Sequence[tuple[float, float]],
    told: Sequence[str],
    *,
    grades: bool = False,
) -> tuple[Markup, int]:
    """Return bars that stand on a line, and the height of that line."""
    height, top = 180, max(1, int(counts.max(initial=0)))
    bars = [
        Markup(
            '<rect class="{}" x="{}%" width="{}%" y="{}" height="{}"><title>{}</title></rect>'
        ).format(
            f"g{i}" if grades else "c0",
            f"{low:.3f}",
            f"{max(0.1, high - low):.3f}",
            f"{height - (height - 20) * n / top:.1f}",
            f"{(height - 20) * n / top:.1f}",
            text,
        )
        for i, ((low, high), n, text) in enumerate(zip(spans, counts.tolist(), told, strict=True))
    ]
    most = Markup('<text class="dim" x="0" y="12">{}</text>').format(f"{top:,}")
    return Markup("").join([*bars, most]), height


def scatter(
    points: Sequence[tuple[str, Cell, Cell]], across: str, up: str, *, diagonal: bool = False
) -> Markup:
    """Draw points, each with a name and its figures on the two axes, whose intervals are lines.

    ``diagonal`` draws the line of equal values, and both axes alike.
    """
    points = points[:: ceil(len(points) / _POINTS) or 1]
    x = _Scale.of(_ends([cell for _, cell, _ in points]))
    y = _Scale.of(_ends([cell for _, _, cell in points]))
    if diagonal:
        x = y = _Scale(min(x.low, y.low), max(x.high, y.high))
    height, marks = 320, [Markup("")]
    if diagonal:
        marks.append(Markup('<line class="zero" x1="2%" x2="98%" y1="98%" y2="2%"/>'))
    for name, first, second in points:
        told = f"{name}: {across} {first.text()}, {up} {second.text()}"
        at = (x.percent(first.value or 0), 100 - y.percent(second.value or 0))
        lines = [Markup('<circle cx="{:.2f}%" cy="{:.2f}%" r="4.5"/>').format(*at)]
        if not np.isnan(first.low):
            ends = x.percent(first.low), x.percent(first.high)
            lines.append(_line((ends[0], at[1]), (ends[1], at[1])))
        if not np.isnan(second.low):
            ends = 100 - y.percent(second.low), 100 - y.percent(second.high)
            lines.append(_line((at[0], ends[0]), (at[0], ends[1])))
        title = Markup("<title>{}</title>").format(told)
        marks.append(Markup('<g class="c0">{}{}</g>').format(title, Markup("").join(lines)))
    plot = Markup('<svg width="100%" height="{}">{}</svg>').format(height, Markup("").join(marks))
    caption = Markup('<text class="dim" x="0" y="11">{}</text>').format(f"upright: {up}, {y.span}")
    body = x.grid(height + 16) + caption + Markup('<svg y="16">{}</svg>').format(plot)
    body += x.axis(height + 16, across)
    return _svg(body, height + 52)


def _ends(cells: Sequence[Cell]) -> Floats:
    return np.array([(cell.value, cell.low, cell.high) for cell in cells], np.float64)


def _line(start: tuple[float, float], end: tuple[float, float]) -> Markup:
    return Markup('<line x1="{:.2f}%" y1="{:.2f}%" x2="{:.2f}%" y2="{:.2f}%"/>').format(
        *start, *end
    )


def matrix(
    rows: Sequence[str],
    across: Sequence[str],
    values: Floats,
    *,
    low: float = 0.0,
    high: float = 1.0,
    middle: float | None = None,
    told: Callable[[int, int], str] | None = None,
    form: str = ".2f",
    grades: bool = False,
) -> Markup:
    """Build a table of tinted cells; NaN is blank.

    Args:
        rows: their names.
        across: the names of the columns.
        values: [rows, columns].
        low: the value with the strongest colour of loss, or without one where there is no middle.
        high: the value with the strongest colour of a win.
        middle: the value without a colour.
        told: what is said of a cell, by its row and column.
        form: of the numbers, which stand in up to 12 columns; empty: never.
        grades: whether values are grades, with colours of their own.
    """
    numbered = bool(form) and len(across) <= 12
    head = Markup("").join(Markup("<th>{}</th>").format(_short(name, 18)) for name in across)
    lines = []
    for i, name in enumerate(rows):
        cells = []
        for j, (column, value) in enumerate(zip(across, values[i].tolist(), strict=True)):
            kind, style = _tinted(value, low, high, middle, grades)
            text = write_number(value, form) if numbered and kind else ""
            title = escape(told(i, j) if told else f"{name}, {column}")  # a format takes long
            cells.append(
                f'<td class="{kind}"{style} title="{title}">{text}</td>' if kind else _BLANK
            )
        row = Markup("".join(cells))  # noqa: S704 - titles are escaped, and all else is ours
        lines.append(
            Markup('<tr><th title="{}">{}</th>{}</tr>').format(name, _short(name, 30), row)
        )
    frame = Markup(
        '<div class="wide"><table class="matrix"><thead><tr><th></th>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>"
    )
    return frame.format(head, Markup("").join(lines))


def pair_matrix(
    names: Sequence[str],
    of: Callable[[str, str], tuple[float, str]],
    *,
    low: float = 0.0,
    middle: float = 0.5,
    form: str = ".2f",
) -> Markup:
    """Build the matrix of a value of every two names, and of what is said of it."""
    found = [[of(a, b) if a != b else (np.nan, "") for b in names] for a in names]
    values = np.array([[value for value, _ in row] for row in found]).reshape(len(names), -1)
    return matrix(
        names,
        names,
        values,
        low=low,
        middle=middle,
        form=form,
        told=lambda i, j: f"{names[i]} and {names[j]}: {found[i][j][1]}" if i != j else "",
    )


def _tinted(
    value: float, low: float, high: float, middle: float | None, grades: bool
) -> tuple[str, str]:
    """Return the class and the style of a cell: how much of the colour of a win or loss it has."""
    if value != value:  # noqa: PLR0124 - NaN
        return "", ""
    if grades:
        return f"g{round(value)}", ""
    base = low if middle is None else middle
    reach = (high - base) if value >= base else (base - low)
    share = min(1.0, abs(value - base) / reach) if reach else 0.0
    return "won" if value >= base else "lost", f' style="--part:{100 * share:.0f}%"'


class _Scale:
    """An axis across the width, from 2% to 98% of it."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, values: Floats) -> "_Scale":
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        room = (high - low) * 0.03 or 0.5
        return cls(low - room, high + room)

    def percent(self, value: float) -> float:
        return 2 + 96 * (value - self.low) / (self.high - self.low)

    def at(self, value: float) -> str:
        return f"{self.percent(value):.2f}%"

    @property
    def ticks(self) -> list[float]:
        """Return round values on the axis."""
        raw = (self.high - self.low) / _TICKS
        power = 10.0 ** floor(log10(raw))
        step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= raw)
        first, last = ceil(self.low / step), floor(self.high / step)
        return [round(n * step, 10) for n in range(first, last + 1)]

    @property
    def span(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}"

    def line(self, value: float, height: float, kind: str) -> Markup:
        return Markup('<line class="{}" x1="{}" x2="{}" y1="0" y2="{}"/>').format(
            kind, self.at(value), self.at(value), height
        )

    def grid(self, height: float) -> Markup:
        return Markup("").join(self.line(tick, height, "grid") for tick in self.ticks)

    def axis(self, height: float, title: str) -> Markup:
        """Return the numbers below a chart, and the title of the axis."""
        words = [
            Markup('<text class="middle dim" x="{}" y="{}">{}</text>').format(
                self.at(tick), height + 14, f"{tick:g}"
            )
            for tick in self.ticks
        ]
        name = Markup('<text class="middle" x="50%" y="{}">{}</text>').format(height + 30, title)
        return Markup("").join([*words, name])


def _label(name: str, y: float, note: str) -> Markup:
    more = Markup(' <tspan class="dim">{}</tspan>').format(note) if note else Markup("")
    return Markup('<text x="0" y="{}"><title>{}</title>{}{}</text>').format(
        y, name, _short(name, _NAME), more
    )


def _legend(names: Sequence[str]) -> Markup:
    keys = [
        Markup('<span class="c{}">{}</span>').format(i % _COLOURS, name)
        for i, name in enumerate(names)
    ]
    return (
        Markup('<div class="legend">{}</div>').format(Markup(" ").join(keys))
        if keys
        else Markup("")
    )


def _svg(body: Markup, height: float) -> Markup:
    return Markup('<svg class="plot" width="100%" height="{}" role="img">{}</svg>').format(
        round(height), body
    )


def _short(text: str, length: int) -> str:
    """Return a text that is too long without its middle, for names often differ at their end."""
    text, half = text if len(text) <= length else without_place(text), length // 2
    return text if len(text) <= length else f"{text[: half - 1]}…{text[-half:]}"
