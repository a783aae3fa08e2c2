"""Provide `report`, which writes the page of a run, or an index of several runs."""

from zelo_ray.api.settings import Place, options_of
from zelo_ray.commands.report.run import run
from zelo_ray.options import ReportOptions


def report(*dirs: Place, index: Place | None = None) -> str:
    """Write ``report.html`` of a run again; of several runs, an index page.

    Args:
        *dirs: directories or URLs of runs, or one whose subdirectories are runs.
        index: path of the index page; by default ``index.html`` in the directory of all runs.

    Returns:
        The path of the page.

    Raises:
        NothingToReport: none of them is a run.
        OptionError: no directory contains all of them, or its ``index.html`` is not ours.
    """
    return run(options_of(ReportOptions, {"dir": dirs, "index": index}, None))[1]
