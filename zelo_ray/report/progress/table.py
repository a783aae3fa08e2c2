"""Build the live table: a line per judge and a total, as wide as the terminal, with notes below."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group
from rich.table import Table
from rich.text import Text

from zelo_ray.report.progress.figures import JudgeProgress, RunProgress
from zelo_ray.report.progress.lines import (
    cached_share,
    disabled_lines,
    earlier_line,
    short,
    spent_of,
    trouble_line,
)
from zelo_ray.report.progress.names import shorten_names, shorter_forms, widest

_ROOMS = ((True, 20), (False, 20), (False, 12))  # exact numbers or not, and cells for a name
_FEWEST = 4  # cells of a name beside a single number
_WIDE_NAME = 28  # cells that optional columns leave for it
_GAP = 2
_MUST = ("done", "left", "failed", "spent", "calls/s")  # what matters most first, as below
_MAY = ("in batches", "in flight", "waiting", "429s", "retries", "limit", "cached")
_ORDER = (
    *("done", "in flight", "waiting", "in batches", "calls/s", "limit", "429s", "retries"),
    *("failed", "cached", "spent", "left"),
)
_LEFT = len("59 min 59 s")


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    cells: list[str]
    least: int = 0

    @property
    def width(self) -> int:
        """Return the cells that the column takes, with the gap before it; hardly changes."""
        return _GAP + max(self.least, len(self.head), *map(len, self.cells))


def progress_table(sums: RunProgress, width: int, height: int | None, now: float) -> Group:
    """Build the table that a terminal shows.

    Args:
        sums: the figures.
        width: characters of a line.
        height: lines of the terminal, so that the total is always visible; None: unlimited.
        now: seconds since 1970.
    """
    names = [standing.name for standing in sums.judges]
    columns, room = _columns(sums, width, names)
    called = shorten_names(names, room)
    notes = [
        *earlier_line(sums, width),
        *disabled_lines(sums, called, width),
        *trouble_line(sums, called, now, width),
    ]
    shown = _rows_that_fit(sums.judges, None if height is None else height - len(notes) - 3)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    table.add_column("name", no_wrap=True, overflow="crop")
    for column in columns:
        table.add_column(column.head, justify="right", no_wrap=True, overflow="crop")
    for at in shown:
        table.add_row(Text(called[names[at]]), *(column.cells[at] for column in columns))
    if more := len(names) - len(shown):
        table.add_row(Text(f"… {more:,} more"))
    table.add_row(Text("total"), *(column.cells[-1] for column in columns), style="bold")
    return Group(table, *(Text(note, no_wrap=True, overflow="crop") for note in notes))


def _rows_that_fit(standings: Sequence[JudgeProgress], room: int | None) -> list[int]:
    """Return which judges have a line: where not all fit, those not done first."""
    if room is None or len(standings) <= room:
        return list(range(len(standings)))
    by_need = sorted(range(len(standings)), key=lambda at: standings[at].ended)
    return sorted(by_need[: max(1, room - 1)])


def _columns(sums: RunProgress, width: int, names: Sequence[str]) -> tuple[list[_Column], int]:
    """Choose the columns that fit, and return them with the width left for names.

    Before a column is left out, long numbers are shortened, and then names.
    """
    *_, shortest = shorter_forms(names)
    for exact, limit in _ROOMS:
        columns = _cells(sums, exact=exact)
        name_width = min(limit, widest(shortest))
        if name_width + _total(columns, _MUST) <= width:
            break
    chosen: list[str] = []
    wide = max(name_width, min(_WIDE_NAME, widest(next(shorter_forms(names)))))
    for name in (*_MUST, *(head for head in _MAY if head in columns)):
        wanted = wide if name in _MAY else name_width if chosen else _FEWEST
        if wanted + _total(columns, [*chosen, name]) <= width:
            chosen.append(name)
    room = max(1, width - _total(columns, chosen))
    return [columns[name] for name in _ORDER if name in chosen], room


def _total(columns: dict[str, _Column], names: Sequence[str]) -> int:
    return sum(columns[name].width for name in names)


def _cells(sums: RunProgress, *, exact: bool) -> dict[str, _Column]:
    """Build all possible columns, with a cell per judge and one for the total."""
    rows = [*sums.judges, sums.whole]
    number = (lambda n: f"{n:,}") if exact else short
    columns = {
        "done": [f"{number(row.done)}/{number(row.needed)}" for row in rows],
        "in flight": [number(row.tally.in_flight) for row in rows],
        "waiting": [number(row.tally.waiting) for row in rows],
        "calls/s": ["-" if row.ended and not row.rate else f"{row.rate:,.1f}" for row in rows],
        "limit": [*map(_limit, sums.judges), ""],
        "429s": [number(row.tally.throttled) for row in rows],
        "retries": [number(row.tally.retries) for row in rows],
        "failed": [number(row.failures) for row in rows],
        "spent": [spent_of(row, None, exact=exact) for row in sums.judges],
        "left": [row.time_left for row in rows],
    }
    columns["spent"].append(spent_of(rows[-1], sums.cap, exact=exact))
    if rows[-1].tally.batched:
        columns["in batches"] = [number(row.tally.batched) for row in rows]
    if rows[-1].tally.cached_tokens:
        columns["cached"] = [cached_share(row.tally) for row in rows]
    widths = {"done": 2 * len(number(rows[-1].needed)) + 1, "left": _LEFT}
    return {head: _Column(head, cells, widths.get(head, 0)) for head, cells in columns.items()}


def _limit(standing: JudgeProgress) -> str:
    """Return the calls per second that are allowed; "" if unknown."""
    limits = standing.tally.limits
    return f"{limits['rpm'] / 60:,.1f}" if "rpm" in limits else ""
