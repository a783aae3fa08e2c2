"""How often answers win, where the same names answer many queries, as those of assistants do."""

from collections.abc import Mapping, Sequence

import numpy as np

from zelo_ray.report.figures import intervals
from zelo_ray.report.page import Chart, plural
from zelo_ray.report.raters import wilson

_NAMED = 30
"""How many answers a chart has."""

Wins = Mapping[str, Mapping[str, Sequence[float]]]
"""By answer and query, 1 for each win, 0 for each loss, 1/2 for a tie."""


def win_shares(wins: Wins) -> list[tuple[str, float, int]]:
    """Each answer with its share of wins, a mean over queries, and how many these are.

    The best come first. There are none where the answers are in fewer than two queries each, on
    average: then ids name no more than the answers to one query.
    """
    if sum(map(len, wins.values())) < 2 * len(wins):
        return []
    found = [
        (name, float(np.mean([np.mean(told) for told in by_query.values()])), len(by_query))
        for name, by_query in wins.items()
    ]
    return sorted(found, key=lambda one: (-one[1], one[0]))


def shares_chart(
    best: Sequence[tuple[str, float, int]], title: str, caption: str, line_at: float
) -> Chart:
    """What `win_shares` found, each with its 95% interval over queries.

    Args:
        best: at least one answer.
        title: of the axis.
        caption: how to read it.
        line_at: the share of an answer that is like all others.
    """
    if len(best) > _NAMED:
        caption += f" The first {_NAMED} of {len(best):,}."
    names, share, queries = zip(*best[:_NAMED], strict=True)
    values = np.array(share)
    series = {"": (values, *wilson(values, np.array(queries)))}
    notes = [f" ({plural(many, 'query', 'queries')})" for many in queries]
    figure = intervals(names, series, title, line_at, notes=notes)
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    return Chart({"": figure}, caption)
