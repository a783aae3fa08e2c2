"""Recognise the form of a file by its content: its name counts only for how it is packed."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, Literal

import orjson

from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import delimited_rows, header_names, json_array_rows, json_line_rows
from zelo_ray.formats.files import open_for_reading
from zelo_ray.formats.input.columns import find_list_column
from zelo_ray.formats.input.wide import is_pool, is_wide
from zelo_ray.formats.pools import LineLimits
from zelo_ray.formats.stored import StoredTable, parquet_rows

LONGEST = LineLimits().line
"""Bytes of a line that are looked at; what is longer is no line that is read."""
_LOOKED_AT = 100
_KEPT = 1000


@dataclass(frozen=True, slots=True)
class FileBeginning:
    """The first lines of a file that are not blank, and their values if they are JSON."""

    lines: tuple[bytes, ...]
    values: tuple[Any, ...]
    """by line what it holds as JSON; None where it is none"""
    is_long: bool = False
    """whether the first line is longer than what is looked at"""

    @property
    def line(self) -> bytes:
        """Return the first line, or empty bytes."""
        return self.lines[0] if self.lines else b""

    @property
    def start(self) -> bytes:
        """Return the first byte of the first line that is not a space."""
        return self.line.lstrip()[:1]

    @property
    def objects(self) -> list[dict[str, Any]]:
        """Return the JSON objects among the lines, without empty ones."""
        return [value for value in self.values if isinstance(value, dict) and value]

    @property
    def may_be_one_value(self) -> bool:
        """Return whether the whole file may be one JSON array, or one object over several lines."""
        if self.start == b"[" and len(self.lines) == 1:
            return True
        if self.start not in (b"[", b"{") or self.values[0] is not None:
            return False
        if self.start == b"{" and self.is_long:
            return False
        # Nowhere in one value do two objects follow each other without a comma.
        held = [isinstance(value, dict) for value in self.values]
        return not any(first and second for first, second in pairwise(held))


def read_beginning(url: str) -> FileBeginning:
    """Read the first lines of a file.

    Raises:
        InputError: it cannot be read.
    """
    lines = [*islice(_lines(url), _LOOKED_AT)]
    return FileBeginning(
        tuple(line for line, _ in lines),
        tuple(None if is_long else _value(line) for line, is_long in lines),
        bool(lines) and lines[0][1],
    )


def _lines(url: str) -> Iterator[tuple[bytes, bool]]:
    """Yield each line that is not blank, and whether it is too long; of such the first bytes."""
    with open_for_reading(url) as stream:
        line = stream.readline(LONGEST + 1).removeprefix(_BOM)
        while line:
            if is_long := len(line) > LONGEST:
                tail, line = line, line[:_KEPT]
                while tail and not tail.endswith(b"\n"):
                    tail = stream.readline(LONGEST)
            if line.strip():
                yield line.rstrip(b"\r\n"), is_long
            line = stream.readline(LONGEST + 1)


def _value(line: bytes) -> Any:
    if line.lstrip()[:1] in (b"{", b"["):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(line)
    return None


Form = Literal["parquet", "array", "object", "lines", "cells", "run", "qrels", "text", "broken"]
Rows = Iterator[tuple[str, dict[str, Any]]]
_PARQUET, _BOM = b"PAR1", b"\xef\xbb\xbf"
_UNREAD = {
    b"\xff\xfe": "is UTF-16: save it as UTF-8",
    b"\xfe\xff": "is UTF-16: save it as UTF-8",
    b"PK\x03\x04": "is a workbook or a zip archive: save the table as CSV, or unpack it",
    b"\x1f\x8b": "is packed by gzip: give it a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: give it a name that ends in .zst",
}
_RUN_COLUMNS, _QRELS_COLUMNS, _BEIR_COLUMNS = 6, 4, 3


@dataclass(frozen=True, slots=True)
class FileProbe:
    """The form of a file, its columns, its first row, and its first words."""

    url: str
    form: Form
    names: tuple[str, ...] = ()
    first_row: Mapping[str, Any] | None = None
    words: str = ""

    @property
    def summary(self) -> str:
        """Describe the file in a few words, for messages."""
        what = f"the columns {', '.join(self.names)}" if self.names else f"{self.words!r}"
        return what if len(what) <= 120 else f"{what[:120]} ..."

    def rows(self, columns: list[str] | None = None) -> Rows:
        """Yield the place of each row, and the row; of Parquet, with some columns alone.

        Raises:
            InputError: a row cannot be read.
        """
        if self.form == "parquet":
            return parquet_rows(self.url, columns)
        if self.form == "object":
            return _object_rows(self.url, _parse_whole(self.url))
        reader = {"array": json_array_rows, "lines": json_line_rows}.get(self.form, delimited_rows)
        return reader(self.url)


def probe_file(url: str) -> FileProbe:
    """Recognise the form of a file.

    Raises:
        InputError: it is of a kind that cannot be read.
    """
    head = _head(url)
    if head == _PARQUET:
        first = StoredTable(url).head(1).to_pylist()
        return FileProbe(url, "parquet", tuple(StoredTable(url).names), first[0] if first else {})
    for mark, reason in _UNREAD.items():
        if head.startswith(mark):
            raise InputError(f"{url}: {reason}")
    beginning = read_beginning(url)
    if beginning.may_be_one_value and (sight := _probe_json(url, beginning.line)):
        return sight
    objects = beginning.objects
    if beginning.start == b"{" or any(isinstance(row.get("query"), dict) for row in objects):
        if not objects:
            return FileProbe(url, "broken")
        first = _typical(objects)
        return FileProbe(url, "lines", tuple(first), first)
    if beginning.is_long:
        raise InputError(f"{url}: its first line is longer than {LONGEST:,} bytes")
    return _probe_text(url, beginning)


def _head(url: str) -> bytes:
    with open_for_reading(url) as stream:
        head: bytes = stream.read(len(_PARQUET))
    return head


def _typical(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a typical row: a pool, or of another kind if that is more common."""
    if pools := [row for row in objects if is_pool(row)]:
        rows = [row for row in objects if not is_pool(row)]
        wide = [row for row in rows if is_wide(row, find_list_column([*row], {}))]
        return wide[0] if len(wide) > len(pools) else pools[0]
    return next((row for row in objects if isinstance(row.get("query"), dict)), objects[0])


