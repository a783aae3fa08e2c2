"""Write lines into segments, on a disk and in an object store."""

import os
from pathlib import Path

import fsspec

from zelo_ray.engine.clock import Clock
from zelo_ray.engine.durable import explain_file_errors
from zelo_ray.engine.ledger.segments import ENDING, FOLDER
from zelo_ray.engine.lock import share_writing
from zelo_ray.errors import LedgerError
from zelo_ray.files.storage import sync_path

_LOCAL_BYTES = 64 * 2**20  # a segment larger than this is left and a new one begun
_OBJECT_BYTES = 2**20  # smaller, as an object is uploaded whole each time until it is left
_RESERVE_BYTES = 4 * 2**20  # room for the answers in flight when a disk fills up
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has but the other
_UPLOAD_DELAYS = (0.5, 1, 2, 4, 8)  # seconds before another try


def drop_reserves(out: str) -> None:
    """Remove what writers that were killed had reserved. Only while `claim_folder` is held."""
    fs, root = fsspec.url_to_fs(out)
    if "file" in fs.protocol:
        for reserve in (Path(root) / FOLDER).glob("*.reserve"):
            reserve.unlink()


class LocalSegments:
    """Segments on a disk, synced at each append, with a reserve for the day the disk is full."""

    def __init__(self, name: str) -> None:
        self._name, self._part, self._size = name, 0, 0
        self._file: int | None = None
        self._folder, self._reserve = Path(name).parent, Path(f"{name}.reserve")
        with explain_file_errors(str(self._folder)):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._shared = share_writing(self._folder.parent)
            try:
                self._reserve.write_bytes(b"\1" * _RESERVE_BYTES)
            except OSError:
                self.close()
                raise

    @property
    def storage_full(self) -> bool:
        """Return whether only the reserve is left, so that nothing new may be asked."""
        return not self._reserve.exists()

    def append(self, lines: bytes) -> tuple[str, int]:
        """Keep lines; return the segment that they are in, and their offset."""
        if not self.storage_full:
            try:
                return self._write(lines)
            except OSError:
                self._reserve.unlink()
        with explain_file_errors(str(self._folder)):
            return self._write(lines)

    def _write(self, lines: bytes) -> tuple[str, int]:
        if self._size >= _LOCAL_BYTES and self._file is not None:
            os.close(self._file)
            self._part, self._size, self._file = self._part + 1, 0, None
        segment = f"{self._name}-{self._part:04}{ENDING}"
        if self._file is None:
            self._file = os.open(segment, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            sync_path(self._folder)
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
        """Let go of files."""
        if self._file is not None:
            os.close(self._file)
        self._reserve.unlink(missing_ok=True)
        os.close(self._shared)


class ObjectSegments:
    """Segments in an object store: one object, uploaded whole at each append until it is large."""

    def __init__(self, fs: fsspec.AbstractFileSystem, name: str, clock: Clock) -> None:
        self._fs, self._name, self._clock = fs, name, clock
        self._part, self._lines = 0, b""
        self.storage_full = False

    def append(self, lines: bytes) -> tuple[str, int]:
        """Keep lines; return the segment that they are in, and their offset."""
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
        """Do nothing: no file is held open."""


SegmentWriter = LocalSegments | ObjectSegments


def open_writer(fs: fsspec.AbstractFileSystem, name: str, clock: Clock) -> SegmentWriter:
    """Return the writer of segments whose names begin with ``name``.

    Raises:
        LedgerError: the folder cannot be used.
    """
    return LocalSegments(name) if "file" in fs.protocol else ObjectSegments(fs, name, clock)
