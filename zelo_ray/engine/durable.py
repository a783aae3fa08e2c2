"""Write small files whole and durably, on a disk or in an object store."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import fsspec

from zelo_ray.errors import LedgerError
from zelo_ray.files.storage import open_for_writing

FULL = "the disk of the output directory is full; make room and run again"


def write_durably(fs: fsspec.AbstractFileSystem, name: str, data: bytes) -> None:
    """Replace a file; readers see the old or the new content, and the new one is durable.

    Raises:
        LedgerError: it could not be written.
    """
    with explain_file_errors(name):
        if "file" in fs.protocol:
            with open_for_writing(name, ".new") as file:
                file.write(data)
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
