"""Check this machine and the output: disks, memory, lock and ledger."""

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec

from zelo_ray.commands.doctor.finding import Finding, State
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.lock import is_run_active
from zelo_ray.errors import ZeloError, format_error

_LITTLE, _TOO_LITTLE = 2 * 2**30, 100 * 2**20  # bytes of a disk
_MEMORY = 2 * 2**30
_STORAGE = "check the address, the credentials of the storage, and what they allow"


def check_machine() -> Iterator[Finding]:
    """Check processors, memory, and the directories that Ray uses."""
    cpus = os.cpu_count() or 1
    few = "it works, but slowly" if cpus < 2 else ""
    yield Finding("processors", "warn" if few else "ok", f"{cpus}", few)
    if memory := _available():
        lack = "close other programs: Ray and its workers take about 2 GB" * (memory < _MEMORY)
        yield Finding("memory", "warn" if lack else "ok", f"{_size(memory)} available", lack)
    yield from _disk("temporary files", tempfile.gettempdir(), "set TMPDIR to a larger disk")


def check_out(out: str) -> Iterator[Finding]:
    """Check whether results can be written to ``out``, and whether its ledger is usable."""
    try:
        fs, path = fsspec.url_to_fs(out)
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        yield Finding("writing", "wrong", f"{out}: {format_error(error)}", _STORAGE)
        return
    if "file" in fs.protocol:
        folder = Path(path)
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        yield from _disk("--out", str(folder), "free some, or name another --out")
        yield _writable(out, folder)
    else:
        yield _stored(out, fs, path)
    yield _lock(out)
    yield _ledger(out)


def _disk(what: str, folder: str, do: str) -> Iterator[Finding]:
    free = shutil.disk_usage(folder).free
    state: State = "wrong" if free < _TOO_LITTLE else "warn" if free < _LITTLE else "ok"
    yield Finding(what, state, f"{_size(free)} free at {folder}", "" if state == "ok" else do)


def _writable(out: str, folder: Path) -> Finding:
    """Write a small file as the ledger does, and remove it."""
    if not folder.is_dir():
        return Finding("writing", "wrong", f"{folder} is a file", "name another --out")
    probe = folder / f".doctor-{uuid.uuid4().hex}"
    try:
        try:
            with probe.open("xb") as file:
                file.write(b"x" * 2**16)
                file.flush()
                os.fsync(file.fileno())
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        do = "name an --out that you may write to, and free some space there"
        return Finding("writing", "wrong", f"{out}: {error.strerror or error}", do)
    return Finding("writing", "ok", "files can be written, and are kept (fsync)")


def _stored(out: str, fs: fsspec.AbstractFileSystem, path: str) -> Finding:
    name = f"{path.rstrip('/')}/.doctor-{uuid.uuid4().hex}"
    try:
        fs.pipe_file(name, b"x")
        fs.rm_file(name)
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        return Finding("writing", "wrong", f"{out}: {format_error(error)}", _STORAGE)
    return Finding("writing", "ok", "objects can be written and removed")


def _lock(out: str) -> Finding:
    try:
        held = is_run_active(out)
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        return Finding("lock", "wrong", f"{out}: {format_error(error)}", _STORAGE)
    if held:
        return Finding("lock", "warn", "another run uses it", "wait until it has ended")
    return Finding("lock", "ok", "no other run is known to use it")


def _ledger(out: str) -> Finding:
    try:
        damaged = Ledger(out).damaged
    except ZeloError as error:
        return Finding("ledger", "wrong", str(error), "name another --out, or repair this one")
    except Exception as error:  # noqa: BLE001 - every storage has its own errors
        return Finding(
            "ledger", "wrong", format_error(error), "name another --out, or repair this one"
        )
    if damaged:
        do = "nothing: the next run asks for these replies again"
        return Finding("ledger", "warn", f"ignores {len(damaged):,} damaged lines", do)
    return Finding("ledger", "ok", "readable, or does not exist yet")


def _available() -> int:
    """Return the available bytes of memory; 0 if the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else 0


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:,.0f} MB"
