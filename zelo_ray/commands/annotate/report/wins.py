"""Section on winners, where the same names, such as assistants, answer many queries."""

from collections.abc import Mapping, Sequence

import numpy as np

from zelo_ray.commands.annotate.report.results import AnnotateResults
from zelo_ray.commands.annotate.report.tournaments import count_wins, expected_wins, finished
from zelo_ray.evaluation.significance import share_intervals
from zelo_ray.files.wording import counted
from zelo_ray.reports.charts.figures import intervals
from zelo_ray.reports.parts import Cells, Chart, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_estimate, format_probability

_NAMED, _OPEN = 30, 10
"""Answers that a chart shows, and rows of the table that are shown at once."""

Wins = Mapping[str, Mapping[str, Sequence[float]]]
"""By answer and query, 1 for each win, 0 for each loss, 1/2 for a tie."""


def win_shares(wins: Wins) -> list[tuple[str, float, int]]:
    """Return each answer with its share of wins, a mean over queries, and their number.

    The best come first. The list is empty if answers are in fewer than two queries each, on
    average: then ids name the answers to one query only.
    """
    if sum(map(len, wins.values())) < 2 * len(wins):
        return []
    shares = [
        (name, float(np.mean([np.mean(outcomes) for outcomes in by_query.values()])), len(by_query))
        for name, by_query in wins.items()
    ]
    return sorted(shares, key=lambda row: (-row[1], row[0]))


def winners_section(results: AnnotateResults) -> Section | None:
    """Show which answers won their tournaments, or pairs, if names answer many queries."""
    over, pairs = finished(results.tournaments), results.debates.wins
    unit, outcomes = ("tournaments", count_wins(over)) if over else ("pairs", pairs)
    best = win_shares(outcomes)
    if not best:
        return None
    even = expected_wins(over) if over else dict.fromkeys(pairs, 0.5)
    names, share, queries = zip(*best, strict=True)
    values = np.array(share)
    ends = np.clip(share_intervals(values, np.array(queries)), 0, 1)
    rows: list[Cells] = [
        [
            TextCell(name),
            format_estimate(won, low, high, ".0%"),
            format_probability(even[name]),
            f"{count:,}",
        ]
        for name, won, low, high, count in zip(names, share, *ends, queries, strict=True)
    ]
    columns = ("answer", "won", "by chance", "queries")
    caption = f"The share of its {unit} that it won, the mean over queries, with a 95% interval" + (
        "." if over else "; a tie counts half."
    )
    table = ReportTable(columns, rows, caption, frozenset(columns[1:]), _OPEN)
    return Section("winners", "Who won", (_chart(best, ends, even, unit), table))


def _chart(
    best: Sequence[tuple[str, float, int]], ends: np.ndarray, even: Mapping[str, float], unit: str
) -> Chart:
    """Draw the shares of `win_shares`: chance is a line if it is the same for all."""
    names, share, queries = zip(*best[:_NAMED], strict=True)
    by_chance = np.array([even[name] for name in names])
    apart = bool(np.ptp(by_chance) > 1e-9)
    unknown = np.full(len(names), np.nan)
    series = {"won" if apart else "": (np.array(share), *ends[:, :_NAMED])}
    series |= {"by chance": (by_chance, unknown, unknown)} if apart else {}
    notes = [f" ({counted(count, 'query', 'queries')})" for count in queries]
    line = None if apart else float(by_chance[0])
    figure = intervals(names, series, f"share of {unit} won", line, notes=notes)
    figure["layout"]["xaxis"] |= {"tickformat": ".0%", "rangemode": "tozero"}
    more = f" The first {_NAMED} of {len(best):,}." if len(best) > _NAMED else ""
    return Chart({"": figure}, f"By chance: if all answers were alike.{more}")
