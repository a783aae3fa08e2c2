"""Draw two rankings of the same names side by side, with a line from rank to rank."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from zelo_ray.reports.charts.figures import categories
from zelo_ray.reports.charts.labels import labels
from zelo_ray.reports.parts import Figure
from zelo_ray.reports.wording import escape_markup

_LABEL = 20  # characters of a name, which stands on both sides
_ROW = 22
_KINDS = (("--won", "moved up", 1), ("--edge", "in its place", 0), ("--lost", "moved down", -1))


def rank_slopes(
    names: Sequence[str],
    old: Sequence[float],
    right: Sequence[float],
    sides: tuple[str, str],
    form: str = ".3f",
) -> Figure:
    """Draw two leaderboards side by side: names by their means, the highest at the top.

    Args:
        names: of what is ranked.
        old: its means on one leaderboard, [names]; NaN is last.
        right: the same on the other one.
        sides: what the leaderboards are called.
        form: of a mean.
    """
    means = [np.asarray(side, dtype=np.float64) for side in (old, right)]
    orders = [np.argsort(-np.nan_to_num(side, nan=-np.inf), kind="stable") for side in means]
    places = [np.argsort(order) for order in orders]
    ranks = [1 + (side[None, :] > side[:, None] + 1e-12).sum(axis=1) for side in means]
    called = labels(names, _LABEL)
    data: list[dict[str, Any]] = []
    for colour, title, sign in _KINDS:
        shown = np.flatnonzero(np.sign(ranks[0] - ranks[1]) == sign).tolist()
        if not shown:
            continue
        hover = [
            f"{escape_markup(names[i])}<br>{escape_markup(sides[0])}: "
            f"{means[0][i]:{form}}, rank {ranks[0][i]}<br>"
            f"{escape_markup(sides[1])}: {means[1][i]:{form}}, rank {ranks[1][i]}"
            for i in shown
        ]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": title,
                "x": [x for _ in shown for x in (0, 1, None)],
                "y": [y for i in shown for y in (int(places[0][i]), int(places[1][i]), None)],
                "text": [text for line in hover for text in (line, line, "")],
                "line": {"color": colour, "width": 2},
                "marker": {"color": colour, "size": 7},
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    axes = [
        categories(
            [called[i] for i in order],
            range=[len(names) - 0.4, -0.6],
            showgrid=False,
        )
        | {"ticktext": [f"{rank[i]} {called[i]}" for i in order]}
        for order, rank in zip(orders, ranks, strict=True)
    ]
    layout: dict[str, Any] = {
        "height": 130 + _ROW * max(1, len(names)),
        "xaxis": categories(sides, range=[-0.08, 1.08], showgrid=False, side="top", tickangle=0),
        "yaxis": axes[0],
        "yaxis2": axes[1] | {"overlaying": "y", "side": "right"},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": -0.02, "yanchor": "top"},
        "margin": {"l": 30, "r": 30, "t": 40, "b": 40},
    }
    # An axis without a trace of its own is not drawn.
    data.append({"type": "scatter", "x": [None], "y": [None], "yaxis": "y2", "showlegend": False})
    return {"data": data, "layout": layout}
