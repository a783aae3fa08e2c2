"""Choose where the file of a ledger's index lies, and make it when much is missing in it.

Where a process runs alone, that is beside the segments. On Ray, and for an object store, each node
has one of its own, in a folder that only this user may enter.
"""

import contextlib
import fcntl
import hashlib
import os
import sys
import tempfile
import time
from pathlib import Path
from stat import S_ISDIR

import fsspec

from zelo_ray.engine.ledger.index import Index
from zelo_ray.engine.ledger.segments import ledger_folder

NAME = "_index.sqlite"  # readers of a folder of data pass over names that begin so
_LEAST_BYTES = 4 * 2**20  # of segments: it is quick to read less into memory each time
_STALE_SECONDS = 7 * 86_400.0


def open_index(fs: fsspec.AbstractFileSystem, folder: str) -> Index:
    """Open the index of a ledger, with all that its segments hold.

    If much is missing in its file, that is made anew first. Where that cannot be, nothing is lost
    but time.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    files = _files(fs, folder)
    index = Index(fs, folder, files)
    if index.bytes_to_read() >= _LEAST_BYTES:
        index.close()
        with contextlib.suppress(Exception):  # every storage has its own errors
            _extend(fs, folder, files)
        index = Index(fs, folder, files)
    index.refresh()
    return index


def update_index(out: str) -> None:
    """Make the file of a ledger's index anew, if much is missing in it."""
    with contextlib.suppress(Exception):  # nothing is lost but time
        open_index(*ledger_folder(out)).close()


def _files(fs: fsspec.AbstractFileSystem, folder: str) -> list[Path]:
    """Return where the index of a ledger may lie; the first place is where it is made."""
    files = [Path(folder) / NAME] if "file" in fs.protocol else []
    ray = sys.modules.get("ray")
    if not files or os.environ.get("RAY_ADDRESS") or (ray is not None and ray.is_initialized()):
        home = Path(tempfile.gettempdir()) / f"zelo-index-{os.getuid()}"
        name = hashlib.sha256(f"{fs.protocol}\0{folder}".encode()).hexdigest()[:16]
        if not home.exists() or _is_private(home):
            files.insert(0, home / f"{name}.sqlite")
    return files


def _is_private(home: Path) -> bool:
    """Return whether only this user may enter a folder."""
    stat = home.lstat()
    return S_ISDIR(stat.st_mode) and stat.st_uid == os.getuid() and not stat.st_mode & 0o77


def _extend(fs: fsspec.AbstractFileSystem, folder: str, files: list[Path]) -> None:
    path = files[0]
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.name != NAME and not _is_private(path.parent):
        return
    with path.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of the processes of a node one makes it
        index = Index(fs, folder, files)
        if index.bytes_to_read() >= _LEAST_BYTES:  # still
            index.write(path)
        index.close()
    if path.name != NAME:
        for other in path.parent.iterdir():
            if time.time() - other.stat().st_mtime > _STALE_SECONDS:
                other.unlink(missing_ok=True)
