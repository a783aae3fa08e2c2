"""Report what moves judges that should not, how surely, and what to do about it."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from zelo_ray.commands.probe.measured import ProbeShift, ShiftedJudgment, is_significant
from zelo_ray.evaluation.probes import load_probe
from zelo_ray.evaluation.significance import TEST
from zelo_ray.files.run_record import PROBE
from zelo_ray.files.wording import counted
from zelo_ray.reports.demonstration import warn_of_demonstration
from zelo_ray.reports.kind import ReportKind
from zelo_ray.reports.parts import Cells, Report, ReportTable, Section, TextCell
from zelo_ray.reports.source import Source, without_credentials
from zelo_ray.reports.warning import RankedWarnings, ResultWarning, rank_warnings
from zelo_ray.reports.warning_codes import WarningCode
from zelo_ray.reports.wording import format_cost, format_estimate, format_number

_SHOWN, _OPEN = 300, 10  # the largest shifts: in the report, and unfolded
Row = Mapping[str, Any]


def build_report(source: Source, record: Mapping[str, Any]) -> Report:
    """Build the report of `probe`."""
    rows: Sequence[Row] = record["probes"]
    summary, options = record["summary"], record["options"]
    judges = [*dict.fromkeys(row["judge"] for row in rows)]
    notes = [f"{note}." for note in record["notes"]]
    notes += describe_too_few(rows, record["needed"])
    return Report(
        title=f"What moves {counted(len(judges), 'judge')}",
        tiles=[
            _headline(record),
            ("queries", f"{summary['queries']:,}"),
            ("documents", f"{summary['documents']:,}"),
            ("paid in all", format_cost(summary["dollars_in_all"], summary["unpriced"])),
        ],
        lead=[*_outcome(rows, record)],
        sections=[
            _probes_section(rows, options["protocol"]),
            _shifted_section(source),
        ],
        find_warnings=lambda: _rank_warnings(rows, options["protocol"]),
        notes=notes,
        made=(
            f"zelo-ray {record['versions']['zelo-ray']} probe: "
            f"{', '.join(map(without_credentials, options['inputs']))}, "
            f"protocol {options['protocol']}, seed {options['seed']}."
        ),
    )


def _has_moved(row: Row) -> bool:
    return is_significant(row["p_holm"])


def describe_too_few(rows: Sequence[Row], needed: int) -> Iterator[str]:
    """Name the probes that have too few queries for any shift to be significant."""
    fewest = dict[str, int]()
    for row in rows:
        fewest[row["probe"]] = min(row["queries"], fewest.get(row["probe"], row["queries"]))
    few = [f"{count:,} ({probe})" for probe, count in fewest.items() if count < needed]
    if few:
        yield (
            f"Too few queries: {', '.join(few)}; the shift of a probe cannot be significant with "
            f"fewer than {needed:,}."
        )


def _headline(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return how many judges were moved."""
    judges = {row["judge"] for row in record["probes"]}
    moved = {row["judge"] for row in record["probes"] if _has_moved(row)}
    return "judges that were moved", f"{len(moved):,} of {len(judges):,}"


def _outcome(rows: Sequence[Row], record: Mapping[str, Any]) -> Iterator[str]:
    """Say what moved which judge, and whether this fails."""
    moved = dict[str, list[str]]()
    for row in rows:
        if _has_moved(row):
            moved.setdefault(row["judge"], []).append(row["probe"])
    for judge, probes in moved.items():
        yield f"{judge} is moved by {', '.join(probes)}."
    if not moved:
        yield "No probe moved a judge significantly; the table says which shift would have shown."
    margin = record["options"]["fail_above"]
    if failing := record["failing"]:
        names = ", ".join(f"{judge} ({probe})" for judge, probe in failing)
        yield f"Failed: a harmful shift is surely larger than {margin:g} (--fail-above): {names}."


def _habit(row: Row) -> str:
    kind = load_probe(row["probe"])
    return kind.up if row["shift"] > 0 else kind.down


