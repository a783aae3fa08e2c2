"""Figures as Plotly's JSON: plain functions from numbers to ``data`` and ``layout``."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zelo_ray.report.page import Figure, plain

PALETTE = tuple(f"--c{i}" for i in range(8))
_ROW, _NARROW = 34, 22  # pixels of a point with its label, and where there are many
_LABEL = 24


def label(name: str, length: int = _LABEL) -> str:
    """A name as a chart has it: cut in its middle, and nothing that Plotly takes for markup."""
    half = length // 2
    return plain(name if len(name) <= length else f"{name[: half - 1]}…{name[-half:]}")


def categories(names: Sequence[str], **more: Any) -> dict[str, Any]:
    """An axis with one place a name, by number, as names may look like numbers or dates."""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [label(name) for name in names],
        "zeroline": False,
        **more,
    }


def histogram(values: np.ndarray, title: str, bins: int = 40) -> Figure:
    """How many values lie where."""
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
        "layout": {"height": 260, "bargap": 0, "xaxis": {"title": {"text": title}}},
    }


def intervals(
    names: Sequence[str],
    series: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    title: str,
    line_at: float | None = None,
) -> Figure:
    """Points with intervals, one row a name, one colour a series of (value, low, high)."""
    data: list[dict[str, Any]] = []
    for place, (series_name, (value, low, high)) in enumerate(series.items()):
        shift = (place - (len(series) - 1) / 2) * (0.7 / max(1, len(series)))
        hover = np.stack([low, high], axis=1)
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": label(series_name),
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
                "customdata": hover,
                "text": [plain(name) for name in names],
                "marker": {"color": PALETTE[place % len(PALETTE)], "size": 8},
                "hovertemplate": "%{text}<br>%{x:.4f} [%{customdata[0]:.4f}, %{customdata[1]:.4f}]",
            }
        )
    row = (_ROW if len(names) < 16 else _NARROW) * (1 if len(series) < 3 else 0.35 * len(series))
    layout: dict[str, Any] = {
        "height": int(110 + row * max(1, len(names))),
        "xaxis": {"title": {"text": title}, "zeroline": False},
        "yaxis": categories(names, range=[len(names) - 0.4, -0.6], showgrid=False),
        "showlegend": len(series) > 1,
    }
    if len(series) == 1:
        data[0]["hovertemplate"] += "<extra></extra>"
    if line_at is not None:
        edge = {"type": "line", "x0": line_at, "x1": line_at, "yref": "paper", "y0": 0, "y1": 1}
        layout["shapes"] = [{**edge, "line": {"color": "--dim", "width": 1, "dash": "dot"}}]
    return {"data": data, "layout": layout}


def matrix(
    names: Sequence[str], values: np.ndarray, hover: Sequence[Sequence[str]], middle: float
) -> Figure:
    """A square of values between 0 and 1, blank where NaN, with the numbers if there is room."""
    heat: dict[str, Any] = {
        "type": "heatmap",
        "z": values,
        "zmin": 0,
        "zmid": middle,
        "zmax": 1,
        "colorscale": [[0, "--down"], [0.5, "--mid"], [1, "--up"]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "text": [[plain(cell) for cell in row] for row in hover],
        "hovertemplate": "%{text}<extra></extra>",
    }
    if len(names) <= 10:
        heat["texttemplate"] = "%{z:.0%}"
    side = min(640, 150 + 38 * len(names))
    return {
        "data": [heat],
        "layout": {
            "height": side,
            "xaxis": categories(
                names, showgrid=False, tickangle=-40, showticklabels=len(names) <= 20
            ),
            "yaxis": categories(names, showgrid=False, range=[len(names) - 0.5, -0.5]),
        },
    }


def ridges(names: Sequence[str], values: np.ndarray, title: str, bins: int = 20) -> Figure:
    """A histogram for each name, one under the other on one scale; ``values`` [queries, names]."""
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    highest = max(1.0, float(np.nanmax(values, initial=0)))
    edges = np.linspace(0, highest, bins + 1)
    layout: dict[str, Any] = {"height": 70 + 84 * len(names), "bargap": 0, "showlegend": False}
    each = 1 / max(1, len(names))
    for place, name in enumerate(names):
        column = values[:, place]
        counts, _ = np.histogram(column[~np.isnan(column)], bins=edges)
        axis = "" if place == 0 else str(place + 1)
        data.append(
            {
                "type": "bar",
                "x": (edges[:-1] + edges[1:]) / 2,
                "y": counts,
                "width": np.diff(edges),
                "yaxis": f"y{axis}",
                "marker": {"color": "--c0", "line": {"width": 0}},
                "hovertemplate": "%{y:,} queries around %{x:.2f}<extra></extra>",
            }
        )
        top = 1 - place * each
        layout[f"yaxis{axis}"] = {
            "domain": [top - each * 0.68, top - each * 0.22],
            "nticks": 3,
            "rangemode": "tozero",
        }
        where = {"xref": "paper", "yref": "paper", "x": 0, "y": top, "yanchor": "top"}
        text = label(name, 40)
        notes.append({**where, "xanchor": "left", "showarrow": False, "text": text})
    layout["annotations"] = notes
    last = "y" if len(names) == 1 else f"y{len(names)}"
    layout["xaxis"] = {"title": {"text": title}, "anchor": last, "range": [0, highest]}
    return {"data": data, "layout": layout}


def curves(lines: Mapping[str, Sequence[tuple[float, float]]], x: str, y: str) -> Figure:
    """One line a name through its points (x, y), where x counts on a logarithmic scale."""
    data = [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": label(name),
            "x": [point[0] for point in points],
            "y": [point[1] for point in points],
            "line": {"color": PALETTE[i % len(PALETTE)], "width": 2, "dash": _dash(i)},
            "marker": {"size": 5},
            "hovertemplate": "%{y:.3f} at %{x}",
        }
        for i, (name, points) in enumerate(lines.items())
    ]
    ticks = sorted({point[0] for points in lines.values() for point in points if point[0] > 0})
    across = {"title": {"text": x}, "type": "log", "tickvals": ticks, "ticktext": ticks}
    height = 380 + 18 * (len(lines) // 3)
    layout = {"height": height, "xaxis": across, "yaxis": {"title": {"text": y}}}
    return {"data": data, "layout": layout | {"showlegend": True}}


def band(low: np.ndarray, middle: np.ndarray, high: np.ndarray, hover: list[str], y: str) -> Figure:
    """A line of values in order, and the span around each of them."""
    places = np.arange(1, len(middle) + 1)
    around = {
        "type": "scatter",
        "mode": "lines",
        "x": np.concatenate([places, places[::-1]]),
        "y": np.concatenate([high, low[::-1]]),
        "fill": "toself",
        "fillcolor": "--band",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }
    line = {
        "type": "scatter",
        "mode": "lines",
        "x": places,
        "y": middle,
        "line": {"color": "--c0", "width": 2},
        "text": [plain(text) for text in hover],
        "hovertemplate": "%{text}<extra></extra>",
    }
    across = {"title": {"text": "queries, the hardest first"}}
    layout = {"height": 320, "showlegend": False, "xaxis": across, "yaxis": {"title": {"text": y}}}
    return {"data": [around, line], "layout": layout}


def _dash(place: int) -> str:
    return ("solid", "dash", "dot", "dashdot")[place // len(PALETTE) % 4]
