"""Render a report for the terminal: lines, and tables that fit its width."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text as RichText

from zelo_ray.files.wording import counted, printable
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

Line = str | RichTable | RichText | Group | Group

_WIDE = 160  # characters of a line if there is no terminal
_LINE = 100  # characters of a sentence's line
_ROWS = 40  # of a table
_TEXT = 30  # characters of a text column before it is folded in a narrow terminal
_FEWEST = 2  # columns that are shown, however narrow the terminal is
_GAP = 2


def make_console() -> Console:
    """Return a console for the terminal, or a wide one if there is none."""
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else _WIDE
    return console


def render_lines(
    report: Report, width: int, *, with_warnings: bool = True, has_page: bool = False
) -> Iterator[Line]:
    """Yield a report as lines and tables, without charts and sections for the page only.

    Args:
        report: the report.
        width: characters of a line.
        with_warnings: whether to find and show the warnings, which may take long.
        has_page: whether its page was written, so that it is named among the files.
    """
    if report.banner:
        yield from _wrapped(report.banner, width)
    yield RichText(printable(report.title), style="bold")
    if report.tiles:
        yield from _wrapped(" · ".join(f"{name} {value}" for name, value in report.tiles), width)
    for sentence in report.lead:
        yield from _wrapped(sentence, width)
    for section in report.sections:
        lines = [*_section_lines(section, width, bool(report.out))] if section else []
        if section and lines:
            yield ""
            yield RichText(printable(section.title), style="bold")
            yield from lines
    remarks = [line for note in report.notes for line in _wrapped(note, width)]
    remarks += terminal_lines(report.warnings) if with_warnings else ()
    yield from ["", *remarks] if remarks else []
    if report.out and report.files:
        files = [*report.files, *([report.page] if has_page else [])]
        yield from [] if remarks else [""]
        yield f"results: {report.out}/{', '.join(files)}"


def _section_lines(section: Section, width: int, has_files: bool) -> Iterator[Line]:
    has_table = False
    for part in section.parts:
        match part:
            case Sentences():
                yield from map(printable, part.lines)
            case ReportTable():
                yield from [""] if has_table else []
                yield from render_table(part, width, has_files=has_files)
                has_table = True
            case Chart() | Duel() | Queries() | Contrasts():
                pass


def render_table(table: ReportTable, width: int, *, has_files: bool = True) -> Iterator[Line]:
    """Yield a table's first rows, its caption, and a note on what was left out.

    In a narrow terminal, intervals are left out from the right, and then columns.

    Args:
        table: the table; without rows only its caption is shown.
        width: characters of a line.
        has_files: whether the file with all rows exists.
    """
    limit = min(table.open_rows or _ROWS, _ROWS)
    rows = [
        [cell if isinstance(cell, str) else cell.text for cell in row] for row in table.rows[:limit]
    ]
    if rows:
        names, is_number = (
            [*map(printable, table.columns)],
            [n in table.numbers for n in table.columns],
        )
        count, cells = _fit(names, is_number, rows, width)
        shown = RichTable(box=None, pad_edge=False)
        for n, name in enumerate(names[:count]):
            narrowest = max(cell_len(name), min(_TEXT, max(cell_len(row[n]) for row in cells)))
            shown.add_column(
                RichText(name, style="dim"),
                justify="right" if is_number[n] else "left",
                no_wrap=is_number[n],
                overflow="fold",
                min_width=None if is_number[n] else narrowest,
            )
        for row in cells:
            shown.add_row(*map(RichText, row))
        yield shown
        if (more := (table.total or len(table.rows)) - limit) > 0:
            where = f": see {table.file}" if table.file and has_files else ""
            yield f"… and {counted(more, 'more row')}{where}"
        if missing := names[count:]:
            yield from _wrapped(
                f"Not shown, as the terminal is too narrow: {', '.join(missing)}.", width
            )
    if table.caption:
        yield from _wrapped(table.caption, width)


def _fit(
    names: Sequence[str], is_number: Sequence[bool], rows: Sequence[Sequence[str]], width: int
) -> tuple[int, list[list[str]]]:
    """Return how many columns fit a width, at least two, and the texts of their cells."""
    for count in range(len(names), 0, -1):
        for detailed in range(count, -1, -1):
            cells = [
                [_text(cell, complete=n < detailed) for n, cell in enumerate(row[:count])]
                for row in rows
            ]
            if (count <= _FEWEST and not detailed) or _width(names, is_number, cells) <= width:
                return count, cells
    return 0, [[] for _ in rows]


def _text(cell: str, *, complete: bool) -> str:
    if isinstance(cell, Quantity) and not complete:
        return cell.without_interval
    return printable(cell)


def _width(names: Sequence[str], is_number: Sequence[bool], cells: Sequence[Sequence[str]]) -> int:
    """Return the narrowest width that the columns take with the gaps between them."""
    total = -_GAP
    for n, column in enumerate(zip(*cells, strict=True)):
        widest = max(map(cell_len, column))
        room = widest if is_number[n] else min(_TEXT, widest)
        total += max(cell_len(names[n]), room) + _GAP
    return total


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(
        printable(text), min(width, _LINE), break_long_words=False, break_on_hyphens=False
    ) or [""]
