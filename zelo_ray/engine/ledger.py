"""The ledger: every reply that was paid for, durable before anything else sees it.

It is a folder of append-only segments of JSON lines, one reply a line, that pyarrow reads alone.
Each writer has segments of its own, so writers never meet. On a local disk `Ledger.append` returns
once the lines are synced to it; in an object store, once they are uploaded. A line that is damaged
is set aside, wherever it lies: what it held is asked again.
"""

import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import fsspec
from fsspec.utils import merge_offset_ranges

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.durable import sync_folder
from zelo_ray.engine.lock import share_writing
from zelo_ray.errors import LedgerError
from zelo_ray.formats.segments import (
    ENDING,
    VERSION,
    line_of,
    reply_of,
    row_of,
    version_of,
    whole_lines,
)
from zelo_ray.formats.wording import counted
from zelo_ray.records import Reply

FOLDER = "replies"
_NEEDED = ("key", "judge", "status", "final", "run_id", "output_tokens", "limit")
_LOCAL_BYTES = 64 * 2**20  # a segment larger than this is left and a new one begun
_OBJECT_BYTES = 2**20  # smaller, as an object is uploaded whole each time until it is left
_RESERVE_BYTES = 4 * 2**20  # room for the answers in flight when a disk fills up
_UPLOAD_DELAYS = (0.5, 1, 2, 4, 8)  # seconds before another try
_MAX_GAP = 2**16
_NAMED = 3
_AT_ONCE = 1000

