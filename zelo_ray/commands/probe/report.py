"""Report what moves judges that should not, how surely, and what to do about it."""

from collections.abc import Iterator, Mapping
from math import isnan
from typing import Any

from zelo_ray.commands.probe.changes import PROBES
from zelo_ray.evaluation.significance import ALPHA, TEST
from zelo_ray.files.wording import counted, without_passwords
from zelo_ray.report.demonstration import warn_of_demonstration
from zelo_ray.report.figures import Shown, cell_of, figures_section
from zelo_ray.report.model import Cell, Report, Section, table
from zelo_ray.report.results import Results

_MOST, _OPEN = 300, 10  # the largest shifts: in the report, and unfolded
Row = Mapping[str, Any]


def build_report(results: Results) -> Report:
    """Build the report of `probe`."""
    record, summary = results.record, results.record["summary"]
    options, judges = record["options"], record["judges"]
    shifts = results.rows("figures", what="shift")
    moved = {row["of"] for row in shifts if row["p"] < ALPHA}
    cost = Cell(None if summary["unpriced"] else summary["dollars_in_all"], "$")
    sections = (_probes_section(results), _shifted_section(results))
    return Report(
        title=f"What moves {counted(len(judges), 'judge')}",
        tiles={
            "judges that were moved": f"{len(moved)} of {len(judges)}",
            "queries": summary["queries"],
            "documents": summary["documents"],
            "dollars": cost,
        },
        lead=[*_lead(shifts, record)],
        sections=[section for section in sections if section],
        find_warnings=lambda: warn_of_demonstration(judges, "probes"),
        notes=[*record["notes"], *_too_few(shifts, record["needed"])],
        made=(
            f"zelo-ray {record['versions']['zelo-ray']} probe: "
            f"{', '.join(map(without_passwords, options['inputs']))}, "
            f"protocol {options['protocol']}, seed {options['seed']}."
        ),
    )


def _lead(shifts: list[dict[str, Any]], record: Row) -> Iterator[str]:
    """Say what moved which judge, what helps, and whether this fails."""
    for row in (row for row in shifts if row["p"] < ALPHA):
        probe = PROBES[row["against"]]
        is_fault = row["value"] > 0 or probe.change is None
        advice = f" {probe.advice}." if is_fault else ""
        yield f"{row['of']} {probe.describe(row['value'])} ({cell_of(row, '+.2f').text()}).{advice}"
    if not any(row["p"] < ALPHA for row in shifts):
        yield "No probe moved a judge significantly; the table says which shift would have shown."
    if record["failing"]:
        names = ", ".join(f"{judge} ({probe})" for judge, probe in record["failing"])
        margin = f"{record['options']['fail_above']:g} (--fail-above)"
        yield f"Failed: a harmful shift is surely larger than {margin}: {names}."


def _too_few(shifts: list[dict[str, Any]], needed: int) -> Iterator[str]:
    """Name the probes that have too few queries for any shift to be significant."""
    fewest = dict[str, int]()
    for row in shifts:
        fewest[row["against"]] = min(row["queries"], fewest.get(row["against"], row["queries"]))
    if few := [f"{count:,} ({probe})" for probe, count in fewest.items() if count < needed]:
        yield (
            f"Too few queries: {', '.join(few)}; the shift of a probe cannot be significant with "
            f"fewer than {needed:,}."
        )


def _probes_section(results: Results) -> Section | None:
    what = (
        "the grade of the changed copy less that of the document"
        if results.record["options"]["protocol"] == "graded"
        else "the preference for the changed copy (order: for what is shown first), -1 to 1"
    )
    caption = (
        f"Shift: {what}, a mean over queries. Up, down: share of the documents that moved. p: "
        f"{TEST}, corrected for all judges and probes (Holm). Detectable: the shift that this "
        "sample would have shown with a chance of about 80%."
    )
    shown = {
        "shift": Shown("shift", "+.3f", 0.0),
        "up": Shown("share of documents that moved up", ".0%"),
        "down": Shown("share of documents that moved down", ".0%"),
        "detectable": Shown("shift that would have shown"),
    }
    rows = results.rows("figures")
    return figures_section("probes", "Probes", rows, shown, caption, against="probe")


def _shifted_section(results: Results) -> Section | None:
    """Show the documents whose judgments moved furthest."""
    rows = [row for row in results.rows("shifted") if row["shift"] and not isnan(row["shift"])]
    rows.sort(key=lambda row: -abs(row["shift"]))
    columns = {
        **{name: name for name in ("judge", "probe")},
        "query": "query_id",
        "document": "doc_id",
        **{name: _number(name) for name in ("original", "changed", "shift")},
    }
    file = "shifted.parquet"
    shown = table(rows[:_MOST], columns, file=file, total=len(rows), open_rows=_OPEN)
    return Section("shifted", "Judgments that moved furthest", [shown]) if rows else None


def _number(name: str) -> Any:
    return lambda row: Cell(row[name], "+.3g" if name == "shift" else ".3g")
