"""Segments of the ledger: their lines, their names, and how they are listed.

A line is a reply as JSON that ends in a checksum of all before it. The format is part of a
segment's file name, so that a damaged line is never read in another format.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

import fsspec
import orjson

from zelo_ray.errors import LedgerError
from zelo_ray.records import Reply

FOLDER = "replies"
ENDING = ".v2.jsonl"
_CHECKSUM = b',"crc32":"%08x"}\n'
_CHECKSUM_BYTES = len(_CHECKSUM % 0)
_NAMES = frozenset(Reply._fields)
_STAMPS = ("ETag", "etag", "mtime", "LastModified", "updated", "last_modified", "created")
_values = itemgetter(*Reply._fields)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as the storage lists it."""

    size: int
    stamp: str
    """what tells whether it has been written to since; empty where nothing does"""


def ledger_folder(out: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the storage of an output directory or URL, and the folder of its ledger there."""
    fs, root = fsspec.url_to_fs(out)
    return fs, f"{root.rstrip('/')}/{FOLDER}"


def list_segments(fs: fsspec.AbstractFileSystem, folder: str) -> dict[str, Segment]:
    """Return the segments in a folder by name, in the order of their names.

    Raises:
        LedgerError: another version of this program wrote there.
    """
    fs.invalidate_cache()
    segments = dict[str, Segment]()
    for path, info in sorted(fs.find(folder, detail=True).items()):
        if path.endswith(".jsonl"):
            if not path.endswith(ENDING):
                raise LedgerError(
                    f"{path}: another version of zelo_ray wrote it; name another --out or --ledger"
                )
            stamp = next((info[name] for name in _STAMPS if info.get(name)), "")
            text = str(stamp.timestamp() if isinstance(stamp, datetime) else stamp)
            segments[path.removeprefix(f"{folder}/")] = Segment(info["size"], text)
    return segments


def read_segment(
    fs: fsspec.AbstractFileSystem, path: str, start: int = 0
) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
    """Yield the whole lines of a segment with offsets and rows; a damaged line has None.

    A last line that a crash cut short is none.
    """
    data, at = fs.cat_file(path, start=start), 0
    while end := data.find(b"\n", at) + 1:
        yield start + at, data[at:end], parse_row(data[at:end])
        at = end


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


def count_replies(line: bytes) -> int:
    """Return how many replies a damaged line held, as far as it shows."""
    return max(1, line.count(b'{"key":"'))
