"""A figure of named points with intervals both ways, whose names do not cover each other."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zelo_ray.report.figures import PALETTE
from zelo_ray.report.labels import labels
from zelo_ray.report.page import Figure, estimate, plain

Floats = NDArray[np.float64]
_WIDTH, _HEIGHT = 640, 300  # pixels of the plane on a small screen, for which names are placed
_LETTER, _LINE = 7.2, 16  # pixels that a letter and a line of a name take
_WIDE = 5
"""Costs whose ratio is above this are shown on a logarithmic axis."""
_MARGIN = 0.06


@dataclass(frozen=True, slots=True)
class Axis:
    """One figure of each point: values, and the ends of their intervals, which may be NaN."""

    title: str
    value: Floats
    low: Floats
    high: Floats
    form: str


def spread(names: Sequence[str], across: Axis, up: Axis) -> Figure:
    """Points with their names; of an axis to the right that spans much, logarithms."""
    log = bool((_ends(across)[1] > 0).all()) and across.value.max() > _WIDE * across.value.min()
    ranges = [_range(across, log=log), _range(up, log=False)]
    data = [_point(i, name, across, up) for i, name in enumerate(names)]
    called = labels(names)
    x, left, right = (_WIDTH * _share(each, ranges[0], log=log) for each in _ends(across))
    y, low, high = (_HEIGHT * _share(each, ranges[1]) for each in _ends(up))
    lines = [*map(Box, x - 2, x + 2, low, high), *map(Box, left, right, y - 2, y + 2)]
    notes = []
    for i, (dx, dy) in enumerate(offsets(np.stack([x, y], 1), [*map(len, called)], lines)):
        at = float(np.log10(across.value[i]) if log else across.value[i])
        notes.append(
            {
                "x": at,
                "y": float(up.value[i]),
                "ax": dx,
                "ay": -dy,
                "text": called[i],
                "showarrow": True,
                "arrowhead": 0,
                "arrowwidth": 1,
                "arrowcolor": "--dim",
                "standoff": 5,
                "bgcolor": "--paper",
                "font": {"color": PALETTE[i % len(PALETTE)]},
            }
        )
    layout: dict[str, Any] = {
        "height": _HEIGHT + 120,
        "showlegend": False,
        "annotations": notes,
        "xaxis": {"title": {"text": across.title}, "range": ranges[0], "zeroline": False}
        | (_logarithmic(ranges[0]) if log else {}),
        "yaxis": {"title": {"text": up.title}, "range": ranges[1], "zeroline": False},
    }
    return {"data": data, "layout": layout}


def _logarithmic(ends: Sequence[float]) -> dict[str, Any]:
    """An axis whose ends are logarithms, with a mark at 1, 2, 5, 10 and so on."""
    powers = range(math.floor(ends[0]), math.ceil(ends[1]) + 1)
    marks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": marks, "ticktext": [f"{mark:,.12g}" for mark in marks]}


def _point(i: int, name: str, across: Axis, up: Axis) -> dict[str, Any]:
    told = [
        f"{plain(axis.title)}: {estimate(axis.value[i], axis.low[i], axis.high[i], axis.form)}"
        for axis in (up, across)
    ]
    colour = PALETTE[i % len(PALETTE)]
    bars = {
        bar: {
            "type": "data",
            "symmetric": False,
            "thickness": 1.5,
            "width": 0,
            "color": colour,
            "array": [_none(axis.high[i] - axis.value[i])],
            "arrayminus": [_none(axis.value[i] - axis.low[i])],
        }
        for bar, axis in (("error_x", across), ("error_y", up))
    }
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(name),
        "x": [float(across.value[i])],
        "y": [float(up.value[i])],
        **bars,
        "marker": {"color": colour, "size": 10},
        "text": ["<br>".join([plain(name), *told])],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _none(length: float) -> float:
    return 0.0 if np.isnan(length) else float(length)


def _range(axis: Axis, *, log: bool) -> list[float]:
    """The ends of an axis, in its own units: logarithms, if it has them."""
    ends = np.concatenate([axis.value, axis.low, axis.high])
    ends = ends[np.isfinite(ends) & ((ends > 0) | (not log))]
    low, high = (float(end) for end in (ends.min(), ends.max()))
    if log:
        low, high = float(np.log10(low)), float(np.log10(high))
    room = _MARGIN * (high - low) or _MARGIN * abs(high) or 1.0
    return [low - room, high + room]


def _ends(axis: Axis) -> tuple[Floats, Floats, Floats]:
    """Values and the ends of their intervals; the value itself where it has none."""
    low, high = (np.where(np.isnan(end), axis.value, end) for end in (axis.low, axis.high))
    return axis.value, low, high


def _share(values: Floats, ends: Sequence[float], *, log: bool = False) -> Floats:
    """Where values lie on an axis, 0 to 1."""
    shares: Floats = ((np.log10(values) if log else values) - ends[0]) / (ends[1] - ends[0])
    return shares


def offsets(
    points: Floats, letters: Sequence[int], lines: Sequence["Box"] = ()
) -> Iterator[tuple[float, float]]:
    """How far from its point each name is written, to the right and up, in pixels.

    Each takes the nearest place where it covers no name so far, no point and no line; lines are
    covered where there is no such place.

    Args:
        points: to the right and up, in pixels, [points, 2].
        letters: of each name.
        lines: what else is drawn.
    """
    taken = [Box(x - 7, x + 7, y - 7, y + 7) for x, y in points.tolist()]
    for (x, y), count in zip(points.tolist(), letters, strict=True):
        width = count * _LETTER + 6
        boxes = {
            (dx, dy): box(x + dx, y + dy, width)
            for far in range(8)
            for dy in (12.0 + far * 20, -12.0 - far * 20)
            for dx in (width / 2 + 8, -width / 2 - 8, 0.0)
            if width / 2 <= x + dx <= _WIDTH - width / 2 and 0 <= y + dy <= _HEIGHT
        }
        free = [*_free(boxes, [*taken, *lines]), *_free(boxes, taken), (0.0, 22.0)]
        dx, dy = free[0]
        taken.append(box(x + dx, y + dy, width))
        yield dx, dy


def _free(
    boxes: Mapping[tuple[float, float], "Box"], others: Sequence["Box"]
) -> Iterator[tuple[float, float]]:
    """The places whose boxes meet no other."""
    return (place for place, one in boxes.items() if not any(map(one.meets, others)))


@dataclass(frozen=True, slots=True)
class Box:
    """What a name covers."""

    left: float
    right: float
    low: float
    high: float

    def meets(self, other: "Box") -> bool:
        """Whether two cover something in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.low < other.high and other.low < self.high


def box(x: float, y: float, width: float) -> Box:
    """What a name of some width covers, by its middle."""
    return Box(x - width / 2, x + width / 2, y - _LINE / 2, y + _LINE / 2)
