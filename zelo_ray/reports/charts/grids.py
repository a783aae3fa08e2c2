"""Draw matrices: values of pairs of names, and the confusion of two raters' grades."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zelo_ray.reports.charts.figures import categories
from zelo_ray.reports.parts import Figure
from zelo_ray.reports.wording import escape_markup, format_probability

_NUMBERED = 10  # a matrix of so many names has its numbers in it
_NAMED = 20  # and of so many its names below it


def matrix(
    names: Sequence[str],
    values: np.ndarray,
    hover: Sequence[Sequence[str]] | None,
    middle: float,
    *,
    low: float = 0.0,
    form: Callable[[float], str] = format_probability,
) -> Figure:
    """Draw a square of values up to 1, blank where NaN, with the numbers if there is room.

    Args:
        names: of the rows, and of the columns.
        values: [names, names].
        hover: what is said of each cell; None: its names and its value.
        middle: the value without a colour.
        low: the value whose colour is the opposite of 1's.
        form: how a number in a cell is written.
    """
    heat: dict[str, Any] = {
        "type": "heatmap",
        "z": np.round(values, 4),
        "zmin": low,
        "zmid": middle,
        "zmax": 1,
        "colorscale": [[0, "--down"], [0.5, "--mid"], [1, "--up"]],
        "showscale": len(names) > _NUMBERED,
        "colorbar": {
            "thickness": 10,
            "tickformat": ".0%" if form is format_probability else ".1f",
            "outlinewidth": 0,
        },
        "xgap": 1,
        "ygap": 1,
        "hoverongaps": False,
        "hovertemplate": "%{y} and %{x}: %{z:.3f}<extra></extra>",
    }
    if hover is not None:
        heat["hovertext"] = [[escape_markup(cell) for cell in row] for row in hover]
        heat["hovertemplate"] = "%{hovertext}<extra></extra>"
    if len(names) <= _NUMBERED:
        text = [
            ["" if np.isnan(value) else escape_markup(form(value)) for value in row]
            for row in values
        ]
        heat |= {"text": text, "texttemplate": "%{text}", "textfont": {"color": "--ink"}}
    side = min(640, 150 + 38 * len(names))
    return {
        "data": [heat],
        "layout": {
            "height": side,
            "xaxis": categories(
                names, showgrid=False, tickangle=-40, showticklabels=len(names) <= _NAMED
            ),
            "yaxis": categories(names, showgrid=False, range=[len(names) - 0.5, -0.5]),
        },
    }


def confusion(counts: np.ndarray, across: str, upright: str) -> Figure:
    """Draw how often grades of two raters meet; colours are shares of a row.

    Args:
        counts: [grades of the rater upright, grades of the rater across].
        across: what the axis says of the columns' rater.
        upright: the same of the rows' rater.
    """
    row_totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, row_totals, out=np.zeros(counts.shape), where=row_totals > 0)
    text = [[f"{n:,}" for n in row] for row in counts.tolist()]
    hover = [
        [f"{n} of {total:,} items: {share:.0%}" for n, share in zip(row, row_shares, strict=True)]
        for row, row_shares, total in zip(text, shares, row_totals[:, 0].tolist(), strict=True)
    ]
    heat = {
        "type": "heatmap",
        "z": shares,
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[0, "--mid"], [1, "--up"]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "text": text,
        "texttemplate": "%{text}",
        "textfont": {"color": "--ink"},
        "hovertext": hover,
        "hovertemplate": "%{y}, %{x}: %{hovertext}<extra></extra>",
    }
    grades = [str(grade) for grade in range(len(counts))]
    return {
        "data": [heat],
        "layout": {
            "height": 340,
            "xaxis": categories(grades, showgrid=False, title={"text": across}),
            "yaxis": categories(
                grades, showgrid=False, range=[len(grades) - 0.5, -0.5], title={"text": upright}
            ),
        },
    }
