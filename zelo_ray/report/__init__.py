"""The report of a run: one page that opens from a file, without any network."""

from collections.abc import Callable, Mapping
from typing import Any

from zelo_ray.formats.pools import InputError
from zelo_ray.formats.results import write_text
from zelo_ray.report.agreement import agreement_page
from zelo_ray.report.annotation import annotation_page
from zelo_ray.report.bakeoff import bakeoff_page
from zelo_ray.report.page import Page, render
from zelo_ray.report.relabelling import relabelling_page
from zelo_ray.report.source import NothingToReport, Source
from zelo_ray.report.trials import trials_page

__all__ = ["NothingToReport", "write_report"]

_RECORDS = {
    "run.json": {"options", "summary"},
    "agree.json": {"counts", "judges", "options"},
    "compare.json": {"counts", "options", "taus"},
    "protocols.json": {"options", "unit"},
}
"""What a command leaves when it is done, and what tells whose results these are; what is in it."""


def write_report(out: str) -> None:
    """Write ``report.html`` from the other files of a finished command, of any kind.

    A section whose files are absent is left out.

    Raises:
        NothingToReport: nothing there is finished.
        InputError: a file does not hold what it should.
    """
    source = Source(out)
    name = next((name for name in _RECORDS if source.has(name)), None)
    if name is None:
        raise NothingToReport(f"{out} holds no run.json: is it the --out of a finished run?")
    record = source.record(name)
    if lacking := _RECORDS[name] - record.keys():
        raise InputError(f"{out}/{name}: holds no {min(lacking)}")
    write_text(out, "report.html", render(_maker(name, record)(source, record)))


def _maker(name: str, record: Mapping[str, Any]) -> Callable[[Source, Mapping[str, Any]], Page]:
    if name == "agree.json":
        return agreement_page
    if name == "compare.json":
        return relabelling_page
    if name == "protocols.json":
        return trials_page
    return bakeoff_page if record.get("kind") == "bakeoff" else annotation_page
