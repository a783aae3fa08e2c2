"""Section on tournaments: how much the winner depends on the order."""

from collections.abc import Sequence

from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.commands.annotate.report.tournaments import (
    Tournament,
    count_consistent,
    count_first_king_wins,
)
from zelo_ray.reports.parts import Cells, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_probability


def tournaments_section(results: AnnotateResults) -> Section | None:
    """Count tournaments, those with a winner, and those that the first king won."""
    tournaments = results.tournaments
    if not tournaments:
        return None
    return Section("tournaments", "Tournaments", [_table(tournaments)])


def _table(tournaments: Sequence[Tournament]) -> ReportTable:
    repeated = count_consistent(tournaments)[1] > 0
    rows: list[Cells] = []
    for judge in sorted({tournament.judge for tournament in tournaments}):
        group = [tournament for tournament in tournaments if tournament.judge == judge]
        won, by_chance, over = count_first_king_wins(group)
        cells = [f"{len(group):,}", f"{over:,}", *(_share(n, over) for n in (won, by_chance))]
        rows.append(
            [TextCell(judge), *cells, *([_share(*count_consistent(group))] if repeated else [])]
        )
    columns = ["judge", "tournaments", "with a winner", "first king won", "by chance"]
    caption = "A match without an answer ends its tournament, which then has no winner."
    if repeated:
        columns.append("repeats agree")
        caption += " Repeats agree where all tournaments of a judge on a query have one winner."
    return ReportTable(columns, rows, caption, frozenset(columns[1:]))


def _share(count: float, of: int) -> str:
    return format_probability(count / of) if of else "\N{EN DASH}"
