"""Write tables to files beside the ledger, and map them, so that a node holds each only once.

A file has a preamble, the columns, and a footer of JSON, each with a checksum. Its name is a hash
of the footer, which has the checksums of all else. It can be lost at any time: what is broken,
foreign or of another version is no table, and what it named is found by reading segments.
"""

import contextlib
import hashlib
import mmap
import os
import struct
import tempfile
import time
import uuid
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import fsspec
import numpy as np
import orjson
from numpy.typing import NDArray

from zelo_ray.engine.ledger.table import (
    COLUMNS,
    OF_REPLIES,
    Columns,
    ReplyTable,
    chunks,
    cut_rows,
    merged,
)
from zelo_ray.engine.ledger.totals import Covered, Total

ENDING, UNFINISHED = ".index", ".new"
_MAGIC = b"zelo index 1\n\0\0\0"
_PREAMBLE = struct.Struct("<16sQQI")  # magic, where the footer begins and its length, its checksum
_BLOCK = 2**22
_STALE_SECONDS = 7 * 86_400.0
_READING = (OSError, ValueError, KeyError, TypeError, IndexError, struct.error)


def write_table(
    fs: fsspec.AbstractFileSystem,
    folder: str,
    parts: Sequence[tuple[ReplyTable, NDArray[np.bool_]]],
) -> str:
    """Write several tables as one, and return the name of its file.

    Args:
        fs: the storage.
        folder: where to.
        parts: tables, and of each which of its segments to keep.

    Raises:
        Exception: whatever the storage says; every one has its own errors.
    """
    local = "file" in fs.protocol
    place = Path(folder) if local else _shelf(folder)
    place.mkdir(parents=True, exist_ok=True)
    new_path = _beside(place)
    try:
        with new_path.open("w+b") as file:
            name = _write(file, parts)
        if not local:
            fs.put_file(str(new_path), f"{folder}/{name}")
        new_path.replace(place / name)
    finally:
        new_path.unlink(missing_ok=True)
    return name


def _beside(place: Path) -> Path:
    return place / f"{uuid.uuid4().hex}{UNFINISHED}"


