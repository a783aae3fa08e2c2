"""Run `report`: write the page of a run, or one that lists several."""

from zelo_ray.command_options import ReportOptions
from zelo_ray.commands.report import write_report
from zelo_ray.commands.report.index import write_index
from zelo_ray.files.wording import counted


def run(options: ReportOptions) -> tuple[list[str], str]:
    """Write the page of a run, or one that lists several; return lines to print and its path.

    Raises:
        NotFoundError: no run is found.
        OptionError: no directory is above them all, or it has an ``index.html`` of other origin.
    """
    if len(options.runs) > 1 or options.index:
        place = write_index(options.runs, options.index)
        return [f"index over {counted(len(options.runs), 'run')}: {place}"], place
    first = options.runs[0].rstrip("/") or "/"
    write_report(first, options.query)
    place = f"{first}/report.html"
    return [place], place
