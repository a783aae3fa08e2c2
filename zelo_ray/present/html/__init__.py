"""The report of a run: one page that opens from a file, without any network."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from zelo_ray.engine.unfinished import Untold, so_far
from zelo_ray.errors import InputError, NothingToReport
from zelo_ray.formats.record import PROTOCOLS, RUN, is_finished
from zelo_ray.formats.results import write_text
from zelo_ray.present.html.agreement import agreement_page
from zelo_ray.present.html.annotation import annotation_page
from zelo_ray.present.html.bakeoff import bakeoff_page
from zelo_ray.present.html.page import Page, render
from zelo_ray.present.html.relabelling import relabelling_page
from zelo_ray.present.html.source import Source
from zelo_ray.present.html.trials import trials_page
from zelo_ray.present.warnings import RankedWarnings

__all__ = ["NothingToReport", "reported", "write_report"]

_RECORDS = {
    RUN: {"options", "summary"},
    "agree.json": {"counts", "judges", "options"},
    "compare.json": {"counts", "options", "taus"},
    PROTOCOLS: {"options", "unit"},
}
"""What a command leaves, and what tells whose results these are; what is in it at its end."""


def write_report(out: str) -> str:
    """Write ``report.html`` from the other files of a command, of any kind.

    A section whose files are absent is left out. Of a run of annotate that is not finished the page
    shows what there is, and says so on top.

    Returns:
        What it says there; empty for what is finished.

    Raises:
        NothingToReport, InputError: as `reported`.
    """
    return reported(out)[0]


def reported(out: str) -> tuple[str, RankedWarnings | None]:
    """Write the same; return what it says on top, and its warnings.

    Raises:
        NothingToReport: nothing there is finished, nor can be told of.
        InputError: a file does not hold what it should.
    """
    source = Source(out)
    name = next((name for name in _RECORDS if source.has(name)), None)
    if name is None:
        raise NothingToReport(f"{out} holds no run.json: is it the --out of a finished run?")
    record = source.record(name)
    if not is_finished(record):
        return _write_so_far(out, record), None
    if lacking := _RECORDS[name] - record.keys():
        raise InputError(f"{out}/{name}: holds no {min(lacking)}")
    page = _maker(name, record)(source, record)
    write_text(out, "report.html", render(page))
    return "", page.warnings


def _write_so_far(out: str, record: Mapping[str, Any]) -> str:
    try:
        with so_far(out, record) as snapshot:
            source = Source(snapshot.folder, out)
            page = replace(annotation_page(source, source.record(RUN)), banner=snapshot.told)
            write_text(out, "report.html", render(page))
            return snapshot.told
    except Untold as why:
        raise NothingToReport(str(why)) from None


def _maker(name: str, record: Mapping[str, Any]) -> Callable[[Source, Mapping[str, Any]], Page]:
    if name == "agree.json":
        return agreement_page
    if name == "compare.json":
        return relabelling_page
    if name == PROTOCOLS:
        return trials_page
    return bakeoff_page if record.get("kind") == "bakeoff" else annotation_page