def _write(file: IO[bytes], parts: Sequence[tuple[ReplyTable, NDArray[np.bool_]]]) -> str:
    segments, payers = merged(parts)
    rows = sum(
        int(np.count_nonzero(keep[table.columns["segment"]])) if not keep.all() else len(table)
        for table, keep in parts
    )
    at, begins = _PREAMBLE.size, dict[str, int]()
    for name in OF_REPLIES:
        at = begins[name] = -(-at // 64) * 64
        at += rows * COLUMNS[name].itemsize
    ends, sums = begins.copy(), dict.fromkeys(COLUMNS, 0)
    cuts: list[tuple[NDArray[Any], NDArray[Any]]] = []
    done = 0
    for chunk in chunks(parts, segments, payers):
        for name in OF_REPLIES:
            data = np.ascontiguousarray(chunk[name], COLUMNS[name]).tobytes()
            sums[name] = zlib.crc32(data, sums[name])
            os.pwrite(file.fileno(), data, ends[name])
            ends[name] += len(data)
        cut = cut_rows(chunk["size"])
        cuts.append((cut + done, chunk["cut"][cut]))
        done += len(chunk["size"])
    for number, name in enumerate(("cut_row", "cut")):
        at = begins[name] = -(-at // 64) * 64
        columns = [np.asarray(pair[number], COLUMNS[name]) for pair in cuts]
        data = np.concatenate(columns).tobytes() if columns else b""
        sums[name] = zlib.crc32(data)
        os.pwrite(file.fileno(), data, at)
        at += len(data)
    lengths = dict.fromkeys(OF_REPLIES, rows)
    lengths |= dict.fromkeys(("cut_row", "cut"), sum(len(indices) for indices, _ in cuts))
    footer = _footer(segments, payers, {n: [begins[n], lengths[n], sums[n]] for n in COLUMNS})
    os.pwrite(file.fileno(), footer, at)
    os.pwrite(file.fileno(), _PREAMBLE.pack(_MAGIC, at, len(footer), zlib.crc32(footer)), 0)
    return hashlib.sha256(footer).hexdigest()[:24] + ENDING


def _footer(
    segments: Sequence[Covered], payers: Sequence[tuple[str, str]], columns: dict[str, list[int]]
) -> bytes:
    numbers = {payer: number for number, payer in enumerate(payers)}
    rows = [
        [
            *(segment.name, segment.size, segment.stamp, segment.damaged),
            [[numbers[payer], asdict(total)] for payer, total in segment.totals.items()],
        ]
        for segment in segments
    ]
    return orjson.dumps({"columns": columns, "payers": payers, "segments": rows})


def read_table(fs: fsspec.AbstractFileSystem, folder: str, name: str) -> ReplyTable | None:
    """Read the table in a file, mapped; None if there is none, or it is not whole."""
    return _table(fs, folder, name, verify=True)


def read_totals(fs: fsspec.AbstractFileSystem, folder: str, name: str) -> ReplyTable | None:
    """Read a table without its replies: only what it says of segments."""
    return _table(fs, folder, name, verify=False)


def _table(
    fs: fsspec.AbstractFileSystem, folder: str, name: str, *, verify: bool
) -> ReplyTable | None:
    try:
        if "file" in fs.protocol:
            return _read(Path(folder) / name, verify=verify)
        table = None
        for _ in range(2):  # what was fetched may be broken, and what lies there is not
            path = _fetched(fs, folder, name)
            if (table := _read(path, verify=verify)) is not None:
                break
            path.unlink(missing_ok=True)
    except _READING:
        return None
    return table


def _read(path: Path, *, verify: bool) -> ReplyTable | None:
    with path.open("rb") as file:
        magic, begin, length, crc = _PREAMBLE.unpack(file.read(_PREAMBLE.size))
        size = os.fstat(file.fileno()).st_size
        if magic != _MAGIC or begin + length != size:
            return None
        footer = os.pread(file.fileno(), length, begin)
        if zlib.crc32(footer) != crc:
            return None
        contents = orjson.loads(footer)
        columns: Columns = {name: np.empty(0, COLUMNS[name]) for name in COLUMNS}
        if verify:
            if any(_changed(file, name, contents["columns"][name]) for name in COLUMNS):
                return None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            for name, (at, rows, _) in contents["columns"].items():
                if rows:
                    columns[name] = np.frombuffer(mapped, COLUMNS[name], rows, at)
    payers = [(run_id, judge) for run_id, judge in contents["payers"]]
    segments = [
        Covered(
            *(name, covered, stamp, [(byte, replies) for byte, replies in damaged]),
            {payers[number]: Total(**total) for number, total in totals},
        )
        for name, covered, stamp, damaged, totals in contents["segments"]
    ]
    return ReplyTable(columns, segments, payers)


def _changed(file: IO[bytes], name: str, footer: Sequence[int]) -> bool:
    """Return whether a column has changed. It is read, not mapped: so it takes no memory here."""
    begin, rows, crc = footer
    size, checksum = rows * COLUMNS[name].itemsize, 0
    while size:
        data = os.pread(file.fileno(), min(size, _BLOCK), begin)
        if not data:
            return True
        checksum, begin, size = zlib.crc32(data, checksum), begin + len(data), size - len(data)
    return checksum != crc


def _fetched(fs: fsspec.AbstractFileSystem, folder: str, name: str) -> Path:
    """Fetch a table of an object store to this node's disk, where all its processes map it."""
    place = _shelf(folder)
    path = place / name
    if path.exists():
        with contextlib.suppress(OSError):
            os.utime(path)
        return path
    place.mkdir(parents=True, exist_ok=True)
    new_path = _beside(place)
    try:
        fs.get_file(f"{folder}/{name}", str(new_path))
        new_path.replace(path)
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        raise OSError(str(error)) from None
    finally:
        new_path.unlink(missing_ok=True)
    return path


def _shelf(folder: str) -> Path:
    """Return the folder for tables of an object store on this node. Only this user may enter.

    Raises:
        OSError: the place is somebody else's.
    """
    top = _top()
    top.mkdir(mode=0o700, exist_ok=True)
    if top.lstat().st_uid != os.getuid() or top.is_symlink():
        raise PermissionError(f"{top}: is not yours")
    return top / hashlib.sha256(folder.encode()).hexdigest()[:16]


def _top() -> Path:
    return Path(tempfile.gettempdir()) / f"zelo-index-{os.getuid()}"


def drop_stale() -> None:
    """Remove what was fetched from object stores and not used for a week."""
    with contextlib.suppress(OSError):
        for path in _top().glob("*/*"):
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink(missing_ok=True)
