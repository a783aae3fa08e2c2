"""Sections of a bake-off on all queries: who leads, and which differences are real."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zelo_ray.commands.bakeoff.significance import SURE, Significance, significance_of, turned
from zelo_ray.present.html.contest import Contest, spans
from zelo_ray.present.html.figures import intervals
from zelo_ray.present.html.grids import matrix
from zelo_ray.present.html.labels import label
from zelo_ray.present.html.money import paid
from zelo_ray.present.html.page import (
    Cells,
    Chart,
    Figure,
    Section,
    Table,
    Text,
    chance,
    estimate,
    interval,
    number,
    plural,
)
from zelo_ray.present.significance import WORDS
from zelo_ray.records import Comparison

_ROWS, _OPEN = 1000, 30
"""How many comparisons the table shows, and how many of them at once."""


def leaderboard_section(contest: Contest) -> Section | None:
    """Show the means of arms with intervals, and what each arm did and cost."""
    if not contest.arms:
        return None
    figures = {}
    for measure, rows in contest.means.items():
        figures[measure] = intervals(
            contest.arms, {"": spans([rows[arm] for arm in contest.arms])}, measure
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
        if not all(np.isnan(one.p_better) for one in rows)
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
    rows = sorted(contest.rivals(measure, best), key=lambda one: one.difference)
    ends = ([getattr(one, name) for one in rows] for name in ("difference", "low", "high"))
    difference, low, high = (np.array(end, dtype=float) for end in ends)
    return intervals(
        [one.run_b for one in rows],
        {"": (difference, low, high)},
        f"{label(best, 16)} minus the other",
        0.0,
        notes=[contest.common(one) for one in rows],
        hollow={i for i, one in enumerate(rows) if not significance_of(one).is_significant},
    )


def _chances(arms: Sequence[str], rows: Sequence[Comparison]) -> Figure:
    place = {arm: i for i, arm in enumerate(arms)}
    values = np.full((len(arms), len(arms)), np.nan)
    hover = [[""] * len(arms) for _ in arms]
    for one in (seen for row in rows for seen in (row, turned(row))):
        i, j = place[one.run_a], place[one.run_b]
        values[i, j] = one.p_better
        hover[i][j] = (
            f"{one.run_a} minus {one.run_b}: "
            f"{estimate(one.difference, one.low, one.high, '+.4f')}, p (Holm) {one.p_holm:.3g}"
        )
    return matrix(arms, values, hover, 0.5)


def _table_of(contest: Contest) -> Table:
    leading, rows = next(iter(contest.comparisons.items()))
    place = {arm: i for i, arm in enumerate(contest.arms)}
    shown = sorted(rows, key=lambda one: sorted((place[one.run_a], place[one.run_b])))
    draws = contest.summary["label_draws"]
    cells: list[Cells] = [
        [
            *(Text(one.run_a), Text(one.run_b), WORDS[significance_of(one)]),
            *(number(one.difference, "+.4f"), interval(one.low, one.high, "+.4f")),
            *(f"{one.p:.3g}", f"{one.p_holm:.3g}", chance(one.p_better)),
            *([number(one.p_labels, ".0%")] if draws else []),
            *(f"{one.wins:,} / {one.ties:,} / {one.losses:,}", f"{one.queries:,}"),
        ]
        for one in shown[:_ROWS]
    ]
    numbers = (
        *("A minus B", "interval", "p", "p (Holm)", "P(A beats B)"),
        *(["above in draws"] if draws else []),
        *("A wins / ties / loses", "queries"),
    )
    real = sum(one.p_holm < SURE for one in rows)
    caption = (
        f"{leading}, in the order of the leaderboard: {real:,} of "
        f"{plural(len(rows), 'difference')} would be a surprise if the two arms were equal (paired "
        f"randomisation test over queries, p < {SURE} after Holm's correction for all comparisons "
        "of the contest)."
    )
    if kin := sum(significance_of(one) is Significance.ONLY_BY_KIN for one in rows):
        caption += f" Of these, {kin:,} only by judges that are kin of one of the two."
    if len(rows) > _ROWS:
        caption += f" The first {_ROWS:,}; comparisons.parquet has all."
    return Table(("A", "B", "they are", *numbers), cells, caption, frozenset(numbers), _OPEN)
