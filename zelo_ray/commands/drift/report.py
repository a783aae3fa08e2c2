"""Report which judges changed between two sets of judgments, and by how much."""

from collections.abc import Mapping, Sequence
from typing import Any

from zelo_ray.commands.drift import PANEL, Change, JudgeMovement, is_significant
from zelo_ray.files.wording import counted
from zelo_ray.reports.kind import ReportKind
from zelo_ray.reports.parts import Cells, Report, ReportTable, Section, TextCell
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.wording import format_estimate, format_number

_CHANGES = 10  # changes that a section shows at once
_OPEN = 30
Row = Mapping[str, Any]


def build_report(source: Source, record: Mapping[str, Any]) -> Report:
    """Build the report of `drift`."""
    rows: Sequence[Row] = record["judges"]
    judges = [*dict.fromkeys(row["judge"] for row in rows if row["judge"] != PANEL)]
    moved = _moved(rows)
    lead = f"{', '.join(moved)} changed." if moved else "No significant change of any judge."
    queries = min(row["queries"] for row in rows)
    notes = [f"The sets differ: {note}." for note in record["notes"]]
    if len(judges) == 1:
        notes.append(
            "With one judge only its level was tested: kappa and the share of unchanged judgments "
            "show whether it began to guess."
        )
    if queries < record["needed"]:
        notes.append(
            f"Too few queries: {queries:,}; no change can be significant with fewer than "
            f"{record['needed']:,}."
        )
    options = record["options"]
    return Report(
        title=f"What changed in {counted(len(judges), 'judge')}",
        tiles=[_headline(record), ("queries", f"{queries:,}")],
        lead=[lead],
        sections=[_judges_section(rows), _changes_section(source)],
        notes=notes,
        made=(
            f"zelo-ray {record['version']} drift: {without_credentials(options['old'])} against "
            f"{without_credentials(options['new'])}."
        ),
    )


def _headline(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return how many judges changed."""
    judges = {row["judge"] for row in record["judges"] if row["judge"] != PANEL}
    return "judges that changed", f"{len(_moved(record['judges'])):,} of {len(judges):,}"


def _moved(rows: Sequence[Row]) -> list[str]:
    """Return the judges that changed; the panel alone does not count."""
    return [
        *dict.fromkeys(
            row["judge"] for row in rows if is_significant(row["p_holm"]) and row["judge"] != PANEL
        )
    ]


_WHAT = {
    ("grades", "level"): "mean grade",
    ("votes", "level"): "preference for what is shown first",
    ("grades", "with others"): "agreement with others' grades",
    ("votes", "with others"): "agreement with others' votes",
}


def _judges_section(rows: Sequence[Row]) -> Section:
    cells: list[Cells] = [
        [
            TextCell(row["judge"]),
            "changed" if is_significant(row["p_holm"]) else "not significant",
            _WHAT[row["judged"], row["what"]],
            format_estimate(row["change"], row["low"], row["high"], "+z.3f"),
            format_number(row["p_holm"], ".2g"),
            format_number(row["old"]),
            format_number(row["new"]),
            format_number(row["same"], ".0%"),
            format_number(row["kappa"], ".2f"),
            f"{row['judgments']:,}",
            f"{row['queries']:,}",
        ]
        for row in rows
    ]
    numbers = (
        *("change", "p (Holm)", "old", "new", "same", "kappa"),
        *("judgments", "queries"),
    )
    caption = (
        "Change: new minus old, a mean over queries with its 95% interval. p: paired "
        "t-test over queries, after Holm's correction for all judges. Agreement with "
        "others: how far a judge agrees with the other judges' old judgments. Same, kappa: a "
        "judge's new judgments against its old ones; kappa is quadratic for grades, and of votes "
        "that of the winner or a tie."
    )
    columns = ("judge", "result", "in what", *numbers)
    table = ReportTable(columns, cells, caption, frozenset(numbers), file="drift.parquet")
    return Section("judges", "Judges", (table,))


def _changes_section(source: Source) -> Section | None:
    changes = source.table("changes")
    rows = changes.slice(0, _OPEN * _CHANGES).to_pylist()
    if not rows:
        return None
    cells: list[Cells] = [
        [
            *(TextCell(row[name]) for name in ("judge", "judged", "query_id", "item")),
            format_number(row["old"], "g"),
            format_number(row["new"], "g"),
        ]
        for row in rows
    ]
    columns = ("judge", "of its", "query", "item", "old", "new")
    table = ReportTable(
        columns,
        cells,
        "",
        frozenset(columns[4:]),
        open_rows=_CHANGES,
        file="changes.parquet",
        total=len(changes),
    )
    return Section("changes", "Largest changes of judgments", (table,))


DRIFT_REPORT = ReportKind(
    "drift.json",
    ("drift.json", "*.parquet"),
    frozenset({"judges", "needed", "options"}),
    {"drift": (JudgeMovement,), "changes": (Change,)},
    build_report,
    lambda record: bool(record.get("complete")),
)
"""How results of `drift` become a report."""
