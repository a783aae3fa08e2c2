"""Merge many small segments into few large ones, so that each line counts once at any moment.

What a new segment replaces is written down before it is there, and the old ones are removed after
it was read back. A reader in between counts only one of the two: see `listing`.
"""

import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
import orjson

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.durable import sync_folder, write_durably
from zelo_ray.engine.ledger.listing import (
    COMPACTED,
    REPLACED,
    Segment,
    folder_of,
    list_folder,
    read_replaced,
    replaced_by,
)
from zelo_ray.errors import LedgerError
from zelo_ray.formats.segments import ENDING

_LARGE_BYTES = 64 * 2**20
_LOOKED_SECONDS = 86_400.0  # seconds after which no reader works from an older listing


@dataclass(frozen=True, slots=True)
class Compacted:
    """The segments before and after a compaction, and their bytes."""

    before: int
    after: int
    """segments"""
    bytes: int
    """of all of them"""


def compact(out: str, say: Callable[[str], None] = print, clock: Clock = CLOCK) -> Compacted:
    """Make large segments of small ones. Only while `claim_folder` is held. A kill harms nothing.

    Lines stay as they are, also damaged ones. Segments that end in the middle of a line are left
    alone.

    Args:
        out: directory or URL.
        say: told what was made.
        clock: the time.

    Raises:
        LedgerError: another version of this program wrote here, or a segment is not what was
            written.
        OSError: whatever else the storage says.
    """
    fs, folder = folder_of(out)
    _finish(fs, folder, clock)
    segments = list_folder(fs, folder).segments
    made = 0
    for group in _groups(segments):
        if name := _replace(fs, folder, group, clock):
            made += 1
            say(f"{name}: {len(group):,} segments in one")
    survivors = list_folder(fs, folder).segments
    return Compacted(
        len(segments), len(survivors), sum(segment.size for segment in survivors.values())
    )


def _groups(segments: Mapping[str, Segment]) -> Iterator[dict[str, Segment]]:
    """Group the small segments by name, as many together as make a large one."""
    group = dict[str, Segment]()
    for name, segment in sorted(segments.items()):
        if not 0 < segment.size < _LARGE_BYTES / 2 or segment.begin:
            continue
        if sum(member.size for member in group.values()) + segment.size > _LARGE_BYTES:
            yield group
            group = {}
        group[name] = segment
    yield group


def _replace(
    fs: fsspec.AbstractFileSystem, folder: str, group: Mapping[str, Segment], clock: Clock
) -> str:
    """Replace several segments by a large one; return its name, empty if nothing is to do."""
    data = {name: fs.cat_file(f"{folder}/{name}") for name in group}
    data = {name: content for name, content in data.items() if content.endswith(b"\n")}
    if len(data) < 2:
        return ""
    name = f"{COMPACTED}{clock.date():.0f}-{uuid.uuid4().hex[:8]}{ENDING}"
    old = {old_name: len(lines) for old_name, lines in data.items()}
    lines = b"".join(data.values())
    record = {"at": clock.date(), "size": len(lines), "crc32": zlib.crc32(lines), "old": old}
    write_durably(fs, f"{folder}/{replaced_by(name)}", orjson.dumps(record))
    _keep_segment(fs, f"{folder}/{name}", lines)
    if not _settle(fs, folder, name, record):
        raise LedgerError(f"{folder}/{name}: is not what was written; the old segments are kept")
    return name


def _settle(fs: fsspec.AbstractFileSystem, folder: str, name: str, note: Mapping[str, Any]) -> bool:
    """Remove what a segment replaces; or the segment itself, if it is not what it is to be."""
    sizes = {
        old_name: size
        for old_name, size in note["old"].items()
        if fs.exists(f"{folder}/{old_name}")
    }
    unread = sizes and len(sizes) == len(note["old"])
    if unread and zlib.crc32(fs.cat_file(f"{folder}/{name}")) != note["crc32"]:
        fs.rm_file(f"{folder}/{name}")
        return False
    for old_name, size in sizes.items():
        if fs.info(f"{folder}/{old_name}")["size"] == size:  # nobody has written to it since
            fs.rm_file(f"{folder}/{old_name}")
    if "file" in fs.protocol:
        sync_folder(Path(folder))
    return True


def _keep_segment(fs: fsspec.AbstractFileSystem, path: str, lines: bytes) -> None:
    """Write a segment; it is there when it is whole."""
    if "file" in fs.protocol:
        new_path = Path(path).with_suffix(".new")
        write_durably(fs, str(new_path), lines)
        new_path.replace(path)
        sync_folder(new_path.parent)
    else:
        fs.pipe_file(path, lines)


def _finish(fs: fsspec.AbstractFileSystem, folder: str, clock: Clock) -> None:
    """Finish compactions that were killed, and remove records of old ones."""
    place = f"{folder}/{REPLACED}"
    fs.invalidate_cache()
    for path in fs.find(place) if fs.exists(place) else ():
        if not path.endswith(".json"):
            fs.rm_file(path)  # half a record
            continue
        name = path.rpartition("/")[2].removesuffix(".json") + ENDING
        record = read_replaced(fs, folder, name)
        is_settled = fs.exists(f"{folder}/{name}") and _settle(fs, folder, name, record)
        if not is_settled or clock.date() - record["at"] > _LOOKED_SECONDS:
            fs.rm_file(path)
    for path in fs.glob(f"{folder}/{COMPACTED}*.new"):
        fs.rm_file(path)
