"""Sections of a bake-off on all queries: who leads, and which differences are real."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zelo_ray.report.contest import Contest, or_else, spans, turned
from zelo_ray.report.figures import intervals, label, matrix
from zelo_ray.report.page import Cells, Chart, Figure, Section, Table, Text, plural

REAL = 0.05
"""Below this corrected p a difference counts as real."""
_ROWS = 200


def leaderboard_section(contest: Contest) -> Section | None:
    """Means with their intervals, and what each arm did and cost."""
    if not contest.arms:
        return None
    figures = {}
    for measure, rows in contest.means.items():
        names = [arm for arm in contest.arms if arm in rows]
        figures[measure] = intervals(names, {"": spans([rows[n] for n in names])}, measure)
    chart = Chart(
        figures,
        "Each arm's mean over queries, with its interval, best first. Two intervals may well "
        "overlap and the difference be real: that is asked of the same queries below.",
        "measure",
    )
    about = {arm["name"]: arm for arm in contest.summary["arms"]}
    cells: list[Cells] = [
        [
            Text(arm),
            *(_mean(contest, measure, arm) for measure in contest.means),
            *_about(about.get(arm)),
        ]
        for arm in (*contest.arms, *(name for name in about if name not in contest.arms))
    ]
    numbers = (*contest.means, "answered", "missing", "failed", "dollars")
    caption = (
        "Means and intervals. Answered and missing count the queries of the truth that an arm has "
        "and has not ranked; failed are those on which its reranker gave no valid answer."
    )
    table = Table(("arm", *numbers, "note"), cells, caption, frozenset(numbers))
    return Section("leaderboard", "Leaderboard", (chart, table))


def _mean(contest: Contest, measure: str, arm: str) -> str:
    row = contest.means[measure].get(arm)
    return f"{row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]" if row else "\N{EN DASH}"


def _about(arm: Mapping[str, Any] | None) -> Cells:
    if arm is None:
        return ["", "", "", "", ""]
    unknown = arm["dollars"] is None or (arm["unpriced"] and not arm["dollars"])
    dollars = "?" if unknown else f"{arm['dollars']:.4f}" + (" + ?" if arm["unpriced"] else "")
    counts = (f"{arm[name]:,}" for name in ("answered", "missing", "failed"))
    return [*counts, dollars, Text(arm["note"] or "")]


def differences_section(contest: Contest) -> Section | None:
    """Which differences are real."""
    if not (contest.comparisons and contest.arms):
        return None
    chances, forests = {}, {}
    for measure, rows in contest.comparisons.items():
        chances[measure] = _chances(contest.arms, rows)
        best = max(contest.means[measure].values(), key=lambda row: or_else(row["mean"], -1))["run"]
        against = [row for row in (turned(row, best) for row in rows) if row]
        against.sort(key=lambda row: row["difference"])
        title = f"{label(best, 14)} minus the other"
        forests[measure] = intervals(
            [row["run_b"] for row in against],
            {"": spans(against, ("difference", "low", "high"))},
            title,
            0.0,
        )
    parts = (
        Chart(
            forests,
            "By how much the best arm is above each other one, on the queries that both answered, "
            "with an interval. One that crosses 0 leaves open which of the two is better.",
            "measure",
        ),
        Chart(
            chances,
            "P(the row's arm beats the column's): the chance that its mean is the higher one on "
            "queries of this kind, given these queries and how sure the labels are.",
            "measure",
        ),
        _table_of(contest),
    )
    return Section("differences", "Which differences are real", parts)


def _chances(arms: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Figure:
    place = {arm: i for i, arm in enumerate(arms)}
    values = np.full((len(arms), len(arms)), np.nan)
    hover = [[""] * len(arms) for _ in arms]
    for row in rows:
        for one in (row["run_a"], row["run_b"]):
            seen = turned(row, one)
            if seen and seen["run_a"] in place and seen["run_b"] in place:
                i, j = place[seen["run_a"]], place[seen["run_b"]]
                values[i, j] = seen["p_better"]
                hover[i][j] = (
                    f"{one} minus {seen['run_b']}: {seen['difference']:+.4f} "
                    f"[{seen['low']:+.4f}, {seen['high']:+.4f}], p (Holm) {seen['p_holm']:.3g}"
                )
    return matrix(arms, values, hover, 0.5)


def _table_of(contest: Contest) -> Table:
    leading, rows = next(iter(contest.comparisons.items()))
    real = sum(row["p_holm"] < REAL for row in rows)
    shown = sorted(
        rows, key=lambda row: (or_else(row["p_holm"], 2), -abs(or_else(row["difference"], 0)))
    )
    cells: list[Cells] = [
        [
            *(Text(row["run_a"]), Text(row["run_b"]), f"{row['difference']:+.4f}"),
            f"[{row['low']:+.4f}, {row['high']:+.4f}]",
            *(f"{row['p']:.3g}", f"{row['p_holm']:.3g}", f"{row['p_better']:.1%}"),
            f"{row['wins']:,} / {row['ties']:,} / {row['losses']:,}",
            f"{row['queries']:,}",
            "different" if row["p_holm"] < REAL else "not told apart",
        ]
        for row in shown[:_ROWS]
    ]
    numbers = (
        "A minus B",
        "interval",
        "p",
        "p (Holm)",
        "P(A beats B)",
        "A wins / ties / loses",
        "queries",
    )
    caption = (
        f"{leading}: {real:,} of {plural(len(rows), 'difference')} would be a surprise if "
        "the two arms were equal (paired randomisation test over queries, p < 0.05 after Holm's "
        "correction for all comparisons of the contest)."
    )
    if len(rows) > _ROWS:
        caption += f" The surest {_ROWS}; comparisons.parquet has all."
    return Table(("A", "B", *numbers, "they are"), cells, caption, frozenset(numbers))
