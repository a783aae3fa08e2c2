"""Write one page over several runs: what each did, its result and its cost."""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import fsspec

from zelo_ray.commands.report import RECORDS
from zelo_ray.commands.report.runs import PastRun, read_run, whole_path
from zelo_ray.errors import InputError, NothingToReport, OptionError
from zelo_ray.formats.files import list_directory
from zelo_ray.formats.results import write_text
from zelo_ray.formats.wording import counted
from zelo_ray.reports.page import render_page
from zelo_ray.reports.parts import Cells, PageLink, Report, ReportTable, Section, TextCell
from zelo_ray.reports.wording import format_cost, short

_PAGE = "report.html"
_READING = (
    "Times are in UTC. Click on a heading to sort. Runs that share a ledger share their spending, "
    "which counts once in the sum."
)
_NONE = "\N{EN DASH}"


INDEX = "index.html"
_MARK = b'content="zelo-ray index"'


@dataclass(frozen=True, slots=True)
class WrittenIndex:
    """Path of the index page, number of its runs, and reasons why other paths are not runs."""

    place: str
    runs: int
    others: tuple[str, ...]


def holds_runs(place: str) -> bool:
    """Return whether a directory or URL is not a run itself, but a subdirectory is."""
    names = list_directory(place) or []
    return not set(RECORDS) & {*names} and any(
        set(RECORDS) & {*(list_directory(f"{place}/{name}") or ())} for name in names
    )


def write_index(places: Sequence[str], out: str | None = None) -> WrittenIndex:
    """Write one page over several runs.

    Args:
        places: directories or URLs of runs, or of directories whose subdirectories are runs.
        out: the path of the page; by default ``index.html`` in the directory above all runs.

    Raises:
        NothingToReport: no run is found.
        OptionError: no directory is above them all, or it has an ``index.html`` of other origin.
    """
    runs, others = _find_runs(places)
    if not runs:
        raise NothingToReport(f"no run in {', '.join(places)}: is it the --out of a run?")
    target = _default_path(runs) if out is None else out
    if list_directory(target) is not None:
        target = f"{target.rstrip('/')}/{INDEX}"
    folder, _, name = target.rpartition("/")
    folder = folder or ("/" if target.startswith("/") else ".")
    fs, path = fsspec.url_to_fs(folder)
    fs.makedirs(path, exist_ok=True)
    write_text(folder, name, render_page(build_overview(runs, others, folder)))
    return WrittenIndex(target, len(runs), tuple(others))


def _find_runs(places: Iterable[str]) -> tuple[list[PastRun], list[str]]:
    """Return the distinct runs, the latest first, and why other paths are not runs."""
    runs, others = dict[str, PastRun](), list[str]()
    for place in dict.fromkeys(path.rstrip("/") or "/" for path in places):
        count = len(others)
        local_runs = dict[str, PastRun]()
        for folder in _run_folders(place):
            try:
                if run := read_run(folder):
                    local_runs[whole_path(folder)] = run
            except InputError as why:
                others.append(str(why))
        if not local_runs and len(others) == count:
            others.append(f"{place} is not a run")
        runs |= local_runs
    return sorted(runs.values(), key=lambda run: run.started or run.written, reverse=True), others


def _run_folders(place: str) -> list[str]:
    """Return a run itself, or the contents of a directory of runs."""
    names = list_directory(place) or []
    return [place] if set(RECORDS) & {*names} else [f"{place}/{name}" for name in names]


def _default_path(runs: Sequence[PastRun]) -> str:
    """Return the path of ``index.html`` in the directory above all runs."""
    split = [whole_path(run.place).split("://", 1) for run in runs]
    schemes = {scheme for scheme, _ in split}
    above = posixpath.commonpath([posixpath.dirname(f"/{path.lstrip('/')}") for _, path in split])
    if len(schemes) > 1 or above == "/":
        raise OptionError(
            "no directory is above all these runs: name the page with --index FILE.html"
        )
    scheme = split[0][0]
    folder = _relative_path(above) if scheme == "file" else f"{scheme}:/{above}"
    target = f"{folder}/{INDEX}" if folder != "." else INDEX
    fs, path = fsspec.url_to_fs(target)
    if fs.exists(path) and _MARK not in fs.cat_file(path)[:2000]:
        raise OptionError(f"{target} is not an index of zelo-ray: name another page with --index")
    return target


