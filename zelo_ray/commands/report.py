"""``report``: write the page of a run, or one that lists several."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import fsspec

from zelo_ray.command_options import ReportOptions
from zelo_ray.commands import load_results
from zelo_ray.engine.job import Watch
from zelo_ray.errors import ExitStatus, NotFoundError, OptionError
from zelo_ray.files.queries import find_query
from zelo_ray.files.run_record import RUN, is_finished
from zelo_ray.files.storage import list_directory, read_json_object, write_text
from zelo_ray.files.wording import counted
from zelo_ray.report.model import Link, Report, Section, table
from zelo_ray.report.page import PAGE, render_page
from zelo_ray.report.results import Results


def run(options: ReportOptions, _watch: Watch) -> Results:
    """Write the page of a run, or one that lists several."""
    if len(options.runs) > 1 and not options.index:
        raise OptionError("several runs are listed on one page: name it with --index FILE")
    if options.index:
        place = write_index(options.runs, options.index)
        line = f"index over {counted(len(options.runs), 'run')}: {place}"
    else:
        first = options.runs[0].rstrip("/") or "/"
        line = place = write_report(first, options.query)
    return Results({"page": place}, out=place, lines=[line], files=[place])


def write_report(out: str, query: str = "") -> str:
    """Write the page of a run; ``query`` is one that the page of `annotate` lists in any case."""
    more = {"query": find_query(out, query)} if query else {}
    page: str = load_results(out, **more).write_report()
    return page


def write_index(places: Sequence[str], out: str) -> str:
    """Write one page that lists runs: name, command, id and state, with a link to each page."""
    runs = [(url, _record(url)) for url in map(_url, dict.fromkeys(places))]
    folder, _, name = _url(out).rpartition("/")
    columns: Mapping[str, Any] = {
        "run": lambda run: _link(run[0], folder),
        "command": lambda run: str(run[1].get("kind", "")),
        "id": lambda run: str(run[1].get("run_id", "")),
        "state": lambda run: _state(run[1]),
    }
    title = f"{counted(len(runs), 'run')} of zelo-ray"
    report = Report(title, sections=[Section("runs", "Runs", [table(runs, columns)])])
    fs, path = fsspec.url_to_fs(folder)
    fs.makedirs(path, exist_ok=True)
    write_text(folder, name, render_page(report, "index"))
    return out


def _url(place: str) -> str:
    """Return the full URL of a path, the same however it was written."""
    fs, path = fsspec.url_to_fs(place.rstrip("/"))
    return str(fs.unstrip_protocol(path))


def _record(url: str) -> dict[str, Any]:
    if RUN not in (list_directory(url) or ()):
        raise NotFoundError(f"{url.removeprefix('file://')} is not a run")
    return read_json_object(f"{url}/{RUN}")


def _link(url: str, folder: str) -> Link | str:
    name = posixpath.basename(url)
    if PAGE not in (list_directory(url) or ()):
        return f"{name} (no {PAGE} yet)"
    return Link(name, quote(posixpath.relpath(f"{url}/{PAGE}", folder)))


def _state(record: Mapping[str, Any]) -> str:
    if not is_finished(record):
        return "not finished"
    return "incomplete" if record.get("status") == ExitStatus.INCOMPLETE else "finished"
