"""Small files that are whole and durable when they are written, on a disk or in an object store."""

import errno
import os
from pathlib import Path

import fsspec

FULL = "the disk of the output directory is full; make room and run again"


def keep_file(fs: fsspec.AbstractFileSystem, name: str, data: bytes) -> None:
    """Write a file anew; it is durable at the end, and never half there.

    Raises:
        Exception: whatever the storage says; every one has its own errors.
    """
    if "file" in fs.protocol:
        _replace(Path(name), data)
    else:
        fs.pipe_file(name, data)


def why(name: str, error: Exception) -> str:
    """Why a file could not be written, in a line."""
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    return FULL if full else f"{name}: {type(error).__name__}: {error}"


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)
