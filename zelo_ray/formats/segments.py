"""A segment of the ledger: JSON lines, one reply a line, each with a checksum of its own.

The name of a segment tells its format, so that no damage to a line can make it pass for one of
another. ``.v2.jsonl``: the last column of a line, ``crc32``, is over all bytes before it.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from operator import itemgetter
from typing import Any

import orjson

from zelo_ray.records import Reply

ENDING = ".v2.jsonl"
_CHECKSUM = b',"crc32":"%08x"}\n'
_CHECKSUM_BYTES = len(_CHECKSUM % 0)

_COLUMNS = fields(Reply)
_VALUES = itemgetter(*(column.name for column in _COLUMNS))
_NAMES = frozenset(column.name for column in _COLUMNS)
_DEFAULTS = {column.name: column.default for column in _COLUMNS if column.default is not MISSING}


def line_of(reply: Reply) -> bytes:
    """Return a reply as a JSON line with a checksum."""
    row = {column.name: getattr(reply, column.name) for column in _COLUMNS}
    for name in ("text", "reason", "model"):  # half an emoji is no UTF-8, and no reason to fail
        row[name] = str(row[name]).encode("utf-8", "replace").decode()
    body = orjson.dumps(row)[:-1]
    return body + _CHECKSUM % zlib.crc32(body)


def row_of(line: bytes) -> dict[str, Any] | None:
    """Parse a line as a row with all columns of a reply, and perhaps more; None if damaged.

    A column that was added since has its default: a paid answer must outlive a new column.
    Whatever the bytes are, this raises nothing.
    """
    if not line.endswith(_CHECKSUM % zlib.crc32(line[:-_CHECKSUM_BYTES])):
        return None
    try:
        row: dict[str, Any] = orjson.loads(line)
        if not row.keys() >= _NAMES:
            row = _DEFAULTS | row
        return row if row.keys() >= _NAMES else None
    except (ValueError, AttributeError, TypeError):
        return None


def reply_of(row: Mapping[str, Any]) -> Reply:
    """Build the reply of a sound row, without unknown columns."""
    return Reply(*_VALUES(row))


def whole_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their offsets; leave out a last line that a crash cut short."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield start, data[start:end]
        start = end
