"""The folder of a private Ray: this user's alone, short of name, and gone when its run is.

A run holds a lock in its folder, which the system lets go of however the process ends; so the next
run can tell what a killed one left behind, and removes it.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "zelo-"
_LOCK = "lock"
_OF_RAY = "r"  # one letter: Ray makes sockets below it, and the path of a socket has to be short


@contextlib.contextmanager
def folder_for_ray() -> Iterator[str]:
    """Yield a folder for Ray inside a private one, as Ray opens its own to all users.

    Raises:
        OSError: it cannot be made.
    """
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove_if_left(leftover)
    folder, lock = _locked_folder()
    try:
        yield str(folder / _OF_RAY)
    finally:
        _remove(folder)
        os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            return folder, lock
        os.close(lock)  # between these two calls another run took the folder for one left behind


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of this user's, if it is certain that its run has ended."""
    with contextlib.suppress(OSError):  # locked, being made, or somebody else is removing it
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    """Remove the lock last, so that a removal that is cut off is taken up by the next run."""
    shutil.rmtree(folder / _OF_RAY, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
