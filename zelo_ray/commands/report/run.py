"""Run `report`: write the page of a run, or one index over several runs."""

from zelo_ray.commands.report import write_report
from zelo_ray.commands.report.index import holds_runs, write_index
from zelo_ray.formats.wording import counted
from zelo_ray.options import ReportOptions


def run(options: ReportOptions) -> tuple[list[str], str]:
    """Write the page of a run, or an index over several; return lines to print and its path.

    Raises:
        NothingToReport: no run is found.
        OptionError: no directory is above them all, or it has an ``index.html`` of other origin.
    """
    first = options.dir[0].rstrip("/") or "/"
    if len(options.dir) > 1 or options.index or holds_runs(first):
        index = write_index(options.dir, options.index)
        notes = [f"left out: {reason}" for reason in index.others]
        return [*notes, f"index over {counted(index.runs, 'run')}: {index.place}"], index.place
    notes = [note for note in (write_report(first),) if note]
    place = f"{first}/report.html"
    return [*notes, place], place
