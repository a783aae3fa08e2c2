"""A segment of the ledger: JSON lines, one reply a line, each with a checksum of its own.

The name of a segment tells its format, so that no damage to a line can make it pass for one of
another. ``.v2.jsonl``: the last column of a line, ``crc32``, is over all bytes before it. A name
without a version is of 0.1.0, whose lines have no checksum.
"""

import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from operator import itemgetter
from typing import Any, get_args

import orjson

from zelo_ray.records import Reply, Status

VERSION = 2
ENDING = f".v{VERSION}.jsonl"
_VERSIONED = re.compile(r"\.v(\d+)\.jsonl")
_CHECKSUM = b',"crc32":"%08x"}\n'
_CHECKSUM_BYTES = len(_CHECKSUM % 0)

_COLUMNS = fields(Reply)
_VALUES = itemgetter(*(column.name for column in _COLUMNS))
_DEFAULTS = {each.name: each.default for each in _COLUMNS if each.default is not MISSING}
_STATUSES = frozenset(get_args(Status))
_TYPES = [c.type if c.type in (int, bool) else str for c in _COLUMNS]
_PRICE = [column.name for column in _COLUMNS].index("dollars")
_SHAPES = {(*_TYPES[:_PRICE], t, *_TYPES[_PRICE + 1 :]) for t in (float, int, type(None))}
"""The types that the values of a row may have."""


def version_of(name: str) -> int:
    """The format of a segment."""
    found = _VERSIONED.search(name)
    return int(found[1]) if found else 1


def line_of(reply: Reply) -> bytes:
    """A reply as a line."""
    row = {column.name: getattr(reply, column.name) for column in _COLUMNS}
    for name in ("text", "reason", "model"):  # half an emoji is no UTF-8, and no reason to fail
        row[name] = str(row[name]).encode("utf-8", "replace").decode()
    told = orjson.dumps(row)[:-1]
    return told + _CHECKSUM % zlib.crc32(told)


def row_of(line: bytes, version: int) -> dict[str, Any] | None:
    """A line as a row with all columns of a reply, and perhaps later ones; None: it is damaged.

    Whatever the bytes are, this raises nothing.
    """
    summed = version > 1
    if summed and not line.endswith(_CHECKSUM % zlib.crc32(line[:-_CHECKSUM_BYTES])):
        return None
    try:
        row: dict[str, Any] = orjson.loads(line)
        if not row.keys() >= _DEFAULTS.keys():
            row = _DEFAULTS | row
        return row if summed or _is_reply(row) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_reply(row: Mapping[str, Any]) -> bool:
    """Whether values are what they should be, as far as their types tell."""
    if tuple(map(type, _VALUES(row))) not in _SHAPES or row["status"] not in _STATUSES:
        return False
    key: str = row["key"]
    return bytes.fromhex(key).hex() == key


def reply_of(row: Mapping[str, Any]) -> Reply:
    """The reply of a sound row, without columns that are not known here."""
    return Reply(*_VALUES(row))


def whole_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines with their offsets; a last line that a crash cut short is left out."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield start, data[start:end]
        start = end
