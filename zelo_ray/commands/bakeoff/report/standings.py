"""Sections of a bake-off on all queries: who leads, and which differences are real."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.report.results import MEAN, Contest
from zelo_ray.commands.bakeoff.report.significance import WORDS
from zelo_ray.commands.bakeoff.significance import SURE, Significance, significance_of, turned
from zelo_ray.formats.wording import counted
from zelo_ray.records import Comparison
from zelo_ray.report.charts.figures import intervals, spans
from zelo_ray.report.charts.grids import matrix
from zelo_ray.report.charts.labels import label
from zelo_ray.report.parts import Cells, Chart, Figure, Section, Table, Text
from zelo_ray.report.wording import chance, estimate, interval, number, paid

_ROWS, _OPEN = 1000, 30
"""How many comparisons the table shows, and how many of them at once."""


def leaderboard_section(contest: Contest) -> Section | None:
    """Show the means of arms with intervals, and what each arm did and cost."""
    if not contest.arms:
        return None
    figures = {}
    for measure, rows in contest.means.items():
        figures[measure] = intervals(
            contest.arms, {"": spans([rows[arm] for arm in contest.arms], MEAN)}, measure
        )
    chart = Chart(
        figures,
        "Each arm's mean over queries, with its interval, in the order of "
        f"{contest.summary['leading']}."
        + (
            " Two intervals may well overlap and the difference be real: see the differences below."
            if contest.comparisons
            else ""
        ),
        "measure",
    )
    about = contest.summary["arms"]
    queries = contest.summary["truth"]["queries"]
    notes = any(arm["note"] for arm in about)
    paid = any(arm["dollars"] or arm["unpriced"] for arm in about)
    place = {arm: i for i, arm in enumerate(contest.arms)}
    cells: list[Cells] = [
        [
            Text(arm["name"]),
            f"{arm['answered']:,} of {queries:,}",
            *([Text(arm["note"])] if notes else []),
            *(_mean(contest, measure, arm["name"]) for measure in contest.means),
            *([_dollars(arm)] if paid else []),
        ]
        for arm in sorted(about, key=lambda arm: place.get(arm["name"], len(place)))
    ]
    numbers = ("answered", *contest.means, *(["dollars"] if paid else []))
    columns = ("arm", "answered", *(["note"] if notes else []), *numbers[1:])
    caption = (
        "Means and intervals over the queries of the truth, of which those that an arm did not "
        "answer count as 0."
    )
    table = Table(columns, cells, caption, frozenset(numbers))
    return Section("leaderboard", "Leaderboard", (chart, table))


def _mean(contest: Contest, measure: str, arm: str) -> str:
    row = contest.means[measure].get(arm)
    return estimate(row["mean"], row["low"], row["high"]) if row else number(np.nan)


def _dollars(arm: Mapping[str, Any]) -> str:
    return paid(arm["dollars"], arm["unpriced"])


def differences_section(contest: Contest) -> Section | None:
    """Show which differences between arms are real."""
    if not (contest.comparisons and contest.arms):
        return None
    forests = {measure: _forest(contest, measure) for measure in contest.comparisons}
    chances = {
        measure: _chances(contest.arms, rows)
        for measure, rows in contest.comparisons.items()
        if not all(np.isnan(row.p_better) for row in rows)
    }
    draws = contest.summary["label_draws"]
    labels = (
        f"How sure the labels are is another question: the table has the share of {draws:,} draws "
        "of the labels in which A is above B on these very queries."
        if draws
        else "The labels are taken as they are."
    )
    parts = [
        Chart(
            forests,
            "By how much the arm with the highest mean is above each other one, on the queries "
            "that both answered. The intervals are of each pair by itself; a point is filled where "
            "the difference is real after correction for all comparisons, and a ring where not.",
            "measure",
        ),
        Chart(
            chances,
            "P(the row's arm beats the column's): the chance that its mean over all queries of "
            f"this kind is the higher one, by Student's t over these queries. {labels}",
            "measure",
        ),
    ]
    shown = [part for part in parts if part.figures]
    return Section("differences", "Which differences are real", [*shown, _table_of(contest)])


def _forest(contest: Contest, measure: str) -> Figure:
    best = contest.best(measure)
    rows = sorted(contest.rivals(measure, best), key=lambda row: row.difference)
    ends = ([getattr(row, name) for row in rows] for name in ("difference", "low", "high"))
    difference, low, high = (np.array(end, dtype=float) for end in ends)
    return intervals(
        [row.run_b for row in rows],
        {"": (difference, low, high)},
        f"{label(best, 16)} minus the other",
        0.0,
        notes=[contest.common(row) for row in rows],
        hollow={i for i, row in enumerate(rows) if not significance_of(row).is_significant},
    )


def _chances(arms: Sequence[str], rows: Sequence[Comparison]) -> Figure:
    place = {arm: i for i, arm in enumerate(arms)}
    values = np.full((len(arms), len(arms)), np.nan)
    hover = [[""] * len(arms) for _ in arms]
    for pair in (side for row in rows for side in (row, turned(row))):
        i, j = place[pair.run_a], place[pair.run_b]
        values[i, j] = pair.p_better
        hover[i][j] = (
            f"{pair.run_a} minus {pair.run_b}: "
            f"{estimate(pair.difference, pair.low, pair.high, '+.4f')}, p (Holm) {pair.p_holm:.3g}"
        )
    return matrix(arms, values, hover, 0.5)


def _table_of(contest: Contest) -> Table:
    leading, rows = next(iter(contest.comparisons.items()))
    place = {arm: i for i, arm in enumerate(contest.arms)}
    shown = sorted(rows, key=lambda row: sorted((place[row.run_a], place[row.run_b])))
    draws = contest.summary["label_draws"]
    cells: list[Cells] = [
        [
            *(Text(row.run_a), Text(row.run_b), WORDS[significance_of(row)]),
            *(number(row.difference, "+.4f"), interval(row.low, row.high, "+.4f")),
            *(f"{row.p:.3g}", f"{row.p_holm:.3g}", chance(row.p_better)),
            *([number(row.p_labels, ".0%")] if draws else []),
            *(f"{row.wins:,} / {row.ties:,} / {row.losses:,}", f"{row.queries:,}"),
        ]
        for row in shown[:_ROWS]
    ]
    numbers = (
        *("A minus B", "interval", "p", "p (Holm)", "P(A beats B)"),
        *(["above in draws"] if draws else []),
        *("A wins / ties / loses", "queries"),
    )
    real = sum(row.p_holm < SURE for row in rows)
    caption = (
        f"{leading}, in the order of the leaderboard: {real:,} of "
        f"{counted(len(rows), 'difference')} would be a surprise if the two arms were equal "
        f"(paired randomisation test over queries, p < {SURE} after Holm's correction for all "
        "comparisons of the contest)."
    )
    if kin := sum(significance_of(row) is Significance.ONLY_BY_KIN for row in rows):
        caption += f" Of these, {kin:,} only by judges that are kin of one of the two."
    if len(rows) > _ROWS:
        caption += f" The first {_ROWS:,}; comparisons.parquet has all."
    return Table(("A", "B", "they are", *numbers), cells, caption, frozenset(numbers), _OPEN)
