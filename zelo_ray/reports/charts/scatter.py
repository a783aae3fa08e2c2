"""Draw named points with intervals in both directions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zelo_ray.reports.charts.figures import PALETTE
from zelo_ray.reports.charts.labels import labels
from zelo_ray.reports.parts import Figure
from zelo_ray.reports.wording import escape_markup, format_estimate

Floats = NDArray[np.float64]
_WIDE = 5
"""Costs whose ratio is above this are shown on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One figure of each point: values, and the ends of their intervals, which may be NaN."""

    title: str
    value: Floats
    low: Floats
    high: Floats
    form: str


def scatter(names: Sequence[str], across: Axis, up: Axis) -> Figure:
    """Draw points named in a legend; the x axis is logarithmic if its values span much."""
    low, high = np.nanmin([across.value, across.low]), np.nanmax([across.value, across.high])
    log = low > 0 and across.value.max() > _WIDE * across.value.min()
    data = [
        _point(i, *pair, across, up)
        for i, pair in enumerate(zip(names, labels(names), strict=True))
    ]
    layout: dict[str, Any] = {
        "height": 420,
        "showlegend": True,
        "xaxis": {"title": {"text": across.title}, "zeroline": False}
        | (_logarithmic_axis(low, high) if log else {}),
        "yaxis": {"title": {"text": up.title}, "zeroline": False},
    }
    return {"data": data, "layout": layout}


def _logarithmic_axis(low: float, high: float) -> dict[str, Any]:
    """Build a logarithmic axis with a mark at 1, 2, 5, 10 and so on."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    marks = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": marks, "ticktext": [f"{mark:,.12g}" for mark in marks]}


def _point(i: int, name: str, called: str, across: Axis, up: Axis) -> dict[str, Any]:
    lines = [
        f"{escape_markup(axis.title)}: "
        f"{format_estimate(axis.value[i], axis.low[i], axis.high[i], axis.form)}"
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
        "name": called,
        "x": [float(across.value[i])],
        "y": [float(up.value[i])],
        **bars,
        "marker": {"color": colour, "size": 10},
        "text": ["<br>".join([escape_markup(name), *lines])],
        "hovertemplate": "%{text}<extra></extra>",
    }


def _none(length: float) -> float:
    return 0.0 if np.isnan(length) else float(length)
