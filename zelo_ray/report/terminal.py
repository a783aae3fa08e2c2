"""Render a report for the terminal: lines, and tables that fit its width."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from markupsafe import Markup
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table as RichTable
from rich.text import Text as RichText

from zelo_ray.files.wording import counted, printable
from zelo_ray.report.model import Report, Section, Table, Value, text_of

Line = str | RichTable | RichText | Group

_WIDE = 160  # characters of a line if there is no terminal
_LINE = 100  # characters of a sentence's line
_ROWS = 40  # of a table
_TEXT = 30  # characters of a text column before it is folded in a narrow terminal
_FEWEST = 2  # columns that are shown, however narrow the terminal is
_GAP = 2
_WARNINGS = 3


def make_console() -> Console:
    """Return a console for the terminal, or a wide one if there is none."""
    console = Console(highlight=False)
    console.width = console.width if console.is_terminal else _WIDE
    return console


def render_report(report: Report, width: int, files: str = "") -> Iterator[Line]:
    """Yield a report as lines and tables of a width, without what only a page shows.

    ``files`` says where all of it is; empty if nothing was written.
    """
    if report.banner:
        yield from wrapped(report.banner, width)
    yield RichText(printable(report.title), style="bold")
    tiles = [f"{name} {text_of(value)}" for name, value in report.tiles.items()]
    yield from wrapped(" · ".join(tiles), width) if tiles else ()
    for sentence in report.lead:
        yield from wrapped(sentence, width)
    for section in report.sections:
        yield from _render_section(section, width, has_files=bool(files))
    remarks = [line for note in report.notes for line in wrapped(note, width)]
    for warn in report.warnings[:_WARNINGS]:
        first, *rest = wrapped(f"Warning: {warn}", width - 2)
        remarks += [first, *(f"  {line}" for line in rest)]
    if more := len(report.warnings) - _WARNINGS:
        remarks += [f"… and {counted(more, 'more warning')}: see report.html"] if more > 0 else []
    yield from ["", *remarks] if remarks else []
    if files:
        yield from () if remarks else [""]
        yield f"results: {files}"


def _render_section(section: Section, width: int, *, has_files: bool) -> Iterator[Line]:
    lines = list[Line]()
    for part in section.parts:
        if isinstance(part, Table):
            lines += [""] if any(not isinstance(line, str) for line in lines) else []
            lines += render_table(part, width, has_files=has_files)
        elif isinstance(part, str) and not isinstance(part, Markup):
            lines += wrapped(part, width)
    if lines:
        yield ""
        yield RichText(printable(section.title), style="bold")
        yield from lines


def render_table(table: Table, width: int, *, has_files: bool = True) -> Iterator[Line]:
    """Yield a table's first rows, its caption, and a note on what was left out.

    In a narrow terminal, intervals are left out from the right, and then columns.
    """
    shown = table.rows[: min(table.open_rows, _ROWS)]
    if shown:
        names, is_number = [*map(printable, table.columns)], table.numbers
        count, cells = _fit(names, is_number, shown, width)
        grid = RichTable(box=None, pad_edge=False)
        for n, name in enumerate(names[:count]):
            narrowest = max(cell_len(name), min(_TEXT, max(cell_len(row[n]) for row in cells)))
            grid.add_column(
                RichText(name, style="dim"),
                justify="right" if is_number[n] else "left",
                no_wrap=is_number[n],
                overflow="fold",
                min_width=None if is_number[n] else narrowest,
            )
        for row in cells:
            grid.add_row(*map(RichText, row))
        yield grid
        if (more := (table.total or len(table.rows)) - len(shown)) > 0:
            where = f": see {table.file}" if table.file and has_files else ""
            yield f"… and {counted(more, 'more row')}{where}"
        if missing := names[count:]:
            left_out = f"Not shown, as the terminal is too narrow: {', '.join(missing)}."
            yield from wrapped(left_out, width)
    yield from wrapped(table.caption, width) if table.caption else ()


def _fit(
    names: Sequence[str], is_number: Sequence[bool], rows: Sequence[Sequence[Value]], width: int
) -> tuple[int, list[list[str]]]:
    """Return how many columns fit a width, at least two, and the texts of their cells."""
    for count in range(len(names), 0, -1):
        for detailed in range(count, -1, -1):
            cells = [
                [printable(text_of(cell, ends=n < detailed)) for n, cell in enumerate(row[:count])]
                for row in rows
            ]
            total = -_GAP  # the narrowest width that the columns take with the gaps between them
            for n, column in enumerate(zip(*cells, strict=True)):
                widest = max(map(cell_len, column))
                room = widest if is_number[n] else min(_TEXT, widest)
                total += max(cell_len(names[n]), room) + _GAP
            if (count <= _FEWEST and not detailed) or total <= width:
                return count, cells
    return 0, [[] for _ in rows]


def wrapped(text: str, width: int) -> list[str]:
    """Return a sentence in lines of a width, none of which splits a word."""
    shown = printable(text)
    ahead = shown[: len(shown) - len(shown.lstrip())]
    return wrap(
        shown,
        min(width, _LINE),
        subsequent_indent=ahead,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]
