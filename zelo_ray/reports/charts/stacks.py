"""Draw distributions of grades: counts, and shares of a whole."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from zelo_ray.reports.charts.figures import categories
from zelo_ray.reports.parts import Figure
from zelo_ray.reports.wording import escape_markup

GRADES = ("0 irrelevant", "1 marginal", "2 relevant", "3 highly relevant")
"""What grades are called."""
LEVELS = len(GRADES)

_COLOURS = tuple(f"--g{grade}" for grade in range(LEVELS))
_TOLD = 0.06  # a share that has room for its number


def grade_columns(counts: np.ndarray, of: str) -> Figure:
    """Draw the number of documents of each grade; ``counts`` is [grades], ``of`` names its unit."""
    shares = counts / max(1, counts.sum())
    bars = {
        "type": "bar",
        "x": list(range(len(counts))),
        "y": counts,
        "marker": {"color": list(_COLOURS), "line": {"width": 0}},
        "text": [f"{share:.0%}" for share in shares],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertemplate": f"%{{y:,}} {escape_markup(of)}<extra></extra>",
    }
    top = 1.12 * max(1, int(counts.max(initial=0)))
    return {
        "data": [bars],
        "layout": {
            "height": 300,
            "xaxis": categories(GRADES, showgrid=False)
            | {"ticktext": [name.replace(" ", "<br>") for name in GRADES], "tickangle": 0},
            "yaxis": {"title": {"text": of}, "range": [0, top]},
        },
    }


def grade_bars(names: Sequence[str], counts: np.ndarray) -> Figure:
    """Draw one bar per name, of the shares of its grades; ``counts`` is [names, grades]."""
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": GRADES[grade],
            "x": shares[:, grade].tolist(),
            "y": list(range(len(names))),
            "marker": {"color": colour, "line": {"width": 0}},
            "text": ["" if share < _TOLD else f"{share:.0%}" for share in shares[:, grade]],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "customdata": counts[:, grade].tolist(),
            "hovertemplate": "%{x:.1%}, %{customdata:,}",
        }
        for grade, colour in enumerate(_COLOURS)
    ]
    layout = {
        "height": 110 + (34 if len(names) < 16 else 24) * max(1, len(names)),
        "barmode": "stack",
        "bargap": 0.25,
        "xaxis": {"tickformat": ".0%", "range": [0, 1], "showgrid": False},
        "yaxis": categories(names, range=[len(names) - 0.4, -0.6], showgrid=False),
        "showlegend": True,
    }
    return {"data": data, "layout": layout}


def grade_columns_by_name(names: Sequence[str], counts: np.ndarray, title: str) -> Figure:
    """Draw one thin column per name, of the shares of its grades; ``counts`` is [names, grades]."""
    shares = np.round(counts / np.maximum(1, counts.sum(axis=1, keepdims=True)), 4)
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "name": GRADES[grade],
            "x": list(range(1, len(names) + 1)),
            "y": shares[:, grade].tolist(),
            "marker": {"color": colour, "line": {"width": 0}},
            "text": [escape_markup(name) for name in names] if grade == 0 else None,
            "textposition": "none",
            "hovertemplate": "%{y:.0%}" if grade else "%{text}<br>%{y:.0%}",
        }
        for grade, colour in enumerate(_COLOURS)
    ]
    layout = {
        "height": 320,
        "barmode": "stack",
        "bargap": 0.08 if len(names) < 80 else 0,
        "hovermode": "x unified",
        "xaxis": {"title": {"text": title}, "showgrid": False},
        "yaxis": {"tickformat": ".0%", "range": [0, 1], "title": {"text": "documents"}},
        "showlegend": True,
    }
    return {"data": data, "layout": layout}
