"""Section on tournaments: how much the winner depends on the order and the judge."""

from collections.abc import Sequence

import numpy as np

from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.commands.annotate.report.tournaments import (
    Tournament,
    count_consistent,
    count_first_king_wins,
    count_same_winners,
    finished,
)
from zelo_ray.evaluation.wilson import wilson_intervals
from zelo_ray.formats.wording import counted
from zelo_ray.reports.charts.figures import intervals
from zelo_ray.reports.charts.grids import matrix
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_number, format_probability

_PLACES = 30
"""The number of places in the order that a chart shows."""


def tournaments_section(results: AnnotateResults) -> Section | None:
    """Show results of tournaments, the advantage of an early place, and agreement on winners."""
    tournaments = results.tournaments
    if not tournaments:
        return None
    charts = [_places(results)] if finished(tournaments) else []
    charts += _agreement(tournaments)
    return Section("tournaments", "Tournaments", [*charts, _table(tournaments)])


def _places(results: AnnotateResults) -> Chart:
    """Draw how often the winner was at each place of the order."""
    over = finished(results.tournaments)
    longest = min(_PLACES, max(len(entry.order) for entry in over))
    won, reached, even = np.zeros((3, longest))
    queries = [set[str]() for _ in range(longest)]
    for tournament in over:
        length = len(tournament.order)
        reached[:length] += 1
        even[:length] += 1 / length
        for query_ids in queries[:length]:
            query_ids.add(tournament.query_id)
        if (place := tournament.order.index(tournament.winner_id)) < longest:
            won[place] += 1
    share = won / reached
    low, high = wilson_intervals(share, np.array([len(ids) for ids in queries]))
    names = ["first king", *(f"challenger {place}" for place in range(1, longest))]
    unknown = np.full(longest, np.nan)
    series = {"won": (share, low, high), "by chance": (even / reached, unknown, unknown)}
    figure = intervals(names, series, "share of tournaments won")
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    explanations = {
        "random": "The order was drawn again for each repeat, so any difference from chance is an "
        "effect of the order: a tie keeps the king, and late challengers meet fewer opponents.",
        "zelo": "The answers were ordered by zELO score, so the first king should win often.",
    }
    order = results.options.get("order", "input")
    input_order = (
        "Answers came in the order of the input: a difference from chance is either an effect of "
        "the order, or the input was sorted by quality. --order random distinguishes them."
    )
    caption = (
        "How often the answer at each place of the order won, with 95% intervals over queries. "
    )
    return Chart({"": figure}, caption + explanations.get(order, input_order))


def _agreement(tournaments: Sequence[Tournament]) -> list[Chart]:
    """Draw how often two judges have the same winner."""
    courts = sorted({tournament.court for tournament in tournaments})
    if len(courts) < 2:
        return []
    counts, same = count_same_winners(tournaments, courts)
    _, by_chance, over = count_first_king_wins(tournaments)
    middle = by_chance / max(1, over)
    values = np.divide(same, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    hover = [
        [
            f"{first} and {second}: {format_number(values[i, j], '.1%')} of "
            f"{counted(int(counts[i, j]), 'tournament')}"
            for j, second in enumerate(courts)
        ]
        for i, first in enumerate(courts)
    ]
    return [
        Chart(
            {"": matrix(courts, values, hover, middle, low=2 * middle - 1)},
            "How often the tournaments of two judges on the same answers, in the same order, "
            "have the same winner; blue is above chance, orange below. One early match that goes "
            "the other way can change all later ones, so winners agree less than verdicts on a "
            "pair do.",
        )
    ]


def _table(tournaments: Sequence[Tournament]) -> ReportTable:
    repeated = count_consistent(tournaments)[1] > 0
    rows: list[Cells] = []
    for court in sorted({tournament.court for tournament in tournaments}):
        group = [tournament for tournament in tournaments if tournament.court == court]
        won, by_chance, over = count_first_king_wins(group)
        cells = [f"{len(group):,}", f"{over:,}", *(_share(n, over) for n in (won, by_chance))]
        rows.append(
            [TextCell(court), *cells, *([_share(*count_consistent(group))] if repeated else [])]
        )
    columns = ["judge", "tournaments", "with a winner", "first king won", "by chance"]
    caption = "A match without an answer ends its tournament, which then has no winner."
    if repeated:
        columns.append("repeats agree")
        caption += " Repeats agree where all tournaments of a judge on a query have one winner."
    return ReportTable(columns, rows, caption, frozenset(columns[1:]))


def _share(count: float, of: int) -> str:
    return format_probability(count / of) if of else "\N{EN DASH}"