def _probes_section(rows: Sequence[Row], protocol: str) -> Section:
    cells: list[Cells] = [
        [
            TextCell(row["judge"]),
            row["probe"],
            "moved" if _has_moved(row) else "not significant",
            format_estimate(row["shift"], row["low"], row["high"], "+z.3f"),
            format_number(row["p_holm"], ".2g"),
            format_number(row["up"], ".0%"),
            format_number(row["down"], ".0%"),
            format_number(row["detectable"], ".3f"),
            f"{row['documents']:,}",
            f"{row['queries']:,}",
        ]
        for row in rows
    ]
    numbers = ("shift", "p (Holm)", "up", "down", "detectable", "documents", "queries")
    what = (
        "the grade of the changed copy less that of the document"
        if protocol == "graded"
        else "the preference for the changed copy (order: for what is shown first), -1 to 1, mean "
        "of both orders"
    )
    caption = (
        f"Shift: {what}; a mean over queries with its 95% interval over queries. Up, down: share "
        f"of the documents that moved. p: {TEST}, after Holm's "
        "correction for all judges and probes. Detectable: the shift that this sample would have "
        "shown with a chance of about 80%."
    )
    columns = ("judge", "probe", "result", *numbers)
    table = ReportTable(columns, cells, caption, frozenset(numbers), file="probes.parquet")
    return Section("probes", "Probes", (table,))


def _shifted_section(source: Source) -> Section | None:
    """Show the documents whose judgments moved furthest."""
    rows: list[Row] = source.table("shifted").to_pylist()
    moved = sorted((row for row in rows if row["shift"]), key=lambda row: -abs(row["shift"]))
    if not moved:
        return None
    cells: list[Cells] = [
        [
            *(TextCell(row[name]) for name in ("judge", "probe", "query_id", "doc_id")),
            format_number(row["original"], ".3g"),
            format_number(row["changed"], ".3g"),
            format_number(row["shift"], "+.3g"),
        ]
        for row in moved[:_SHOWN]
    ]
    columns = ("judge", "probe", "query", "document", "original", "changed", "shift")
    table = ReportTable(
        columns,
        cells,
        "",
        frozenset(columns[4:]),
        open_rows=_OPEN,
        file="shifted.parquet",
        total=len(moved),
    )
    return Section("shifted", "Judgments that moved furthest", (table,))


def _rank_warnings(rows: Sequence[Row], protocol: str) -> RankedWarnings:
    judges = [*dict.fromkeys(row["judge"] for row in rows)]
    warnings = [
        *warn_of_demonstration(judges, "probes"),
        *warn_of_shifts(rows, protocol),
    ]
    return rank_warnings(warnings, "what each judge was probed with was tested")


def warn_of_shifts(rows: Sequence[Row], protocol: str) -> Iterator[ResultWarning]:
    """Yield a warning for each significant shift in a direction that is a fault."""
    judged = "grades" if protocol == "graded" else "of preference"
    for row in rows:
        kind = load_probe(row["probe"])
        wrong = row["shift"] > 0 or kind.wrong == "either"
        if not (wrong and _has_moved(row)):
            continue
        low, high = row["low"], row["high"]
        span = "" if low is None or isnan(low) else f" [{low:+.2f}, {high:+.2f}]"
        values = {
            "judge": row["judge"],
            "habit": _habit(row),
            "shift": f"{row['shift']:+.2f}{span} {judged}",
            "advice": kind.advice,
        }
        yield ResultWarning(WarningCode.JUDGE_IS_MOVED, values, min(abs(row["shift"]), 1))


PROBE_REPORT = ReportKind(
    PROBE,
    (PROBE, "probes.parquet", "shifted.parquet"),
    frozenset({"probes", "needed", "options", "failing", "summary"}),
    {"probes": (ProbeShift,), "shifted": (ShiftedJudgment,)},
    build_report,
    lambda record: bool(record.get("complete")),
)
"""How results of `probe` become a report."""
