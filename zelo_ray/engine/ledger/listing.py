"""List the folder of a ledger: segments, and tables of the index."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import fsspec
import orjson

from zelo_ray.engine.ledger.segments import ENDING, complete_lines, parse_row
from zelo_ray.engine.ledger.table_file import ENDING as TABLE_ENDING
from zelo_ray.errors import LedgerError

FOLDER = "replies"
INDEX = "_index"  # readers of a folder of data, such as pyarrow, pass over names that begin so
_JUDGE = b'","judge":"'  # what follows a key
_STAMPS = ("ETag", "etag", "mtime", "LastModified", "updated", "last_modified", "created")


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment as it lies there."""

    size: int
    stamp: str
    """what tells whether it has been written to since; empty where nothing does"""


@dataclass(slots=True)
class Listing:
    """The contents of a ledger's folder."""

    segments: dict[str, Segment] = field(default_factory=dict)
    """in the order of their names"""
    tables: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """what else lies in the folder of the index"""


def folder_of(out: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return the storage of an output directory or URL, and the folder of its ledger there."""
    fs, root = fsspec.url_to_fs(out)
    return fs, f"{root.rstrip('/')}/{FOLDER}"


def list_folder(fs: fsspec.AbstractFileSystem, folder: str) -> Listing:
    """List a folder.

    Raises:
        LedgerError: another version of this program wrote there.
    """
    fs.invalidate_cache()
    listing = Listing()
    if not fs.exists(folder):
        return listing
    for path, info in sorted(fs.find(folder, detail=True).items()):
        name = path.removeprefix(f"{folder}/")
        inner, _, last = name.rpartition("/")
        if inner == INDEX:
            (listing.tables if last.endswith(TABLE_ENDING) else listing.others).append(last)
        elif name.endswith(".jsonl"):
            if not name.endswith(ENDING):
                raise LedgerError(
                    f"{path}: another version of zelo_ray wrote it; name another --out or --ledger"
                )
            listing.segments[name] = Segment(info["size"], stamp_of(info))
    return listing


def stamp_of(info: dict[str, Any]) -> str:
    """Return the mark of a file's last change, as the storage reports it."""
    stamp = next((info[name] for name in _STAMPS if info.get(name)), "")
    return str(stamp.timestamp() if isinstance(stamp, datetime) else stamp)


def lines_of(
    fs: fsspec.AbstractFileSystem, path: str, start: int = 0, judges: Collection[str] | None = None
) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
    """Yield the whole lines of a segment with offsets and rows; a damaged line has None.

    Where only some judges are wanted, a line that says it is another's is passed over unread: its
    row is empty.
    """
    wanted = None
    if judges is not None:
        wanted = tuple(_JUDGE[:-1] + orjson.dumps(name) + b"," for name in judges)
    for at, line in complete_lines(fs.cat_file(path, start=start)):
        if wanted is not None and line.startswith(_JUDGE, 40) and not line.startswith(wanted, 40):
            yield start + at, line, {}
        else:
            yield start + at, line, parse_row(line)


def replies_in(line: bytes) -> int:
    """Return how many replies a damaged line held, as far as it shows."""
    return max(1, line.count(b'{"key":"'))
