"""Read and write lines of a ledger segment: a reply as JSON, ending in a checksum of all before it.

The format is part of a segment's file name, so that a damaged line is never read in another format.
"""

import zlib
from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Any

import orjson

from zelo_ray.records import Reply

ENDING = ".v2.jsonl"
_CHECKSUM = b',"crc32":"%08x"}\n'
_CHECKSUM_BYTES = len(_CHECKSUM % 0)
_NAMES = frozenset(Reply._fields)
_values = itemgetter(*Reply._fields)


def reply_to_line(reply: Reply) -> bytes:
    """Return a reply as a JSON line with a checksum."""
    row = reply._asdict()
    for name in ("text", "reason", "model"):  # may hold half of a surrogate pair
        row[name] = str(row[name]).encode("utf-8", "replace").decode()
    body = orjson.dumps(row)[:-1]
    return body + _CHECKSUM % zlib.crc32(body)


def parse_row(line: bytes) -> dict[str, Any] | None:
    """Parse a line to a row with at least all columns of a reply; return None if it is damaged.

    Columns that were added later get their default, so that paid replies stay readable.
    """
    if not line.endswith(_CHECKSUM % zlib.crc32(line[:-_CHECKSUM_BYTES])):
        return None
    try:
        row: dict[str, Any] = Reply._field_defaults | orjson.loads(line)
    except (ValueError, TypeError):
        return None
    return row if row.keys() >= _NAMES else None


def reply_from_row(row: Mapping[str, Any]) -> Reply:
    """Build a reply from a row of `parse_row`, without unknown columns."""
    return Reply(*_values(row))


def complete_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and bytes of each line, without a last line that a crash cut short."""
    start = 0
    while end := data.find(b"\n", start) + 1:
        yield start, data[start:end]
        start = end
