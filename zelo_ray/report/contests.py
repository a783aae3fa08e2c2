"""Sections of a best-of run: who won, and how much of that is the order or the judge."""

from collections.abc import Mapping, Sequence

import numpy as np

from zelo_ray.report.figures import intervals
from zelo_ray.report.grids import matrix
from zelo_ray.report.judged import Annotation
from zelo_ray.report.page import Cells, Chart, Section, Table, Text, chance, number, plural
from zelo_ray.report.raters import wilson
from zelo_ray.report.tournaments import (
    Tournament,
    agreeing,
    alike,
    contestants,
    ended,
    recur,
    stayed,
    wins,
)

_NAMED = 30
"""How many answers, and places in the order, a chart has."""


def winners_section(annotation: Annotation) -> Section | None:
    """Who won, where the same names answer many queries."""
    tournaments = ended(annotation.tournaments)
    if not recur(contestants(tournaments)):
        return None
    _, by_chance, over = stayed(tournaments)
    caption = (
        f"Which share of the tournaments that it was in an answer won, of "
        f"{plural(over, 'tournament')} with a winner, with a 95% interval over queries. The line "
        "is chance, where all answers are alike."
    )
    line_at = by_chance / over
    chart = shares_chart(wins(tournaments), "share of tournaments won", caption, line_at)
    return Section("winners", "Who won", (chart,))


def shares_chart(
    values: Mapping[str, Mapping[str, Sequence[float]]], title: str, caption: str, line_at: float
) -> Chart:
    """The mean of each name over its queries, the best names first.

    Args:
        values: numbers from 0 to 1, by name and by query.
        title: of the axis.
        caption: how to read it.
        line_at: the share of a name that is like all others.
    """
    means = {
        name: np.array([np.mean(told) for told in by_query.values()])
        for name, by_query in values.items()
    }
    best = sorted(means, key=lambda name: (-means[name].mean(), name))
    share = np.array([means[name].mean() for name in best[:_NAMED]])
    low, high = wilson(share, np.array([len(means[name]) for name in best[:_NAMED]]))
    notes = [f" ({plural(len(means[name]), 'query', 'queries')})" for name in best[:_NAMED]]
    if len(best) > _NAMED:
        caption += f" The first {_NAMED} of {len(best):,}."
    figure = intervals(best[:_NAMED], {"": (share, low, high)}, title, line_at, notes=notes)
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    return Chart({"": figure}, caption)


def tournaments_section(annotation: Annotation) -> Section | None:
    """How tournaments ended, whether it helps to be early, and how far their winners agree."""
    tournaments = annotation.tournaments
    if not tournaments:
        return None
    charts = [_places(annotation)] if ended(tournaments) else []
    charts += _agreement(tournaments)
    return Section("tournaments", "Tournaments", [*charts, _table(tournaments)])


def _places(annotation: Annotation) -> Chart:
    """How often the winner stood at which place of the order."""
    over = ended(annotation.tournaments)
    longest = min(_NAMED, max(len(each.line) for each in over))
    won, reached, even = np.zeros((3, longest))
    queries = [set[str]() for _ in range(longest)]
    for each in over:
        many = len(each.line)
        reached[:many] += 1
        even[:many] += 1 / many
        for met in queries[:many]:
            met.add(each.query_id)
        if (place := each.line.index(each.winner_id)) < longest:
            won[place] += 1
    share = won / reached
    low, high = wilson(share, np.array([len(met) for met in queries]))
    names = ["first king", *(f"challenger {place}" for place in range(1, longest))]
    unknown = np.full(longest, np.nan)
    series = {"won": (share, low, high), "by chance": (even / reached, unknown, unknown)}
    figure = intervals(names, series, "share of tournaments won")
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    told = {
        "random": "The order was drawn anew for each repeat, so that whatever differs from chance "
        "is the order's doing: a tie keeps the king, and who comes late meets fewer opponents.",
        "zelo": "The best by zELO score stood first, so that the first king should win often.",
    }
    order = annotation.run["options"].get("order", "input")
    input_order = (
        "Answers came in the order of the input: what differs from chance is either the order's "
        "doing, or the input stood in some order of quality. --order random tells them apart."
    )
    caption = (
        "How often the answer at which place of the order won, with a 95% interval over queries. "
    )
    return Chart({"": figure}, caption + told.get(order, input_order))


def _agreement(tournaments: Sequence[Tournament]) -> list[Chart]:
    """On how many tournaments two judges have the same winner."""
    courts = sorted({each.court for each in tournaments})
    if len(courts) < 2:
        return []
    both, same = agreeing(tournaments, courts)
    _, by_chance, over = stayed(tournaments)
    middle = by_chance / max(1, over)
    values = np.divide(same, both, out=np.full(both.shape, np.nan), where=both > 0)
    hover = [
        [
            f"{one} and {other}: {number(values[i, j], '.1%')} of "
            f"{plural(int(both[i, j]), 'tournament')}"
            for j, other in enumerate(courts)
        ]
        for i, one in enumerate(courts)
    ]
    return [
        Chart(
            {"": matrix(courts, values, hover, middle, low=2 * middle - 1)},
            "How often the tournaments of two judges on the same answers, in the same order, have "
            "the same winner; blue is above chance, orange below. One early contest that goes the "
            "other way can change all that follow, so that winners agree less than words on a pair "
            "do.",
        )
    ]


def _table(tournaments: Sequence[Tournament]) -> Table:
    repeated = alike(tournaments)[1] > 0
    rows: list[Cells] = []
    for court in sorted({each.court for each in tournaments}):
        mine = [each for each in tournaments if each.court == court]
        won, by_chance, over = stayed(mine)
        name = "the panel together" if court == "panel" else court
        cells = [f"{len(mine):,}", f"{over:,}", *(_share(n, over) for n in (won, by_chance))]
        rows.append([Text(name), *cells, *([_share(*alike(mine))] if repeated else [])])
    columns = ["judge", "tournaments", "with a winner", "first king won", "by chance"]
    caption = "A contest without an answer ends its tournament, which then has no winner."
    if repeated:
        columns.append("repeats agree")
        caption += (
            " Repeats agree on the share of queries on which all of a judge's tournaments have the "
            "same winner."
        )
    return Table(columns, rows, caption, frozenset(columns[1:]))


def _share(count: float, of: int) -> str:
    return chance(count / of) if of else "\N{EN DASH}"
