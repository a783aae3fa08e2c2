"""What a file is, by what stands in it: its name counts only for how it is packed."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import orjson

from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import array_rows, cell_rows, first_line, head_of, line_rows
from zelo_ray.formats.files import lines, reading
from zelo_ray.formats.stored import Stored, parquet_rows

Form = Literal["parquet", "array", "object", "lines", "cells", "run", "qrels", "text", "broken"]
Rows = Iterator[tuple[str, dict[str, Any]]]
_LOOKED_AT = 100
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
class Sight:
    """What can be seen of a file: its form, its columns, its first row, and its first words."""

    url: str
    form: Form
    names: tuple[str, ...] = ()
    first: Mapping[str, Any] | None = None
    words: str = ""

    @property
    def said(self) -> str:
        """It in a few words, for messages."""
        what = f"the columns {', '.join(self.names)}" if self.names else f"{self.words!r}"
        return what if len(what) <= 120 else f"{what[:120]} ..."

    def rows(self, columns: list[str] | None = None) -> Rows:
        """Where each row stands, and the row; of Parquet, some columns alone.

        Raises:
            InputError: a row cannot be read.
        """
        if self.form == "parquet":
            return parquet_rows(self.url, columns)
        if self.form == "object":
            return _object_rows(self.url, _whole(self.url))
        reader = {"array": array_rows, "lines": line_rows}.get(self.form, cell_rows)
        return reader(self.url)


def look(url: str) -> Sight:
    """See what a file is.

    Raises:
        InputError: it is of a kind that cannot be read.
    """
    head = _head(url)
    if head == _PARQUET:
        first = Stored(url).head(1).to_pylist()
        return Sight(url, "parquet", tuple(Stored(url).names), first[0] if first else {})
    for mark, told in _UNREAD.items():
        if head.startswith(mark):
            raise InputError(f"{url}: {told}")
    line = first_line(url)[1]
    start = line.lstrip()[:1]
    objects = _objects(url)
    if any(isinstance(row.get("query"), dict) for row in objects) or (start == b"{" and objects):
        # Bad lines may stand before the first pool, and are set aside where lines are read.
        first = next((row for row in objects if isinstance(row.get("query"), dict)), objects[0])
        return Sight(url, "lines", tuple(first), first)
    if start == b"{":
        return _of_object(url)
    if start == b"[" and isinstance(items := _whole(url), list):
        first = next((item for item in items if isinstance(item, dict)), None)
        return Sight(url, "array", tuple(first or ()), first, line[:60].decode("utf-8", "replace"))
    return _of_text(url, line)


def _head(url: str) -> bytes:
    with reading(url) as stream:
        found: bytes = stream.read(len(_PARQUET))
    return found


def _objects(url: str) -> list[dict[str, Any]]:
    """Those of the first lines that are JSON objects."""
    found = []
    for _, line in islice(lines(url), _LOOKED_AT):
        if line.lstrip().startswith(b"{"):
            with contextlib.suppress(orjson.JSONDecodeError):
                found.append(orjson.loads(line))
    return [row for row in found if isinstance(row, dict) and row]


def _of_object(url: str) -> Sight:
    """One object over several lines."""
    whole = _whole(url)
    if isinstance(whole, dict):
        first = next((row for _, row in _object_rows(url, whole)), whole)
        return Sight(url, "object", tuple(first), first)
    return Sight(url, "broken")


def _object_rows(url: str, whole: Any) -> Rows:
    """The rows that one object holds: those of its only list of objects, or itself."""
    lists = [each for each in whole.values() if isinstance(each, list) and each]
    rows = lists[0] if len(whole) == 1 and lists and isinstance(lists[0][0], dict) else [whole]
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InputError(f"{url}: item {number}: is no JSON object")
        yield f"{url}: item {number}", row


def _whole(url: str) -> Any:
    """What a file holds as one JSON value; None if it is none."""
    with reading(url) as stream:
        data: bytes = stream.read()
    try:
        return orjson.loads(data.removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return None


def _of_text(url: str, line: bytes) -> Sight:
    cells, words = line.split(), line[:80].decode("utf-8", "replace").strip()
    if len(cells) >= _RUN_COLUMNS and is_number(cells[3]) and is_number(cells[4]):
        return Sight(url, "run", words=words)
    if len(cells) == _QRELS_COLUMNS and is_number(cells[3]):
        return Sight(url, "qrels", words=words)
    parted = line.rstrip().split(b"\t")
    if len(parted) == _BEIR_COLUMNS and is_number(parted[2]):  # which may have no head
        return Sight(url, "qrels", words=words)
    if not words:
        return Sight(url, "broken")
    names = tuple(head_of(url, line))
    return Sight(url, "cells" if names else "text", names, _first_cells(url, names), words)


def _first_cells(url: str, names: tuple[str, ...]) -> Mapping[str, Any] | None:
    """The first row under a head; an empty one where it cannot be read, which is told later."""
    try:
        return next((row for _, row in islice(cell_rows(url), 1)), {}) if names else None
    except InputError:
        return {}


def is_number(cell: bytes | str) -> bool:
    """Whether a cell is one."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
