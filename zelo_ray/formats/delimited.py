"""Read rows of text files: JSON lines, a JSON array, or a header and lines with commas or tabs.

In a file with a header every value is a text, and an empty cell is a missing value.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from zelo_ray.errors import InputError, UnreadableFile, format_error
from zelo_ray.files.storage import open_for_reading, read_blocks, read_placed_lines
from zelo_ray.files.wording import counted, unguard_formula
from zelo_ray.formats.tabbed import split_tabs, tab_rows

Row = tuple[str, dict[str, Any]]
TAB = "\t"
_SEPARATORS = (TAB, ",", ";")
"""The separators; the first that the header contains counts. Some spreadsheets write semicolons."""
_RATINGS = ("doc_id", "score", "std_error", "comparisons", "rank", "wins")
"""Header of a table that ``fit`` writes for people, with guarded texts (`guard_formula`)."""
_LONGEST = 2**31 - 1
_QUOTED = re.compile(rb'"[^"]*"')
_DECLARED = re.compile(rb"(?:\xef\xbb\xbf)?sep=(.)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Header:
    """The separator of the cells of a file, and the names of its columns; both may be empty."""

    separator: str = ""
    names: tuple[str, ...] = ()
    is_declared: bool = False
    """whether a line before the header says what the separator is, as Excel writes it"""


def read_header(url: str) -> Header:
    """Read the header of a file of cells; without a separator there are no names.

    Raises:
        InputError: lines end with carriage returns alone, or the header cannot be parsed.
    """
    lines = read_placed_lines(url)
    line = next(lines, ("", b""))[1]
    if declared := declared_separator(line):
        line = next(lines, ("", b""))[1]
    mark = declared or separator_in(line)
    return Header(mark, tuple(_split_header(url, line, mark)), bool(declared))


def separator_in(line: bytes) -> str:
    """Return the first of the usual separators that a line contains, or ""."""
    unquoted = _QUOTED.sub(b"", line)
    return next((mark for mark in _SEPARATORS if mark.encode() in unquoted), "")


def declared_separator(line: bytes) -> str:
    """Return the separator that the first line of a file declares, such as ``sep=;``, or ""."""
    match = _DECLARED.fullmatch(line.rstrip(b"\r\n"))
    return match[1].decode() if match else ""


def json_line_rows(url: str) -> Iterator[Row]:
    """Yield the objects of a file of JSON lines, whatever it is called."""
    for place, line in read_placed_lines(url):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{place}: is not valid JSON ({error})") from None
        yield _object(place, row)


def json_array_rows(url: str) -> Iterator[Row]:
    """Yield the objects of a JSON array, whatever the file is called."""
    with open_for_reading(url) as stream:
        data = stream.read()
    try:
        items = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise InputError(f"{url}: is not valid JSON ({error})") from None
    yield from named_objects(url, items)


def named_objects(url: str, items: Iterable[Any]) -> Iterator[Row]:
    """Yield items of a JSON array that are objects, with their places.

    Raises:
        InputError: one is no object.
    """
    for number, item in enumerate(items, 1):
        yield _object(f"{url}: item {number}", item)


def _object(place: str, row: Any) -> Row:
    if not isinstance(row, dict):
        raise InputError(f"{place}: is not a JSON object")
    return place, row


def delimited_rows(url: str) -> Iterator[Row]:
    """Yield the rows below a header; a quoted cell may contain separators and line breaks.

    Raises:
        InputError: a row has more or fewer columns than the header, or a quote is wrong.
    """
    header = read_header(url)
    names, mark = header.names, header.separator
    if len({*names}) < len(names):
        raise InputError(f"{url}: two columns have the same name ({', '.join(names)})")
    guarded, before = names[-len(_RATINGS) :] == _RATINGS, 1 + header.is_declared
    # In a line with tabs a carriage return is text, even without quotes.
    texts = _decoded_lines(url, "\n" if mark == TAB else "")
    for number, cells in split_rows(url, texts, mark, len(names)):
        if not any(cells):
            continue
        if before:
            before -= 1
        elif len(cells) != len(names):
            columns = counted(len(cells), "column")
            raise InputError(f"{url}:{number}: has {columns}, but the header has {len(names)}")
        else:
            plain = map(unguard_formula, cells) if guarded else cells
            row = {name: cell or None for name, cell in zip(names, plain, strict=True)}
            yield f"{url}:{number}", row


def split_rows(
    url: str, texts: Iterator[str], mark: str, width: int
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line in which each row begins, and its cells.

    Args:
        url: of the file, for messages.
        texts: its lines, with their ends.
        mark: the separator.
        width: how many columns it has.

    Raises:
        InputError: without tabs: a quote is never closed, or text follows a closing quote.
    """
    return tab_rows(texts, width) if mark == TAB else _quoted_rows(url, texts, mark)


def _quoted_rows(url: str, texts: Iterator[str], mark: str) -> Iterator[tuple[int, list[str]]]:
    # Cells may hold documents. The limit is that of the process, so it is never lowered.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
    lines_of = _ExhaustibleLines(texts)
    reader = csv.reader(lines_of, delimiter=mark, skipinitialspace=True, strict=True)
    start = 1
    try:
        for cells in reader:
            yield start, cells
            start = reader.line_num + 1
    except csv.Error:
        if lines_of.ended:
            raise UnreadableFile(
                f"{url}:{start}: cannot be read (a quote is never closed)"
            ) from None
        at = max(reader.line_num, start)
        of = f" of the row that begins in line {start}" if at > start else ""
        raise InputError(
            f"{url}:{at}: text follows the quote that ends a cell{of}: within a quoted cell write "
            'each quote twice ("")'
        ) from None


class _ExhaustibleLines:
    """An iterator over the lines of a file that records whether it was exhausted."""

    def __init__(self, texts: Iterator[str]) -> None:
        self.ended = False
        self._texts = texts

    def __iter__(self) -> "_ExhaustibleLines":
        return self

    def __next__(self) -> str:
        try:
            return next(self._texts)
        except StopIteration:
            self.ended = True
            raise


def _decoded_lines(url: str, end: str) -> Iterator[str]:
    """Yield the lines of a file, with their ends; lines end with ``end``, or anyhow if it is ""."""
    number = 0
    for block in read_blocks(url):
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            at = number + block.count(b"\n", 0, error.start) + 1
            raise InputError(f"{url}:{at}: is not UTF-8 ({format_error(error)})") from None
        yield from io.StringIO(text, newline=end)  # keeps the ends of lines as they are
        number += block.count(b"\n")


def _split_header(url: str, line: bytes, mark: str) -> list[str]:
    text = line.decode("utf-8", "replace")
    if not mark:
        return []
    if "\r" in text:
        raise InputError(
            f"{url}: lines end with carriage returns (CR) alone: save the file with LF"
        )
    try:
        reader = csv.reader([text], delimiter=mark, skipinitialspace=True)
        cells = split_tabs(text) if mark == TAB else next(reader, [])
    except csv.Error as error:
        raise UnreadableFile(f"{url}: cannot be read ({format_error(error)})") from None
    return [cell.strip() for cell in cells]
