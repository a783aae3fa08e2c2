"""Write one page that lists several runs."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

import fsspec

from zelo_ray.commands.report import find_record
from zelo_ray.errors import ExitStatus, NotFoundError, OptionError
from zelo_ray.files.run_record import is_finished
from zelo_ray.files.storage import list_directory, read_json_object, write_text
from zelo_ray.files.wording import counted
from zelo_ray.reports.page import render_page
from zelo_ray.reports.parts import Cells, PageLink, Report, ReportTable, Section, TextCell

_PAGE = "report.html"
_MARK = b'content="zelo-ray index"'
_STAMP = re.compile(r"\d{8}T\d{6}Z")


def write_index(places: Sequence[str], out: str | None = None) -> str:
    """Write one page that lists runs: name, command, date and state, with a link to each page.

    Args:
        places: directories or URLs of runs.
        out: the path of the page; by default ``index.html`` in the directory above all runs.

    Returns:
        The path of the page.

    Raises:
        NotFoundError: one of them is no run.
        OptionError: no directory is above them all, or it has an ``index.html`` of other origin.
    """
    urls = [_url(place) for place in dict.fromkeys(places)]
    target = out or f"{_directory_above(urls)}/index.html"
    fs, path = fsspec.url_to_fs(target)
    if out is None and fs.exists(path) and _MARK not in fs.cat_file(path)[:2000]:
        raise OptionError(f"{target} is not an index of zelo-ray: name another page with --index")
    folder, _, name = _url(target).rpartition("/")
    rows = [_row(url, folder) for url in urls]
    table = ReportTable(("run", "command", "started (UTC)", "state"), rows)
    title = f"{counted(len(rows), 'run')} of zelo-ray"
    report = Report(
        title, tiles=[], lead=[], sections=[Section("runs", "Runs", [table])], kind="index"
    )
    fs, path = fsspec.url_to_fs(folder)
    fs.makedirs(path, exist_ok=True)
    write_text(folder, name, render_page(report))
    return target


def _url(place: str) -> str:
    """Return the full URL of a path, the same however it was written."""
    fs, path = fsspec.url_to_fs(place.rstrip("/"))
    return str(fs.unstrip_protocol(path))


def _directory_above(urls: Sequence[str]) -> str:
    schemes, paths = zip(*(url.split("://", 1) for url in urls), strict=True)
    above = posixpath.commonpath([posixpath.dirname(f"/{path.lstrip('/')}") for path in paths])
    if len({*schemes}) > 1 or above == "/":
        raise OptionError("no directory is above all these runs: name the page with --index FILE")
    return above if schemes[0] == "file" else f"{schemes[0]}:/{above}"


def _row(url: str, folder: str) -> Cells:
    names = list_directory(url) or []
    record = find_record(names)
    if record is None:
        raise NotFoundError(f"{url.removeprefix('file://')} is not a run")
    fields = read_json_object(f"{url}/{record}")
    kind = str(fields.get("kind", ""))
    name = posixpath.basename(url)
    page = posixpath.relpath(f"{url}/{_PAGE}", folder)
    return [
        PageLink(name, quote(page)) if _PAGE in names else TextCell(f"{name} (no {_PAGE} yet)"),
        kind,
        _started(fields),
        _state(fields),
    ]


def _started(record: Mapping[str, Any]) -> str:
    stamp = _STAMP.match(str(record.get("run_id", "")))
    if not stamp:
        return ""
    return f"{datetime.strptime(f'{stamp[0]}+0000', '%Y%m%dT%H%M%SZ%z'):%Y-%m-%d %H:%M}"


def _state(record: Mapping[str, Any]) -> str:
    if not is_finished(record):
        return "not finished"
    is_complete = record.get("complete", True) and not record.get("missing")
    is_complete = is_complete and record.get("status") != ExitStatus.INCOMPLETE
    return "finished" if is_complete else "incomplete"
