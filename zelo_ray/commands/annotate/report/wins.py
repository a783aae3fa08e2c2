"""Count how often answers win where the same names, such as assistants, answer many queries."""

from collections.abc import Mapping, Sequence

import numpy as np

from zelo_ray.evaluation.wilson import wilson
from zelo_ray.formats.wording import counted
from zelo_ray.report.charts.figures import intervals
from zelo_ray.report.parts import Chart

_NAMED = 30
"""How many answers a chart has."""

Wins = Mapping[str, Mapping[str, Sequence[float]]]
"""By answer and query, 1 for each win, 0 for each loss, 1/2 for a tie."""


def win_shares(wins: Wins) -> list[tuple[str, float, int]]:
    """Return each answer with its share of wins, a mean over queries, and their number.

    The best come first. There are none where the answers are in fewer than two queries each, on
    average: then ids name no more than the answers to one query.
    """
    if sum(map(len, wins.values())) < 2 * len(wins):
        return []
    shares = [
        (name, float(np.mean([np.mean(outcomes) for outcomes in by_query.values()])), len(by_query))
        for name, by_query in wins.items()
    ]
    return sorted(shares, key=lambda row: (-row[1], row[0]))


def shares_chart(
    best: Sequence[tuple[str, float, int]],
    title: str,
    caption: str,
    by_chance: Mapping[str, float],
) -> Chart:
    """Draw the shares of `win_shares`, each with its 95% interval over queries.

    Args:
        best: at least one answer.
        title: of the axis.
        caption: how to read it.
        by_chance: the share of each answer if all were alike: a line if it is the same for all.
    """
    if len(best) > _NAMED:
        caption += f" The first {_NAMED} of {len(best):,}."
    names, share, queries = zip(*best[:_NAMED], strict=True)
    values = np.array(share)
    even = np.array([by_chance[name] for name in names])
    apart = bool(np.ptp(even) > 1e-9)
    unknown = np.full(len(even), np.nan)
    series = {"won" if apart else "": (values, *wilson(values, np.array(queries)))}
    series |= {"by chance": (even, unknown, unknown)} if apart else {}
    notes = [f" ({counted(count, 'query', 'queries')})" for count in queries]
    figure = intervals(names, series, title, None if apart else float(even[0]), notes=notes)
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    return Chart({"": figure}, caption)
