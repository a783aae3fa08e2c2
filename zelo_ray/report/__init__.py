"""The report of a run: one page that opens from a file, without any network."""

from zelo_ray.formats.results import write_text
from zelo_ray.report.annotation import annotation_page
from zelo_ray.report.bakeoff import bakeoff_page
from zelo_ray.report.page import render
from zelo_ray.report.source import NothingToReport, Source

__all__ = ["NothingToReport", "write_report"]


def write_report(out: str) -> None:
    """Write ``report.html`` from the other files of a finished run, of either kind.

    A section whose files are absent is left out.

    Raises:
        NothingToReport: there is no finished run.
    """
    source = Source(out)
    run = source.run()
    page = (
        bakeoff_page(source, run) if run.get("kind") == "bakeoff" else annotation_page(source, run)
    )
    write_text(out, "report.html", render(page))
