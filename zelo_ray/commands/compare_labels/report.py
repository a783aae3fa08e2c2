"""The report of ``compare-labels``: what new labels of a benchmark change."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from math import isinf, isnan
from typing import Any

import numpy as np

from zelo_ray.commands.compare_labels.contradictions import Contradiction
from zelo_ray.commands.compare_labels.leaderboards import LeaderboardRow
from zelo_ray.commands.compare_labels.neighbours import Sibling
from zelo_ray.evaluation.significance import TEST
from zelo_ray.files.wording import counted
from zelo_ray.reports.charts.figures import intervals, spans
from zelo_ray.reports.charts.slopes import rank_slopes
from zelo_ray.reports.kind import Record, ReportKind
from zelo_ray.reports.parts import Cells, Chart, Report, ReportTable, Section, TextCell
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.warning import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import WarningCode
from zelo_ray.reports.wording import format_estimate, format_number, short

Row = Mapping[str, Any]

_ROWS, _OPEN, _CONTRADICTIONS_OPEN = 500, 25, 12
"""Rows of a table, and rows that are shown at once."""
_CONTRADICTED = 0.1
"""Above this share of contradicted queries, the labels measure different things."""
_SIGNIFICANT = {
    (True, True): "both",
    (True, False): "old",
    (False, True): "new",
    (False, False): "neither",
}
"""By which labels two runs differ significantly: keys are (by the old, by the new)."""
_KINDS = {
    "positive": "old positives not relevant",
    "negative": "old negatives relevant",
    "unjudged": "unjudged, now relevant",
}


class LabelComparisonResults:
    """Results of comparing labels; each table is read once."""

    def __init__(self, source: Source, record: Record) -> None:
        self.source, self.record = source, record
        self.counts: Mapping[str, Any] = record["counts"]

    @cached_property
    def leaderboard(self) -> list[Row]:
        """Return the runs under both labels, best first by the new ones."""
        return self.source.rows("leaderboards")

    @cached_property
    def siblings(self) -> list[Row]:
        """Return neighbours on the new leaderboard, and the gaps between them."""
        return [row for row in self.source.rows("siblings") if row["board"] != "old"]

    @cached_property
    def contradictions(self) -> list[Row]:
        """Return documents whose old labels the new ones contradict, the worst queries first."""
        return self.source.rows("contradictions")

    @property
    def leaders(self) -> tuple[str, str]:
        """Return the first run by the old labels, and the first by the new ones."""
        rows = self.leaderboard
        return min(rows, key=lambda row: row["old_rank"])["run"], rows[0]["run"]


def build_report(source: Source, record: Record) -> Report:
    """Build the report of `compare-labels`."""
    results = LabelComparisonResults(source, record)
    options = record["options"]
    lead = [_compare_orders(results), _compare_pairs(results), _contradiction_sentence(results)]
    made = (
        f"zelo-ray {record['version']} compare-labels: {without_credentials(options['old'])} "
        f"against {without_credentials(options['new'])}, {options['measure']}, "
        f"relevant from {options['positive']:g} by "
        f"the old and from {options['relevant']:g} by the new labels."
    )
    return Report(
        title="What new labels change",
        tiles=_tiles(results),
        lead=[sentence for sentence in lead if sentence],
        sections=[make(results) for make in SECTIONS],
        find_warnings=lambda: _find_warnings(results),
        notes=record["notes"],
        made=made,
    )


def _tiles(results: LabelComparisonResults) -> list[tuple[str, str]]:
    counts = results.counts
    tiles = [("queries", f"{counts['queries']:,}")]
    if results.leaderboard:
        tiles.insert(0, ("runs", f"{counts['runs']:,}"))
        tiles += [
            (tau["coefficient"], format_estimate(tau["value"], tau["low"], tau["high"]))
            for tau in results.record["taus"]
        ]
    tiles.append(("contradicted queries", f"{counts['queries_contradicted']:,}"))
    return tiles + [(title, f"{counts[kind]:,}") for kind, title in _KINDS.items() if counts[kind]]


def _compare_orders(results: LabelComparisonResults) -> str:
    """Say which run leads under each set of labels, and which one moves most."""
    if not (rows := results.leaderboard):
        return ""
    old, new = results.leaders
    leaders = f"{new} leads under both labels"
    if old != new:
        leaders = f"{old} leads by the old labels, {new} by the new"
    measure = rows[0]["measure"]
    mover = max(rows, key=lambda row: abs(row["moved"]))
    moved = sum(row["moved"] != 0 for row in rows)
    if not moved:
        return f"By {measure} {leaders}; no run changes places."
    places = f"{counted(abs(mover['moved']), 'place')} {'up' if mover['moved'] > 0 else 'down'}"
    return (
        f"By {measure} {leaders}; {moved:,} of {counted(len(rows), 'run')} change "
        f"places, {mover['run']} most: {places}."
    )


def _compare_pairs(results: LabelComparisonResults) -> str:
    """Say how many pairs of runs differ significantly, and how many in opposite directions."""
    runs, counts = len(results.leaderboard), results.counts
    if runs < 2:
        return ""
    turned = counts["turned"]
    return (
        f"Of {counted(runs * (runs - 1) // 2, 'pair')} of runs {counts['apart_old']:,} differ "
        f"significantly by the old labels, {counts['apart_new']:,} by the new"
        + (f"; {turned:,} by both, in opposite directions." if turned else ".")
    )


def _contradiction_sentence(results: LabelComparisonResults) -> str:
    options, counts = results.record["options"], results.counts
    beaten = counts["queries_with_new_best"]
    return (
        f"The new labels (relevant from {options['relevant']:g}) contradict the old ones (from "
        f"{options['positive']:g}) in {counts['queries_contradicted']:,} of "
        f"{counted(counts['queries'], 'query', 'queries')}"
        + (f"; in {beaten:,} the best document was not an old positive." if beaten else ".")
    )


def leaderboards_section(results: LabelComparisonResults) -> Section | None:
    """Show the runs under both labels."""
    rows = results.leaderboard
    if not rows:
        return None
    missing = results.record["missing"]
    columns = ["run", "old", "new", "old rank", "new rank", "moved"]
    columns += ["not ranked"] if missing else []
    cells: list[Cells] = [
        [
            TextCell(row["run"]),
            format_estimate(row["old"], row["old_low"], row["old_high"]),
            format_estimate(row["new"], row["new_low"], row["new_high"]),
            str(row["old_rank"]),
            str(row["new_rank"]),
            f"{row['moved']:+d}" if row["moved"] else "=",
            *([f"{missing.get(row['run'], 0):,}"] if missing else []),
        ]
        for row in rows
    ]
    measure = rows[0]["measure"]
    caption = f"Mean {measure} with 95% intervals over queries, best first by the new labels."
    if missing:
        caption += " Queries that a run did not rank count as 0 in its means."
    names = [row["run"] for row in rows]
    old, new = (spans(rows, (side, f"{side}_low", f"{side}_high")) for side in ("old", "new"))
    return Section(
        "leaderboards",
        "Leaderboards side by side",
        (
            Chart(
                {"": rank_slopes(names, old[0].tolist(), new[0].tolist(), ("old", "new"))},
                "Every run with its rank by the old labels, left, and by the new ones, right.",
            ),
            Chart(
                {"": intervals(names, {"old": old, "new": new}, measure)},
                "Means under two sets of labels are not comparable: look at the order, and at "
                "how far apart runs are.",
            ),
            ReportTable(
                columns,
                cells,
                caption,
                frozenset(columns[1:]),
                _OPEN,
                file="leaderboards.parquet",
            ),
        ),
    )


def siblings_section(results: LabelComparisonResults) -> Section | None:
    """Show the gaps between neighbours under both labels."""
    rows, counts = results.siblings, results.counts
    if not rows:
        return None
    names = [f"{row['run_a']} over {row['run_b']}" for row in rows]
    figures = {}
    for side in ("old", "new"):
        values = np.array([row[f"{side}_d"] for row in rows], dtype=float)
        values[np.isinf(values)] = np.nan
        figures[side] = (values, np.full(len(rows), np.nan), np.full(len(rows), np.nan))
    columns = ("above", "below", "old d", "new d", "significant by", "queries")
    cells: list[Cells] = [
        [
            TextCell(row["run_a"]),
            TextCell(row["run_b"]),
            _effect_size(row["old_d"]),
            _effect_size(row["new_d"]),
            _SIGNIFICANT[row["old_apart"], row["new_apart"]],
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
                "How far each run is above the next on the new leaderboard, from the top, under "
                "both labels. Left of 0 the labels have them in the opposite order.",
            ),
            ReportTable(
                columns,
                cells,
                "Cohen's d: the mean difference over queries, in standard deviations of that "
                f"difference. Significant: p < .05 ({TEST}), after Holm's "
                "correction for all pairs. Neighbours are close by the labels that made them "
                "neighbours; to compare labels, the median |d| over all pairs of runs is "
                f"{format_number(counts['median_d_old'], '.2f')} by the old labels and "
                f"{format_number(counts['median_d_new'], '.2f')} by the new.",
                frozenset({"old d", "new d", "queries"}),
                _OPEN,
                file="siblings.parquet",
            ),
        ),
    )


def _effect_size(value: float) -> str:
    return f"{value:+.0f}".replace("inf", "∞") if isinf(value) else format_number(value, "+z.2f")


def contradictions_section(results: LabelComparisonResults) -> Section | None:
    """List documents whose old labels the new ones contradict."""
    rows = results.contradictions
    if not rows:
        return None
    has_texts, has_ambiguous = (any(row[name] for row in rows) for name in ("text", "ambiguous"))
    columns = ["query", "document", "old", "now", *(["text"] if has_texts else []), "best"]
    columns += ["judges"] if has_ambiguous else []
    cells: list[Cells] = [
        [
            TextCell(short(row["query_id"], 60)),
            TextCell(short(row["doc_id"], 80)),
            "not judged" if isnan(row["old"]) else f"{row['kind']} ({row['old']:g})",
            format_number(row["new"], "g"),
            *([TextCell(row["text"])] if has_texts else []),
            "yes" if row["best"] else "",
            *(["split" if row["ambiguous"] else ""] if has_ambiguous else []),
        ]
        for row in rows[:_ROWS]
    ]
    caption = (
        "The worst queries first: those whose best document by the new labels was not a positive, "
        "then those whose label is farthest from the cut."
    )
    if len(rows) > _ROWS:
        caption += f" The table has the first {_ROWS:,} of {len(rows):,}."
    table = ReportTable(
        columns,
        cells,
        caption,
        frozenset({"now"}),
        _CONTRADICTIONS_OPEN,
        file="contradictions.parquet",
        total=len(rows),
    )
    return Section("contradictions", "Contradicted labels", (table,))


def _find_warnings(results: LabelComparisonResults) -> RankedWarnings:
    return rank_warnings(
        warn_of_labels(results.record, results.leaders if results.leaderboard else None),
        "the order of the runs, their leader, and contradicted queries were looked at",
    )


def warn_of_labels(record: Record, leaders: tuple[str, str] | None) -> Iterator[ResultWarning]:
    """Yield a warning for each change by the new labels that may affect decisions.

    Args:
        record: ``compare.json``.
        leaders: the first run by the old labels and by the new ones; None without runs.
    """
    counts = record["counts"]
    if turned := counts.get("turned", 0):
        pairs = counted(turned, "pair of runs is", "pairs of runs are")
        yield ResultWarning(WarningCode.PAIRS_TURNED, {"pairs": pairs})
    if leaders and leaders[0] != leaders[1]:
        yield ResultWarning(WarningCode.LEADER_CHANGED, {"old": leaders[0], "new": leaders[1]})
    contradicted, queries = counts["queries_contradicted"], counts["queries"]
    # For scores in logits without a given cut, contradictions mean little.
    if not record["uncut"] and contradicted > _CONTRADICTED * queries:
        yield ResultWarning(
            WarningCode.LABELS_CONTRADICT,
            {"contradicted": contradicted, "queries": counted(queries, "query", "queries")},
        )
    for run, missing in record["missing"].items():
        lacking = counted(missing, "query", "queries")
        yield ResultWarning(WarningCode.RUN_LACKS_QUERIES, {"run": run, "queries": lacking})


SECTIONS = (leaderboards_section, siblings_section, contradictions_section)

COMPARE_LABELS_REPORT = ReportKind(
    "compare.json",
    ("compare.json", "*.parquet"),
    frozenset({"counts", "options", "taus"}),
    {
        "contradictions": (Contradiction,),
        "leaderboards": (LeaderboardRow,),
        "siblings": (Sibling,),
    },
    build_report,
    lambda record: bool(record.get("complete")),
)
"""How results of `compare-labels` become a report."""
