"""Sections of ``compare-labels``: runs under both labels, their gaps, and documents at odds."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import isinf, isnan
from typing import Any

import numpy as np

from zelo_ray.report.charts.figures import intervals
from zelo_ray.report.charts.slopes import slopes
from zelo_ray.report.parts import Cells, Chart, Section, Table, Text
from zelo_ray.report.source import Source
from zelo_ray.report.wording import estimate, interval, number, short

_ROWS, _OPEN = 500, 25
"""How many rows a table shows, and how many of them at once."""
_APART = {
    (True, True): "both",
    (True, False): "the old",
    (False, True): "the new",
    (False, False): "neither",
}
"""Which labels tell two runs apart, by whether the old and whether the new ones do."""
_OLD, _NEW = "old", "new"

Row = Mapping[str, Any]


class Relabelling:
    """Two sets of labels compared, of which each table is read once."""

    def __init__(self, source: Source, record: Mapping[str, Any]) -> None:
        self.source, self.record = source, record

    def _rows(self, name: str) -> list[Row]:
        present = self.source.has(f"{name}.parquet")
        rows: list[Row] = self.source.table(name).to_pylist() if present else []
        return rows

    @cached_property
    def standings(self) -> list[Row]:
        """Return the runs under both labels, best first by the new ones."""
        return self._rows("leaderboards")

    @cached_property
    def siblings(self) -> list[Row]:
        """Return neighbours on a leaderboard, and the gaps between them."""
        return self._rows("siblings")

    @cached_property
    def contradictions(self) -> list[Row]:
        """Return documents whose old labels the new ones contradict, the worst queries first."""
        return self._rows("contradictions")


def leaderboards_section(relabelling: Relabelling) -> Section | None:
    """Show the runs under both labels."""
    rows = relabelling.standings
    if not rows:
        return None
    names = [row["run"] for row in rows]
    measure = relabelling.record["options"]["measure"]
    old, new = ([row[side] for row in rows] for side in ("old", "new"))
    series = {title: _spans(rows, side) for title, side in ((_OLD, "old"), (_NEW, "new"))}
    columns = ("run", "old", "old interval", "rank", "new", "new interval", "rank now", "moved")
    cells: list[Cells] = [
        [
            Text(row["run"]),
            *(number(row["old"]), interval(row["old_low"], row["old_high"]), str(row["old_rank"])),
            *(number(row["new"]), interval(row["new_low"], row["new_high"]), str(row["new_rank"])),
            f"{row['moved']:+d}" if row["moved"] else "=",
        ]
        for row in rows
    ]
    taus = " and ".join(
        f"{tau['coefficient']} {estimate(tau['value'], tau['low'], tau['high'])}"
        for tau in relabelling.record["taus"]
    )
    return Section(
        "leaderboards",
        "Leaderboards side by side",
        (
            Chart(
                {"": slopes(names, old, new, (_OLD, _NEW))},
                "Every run with its rank by the old labels, left, and by the new ones, right."
                + (f" The two orders agree by {taus}." if taus else ""),
            ),
            Chart(
                {"": intervals(names, series, measure)},
                "Means with 95% intervals over queries. Means under two sets of labels are not on "
                "one scale: what counts is the order, and how far apart runs are.",
            ),
            Table(columns, cells, "", frozenset(columns[1:]), _OPEN),
        ),
    )


def _spans(rows: Sequence[Row], side: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    value, low, high = (
        np.array([row[name] for row in rows], dtype=float)
        for name in (side, f"{side}_low", f"{side}_high")
    )
    return value, low, high


def siblings_section(relabelling: Relabelling) -> Section | None:
    """Show whether the gaps between neighbours have grown."""
    rows = [row for row in relabelling.siblings if row["board"] != "old"]
    if not rows:
        return None
    counts = relabelling.record["counts"]
    names = [f"{row['run_a']} over {row['run_b']}" for row in rows]
    figures = {}
    for title, side in ((_OLD, "old"), (_NEW, "new")):
        values = np.array([row[f"{side}_d"] for row in rows], dtype=float)
        values[np.isinf(values)] = np.nan
        figures[title] = (values, np.full(len(rows), np.nan), np.full(len(rows), np.nan))
    columns = ("above", "below", "old d", "new d", "significant by", "queries")
    cells: list[Cells] = [
        [
            *(Text(row["run_a"]), Text(row["run_b"])),
            *(_size(row["old_d"]), _size(row["new_d"])),
            _APART[row["old_apart"], row["new_apart"]],
            f"{row['queries']:,}",
        ]
        for row in rows
    ]
    return Section(
        "siblings",
        "Gaps between neighbours",
        (
            Chart(
                {"": intervals(names, figures, "Cohen's d", 0.0)},
                "How far each run stands above its neighbour on the new leaderboard, from the top, "
                "under both labels: the mean difference over queries, in standard deviations of "
                "that difference. Left of 0 the old labels have them the other way round. They are "
                "close on the board that chose them; to compare labels, over all pairs of runs the "
                f"median |d| is {number(counts['median_d_old'], '.2f')} by the old labels and "
                f"{number(counts['median_d_new'], '.2f')} by the new.",
            ),
            Table(
                columns,
                cells,
                "Significant: the paired randomisation test over queries has p < .05 after Holm's "
                "correction for all pairs of the leaderboard. siblings.parquet has the neighbours "
                "on the old leaderboard, too.",
                frozenset({"old d", "new d", "queries"}),
                _OPEN,
            ),
        ),
    )


def _size(value: float) -> str:
    return f"{value:+.0f}".replace("inf", "∞") if isinf(value) else number(value, "+z.2f")


def contradictions_section(relabelling: Relabelling) -> Section | None:
    """List documents whose old labels the new ones contradict."""
    contradictions = relabelling.contradictions
    if not contradictions:
        return None
    texts, split = (any(row[name] for row in contradictions) for name in ("text", "ambiguous"))
    cells: list[Cells] = [
        [
            *(Text(short(row["query_id"], 60)), Text(short(row["doc_id"], 80))),
            *(_was(row), number(row["new"], "g"), "best" if row["best"] else ""),
            *(["split" if row["ambiguous"] else ""] if split else []),
            *([Text(row["text"])] if texts else []),
        ]
        for row in contradictions[:_ROWS]
    ]
    columns = ["query", "document", "was", "is now", "of its query"]
    columns += (["judges"] if split else []) + (["text"] if texts else [])
    caption = (
        "The worst queries first: those whose best document by the new labels was no positive, "
        "then those whose label is farthest off."
    )
    if len(contradictions) > _ROWS:
        caption += (
            f" The first {_ROWS:,} of {len(contradictions):,}; contradictions.parquet has all."
        )
    table = Table(columns, cells, caption, frozenset({"is now"}), _OPEN)
    return Section("contradictions", "What the new labels deny", (table,))


def _was(row: Row) -> str:
    return "not judged" if isnan(row["old"]) else f"{row['kind']} ({row['old']:g})"
