"""Render a report for the terminal: lines, and tables that fit its width."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.table import Table as RichTable
from rich.text import Text as RichText

from zelo_ray.formats.wording import counted, printable
from zelo_ray.reports.parts import (
    Chart,
    Contrasts,
    Duel,
    Queries,
    Report,
    ReportTable,
    Section,
    Sentences,
)
from zelo_ray.reports.warning import terminal_lines
from zelo_ray.reports.wording import Quantity

Line = str | RichTable | RichText

_LINE = 100  # characters of a sentence's line
_ROWS = 40  # of a table
_TEXT = 30  # characters of a text before it is folded, where there is little room
_FEWEST = 2  # columns that are shown, however narrow the terminal is
_GAP = 2


def render_lines(
    report: Report, width: int, *, with_warnings: bool = True, has_page: bool = False
) -> Iterator[Line]:
    """Yield a report as lines and tables; charts, and what only the page shows, are left out.

    Args:
        report: what to show.
        width: characters of a line.
        with_warnings: whether to find and show the warnings, which may take long.
        has_page: whether its page has been written, and is to be named among the files.
    """
    if report.banner:
        yield from _wrapped(report.banner, width)
    yield RichText(printable(report.title), style="bold")
    if report.tiles:
        yield from _wrapped(" · ".join(f"{name} {value}" for name, value in report.tiles), width)
    for sentence in report.lead:
        yield from _wrapped(sentence, width)
    for section in report.sections:
        lines = [*_section_lines(section, width)] if section else []
        if section and lines:
            yield ""
            yield RichText(printable(section.title), style="bold")
            yield from lines
    if report.notes or report.find_warnings:
        yield ""
    for note in report.notes:
        yield from _wrapped(note, width)
    if with_warnings:
        yield from terminal_lines(report.warnings)
    if report.out and report.files:
        files = [*report.files, *([report.page] if has_page else [])]
        yield f"results: {report.out}/{', '.join(files)}"


def _section_lines(section: Section, width: int) -> Iterator[Line]:
    has_table = False
    for part in section.parts:
        match part:
            case Sentences():
                yield from map(printable, part.lines)
            case ReportTable():
                yield from [""] if has_table else []
                yield from render_table(part, width)
                has_table = True
            case Chart() | Duel() | Queries() | Contrasts():
                pass


def render_table(table: ReportTable, width: int) -> Iterator[Line]:
    """Yield a table's first rows, its caption, and what was left out.

    Where there is no room, intervals are left out from the right, and then columns.
    """
    limit = min(table.open_rows or _ROWS, _ROWS)
    rows = [
        [cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows[:limit]
    ]
    columns, cells = _fit(table, rows, width)
    shown = RichTable(box=None, pad_edge=False, header_style="dim")
    for column, texts in zip(columns, zip(*cells, strict=True), strict=False):
        is_number = column in table.numbers
        narrowest = max(cell_len(column), min(_TEXT, max(map(cell_len, texts))))
        shown.add_column(
            column,
            justify="right" if is_number else "left",
            no_wrap=is_number,
            overflow="fold",
            min_width=None if is_number else narrowest,
        )
    for row in cells:
        shown.add_row(*map(RichText, row))
    yield shown
    if (more := len(table.rows) - limit) > 0:
        where = f": see {table.file}" if table.file else ""
        yield f"… and {counted(more, 'more row')}{where}"
    if missing := table.columns[len(columns) :]:
        yield from _wrapped(f"Not shown for lack of room: {', '.join(missing)}.", width)
    if table.caption:
        yield from _wrapped(table.caption, width)


def _fit(
    table: ReportTable, rows: Sequence[Sequence[str]], width: int
) -> tuple[list[str], list[list[str]]]:
    """Return the columns, and the texts of cells, that fit a width."""
    for columns in range(len(table.columns), _FEWEST - 1, -1):
        names = [*table.columns[:columns]]
        with_interval = range(columns, -1, -1)
        for detailed in with_interval:
            cells = [
                [_text(cell, complete=n < detailed) for n, cell in enumerate(row[:columns])]
                for row in rows
            ]
            if _width(names, cells, table.numbers) <= width:
                return names, cells
    return names, cells


def _text(cell: str, *, complete: bool) -> str:
    if isinstance(cell, Quantity) and not complete:
        return cell.without_interval
    return printable(cell)


def _width(names: Sequence[str], cells: Sequence[Sequence[str]], numbers: frozenset[str]) -> int:
    """Return the narrowest width that the columns take with the gaps between them."""
    total = 0
    for n, name in enumerate(names):
        widest = max((cell_len(row[n]) for row in cells), default=0)
        room = widest if name in numbers else min(_TEXT, widest)
        total += max(cell_len(name), room) + _GAP
    return total - _GAP


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(
        printable(text), min(width, _LINE), break_long_words=False, break_on_hyphens=False
    ) or [""]
