"""Write small files whole and durably, on a disk or in an object store."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec

from zelo_ray.errors import LedgerError
from zelo_ray.files.storage import sync_path

FULL = "the disk of the output directory is full; make room and run again"


def write_durably(fs: fsspec.AbstractFileSystem, name: str, data: bytes) -> None:
    """Replace a file; readers see the old or the new content, and the new one is durable.

    Raises:
        LedgerError: it could not be written.
    """
    with explain_file_errors(name):
        if "file" in fs.protocol:
            _replace(Path(name), data)
        else:
            fs.pipe_file(name, data)


@contextmanager
def explain_file_errors(name: str) -> Iterator[None]:
    """Turn errors of the storage about a file, or its folder, into one line that says what to do.

    Raises:
        LedgerError: whatever the storage says.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        message = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        why = "the disk is full; make room and run again" if full else message
        raise LedgerError(f"{name}: {why}") from None


def _replace(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new_path = path.with_suffix(".new")
    with new_path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new_path.replace(path)
    sync_path(path.parent)
