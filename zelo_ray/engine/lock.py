"""Allow one run at a time on an output directory.

On a local disk two file locks do it, which the system lets go of however a process ends: the run
holds one, and each process that writes replies shares another, so that a new run waits for the
workers that a killed one left behind. In an object store it is an object with a heartbeat.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec

from zelo_ray.errors import LockError, ZeloError
from zelo_ray.files.run_record import find_owner
from zelo_ray.files.storage import name_file_in_errors

RUN_LOCK = ".run.lock"
WRITERS_LOCK = ".writers.lock"
_BEAT_SECONDS = 5.0
_STALE_SECONDS = 30.0
_WORTHLESS = re.compile(
    r"\.(run|writers)\.lock|\.progress\.json(\.partial)?|rejected\.parquet|input/[^/]+|replies/(_prompts\.json|[^/]+\.reserve)"
)
"""What is there before anything is asked."""


@contextlib.contextmanager
def claim_folder(
    out: str,
    say: Callable[[str], None] = print,
    kind: str | None = "annotate",
    human: str | None = None,
) -> Iterator[None]:
    """Lock an output directory, which is made if it is missing, or a URL while the context lasts.

    Args:
        out: the directory or URL.
        say: told, in one line, when there is something to wait for.
        kind: the command that runs; results of another are left alone. None: it writes none here.
        human: the place of people's labels that it reads.

    Raises:
        LockError: another run holds it, or it holds what another command or people left there.
        InputError: whose results there are cannot be told.
    """
    if kind and (owned := find_owner(out, kind, [human])):
        raise LockError(f"{out} holds {owned}; name another --out")
    fs, path = fsspec.url_to_fs(out)
    if "file" not in fs.protocol:
        with _claim_object(fs, f"{path}/{RUN_LOCK}", out, say):
            yield
        return
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with open_lock(folder / RUN_LOCK) as lock:
        if not _try_lock(lock, fcntl.LOCK_EX):
            owner = (folder / RUN_LOCK).read_text(encoding="utf-8", errors="replace")
            raise LockError(f"{out} is in use by another run ({owner or 'just starting'})")
        os.ftruncate(lock, 0)
        with name_file_in_errors(str(folder / RUN_LOCK)):
            os.pwrite(lock, _about_me().encode(), 0)
        with open_lock(folder / WRITERS_LOCK) as writers:
            if not _try_lock(writers, fcntl.LOCK_EX):
                say(f"{out}: waiting for the workers of an earlier run to end")
                fcntl.flock(writers, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def remove_folders_if_refused(*outs: str) -> Iterator[None]:
    """Remove directories that a command made, if it is refused before it has done anything.

    What was there before stays, as does all that is of any worth.
    """
    new = {
        Path(out): [folder for folder in Path(out).parents if not folder.exists()]
        for out in outs
        if "://" not in out and not Path(out).exists()
    }
    try:
        yield
    except ZeloError:
        for path, parents in new.items():
            files = [file for file in path.rglob("*") if not file.is_dir()]
            if all(_WORTHLESS.fullmatch(str(file.relative_to(path))) for file in files):
                shutil.rmtree(path, ignore_errors=True)
                for folder in parents:
                    with contextlib.suppress(OSError):  # something else is there
                        folder.rmdir()
        raise


@contextlib.contextmanager
def open_lock(path: Path) -> Iterator[int]:
    """Open a file to lock; closing its descriptor releases the lock."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield handle
    finally:
        os.close(handle)


def share_writing(folder: Path) -> int:
    """Tell a later run that this process still writes; the caller closes the descriptor."""
    handle = os.open(folder / WRITERS_LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    fcntl.flock(handle, fcntl.LOCK_SH)
    return handle


def _try_lock(handle: int, kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _about_me() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


@contextlib.contextmanager
def _claim_object(
    fs: fsspec.AbstractFileSystem, path: str, out: str, say: Callable[[str], None]
) -> Iterator[None]:
    me = uuid.uuid4().hex

    def beat(mode: str = "overwrite") -> None:
        fs.pipe_file(path, f"{me} {uuid.uuid4().hex} {_about_me()}".encode(), mode=mode)

    def read() -> str:
        with contextlib.suppress(FileNotFoundError):
            return str(fs.cat_file(path).decode(errors="replace"))
        return ""

    try:
        beat("create")
    except FileExistsError:
        _await_silence(read, out, say)
        beat()
        time.sleep(2)  # of two that take over at once, the later one keeps it
        if not read().startswith(me):
            raise LockError(f"{out} is locked by another run") from None
    ended = threading.Event()

    def keep_beating() -> None:
        beat_at = time.monotonic()
        while not ended.wait(_BEAT_SECONDS):
            with contextlib.suppress(Exception):  # a later beat may come through
                if (now := read()) and not now.startswith(me):
                    break
                beat()
                beat_at = time.monotonic()
            if time.monotonic() - beat_at > _STALE_SECONDS / 2:
                break
        else:
            return
        say(f"{out}: another run has taken its lock, so this run stops")
        os.kill(os.getpid(), signal.SIGTERM)

    beating = threading.Thread(target=keep_beating, daemon=True)
    beating.start()
    try:
        yield
    finally:
        ended.set()
        beating.join()
        if read().startswith(me):
            fs.rm_file(path)


def _await_silence(read: Callable[[], str], out: str, say: Callable[[str], None]) -> None:
    """Return when the holder's heartbeat has been silent for long enough that it must be dead."""
    first = read()
    who = first.split(" ", 2)[-1] or "a run that has just ended"
    say(f"{out} was in use by {who}; waiting {_STALE_SECONDS:.0f} s for a sign of life")
    until = time.monotonic() + _STALE_SECONDS
    while time.monotonic() < until and (now := read()):
        if now != first:
            raise LockError(f"{out} is in use by another run ({who})") from None
        time.sleep(1)
