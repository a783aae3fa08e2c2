"""Rows of text files: JSON lines, a JSON array, or a head and lines with commas or tabs.

What stands first decides which: an object, an array, or anything else. In a file with a head every
value is a text, and an empty one is no value.
"""

import csv
import io
from collections.abc import Iterator
from typing import Any

import orjson

from zelo_ray.errors import InputError
from zelo_ray.formats.files import blocks, lines, reading
from zelo_ray.formats.pools import short
from zelo_ray.formats.wording import counted

Row = tuple[str, dict[str, Any]]
_MARKS = ("\t", ",", ";")
"""What parts the columns; the first that the head has. Some spreadsheets write semicolons."""
_LINES = (".jsonl", ".ndjson")
_LONGEST = 2**31 - 1


def text_rows(url: str) -> Iterator[Row]:
    """Where each row stands, and the row.

    Raises:
        InputError: a row is no JSON object, or has not as many columns as the head.
    """
    if is_headed(url):
        return cell_rows(url)
    starts = first_line(url)[1].lstrip()[:1]
    return array_rows(url) if starts == b"[" and not _is_lines(url) else line_rows(url)


def is_headed(url: str) -> bool:
    """Whether its first line names the columns, so that all values are texts."""
    line = first_line(url)[1]
    return not (_is_lines(url) or line.lstrip().startswith((b"{", b"["))) and bool(
        head_of(url, line)
    )


def text_columns(url: str) -> list[str]:
    """The names of the columns, as far as the first row tells; none where there are no columns."""
    line = first_line(url)[1]
    if line.lstrip().startswith((b"{", b"[")):
        try:
            return list(next((row for _, row in text_rows(url)), {}))
        except InputError:  # such as qrels whose ids are in brackets
            return []
    return [] if _is_lines(url) else head_of(url, line)


def first_line(url: str) -> tuple[str, bytes]:
    """Where the first line that is not blank stands, and the line; nothing if there is none."""
    return next(lines(url), (url, b""))


def _is_lines(url: str) -> bool:
    return url.removesuffix(".gz").removesuffix(".zst").endswith(_LINES)


def line_rows(url: str) -> Iterator[Row]:
    """The objects of JSON lines, whatever the file is called."""
    for place, line in lines(url):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{place}: is no JSON ({error})") from None
        yield _object(place, row)


def array_rows(url: str) -> Iterator[Row]:
    """The objects of a JSON array, whatever the file is called."""
    with reading(url) as stream:
        data = stream.read()
    try:
        items = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise InputError(f"{url}: is no JSON ({error})") from None
    for number, item in enumerate(items, 1):
        yield _object(f"{url}: item {number}", item)


def _object(place: str, row: Any) -> Row:
    if not isinstance(row, dict):
        raise InputError(f"{place}: is no JSON object")
    return place, row


def cell_rows(url: str) -> Iterator[Row]:
    """Rows under a head; a quoted cell may hold marks and ends of lines."""
    # Documents stand in cells, too, and the limit is the whole process's: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST))
    names = head_of(url, first_line(url)[1])
    if len({*names}) < len(names):
        raise InputError(f"{url}: two columns have the same name ({', '.join(names)})")
    yield from _under(url, names)


def _under(url: str, names: list[str]) -> Iterator[Row]:
    mark, texts = _mark(first_line(url)[1]), _Texts(url)
    found = csv.reader(texts, delimiter=mark, skipinitialspace=mark != "\t")
    number, headed = 0, False
    try:
        for cells in found:
            start, number = number + 1, found.line_num
            if texts.ended:  # within a cell, since a row that ends asks for no more
                raise InputError(f"{url}:{start}: cannot be read (a quote is never closed)")
            if not any(cells):
                continue
            if not headed:
                headed = True
            elif len(cells) != len(names):
                columns = counted(len(cells), "column")
                raise InputError(f"{url}:{start}: has {columns}, and the head {len(names)}")
            else:
                row = {name: cell or None for name, cell in zip(names, cells, strict=True)}
                yield f"{url}:{start}", row
    except csv.Error as error:
        raise InputError(f"{url}:{number + 1}: cannot be read ({short(error)})") from None


class _Texts:
    """The lines of a file, and whether all of them were asked for, and more."""

    def __init__(self, url: str) -> None:
        self.ended = False
        self._lines = _texts(url)

    def __iter__(self) -> "_Texts":
        return self

    def __next__(self) -> str:
        try:
            return next(self._lines)
        except StopIteration:
            self.ended = True
            raise


def _texts(url: str) -> Iterator[str]:
    number = 0
    for block in blocks(url):
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            at = number + block.count(b"\n", 0, error.start) + 1
            raise InputError(f"{url}:{at}: is no UTF-8 ({short(error)})") from None
        yield from io.StringIO(text, newline="")  # which leaves ends of lines as they are
        number += block.count(b"\n")


def _mark(line: bytes) -> str:
    return next((mark for mark in _MARKS if mark.encode() in line), "")


def head_of(url: str, line: bytes) -> list[str]:
    """The names of columns in a head; none if nothing parts it."""
    mark = _mark(line)
    if not mark:
        return []
    try:
        cells = next(
            csv.reader([line.decode("utf-8", "replace")], delimiter=mark, skipinitialspace=True), []
        )
        return [cell.strip() for cell in cells]
    except csv.Error as error:
        raise InputError(f"{url}: cannot be read ({short(error)})") from None
