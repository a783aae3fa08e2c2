"""One page over several runs: which places hold runs, and where the page goes."""

import posixpath
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import fsspec

from zelo_ray.commands.report import RECORDS
from zelo_ray.commands.report.overview import overview
from zelo_ray.commands.report.runs import Past, past, whole_path
from zelo_ray.errors import InputError, NothingToReport, OptionError
from zelo_ray.formats.files import listing
from zelo_ray.formats.results import write_text
from zelo_ray.reports.page import render_page

INDEX = "index.html"
_MARK = b'content="zelo-ray index"'


@dataclass(frozen=True, slots=True)
class WrittenIndex:
    """Place of the index page, number of its runs, and the given places that are no run."""

    place: str
    runs: int
    others: tuple[str, ...]


def holds_runs(place: str) -> bool:
    """Return whether a directory or URL is no run itself, but a subdirectory of it is."""
    names = listing(place) or []
    return not set(RECORDS) & {*names} and any(
        set(RECORDS) & {*(listing(f"{place}/{name}") or ())} for name in names
    )


def write_index(places: Sequence[str], out: str | None = None) -> WrittenIndex:
    """Write one page over the runs that are there.

    Args:
        places: directories or URLs of runs, or of directories whose subdirectories are runs.
        out: where the page goes; else ``index.html`` in the directory that holds all of them.

    Raises:
        NothingToReport: none of them is a run.
        OptionError: no directory holds them all, or an ``index.html`` of somebody's is there.
    """
    runs, others = _found(places)
    if not runs:
        raise NothingToReport(f"no run in {', '.join(places)}: is it the --out of a run?")
    target = _default(runs) if out is None else out
    if listing(target) is not None:
        target = f"{target.rstrip('/')}/{INDEX}"
    folder, _, name = target.rpartition("/")
    folder = folder or ("/" if target.startswith("/") else ".")
    fs, path = fsspec.url_to_fs(folder)
    fs.makedirs(path, exist_ok=True)
    write_text(folder, name, render_page(overview(runs, others, folder)))
    return WrittenIndex(target, len(runs), tuple(others))


def _found(places: Iterable[str]) -> tuple[list[Past], list[str]]:
    """Find the runs, each once and the latest first, and why other places are no run."""
    runs, others = dict[str, Past](), list[str]()
    for place in dict.fromkeys(path.rstrip("/") or "/" for path in places):
        count = len(others)
        local_runs = dict[str, Past]()
        for folder in _within(place):
            try:
                if run := past(folder):
                    local_runs[whole_path(folder)] = run
            except InputError as why:
                others.append(str(why))
        if not local_runs and len(others) == count:
            others.append(f"{place} holds no run")
        runs |= local_runs
    return sorted(runs.values(), key=lambda run: run.started or run.written, reverse=True), others


def _within(place: str) -> list[str]:
    """Return a run itself, or the contents of a directory of runs."""
    names = listing(place) or []
    return [place] if set(RECORDS) & {*names} else [f"{place}/{name}" for name in names]


def _default(runs: Sequence[Past]) -> str:
    """Return the path of ``index.html`` in the directory above all runs."""
    split = [whole_path(run.place).split("://", 1) for run in runs]
    schemes = {scheme for scheme, _ in split}
    above = posixpath.commonpath([posixpath.dirname(f"/{path.lstrip('/')}") for _, path in split])
    if len(schemes) > 1 or above == "/":
        raise OptionError("no directory holds all these runs: name the page with --index FILE.html")
    scheme = split[0][0]
    folder = _near(above) if scheme == "file" else f"{scheme}:/{above}"
    target = f"{folder}/{INDEX}" if folder != "." else INDEX
    fs, path = fsspec.url_to_fs(target)
    if fs.exists(path) and _MARK not in fs.cat_file(path)[:2000]:
        raise OptionError(f"{target} is no index of zelo-ray: name another page with --index")
    return target


def _near(folder: str) -> str:
    """Return a directory's path relative to the current one, if it is below."""
    path = Path(folder)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
