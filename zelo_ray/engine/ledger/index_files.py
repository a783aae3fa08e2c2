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
from collections.abc import Collection
from pathlib import Path
from stat import S_ISDIR

import fsspec

from zelo_ray.engine.ledger.index import Index
from zelo_ray.engine.ledger.segments import ledger_folder

NAME = (
    "_index.sqlite"  # readers of a folder of data, such as pyarrow, pass over names that begin so
)
_LEAST_BYTES = 4 * 2**20  # of segments: it is quick to read less into memory each time
_WAIT_SECONDS = 60.0  # for another process of this node that makes the file
_STALE_SECONDS = 7 * 86_400.0


def open_index(
    fs: fsspec.AbstractFileSystem,
    folder: str,
    judges: Collection[str] | None = None,
    run_id: str = "",
) -> Index:
    """Open the index of a ledger, with all that its segments hold.

    Raises:
        LedgerError: another version of this program wrote here.
    """
    index = Index(fs, folder, _files(fs, folder), judges)
    if not _is_alone(fs) and index.bytes_to_read() >= _LEAST_BYTES:
        index.close()
        with contextlib.suppress(Exception):  # nothing is lost but time
            _write_on_node(fs, folder, run_id)
        index = Index(fs, folder, _files(fs, folder), judges)
    index.refresh()
    return index


def update_index(out: str) -> None:
    """Make the file of a ledger's index anew, if much is missing in it.

    Only while `claim_folder` is held. Where that cannot be, nothing is lost but time.
    """
    fs, folder = ledger_folder(out)
    with contextlib.suppress(Exception):  # every storage has its own errors
        index = Index(fs, folder, _files(fs, folder))
        if index.bytes_to_read() >= _LEAST_BYTES:
            if _is_alone(fs):
                index.write(Path(folder) / NAME)
            else:
                _write_on_node(fs, folder, "")
        index.close()


def _is_alone(fs: fsspec.AbstractFileSystem) -> bool:
    """Return whether the ledger lies on a disk, and no other process of this run uses it."""
    ray = sys.modules.get("ray")
    on_ray = bool(os.environ.get("RAY_ADDRESS")) or (ray is not None and ray.is_initialized())
    return "file" in fs.protocol and not on_ray


def _files(fs: fsspec.AbstractFileSystem, folder: str) -> list[Path]:
    """Return the files of a ledger's index, the newest first."""
    paths = list[Path]()
    with contextlib.suppress(OSError):
        if not _is_alone(fs):
            place = _place_on_node(fs, folder)
            if _is_private(place.parent):
                paths += place.parent.glob(f"{place.name}-*.sqlite")
        if "file" in fs.protocol and (path := Path(folder) / NAME).exists():
            paths.append(path)
        paths.sort(key=lambda path: -path.stat().st_mtime)
    return paths


def _place_on_node(fs: fsspec.AbstractFileSystem, folder: str) -> Path:
    """Return what the paths of a ledger's index on this node begin with."""
    name = hashlib.sha256(f"{fs.protocol}\0{folder}".encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"zelo-index-{os.getuid()}" / name


def _is_private(home: Path) -> bool:
    """Return whether a folder is there that only this user may enter."""
    try:
        stat = home.lstat()
    except FileNotFoundError:
        return False
    return S_ISDIR(stat.st_mode) and stat.st_uid == os.getuid() and not stat.st_mode & 0o77


def _write_on_node(fs: fsspec.AbstractFileSystem, folder: str, run_id: str) -> None:
    place = _place_on_node(fs, folder)
    home, path = place.parent, place.with_name(f"{place.name}-{run_id or 'reader'}.sqlite")
    home.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(home):
        return
    with place.with_suffix(".lock").open("ab") as lock:
        until = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < until:  # else both make one, which harms nothing
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        index = Index(fs, folder, _files(fs, folder))
        if index.bytes_to_read() >= _LEAST_BYTES:  # still
            index.write(path)
            for other in home.iterdir():
                is_before = other.match(f"{place.name}-*.sqlite") and other != path
                if is_before or time.time() - other.stat().st_mtime > _STALE_SECONDS:
                    other.unlink(missing_ok=True)
        index.close()
