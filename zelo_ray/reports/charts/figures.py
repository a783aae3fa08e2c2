"""Build the figures that ``charts.js`` draws, with ``data`` and ``layout``, from numbers."""

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from zelo_ray.reports.charts.labels import labels
from zelo_ray.reports.parts import Figure
from zelo_ray.reports.wording import escape_markup, format_estimate

PALETTE = tuple(f"--c{i}" for i in range(8))
_ROW, _NARROW = 34, 22  # pixels of a point with its label, and where there are many
_SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up", "star", "triangle-down")


def categories(names: Sequence[str], notes: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """Build an axis with one numbered place per name, as names may look like numbers or dates."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [*map("".join, zip_longest(labels(names), notes, fillvalue=""))],
        "zeroline": False,
        **more,
    }


def histogram(values: np.ndarray, title: str, of: str, bins: int = 40) -> Figure:
    """Draw a histogram of values; ``of`` names what is counted."""
    counts, edges = np.histogram(values, bins=bins)
    bars = {
        "type": "bar",
        "x": (edges[:-1] + edges[1:]) / 2,
        "y": counts,
        "width": np.diff(edges),
        "marker": {"color": "--c0", "line": {"width": 0}},
        "hovertemplate": "%{y:,} around %{x:.2f}<extra></extra>",
    }
    return {
        "data": [bars],
        "layout": {
            "height": 260,
            "bargap": 0,
            "xaxis": {"title": {"text": title}},
            "yaxis": {"title": {"text": of}},
        },
    }


def intervals(
    names: Sequence[str],
    series: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    title: str,
    line_at: float | None = None,
    *,
    notes: Sequence[str] = (),
    hollow: Collection[int] = (),
) -> Figure:
    """Draw points with intervals: one row per name, one colour per series of (value, low, high).

    ``notes`` follow the names; ``hollow`` are the places of those whose points are rings.
    """
    data: list[dict[str, Any]] = []
    called = labels(list(series))
    for place, (value, low, high) in enumerate(series.values()):
        shift = (place - (len(series) - 1) / 2) * (0.7 / max(1, len(series)))
        symbol = _SYMBOLS[place % len(_SYMBOLS)]
        figures = [format_estimate(*three, ".4f") for three in zip(value, low, high, strict=True)]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": called[place],
                "x": value,
                "y": np.arange(len(names)) + shift,
                "error_x": {
                    "type": "data",
                    "symmetric": False,
                    "array": high - value,
                    "arrayminus": value - low,
                    "thickness": 1.5,
                    "width": 0,
                },
                "text": [f"{escape_markup(n)}<br>{f}" for n, f in zip(names, figures, strict=True)],
                "marker": {
                    "color": PALETTE[place % len(PALETTE)],
                    "size": 8,
                    "symbol": [
                        f"{symbol}-open" if i in hollow else symbol for i in range(len(names))
                    ],
                },
                "hovertemplate": "%{text}" + ("<extra></extra>" if len(series) == 1 else ""),
            }
        )
    row = (_ROW if len(names) < 16 else _NARROW) * (1 if len(series) < 3 else 0.35 * len(series))
    layout: dict[str, Any] = {
        "height": int(110 + row * max(1, len(names))),
        "xaxis": {"title": {"text": title}, "zeroline": False},
        "yaxis": categories(names, notes, range=[len(names) - 0.4, -0.6], showgrid=False),
        "showlegend": len(series) > 1,
    }
    if line_at is not None:
        layout["xaxis"]["rangemode"] = "tozero" if line_at == 0 else "normal"
        edge = {"type": "line", "x0": line_at, "x1": line_at, "yref": "paper", "y0": 0, "y1": 1}
        layout["shapes"] = [{**edge, "line": {"color": "--dim", "width": 1, "dash": "dot"}}]
    return {"data": data, "layout": layout}


def ridges(names: Sequence[str], values: np.ndarray, title: str, bins: int = 20) -> Figure:
    """Draw one histogram per name, all on one scale; ``values`` is [queries, names]."""
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    highest = max(1.0, float(np.nanmax(values, initial=0)))
    edges = np.linspace(0, highest, bins + 1)
    counts = [np.histogram(column[~np.isnan(column)], bins=edges)[0] for column in values.T]
    peak = max(4, *(int(count.max()) for count in counts))
    called = labels(names, 50)
    layout: dict[str, Any] = {"height": 70 + 84 * len(names), "bargap": 0, "showlegend": False}
    height = 1 / max(1, len(names))
    for place, count in enumerate(counts):
        axis = "" if place == 0 else str(place + 1)
        data.append(
            {
                "type": "bar",
                "x": (edges[:-1] + edges[1:]) / 2,
                "y": count,
                "width": np.diff(edges),
                "yaxis": f"y{axis}",
                "marker": {"color": "--c0", "line": {"width": 0}},
                "hovertemplate": "%{y:,} queries around %{x:.2f}<extra></extra>",
            }
        )
        top = 1 - place * height
        layout[f"yaxis{axis}"] = {
            "domain": [top - height * 0.68, top - height * 0.22],
            "nticks": 3,
            "range": [0, peak],
        }
        where = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "yanchor": "top"}
        notes.append({**where, "xanchor": "left", "showarrow": False, "text": called[place]})
    layout["annotations"] = notes
    last = "y" if len(names) == 1 else f"y{len(names)}"
    layout["xaxis"] = {"title": {"text": title}, "anchor": last, "range": [0, highest]}
    middle = len(names) // 2
    layout[f"yaxis{middle + 1 if middle else ''}"]["title"] = {"text": "queries"}
    return {"data": data, "layout": layout}


def spans(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ("value", "low", "high")
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values and the ends of their intervals, each [rows]; NaN where a row has none."""
    value, low, high = (
        np.array([row.get(name, np.nan) for row in rows], dtype=float) for name in names
    )
    return value, low, high