def _relative_path(folder: str) -> str:
    """Return a directory's path relative to the current one, if it is below."""
    path = Path(folder)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def build_overview(runs: Sequence[PastRun], others: Sequence[str], folder: str) -> Report:
    """Build the index page over some runs, for a directory or URL."""
    spent = format_cost(*spent_in_all(runs))
    commands = dict.fromkeys(run.command for run in runs)
    unfinished = len([run for run in runs if not run.finished])
    lead = [
        f"{counted(len(runs), 'run')} of {', '.join(commands)}"
        + (f", {unfinished:,} not finished" if unfinished else "")
        + f". Spent in all: {spent}.",
        _READING,
    ]
    return Report(
        title=f"{counted(len(runs), 'run')} of zelo-ray",
        tiles=[],
        lead=lead,
        notes=[f"Left out: {reason}." for reason in others],
        sections=[_runs_section(runs, folder)],
        kind="index",
    )


def spent_in_all(runs: Sequence[PastRun]) -> tuple[float, int]:
    """Sum US dollars and calls of unknown price, counting each ledger once."""
    spent_by_ledger = defaultdict[str, list[tuple[float, int]]](list)
    for run in runs:
        spent_by_ledger[whole_path(run.ledger_dir)].append(run.spent)
    return sum(max(amounts)[0] for amounts in spent_by_ledger.values()), sum(
        max(u for _, u in e) for e in spent_by_ledger.values()
    )


def _runs_section(runs: Sequence[PastRun], folder: str) -> Section:
    columns = (
        *("run", "command", "state", "started", "result", "spent"),
        *("queries", "documents", "failed", "judges or rankers"),
    )
    rows: list[Cells] = [
        [
            _link(run, name, folder),
            " ".join(filter(None, (run.command, run.protocol))),
            run.state,
            run.started or run.written,
            TextCell(short(run.headline, 200) or _NONE),
            format_cost(*run.spent),
            *map(_count, (run.queries, run.documents, run.failures)),
            TextCell(short(", ".join(run.judges_or_rankers), 200)),
        ]
        for run, name in zip(runs, _names(runs), strict=True)
    ]
    right = frozenset({"started", "queries", "documents", "failed", "spent"})
    return Section("runs", "Runs", [ReportTable(columns, rows, numbers=right, sortable=True)])


def _names(runs: Sequence[PastRun]) -> list[str]:
    """Return the names of runs: their paths without the common part."""
    split = [whole_path(run.place).split("://", 1) for run in runs]
    if len({scheme for scheme, _ in split}) > 1:
        return [run.place for run in runs]
    above = posixpath.commonpath([posixpath.dirname(f"/{path.lstrip('/')}") for _, path in split])
    return [posixpath.relpath(f"/{path.lstrip('/')}", above) for _, path in split]


def _link(run: PastRun, name: str, folder: str) -> TextCell | PageLink:
    """Link a run's name to its page, if it has one that a browser can open."""
    if _PAGE not in (list_directory(run.place) or ()):
        return TextCell(f"{name} (no {_PAGE} yet)")
    page, base = f"{whole_path(run.place)}/{_PAGE}", whole_path(folder)
    if page.partition("://")[0] == base.partition("://")[0]:
        return PageLink(name, quote(posixpath.relpath(page, base)))
    scheme = page.partition("://")[0]
    return (
        PageLink(name, quote(page, safe="/:"))
        if scheme in ("file", "http", "https")
        else TextCell(name)
    )


def _count(value: int | None) -> str:
    return _NONE if value is None else f"{value:,}"