_Place = tuple[str, int, int, bool]
"""Of a line its segment, offset and length, and whether its reply is ok."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """A line that is no reply any more, and is set aside: its segment, and the byte it begins at.

    ``replies`` is how many it held, as far as it tells: where a line's end is lost, two.
    """

    segment: str
    byte: int
    replies: int = 1


class _Writer(Protocol):
    @property
    def exhausted(self) -> bool:
        """Whether only the reserve is left, so that nothing new may be asked."""

    def append(self, lines: bytes) -> tuple[str, int]:
        """Keep lines; return the segment that they are in and their offset."""

    def close(self) -> None: ...


class Ledger:
    """The replies under one output directory or URL.

    Args:
        out: directory or URL; the ledger lives in its folder ``replies``.
        run_id: the run that writes, whose name replies carry; without it the ledger is only read.
        retry: statuses that, in replies of *other* runs, count as missing.
        limits: by judge, the tokens that its answers may have by now: one that was cut off at fewer
            counts as missing.
        clock: the time, by which failed uploads are tried again.

    An index in memory (about 300 bytes a reply) says where each reply lies; texts are read when
    they are asked for. Of several replies to one request the first that is ``ok`` stands, else the
    last: by when they were received, wherever they lie. A line that is damaged answers nothing.

    Raises:
        LedgerError: a later version of this program wrote here, or the folder cannot be used.
    """

    def __init__(
        self,
        out: str,
        run_id: str = "",
        retry: Collection[str] = (),
        limits: Mapping[str, int] = {},
        clock: Clock = CLOCK,
    ) -> None:
        self._fs, root = fsspec.url_to_fs(out)
        self._folder = f"{root.rstrip('/')}/{FOLDER}"
        self._run_id, self._retry, self._limits = run_id, frozenset(retry), limits
        self._cut: dict[bytes, int] = {}
        self._read_to: dict[str, int] = {}
        self._index: dict[bytes, _Place] = {}
        self._own = set[str]()  # segments of this run
        self._damaged: dict[Damaged, None] = {}
        self._writer: _Writer | None = None
        if run_id:
            name = f"{self._folder}/{run_id}-{uuid.uuid4().hex[:8]}"
            local = "file" in self._fs.protocol
            self._writer = _LocalSegments(name) if local else _ObjectSegments(self._fs, name, clock)
        self.refresh()

    @property
    def exhausted(self) -> bool:
        """Whether storage is so full that no further call may be made."""
        return self._writer is not None and self._writer.exhausted

    def __len__(self) -> int:
        """The number of requests that have a reply."""
        return len(self._index)

    def has(self, key: str) -> bool:
        """Whether the books hold a reply for this key."""
        return bytes.fromhex(key) in self._index

    def cut_at(self, key: str) -> int:
        """The highest limit at which an answer to this request was cut off; 0 for none."""
        return self._cut.get(bytes.fromhex(key), 0)

    def own(self, key: str) -> bool:
        """Whether there is a reply for this key, of the run that writes."""
        return self._index.get(bytes.fromhex(key), ("",))[0] in self._own

    @property
    def damaged(self) -> list[Damaged]:
        """The lines that are set aside."""
        return list(self._damaged)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """The replies for these keys, in their order.

        Raises:
            KeyError: a key has no reply.
            LedgerError: a line is not any more what it was when it was first seen.
        """
        found = self._rows([(key, self._index[bytes.fromhex(key)]) for key in keys])
        return [reply_of(row) for row in found]

    def _rows(self, wanted: Sequence[tuple[str, _Place]]) -> Iterator[dict[str, Any]]:
        """What lies at some places, where replies to these keys were seen."""
        if not wanted:
            return
        segments, starts, lengths, _ = zip(*(place for _, place in wanted), strict=True)
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        spans = merge_offset_ranges(list(segments), list(starts), ends, max_gap=_MAX_GAP)
        chunks = self._fs.cat_ranges(*spans, on_error="return")
        begins = list(zip(spans[0], spans[1], strict=True))
        for key, (segment, start, length, _) in wanted:
            at = bisect_right(begins, (segment, start)) - 1
            if isinstance(chunk := chunks[at], Exception):
                raise LedgerError(f"{segment}: {type(chunk).__name__}: {chunk}")
            offset = start - begins[at][1]
            row = row_of(chunk[offset : offset + length], version_of(segment))
            if row is None or row["key"] != key:
                raise LedgerError(
                    f"{segment}: the reply at byte {start:,} has been damaged since this run "
                    "began; run again, and it is asked for anew"
                )
            yield row

    def append(self, replies: Sequence[Reply]) -> None:
        """Keep replies. They are durable when this returns.

        Raises:
            LedgerError: they could not be kept, or there is no room for more.
        """
        if self._writer is None:
            raise LedgerError(f"{self._folder} was opened for reading only")
        lines = [line_of(reply) for reply in replies]
        segment, start = self._writer.append(b"".join(lines))
        rivals: dict[bytes, list[_Place]] = {}
        for reply, line in zip(replies, lines, strict=True):
            row = {name: getattr(reply, name) for name in _NEEDED}
            self._enter(row, segment, start, len(line), rivals)
            start += len(line)
        self._read_to[segment] = start
        self._decide(rivals)

    def refresh(self) -> None:
        """Take in what other writers have added since the last look."""
        rivals: dict[bytes, list[_Place]] = {}
        for name, size in _segments(self._fs, self._folder).items():
            start = self._read_to.get(name, 0)
            if size > start:
                for at, line, row in _lines(self._fs, name, start):
                    if row is None:
                        self._damaged[_damaged(name, at, line)] = None
                    else:
                        self._enter(row, name, at, len(line), rivals)
                    self._read_to[name] = at + len(line)
        self._decide(rivals)

    def close(self) -> None:
        """Let go of files. What was appended is durable already."""
        if self._writer:
            self._writer.close()

    def _enter(
        self,
        row: Mapping[str, Any],
        segment: str,
        start: int,
        length: int,
        rivals: dict[bytes, list[_Place]],
    ) -> None:
        """Note where a reply lies; among ``rivals`` if another one may stand in its stead."""
        key = bytes.fromhex(row["key"])
        if row["status"] == "truncated":
            cut = row["limit"] or row["output_tokens"]
            self._cut[key] = max(cut, self._cut.get(key, 0))
            if cut < self._limits.get(row["judge"], 0):
                return
        if not row["final"] or (row["status"] in self._retry and row["run_id"] != self._run_id):
            return
        if row["run_id"] == self._run_id:
            self._own.add(segment)
        place = (segment, start, length, row["status"] == "ok")
        known = self._index.get(key)
        if known is None or place[3] > known[3]:
            self._index[key] = place
        elif place[3] == known[3] and place != known:
            rivals.setdefault(key, []).append(place)

    def _decide(self, rivals: Mapping[bytes, list[_Place]]) -> None:
        """Let the first reply stand where both are ok, the last one where neither is."""
        keys = list(rivals)
        for i in range(0, len(keys), _AT_ONCE):
            wanted = [
                (key.hex(), place)
                for key in keys[i : i + _AT_ONCE]
                for place in (self._index[key], *rivals[key])
                if place[3] == self._index[key][3]
            ]
            dated: dict[str, list[tuple[str, _Place]]] = {}
            for (key, place), row in zip(wanted, self._rows(wanted), strict=True):
                dated.setdefault(key, []).append((row["received_at"], place))
            for key, each in dated.items():
                pick = min if each[0][1][3] else max
                self._index[bytes.fromhex(key)] = pick(each)[1]


def read_rows(out: str) -> Iterator[Reply]:
    """Every row of the books in no special order: also those that another reply replaced.

    Lines that are damaged are passed over.

    Raises:
        LedgerError: a later version of this program wrote here.
    """
    return (reply_of(row) for _, _, _, row in _all_lines(out) if row is not None)


@dataclass(slots=True)
class Spent:
    """US dollars that a ledger holds, and its answers of unknown price besides."""

    dollars: float = 0.0
    """of all runs, with those of damage"""
    of_damage: float = 0.0
    """what damaged lines cost is not known: each reply in them counts as the dearest row"""
    unpriced: int = 0
    of_run: float = 0.0
    unpriced_of_run: int = 0
    damaged: list[Damaged] = field(default_factory=list)


def spent_in(books: str, run_id: str = "", look: Callable[[Reply], object] | None = None) -> Spent:
    """What was spent on a ledger, in one pass over it.

    Args:
        books: directory or URL of the ledger.
        run_id: the run whose own share is wanted.
        look: called with each row.

    Raises:
        LedgerError: a later version of this program wrote here.
    """
    spent, dearest = Spent(), 0.0
    for name, start, line, row in _all_lines(books):
        if row is None:
            spent.damaged.append(_damaged(name, start, line))
            continue
        dollars, own = row["dollars"], row["run_id"] == run_id
        dearest = max(dearest, dollars or 0.0)
        spent.dollars += dollars or 0.0
        spent.unpriced += dollars is None
        spent.of_run += (dollars or 0.0) * own
        spent.unpriced_of_run += own and dollars is None
        if look:
            look(reply_of(row))
    spent.of_damage = dearest * sum(each.replies for each in spent.damaged)
    spent.dollars += spent.of_damage
    return spent


def told_damage(damaged: Sequence[Damaged]) -> str:
    """What there is to say of damaged lines, in a sentence."""
    places = [
        f"{FOLDER}/{each.segment.rpartition('/')[2]} at byte {each.byte:,}"
        for each in damaged[:_NAMED]
    ]
    more = ["…"] if len(damaged) > _NAMED else []
    lines = counted(len(damaged), "damaged line, which is", "damaged lines, which are")
    return f"the ledger holds {lines} set aside and asked again: {'; '.join(places + more)}"


def _segments(fs: fsspec.AbstractFileSystem, folder: str) -> dict[str, int]:
    """The segments with their sizes, in the order of their names."""
    fs.invalidate_cache()
    if not fs.exists(folder):
        return {}
    found = fs.find(folder, detail=True)
    names = [name for name in sorted(found) if name.endswith(".jsonl")]
    for name in names:
        if version_of(name) > VERSION:
            raise LedgerError(f"{name}: a later version of zelo_ray wrote it; upgrade")
    return {name: found[name]["size"] for name in names}


def _lines(
    fs: fsspec.AbstractFileSystem, name: str, start: int = 0
) -> Iterator[tuple[int, bytes, dict[str, Any] | None]]:
    """The whole lines of a segment with their offsets and rows; a damaged one has None."""
    version = version_of(name)
    for at, line in whole_lines(fs.cat_file(name, start=start)):
        yield start + at, line, row_of(line, version)


def _all_lines(out: str) -> Iterator[tuple[str, int, bytes, dict[str, Any] | None]]:
    """The same of all segments, whose names come first."""
    fs, root = fsspec.url_to_fs(out)
    for name in _segments(fs, f"{root.rstrip('/')}/{FOLDER}"):
        for at, line, row in _lines(fs, name):
            yield name, at, line, row


def _damaged(segment: str, start: int, line: bytes) -> Damaged:
    return Damaged(segment, start, max(1, line.count(b'{"key":"')))


def drop_reserves(out: str) -> None:
    """Remove what writers that were killed had reserved. Only while `claim` is held."""
    fs, root = fsspec.url_to_fs(out)
    if "file" in fs.protocol:
        for left in (Path(root) / FOLDER).glob("*.reserve"):
            left.unlink()


class _LocalSegments:
    """Segments on a disk, synced at each append, with a reserve for the day the disk is full."""

    def __init__(self, name: str) -> None:
        self._name, self._part, self._size = name, 0, 0
        self._file: int | None = None
        self._folder, self._reserve = Path(name).parent, Path(f"{name}.reserve")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._shared = share_writing(self._folder.parent)
            self._reserve.write_bytes(b"\1" * _RESERVE_BYTES)
        except OSError as error:
            raise LedgerError(f"{self._folder}: {error.strerror}") from None

    @property
    def exhausted(self) -> bool:
        return not self._reserve.exists()

    def append(self, lines: bytes) -> tuple[str, int]:
        try:
            return self._write(lines)
        except OSError as error:
            if self.exhausted:
                raise LedgerError(f"{self._folder}: {error.strerror}") from None
            self._reserve.unlink()
            return self.append(lines)

    def _write(self, lines: bytes) -> tuple[str, int]:
        if self._size >= _LOCAL_BYTES and self._file is not None:
            os.close(self._file)
            self._part, self._size, self._file = self._part + 1, 0, None
        segment = f"{self._name}-{self._part:04}{ENDING}"
        if self._file is None:
            self._file = os.open(segment, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            sync_folder(self._folder)
        start, written = self._size, 0
        try:
            while written < len(lines):
                written += os.write(self._file, memoryview(lines)[written:])
            _sync(self._file)
        except OSError:
            os.ftruncate(self._file, start)
            raise
        self._size += written
        return segment, start

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._reserve.unlink(missing_ok=True)
        os.close(self._shared)


_sync = getattr(os, "fdatasync", os.fsync)  # macOS has but the other


class _ObjectSegments:
    """Segments in an object store: one object, uploaded whole at each append until it is large."""

    def __init__(self, fs: fsspec.AbstractFileSystem, name: str, clock: Clock) -> None:
        self._fs, self._name, self._clock = fs, name, clock
        self._part, self._lines = 0, b""
        self.exhausted = False

    def append(self, lines: bytes) -> tuple[str, int]:
        segment, start = f"{self._name}-{self._part:04}{ENDING}", len(self._lines)
        self._lines += lines  # also if the upload fails: the next one takes them along
        self._upload(segment)
        if len(self._lines) >= _OBJECT_BYTES:
            self._part, self._lines = self._part + 1, b""
        return segment, start

    def _upload(self, segment: str) -> None:
        for delay in (*_UPLOAD_DELAYS, None):
            try:
                self._fs.pipe_file(segment, self._lines)
            except Exception as error:  # noqa: BLE001 - every storage has its own errors
                if delay is None:
                    raise LedgerError(f"{segment}: {type(error).__name__}: {error}") from None
                self._clock.pause(delay)
            else:
                return

    def close(self) -> None:
        """Nothing is held."""