def _probe_json(url: str, line: bytes) -> FileProbe | None:
    """Look at one array or object over several lines; return None if it is no JSON."""
    value = _parse_whole(url)
    if isinstance(value, dict):
        row = next((row for _, row in _object_rows(url, value)), value)
        return FileProbe(url, "object", tuple(row), row)
    if isinstance(value, list):
        first = next((item for item in value if isinstance(item, dict)), None)
        return FileProbe(
            url, "array", tuple(first or ()), first, line[:60].decode("utf-8", "replace")
        )
    if line.strip() == b"[":
        next(json_array_rows(url))  # which says where it breaks off
    return None


def _object_rows(url: str, document: Any) -> Rows:
    """Yield the rows of one object: those of its only list of objects, or the object itself."""
    lists = [value for value in document.values() if isinstance(value, list) and value]
    rows = (
        lists[0] if len(document) == 1 and lists and isinstance(lists[0][0], dict) else [document]
    )
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{url}: item {number}: is not a JSON object")
        yield f"{url}: item {number}", row


def _parse_whole(url: str) -> Any:
    """Parse a file as one JSON value; return None if it is none."""
    with open_for_reading(url) as stream:
        data: bytes = stream.read()
    try:
        return orjson.loads(data.removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return None


def _probe_text(url: str, opening: FileBeginning) -> FileProbe:
    line = opening.line
    cells, words = line.split(), line[:80].decode("utf-8", "replace").strip()
    if len(cells) >= _RUN_COLUMNS and is_number(cells[3]) and is_number(cells[4]):
        return FileProbe(url, "run", words=words)
    if _is_short_run([row.split() for row in opening.lines]):
        raise InputError(
            f"{url}: looks like a run of {len(cells)} columns; "
            "a TREC run has 6: query Q0 document rank score tag"
        )
    if len(cells) == _QRELS_COLUMNS and is_number(cells[3]):
        return FileProbe(url, "qrels", words=words)
    parted = line.rstrip().split(b"\t")
    if len(parted) == _BEIR_COLUMNS and is_number(parted[2]):  # which may have no head
        return FileProbe(url, "qrels", words=words)
    if not words:
        return FileProbe(url, "broken")
    names = tuple(header_names(url, line))
    return FileProbe(url, "cells" if names else "text", names, _first_cells(url, names), words)


def _is_short_run(rows: Sequence[Sequence[bytes]]) -> bool:
    """Return whether lines are a run that lacks columns, such as query document rank score.

    Judgments have four columns, too: query, a column of the same everywhere, document, grade.
    """
    widths = {len(row) for row in rows}
    if widths == {_RUN_COLUMNS - 1}:
        return all(is_number(row[3]) and is_number(row[4]) for row in rows)
    if widths != {_QRELS_COLUMNS} or not all(
        row[2].isdigit() and is_number(row[3]) for row in rows
    ):
        return False
    if not any(b"." in row[3] for row in rows) or rows[0][1].lower() in (b"0", b"q0"):
        return False
    pairs = [(a, b) for a, b in pairwise(rows) if a[0] == b[0]]
    return int(rows[0][2]) <= 1 and all(
        a[1] != b[1] and int(b[2]) == int(a[2]) + 1 and float(b[3]) <= float(a[3]) for a, b in pairs
    )


def _first_cells(url: str, names: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Return the first row under a head; an empty one if it cannot be read, an error for later."""
    try:
        return next((row for _, row in islice(delimited_rows(url), 1)), {}) if names else None
    except InputError:
        return {}


def is_number(cell: bytes | str) -> bool:
    """Return whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
