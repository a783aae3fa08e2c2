"""Write the page of a run: one self-contained HTML file."""

from collections.abc import Collection

from zelo_ray.commands.agree.report import AGREE_REPORT
from zelo_ray.commands.annotate.report import ANNOTATE_REPORT
from zelo_ray.commands.bakeoff.report import BAKEOFF_REPORT
from zelo_ray.commands.compare_labels.report import COMPARE_LABELS_REPORT
from zelo_ray.commands.compare_protocols.report import COMPARE_PROTOCOLS_REPORT
from zelo_ray.commands.drift.report import DRIFT_REPORT
from zelo_ray.commands.probe.report import PROBE_REPORT
from zelo_ray.commands.tune.report import TUNE_REPORT
from zelo_ray.errors import InputError, NothingToReport
from zelo_ray.files.run_record import is_finished, read_record, unfinished_message
from zelo_ray.files.storage import list_directory, write_text
from zelo_ray.reports.page import render_page

__all__ = ["NothingToReport", "write_report"]

REPORTS = {
    "annotate": ANNOTATE_REPORT,
    "bakeoff": BAKEOFF_REPORT,
    "agree": AGREE_REPORT,
    "compare": COMPARE_LABELS_REPORT,
    "protocols": COMPARE_PROTOCOLS_REPORT,
    "drift": DRIFT_REPORT,
    "probe": PROBE_REPORT,
    "tune": TUNE_REPORT,
}
"""By the kind in a record, how the results of its command become a report."""
RECORDS = tuple(dict.fromkeys(kind.record_name for kind in REPORTS.values()))


def find_record(names: Collection[str] | None) -> str | None:
    """Return the record of results among the names of a directory's files, if it has one."""
    return next((name for name in RECORDS if name in (names or ())), None)


def write_report(out: str) -> None:
    """Write ``report.html`` from the other files of a command, of any kind.

    Sections whose files are missing are left out.

    Raises:
        NothingToReport: there is no run, or it is not finished.
        InputError: a file is damaged.
    """
    out = out.rstrip("/") or "/"
    name = find_record(list_directory(out))
    if name is None:
        raise NothingToReport(f"{out} has no run.json: is it the --out of a finished run?")
    record = read_record(f"{out}/{name}")
    if not is_finished(record):
        raise NothingToReport(unfinished_message(out))
    kind = REPORTS.get(str(record.get("kind")))
    if kind is None:
        raise InputError(f"{out}/{name}: of another version, or damaged")
    write_text(out, "report.html", render_page(kind.read(out)))
