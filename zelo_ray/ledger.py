"""The ledger: every reply that was paid for, durable before anything else sees it.

It is a folder of append-only segments of JSON lines, one reply a line, that pyarrow reads alone.
Each writer has segments of its own, so writers never meet. On a local disk `Ledger.append` returns
once the lines are synced to it; in an object store, once they are uploaded.
"""

import dataclasses
import os
import time
import uuid
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import fsspec
import orjson
from fsspec.utils import merge_offset_ranges

from zelo_ray.claim import share_writing
from zelo_ray.durable import sync_folder
from zelo_ray.records import Reply

FOLDER = "replies"
_LOCAL_BYTES = 64 * 2**20  # a segment larger than this is left and a new one begun
_OBJECT_BYTES = 2**20  # smaller, as an object is uploaded whole each time until it is left
_RESERVE_BYTES = 4 * 2**20  # room for the answers in flight when a disk fills up
_UPLOAD_DELAYS = (0.5, 1, 2, 4, 8)  # seconds before another try
_MAX_GAP = 2**16


class LedgerError(Exception):
    """Replies cannot be kept any more; no further call may be made."""


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

    An index in memory (about 300 bytes a reply) says where each reply lies; texts are read when
    they are asked for. Of several replies to one request the first that is ``ok`` stands, else the
    last.
    """

    def __init__(
        self,
        out: str,
        run_id: str = "",
        retry: Collection[str] = (),
        limits: Mapping[str, int] = {},
    ) -> None:
        self._fs, root = fsspec.url_to_fs(out)
        self._folder = f"{root.rstrip('/')}/{FOLDER}"
        self._run_id, self._retry, self._limits = run_id, frozenset(retry), limits
        self._cut: dict[bytes, int] = {}
        self._read_to: dict[str, int] = {}
        self._index: dict[bytes, tuple[str, int, int, bool]] = {}
        self._own = set[str]()  # segments of this run
        self._writer: _Writer | None = None
        if run_id:
            name = f"{self._folder}/{run_id}-{uuid.uuid4().hex[:8]}"
            local = "file" in self._fs.protocol
            self._writer = _LocalSegments(name) if local else _ObjectSegments(self._fs, name)
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

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """The replies for these keys, in their order.

        Raises:
            KeyError: a key has no reply.
        """
        places = [self._index[bytes.fromhex(key)][:3] for key in keys]
        if not places:
            return []
        segments, starts, lengths = zip(*places, strict=True)
        ends = [start + length for start, length in zip(starts, lengths, strict=True)]
        spans = merge_offset_ranges(list(segments), list(starts), ends, max_gap=_MAX_GAP)
        chunks = self._fs.cat_ranges(*spans, on_error="raise")
        begins = list(zip(spans[0], spans[1], strict=True))
        replies = []
        for segment, start, length in places:
            at = bisect_right(begins, (segment, start)) - 1
            offset = start - begins[at][1]
            replies.append(Reply(**orjson.loads(chunks[at][offset : offset + length])))
        return replies

    def append(self, replies: Sequence[Reply]) -> None:
        """Keep replies. They are durable when this returns.

        Raises:
            LedgerError: they could not be kept, or there is no room for more.
        """
        if self._writer is None:
            raise LedgerError(f"{self._folder} was opened for reading only")
        lines = [_line(reply) for reply in replies]
        segment, start = self._writer.append(b"".join(lines))
        for line in lines:
            self._enter(line, segment, start)
            start += len(line)
        self._read_to[segment] = start

    def refresh(self) -> None:
        """Take in what other writers have added since the last look."""
        for name, size in _segments(self._fs, self._folder).items():
            start = self._read_to.get(name, 0)
            if size > start:
                for line, end in _whole_lines(self._fs.cat_file(name, start=start)):
                    self._enter(line, name, start + end - len(line))
                    self._read_to[name] = start + end

    def close(self) -> None:
        """Let go of files. What was appended is durable already."""
        if self._writer:
            self._writer.close()

    def _enter(self, line: bytes, segment: str, start: int) -> None:
        try:
            row = orjson.loads(line)
            if row["status"] == "truncated":
                cut, key = row.get("limit") or row["output_tokens"], bytes.fromhex(row["key"])
                self._cut[key] = max(cut, self._cut.get(key, 0))
                if cut < self._limits.get(row["judge"], 0):
                    return
            if not row["final"] or (row["status"] in self._retry and row["run_id"] != self._run_id):
                return
        except (ValueError, KeyError, TypeError):
            raise LedgerError(f"{segment}: no reply at byte {start}; mend or remove it") from None
        if row["run_id"] == self._run_id:
            self._own.add(segment)
        key, ok = bytes.fromhex(row["key"]), row["status"] == "ok"
        known = self._index.get(key)
        if known is None or not known[3]:
            self._index[key] = (segment, start, len(line), ok)


def read_rows(out: str) -> Iterator[Reply]:
    """Every row of the books in no special order: also those that another reply replaced."""
    fs, root = fsspec.url_to_fs(out)
    for name in _segments(fs, f"{root.rstrip('/')}/{FOLDER}"):
        for line, _ in _whole_lines(fs.cat_file(name)):
            yield Reply(**orjson.loads(line))


def _segments(fs: fsspec.AbstractFileSystem, folder: str) -> dict[str, int]:
    """The segments with their sizes, in the order of their names."""
    fs.invalidate_cache()
    if not fs.exists(folder):
        return {}
    found = fs.find(folder, detail=True)
    return {name: found[name]["size"] for name in sorted(found) if name.endswith(".jsonl")}


def _line(reply: Reply) -> bytes:
    row = dataclasses.asdict(reply)
    for name in ("text", "reason", "model"):  # half an emoji is no UTF-8, and no reason to fail
        row[name] = str(row[name]).encode("utf-8", "replace").decode()
    return orjson.dumps(row) + b"\n"


def _whole_lines(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Lines with their end offsets; a last line that a crash cut short is left out."""
    end = 0
    for line in data.splitlines(keepends=True):
        end += len(line)
        if line.endswith(b"\n"):
            yield line, end


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
        segment = f"{self._name}-{self._part:04}.jsonl"
        if self._file is None:
            self._file = os.open(segment, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
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

    def __init__(self, fs: fsspec.AbstractFileSystem, name: str) -> None:
        self._fs, self._name = fs, name
        self._part, self._lines = 0, b""
        self.exhausted = False

    def append(self, lines: bytes) -> tuple[str, int]:
        segment, start = f"{self._name}-{self._part:04}.jsonl", len(self._lines)
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
                time.sleep(delay)
            else:
                return

    def close(self) -> None:
        """Nothing is held."""
