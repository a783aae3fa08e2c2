"""Write the page of a run: one self-contained HTML file."""

from collections.abc import Collection

from pydantic import ValidationError

from zelo_ray.commands import report_of_kind, results_of
from zelo_ray.errors import InputError, NotFoundError
from zelo_ray.files.run_record import OWNERS, RUN, is_finished, read_record, unfinished_message
from zelo_ray.files.storage import list_directory, write_text
from zelo_ray.reports.page import render_page
from zelo_ray.reports.parts import Report

RECORDS = (RUN, *OWNERS)


def find_record(names: Collection[str] | None) -> str | None:
    """Return the record of results among the names of a directory's files, if it has one."""
    return next((name for name in RECORDS if name in (names or ())), None)


def write_report(out: str) -> None:
    """Write ``report.html`` from the other files of a command; see `read_report`."""
    if results := results_of(out):
        try:
            results.write_report()
        except (KeyError, TypeError):
            raise InputError(f"{out}/{RUN}: is of another version, or damaged") from None
        return
    report = read_report(out)
    write_text(report.out, "report.html", render_page(report))


def read_report(out: str) -> Report:
    """Read the results of a command, of any kind, as a report.

    Sections whose files are missing are left out.

    Raises:
        NotFoundError: there is no run, or it is not finished.
        InputError: a file is damaged.
    """
    out = out.rstrip("/") or "/"
    name = find_record(list_directory(out))
    if name is None:
        raise NotFoundError(f"{out} has no run.json: is it the --out of a finished run?")
    record = read_record(f"{out}/{name}")
    if not is_finished(record):
        raise NotFoundError(unfinished_message(out))
    kind = report_of_kind(str(record.get("kind")))
    try:
        if kind is not None:
            report: Report = kind.read(out)
            return report
    except (KeyError, TypeError, ValidationError):
        pass
    raise InputError(f"{out}/{name}: is of another version, or damaged")
