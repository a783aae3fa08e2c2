"""Draw charts as SVG and HTML that need no script and fit any width.

Places along the width are percentages, so that letters keep their size when a page is narrow.
Colours are variables of the page's style. Values stand in ``<title>``, where a pointer finds them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
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
_BINS, _HEIGHT = 40, 180
"""Bars of a histogram, and their largest height."""


def intervals(
    names: Sequence[str],
    series: Mapping[str, Sequence[ArrayLike]],
    title: str,
    line_at: float | None = None,
    *,
    hollow: Collection[int] = (),
    form: str = ".3f",
) -> Markup:
    """Draw points with intervals: a row for each name, a colour for each series.

    A series has values, and the lower and upper ends of their intervals, [names] each. A line
    stands at ``line_at``; ``hollow`` are places of names whose points are rings.
    """
    tables = {
        name: np.array([np.asarray(column, np.float64) for column in columns]).reshape(3, -1)
        for name, columns in series.items()
    }
    numbers = np.concatenate([table.ravel() for table in tables.values()] or [np.zeros(0)])
    scale = _Scale.of(numbers if line_at is None else np.append(numbers, line_at))
    height, marks = 4, list[Markup]()
    for place, name in enumerate(names):
        height += _TEXT
        label = Markup('<text x="0" y="{}"><title>{}</title>{}</text>')
        marks.append(label.format(height - 5, name, _short(name, _NAME)))
        for number, (of, table) in enumerate(tables.items()):
            value, low, high = table[:, place].tolist()
            figure = Cell(value, form, low, high)
            text = f"{name}, {of}: {figure.text()}" if of else f"{name}: {figure.text()}"
            kind = f"c{number % _COLOURS}" + (" hollow" if place in hollow else "")
            marks.append(_interval(figure, scale, height + 4, kind, text))
            height += _LINE
        height += 2
    lines = [] if line_at is None else [scale.line(line_at, height, "zero")]
    body = Markup("").join([scale.grid(height), *lines, *marks, scale.axis(height, title)])
    legend = Markup("")
    if len(tables) > 1:
        key = Markup('<span class="c{}">{}</span>')
        keys = [key.format(i % _COLOURS, name) for i, name in enumerate(tables)]
        legend = Markup('<div class="legend">{}</div>').format(Markup(" ").join(keys))
    return legend + _svg(body, height + 36)


def _interval(figure: Cell, scale: "_Scale", y: float, kind: str, text: str) -> Markup:
    if figure.value is None or np.isnan(figure.value):
        return Markup("")
    bar = Markup("")
    if not np.isnan(figure.low):
        ends = scale.at(figure.low), scale.at(figure.high)
        bar = Markup('<line x1="{}" x2="{}" y1="{}" y2="{}"/>').format(*ends, y, y)
    group = Markup('<g class="{}"><title>{}</title>{}<circle cx="{}" cy="{}" r="4.5"/></g>')
    return group.format(kind, text, bar, scale.at(figure.value), y)


def histogram(values: ArrayLike, title: str, of: str) -> Markup:
    """Draw how often values occur; ``of`` is the noun for what is counted."""
    numbers = np.asarray(values, np.float64)
    counts, edges = np.histogram(numbers[np.isfinite(numbers)], bins=_BINS)
    scale, top = _Scale.of(edges), max(1, int(counts.max(initial=0)))
    bar = Markup(
        '<rect class="c0" x="{:.3f}%" width="{:.3f}%" y="{:.1f}" height="{:.1f}">'
        "<title>{}</title></rect>"
    )
    marks = [Markup('<text class="dim" x="0" y="12">{}</text>').format(f"{top:,}")]
    for n, (low, high) in zip(counts.tolist(), pairwise(edges.tolist()), strict=True):
        left, tall = scale.percent(low), (_HEIGHT - 20) * n / top
        size = (max(0.1, scale.percent(high) - left), _HEIGHT - tall, tall)
        marks.append(bar.format(left, *size, f"{n:,} {of} from {low:.2f} to {high:.2f}"))
    body = Markup("").join(marks) + scale.axis(_HEIGHT, f"{title} ({of} by value)")
    return _svg(body, _HEIGHT + 36)


def scatter(points: Sequence[tuple[str, Cell, Cell]], across: str, up: str) -> Markup:
    """Draw points, each with a name and its figures on the two axes, whose intervals are lines."""
    x = _Scale.of(_ends([cell for _, cell, _ in points]))
    y = _Scale.of(_ends([cell for _, _, cell in points]))
    height, marks = 320, list[Markup]()
    for name, first, second in points:
        left, top = x.percent(first.value or 0), 100 - y.percent(second.value or 0)
        lines = [Markup('<circle cx="{:.2f}%" cy="{:.2f}%" r="4.5"/>').format(left, top)]
        if not np.isnan(first.low):
            lines.append(_line(x.percent(first.low), top, x.percent(first.high), top))
        if not np.isnan(second.low):
            lines.append(
                _line(left, 100 - y.percent(second.low), left, 100 - y.percent(second.high))
            )
        text = f"{name}: {across} {first.text()}, {up} {second.text()}"
        group = Markup('<g class="c0"><title>{}</title>{}</g>')
        marks.append(group.format(text, Markup("").join(lines)))
    plot = Markup('<svg y="16" width="100%" height="{}">{}</svg>')
    caption = Markup('<text class="dim" x="0" y="11">{}</text>').format(f"upright: {up}, {y.span}")
    body = x.grid(height + 16) + caption + plot.format(height, Markup("").join(marks))
    return _svg(body + x.axis(height + 16, across), height + 52)


def _ends(cells: Sequence[Cell]) -> Floats:
    return np.array([(cell.value, cell.low, cell.high) for cell in cells], np.float64)


def _line(*ends: float) -> Markup:
    return Markup('<line x1="{:.2f}%" y1="{:.2f}%" x2="{:.2f}%" y2="{:.2f}%"/>').format(*ends)


def matrix(
    rows: Sequence[str],
    across: Sequence[str],
    values: Floats,
    *,
    low: float = 0.0,
    middle: float | None = None,
    text: Callable[[int, int], str] | None = None,
    form: str = ".2f",
) -> Markup:
    """Build a table of tinted cells of values, [rows, across]; NaN is blank.

    The colour is strongest at ``low`` and 1, and there is none at ``middle``, or at ``low``
    without it. ``text`` is what a pointer finds on a cell, by its row and column; numbers stand in
    cells of up to 12 columns.
    """
    numbered = bool(form) and len(across) <= 12
    head = Markup("").join(Markup("<th>{}</th>").format(_short(name, 18)) for name in across)
    lines = []
    for i, name in enumerate(rows):
        cells = []
        for j, (column, value) in enumerate(zip(across, values[i].tolist(), strict=True)):
            kind, style = _tinted(value, low, middle)
            if not kind:
                cells.append("<td></td>")
                continue
            shown = write_number(value, form) if numbered else ""
            title = escape(text(i, j) if text else f"{name}, {column}")  # a format takes long
            cells.append(f'<td class="{kind}"{style} title="{title}">{shown}</td>')
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
) -> Markup:
    """Build the matrix of a value of every two names, and of what is said of it."""
    cells = [[of(a, b) if a != b else (np.nan, "") for b in names] for a in names]
    values = np.array([[value for value, _ in row] for row in cells]).reshape(len(names), -1)

    def text(i: int, j: int) -> str:
        return f"{names[i]} and {names[j]}: {cells[i][j][1]}"

    return matrix(names, names, values, low=low, middle=middle, text=text)


def _tinted(value: float, low: float, middle: float | None) -> tuple[str, str]:
    """Return the class and the style of a cell: how much of the colour of a win or loss it has."""
    if value != value:  # noqa: PLR0124 - NaN
        return "", ""
    base = low if middle is None else middle
    reach = (1 - base) if value >= base else (base - low)
    share = min(1.0, abs(value - base) / reach) if reach else 0.0
    return "won" if value >= base else "lost", f' style="--part:{100 * share:.0f}%"'


class _Scale:
    """An axis across the width, from 2% to 98% of it."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    @classmethod
    def of(cls, values: Floats) -> "_Scale":
        finite = values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
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


def _svg(body: Markup, height: float) -> Markup:
    return Markup('<svg class="plot" width="100%" height="{}" role="img">{}</svg>').format(
        round(height), body
    )


def _short(text: str, length: int) -> str:
    """Return a text that is too long without its middle, for names often differ at their end."""
    text, half = text if len(text) <= length else without_place(text), length // 2
    return text if len(text) <= length else f"{text[: half - 1]}…{text[-half:]}"
