"""Provide `report`, which writes the page of a run, or one that lists several."""

from zelo_ray.api.settings import Place, options_of
from zelo_ray.commands.report.run import run
from zelo_ray.options import ReportOptions


def report(*dirs: Place, index: Place | None = None) -> str:
    """Write ``report.html`` of a run again; of several runs, a page that lists them.

    Args:
        *dirs: directories or URLs of runs.
        index: path of the page that lists several; by default ``index.html`` in the directory of
            all runs.

    Returns:
        The path of the page.

    Raises:
        NothingToReport: one of them is no run.
        OptionError: no directory contains all of them, or its ``index.html`` is not ours.
    """
    return run(options_of(ReportOptions, {"dir": dirs, "index": index}, None))[1]
