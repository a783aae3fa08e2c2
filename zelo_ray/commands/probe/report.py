"""Report what moves judges that should not, how surely, and what to do about it."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from zelo_ray.commands.probe.changes import PROBES
from zelo_ray.evaluation.significance import ALPHA, TEST
from zelo_ray.files.wording import counted, without_passwords
from zelo_ray.report.figures import Row, Shown, cell_of, figures_section
from zelo_ray.report.model import Cell, Report, Section, table, warn_of_demonstration
from zelo_ray.report.results import Results


def build_report(results: Results) -> Report:
    """Build the report of `probe`."""
    record, summary = results.record, results.record["summary"]
    options, judges = record["options"], record["judges"]
    shifts = results.rows("figures", what="shift")
    moved = {row["of"] for row in shifts if row["p"] < ALPHA}
    graded = options["protocol"] == "graded"
    what = (
        "the grade of the changed copy less that of the document"
        if graded
        else "the preference for the changed copy (order: for what is shown first), -1 to 1"
    )
    probes = figures_section(
        "probes",
        "Probes",
        results.rows("figures"),
        {
            "shift": Shown("shift", "+.3f", 0.0),
            "up": Shown("share of documents that moved up", ".0%"),
            "down": Shown("share of documents that moved down", ".0%"),
            "detectable": Shown("shift that would have shown"),
        },
        f"Shift: {what}, a mean over queries. Up, down: share of the documents that moved. p: "
        f"{TEST}, corrected for all judges and probes (Holm). Detectable: the shift that this "
        "sample would have shown with a chance of about 80%.",
        against="probe",
    )
    return Report(
        title=f"What moves {counted(len(judges), 'judge')}",
        tiles={
            "judges that were moved": f"{len(moved)} of {len(judges)}",
            "queries": summary["queries"],
            "documents": summary["documents"],
            "dollars": Cell(None if summary["unpriced"] else summary["dollars_in_all"], "$"),
        },
        lead=[*_lead(shifts, record)],
        sections=[*probes, *_shifted(results)],
        find_warnings=lambda: warn_of_demonstration(judges, "probes"),
        notes=record["notes"],
        made=f"zelo-ray {record['versions']['zelo-ray']} probe: "
        f"{', '.join(map(without_passwords, options['inputs']))}, protocol {options['protocol']}, "
        f"seed {options['seed']}.",
        names=judges,
    )


def _lead(shifts: Sequence[Row], record: Mapping[str, Any]) -> Iterator[str]:
    """Say what moved which judge, what helps, and whether this fails."""
    moved = [row for row in shifts if row["p"] < ALPHA]
    for row in moved:
        probe = PROBES[row["against"]]
        how = ("more", "less") if probe.change else ("first", "second")
        habit = probe.habit.format(how[row["value"] < 0])
        is_fault = row["value"] > 0 or probe.change is None
        advice = f" {probe.advice}." if is_fault else ""
        yield f"{row['of']} {habit} ({cell_of(row, '+.2f').text()}).{advice}"
    if not moved:
        yield "No probe moved a judge significantly; the table says which shift would have shown."
    if record["failing"]:
        names = ", ".join(f"{judge} ({probe})" for judge, probe in record["failing"])
        margin = f"{record['options']['fail_above']:g} (--fail-above)"
        yield f"Failed: a harmful shift is surely larger than {margin}: {names}."


def _shifted(results: Results) -> Iterator[Section]:
    """Show the documents whose judgments moved furthest."""
    rows = [row for row in results.rows("shifted") if row["shift"] and not isnan(row["shift"])]
    rows.sort(key=lambda row: -abs(row["shift"]))
    columns: dict[str, Any] = {name: name for name in ("judge", "probe")}
    columns |= {"query": "query_id", "document": "doc_id"}
    forms = {"original": ".3g", "changed": ".3g", "shift": "+.3g"}
    columns |= {n: lambda row, n=n, form=form: Cell(row[n], form) for n, form in forms.items()}
    if rows:
        more: dict[str, Any] = {"total": len(rows), "open_rows": 10}
        part = table(rows[:300], columns, file="shifted.parquet", **more)
        yield Section("shifted", "Judgments that moved furthest", [part])
