"""`report` from Python: a run's page anew, or one index over several runs."""

from zelo_ray.api.settings import Place, options_of
from zelo_ray.commands.report.run import run
from zelo_ray.options import ReportOptions


def report(*dirs: Place, index: Place | None = None) -> str:
    """Write ``report.html`` of a run anew; of several runs, one index page over them.

    Args:
        *dirs: directories or URLs of runs, or one whose subdirectories are runs.
        index: where the index page goes; else ``index.html`` in the directory that holds all runs.

    Returns:
        Where the page is.

    Raises:
        NothingToReport: none of them is a run.
        OptionError: no directory holds them all, or an ``index.html`` of somebody's is there.
    """
    return run(options_of(ReportOptions, {"dir": dirs, "index": index}, None))[1]
