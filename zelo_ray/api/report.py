"""`report` from Python: a run's page anew, or one index over several runs."""

from zelo_ray.api.settings import Place, options_of
from zelo_ray.commands.report import write_report
from zelo_ray.commands.report.index import holds_runs, write_index
from zelo_ray.formats.wording import counted
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
    return reported(options_of(ReportOptions, {"dir": dirs, "index": index}, None))[1]


def reported(options: ReportOptions) -> tuple[list[str], str]:
    """Write a report as `report` does, by an options object; return lines to print and its path."""
    first = options.dir[0].rstrip("/") or "/"
    if len(options.dir) > 1 or options.index or holds_runs(first):
        index = write_index(options.dir, options.index)
        notes = [f"left out: {reason}" for reason in index.others]
        return [*notes, f"index over {counted(index.runs, 'run')}: {index.place}"], index.place
    notes = [note for note in (write_report(first),) if note]
    place = f"{first}/report.html"
    return [*notes, place], place
