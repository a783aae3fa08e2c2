"""Look at the output of a run from outside, and tell whether the run is at work, without a lock.

Clocks of machines differ, so a run is at work where its file changes between two looks. Only the
first look has to go by the time in the file, and doubts are settled by a second one.
"""

import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import fsspec

from zelo_ray.engine.lock import RUN_LOCK
from zelo_ray.files.run_record import RUN, is_finished
from zelo_ray.files.storage import storage_error
from zelo_ray.report.progress.snapshot import (
    PROGRESS,
    ProgressSnapshot,
    ProgressState,
    parse_snapshot,
)

_SILENT_SECONDS = 30.0
_SILENT_WRITES = 4
"""Writes that do not come until a run counts as silent."""
_SECOND_LOOK = 2.5
"""Times a run's own seconds between two writes, until a second look settles doubts."""
_HOLDER = re.compile(r"process (\d+) on (.+)")


class Phase(StrEnum):
    """State of a run, as an onlooker can tell."""

    NOTHING = "nothing"
    """nothing has been written"""
    BEGINNING = "beginning"
    """a run has locked the output, and has recorded no progress yet"""
    RUNNING = "running"
    SILENT = "silent"
    """it writes nothing any more"""
    GONE = "gone"
    """its process has died on this machine"""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class RunView:
    """View of a run that one look at its output gives.

    Attributes:
        phase: how the run stands.
        snapshot: its progress; None if none is recorded.
        quiet: seconds since it last wrote, as far as known.
        is_settled: whether a second look can change nothing soon.
        queries: number of queries, by part, as far as known.
        record: the record of the command, if it has no snapshot.
        holder: who holds the lock.
    """

    phase: Phase
    snapshot: ProgressSnapshot | None = None
    quiet: float = 0.0
    is_settled: bool = True
    queries: Mapping[str, int] = field(default_factory=dict)
    record: Mapping[str, Any] | None = None
    holder: str = ""


class Onlooker:
    """Onlooker who reads the output of a run again and again, and writes nothing.

    Args:
        out: directory or URL of the run.
    """

    def __init__(self, out: str) -> None:
        self._out = out.rstrip("/") or "/"
        self.is_local = "file" in fsspec.url_to_fs(out)[0].protocol
        self._snapshot: ProgressSnapshot | None = None
        self._changed_at = 0.0
        self._has_changed = False
        self._queries = dict[tuple[str, str], int]()

    def look(self, now: float, date: float) -> RunView:
        """Look once.

        Args:
            now: seconds by a monotonic clock.
            date: seconds since 1970 by this machine's clock.

        Raises:
            InputError: the storage cannot be reached, at the first look.
        """
        try:
            content, holder = self._read(PROGRESS), self._holder()
        except Exception as error:  # noqa: BLE001 - every storage has its own errors
            if self._snapshot is None:
                raise storage_error(self._out, error) from None
            return self._view(now, date, "")  # the next look may come through
        snapshot = parse_snapshot(content) if content else None
        if snapshot is None:
            return self._view_without_progress(holder)
        before = self._snapshot
        if before is None or before.token != snapshot.token:
            self._changed_at, self._has_changed = now, before is not None
        elif before.count != snapshot.count:
            self._changed_at, self._has_changed = now, True
        self._snapshot = snapshot
        return self._view(now, date, holder)

    def _view(self, now: float, date: float, holder: str) -> RunView:
        snapshot = self._snapshot
        assert snapshot is not None  # noqa: S101 - for the type checker: there is one
        counts = self._count_queries(snapshot)
        is_at_work = snapshot.state is ProgressState.RUNNING
        if self._is_held(holder, besides=snapshot) and (self.is_local or not is_at_work):
            return RunView(Phase.BEGINNING, holder=holder)
        if not is_at_work:
            return RunView(Phase.ENDED, snapshot, queries=counts)
        quiet, is_here = now - self._changed_at, snapshot.host == socket.gethostname()
        late = _SECOND_LOOK * snapshot.every
        is_settled = self._has_changed or is_here or quiet >= late
        if not self._has_changed:
            quiet = max(quiet, date - snapshot.written_at)
        if is_here and not _is_alive(snapshot.process):
            # In a container, processes of other numbers may run under this machine's name.
            phase = Phase.GONE if quiet >= late else Phase.RUNNING
            return RunView(phase, snapshot, quiet, phase is Phase.GONE, counts)
        if quiet < max(_SILENT_SECONDS, _SILENT_WRITES * snapshot.every):
            return RunView(Phase.RUNNING, snapshot, quiet, queries=counts)
        phase = Phase.SILENT if is_settled else Phase.RUNNING
        return RunView(phase, snapshot, quiet, is_settled, counts)

    def _view_without_progress(self, holder: str) -> RunView:
        """Return what can be told of a run that has recorded no progress."""
        if self._is_held(holder):
            return RunView(Phase.BEGINNING, holder=holder)
        if record := self._read_record(RUN):
            phase = Phase.ENDED if is_finished(record) else Phase.SILENT
            return RunView(phase, record=record)
        return RunView(Phase.NOTHING)

    def _is_held(self, holder: str, besides: ProgressSnapshot | None = None) -> bool:
        """Return whether the lock is held, ``besides`` by a run that has ended.

        In an object store the lock goes with its run. On a disk the holder's name stays in it.
        """
        if not self.is_local:
            return bool(holder)
        match = _HOLDER.fullmatch(holder)
        if match is None or match[2] != socket.gethostname():
            return False
        process = int(match[1])
        return _is_alive(process) and not (besides and besides.process == process)

    def _holder(self) -> str:
        """Return who holds the lock, or was the last to hold it; "" if it is nobody."""
        content = (self._read(RUN_LOCK) or b"").decode(errors="replace")
        if self.is_local:
            return content
        try:
            return str(json.loads(content)["who"]) if content else ""
        except (ValueError, KeyError, TypeError):
            return "an unknown run"

    def _count_queries(self, snapshot: ProgressSnapshot) -> dict[str, int]:
        """Return the number of queries by part, from the records of the runs."""
        counts = dict[str, int]()
        for part in snapshot.parts:
            key = (snapshot.token, part.name)
            if key not in self._queries:
                record = self._read_record(f"{part.name}/{RUN}".lstrip("/")) or {}
                number = (record.get("summary") or {}).get("queries", record.get("queries"))
                if isinstance(number, int):
                    self._queries[key] = number
            if key in self._queries:
                counts[part.name] = self._queries[key]
        return counts

    def _read_record(self, name: str) -> dict[str, Any] | None:
        try:
            record = json.loads(self._read(name) or b"null")
        except Exception:  # noqa: BLE001 - every storage has its own errors, and a look goes on
            return None
        return record if isinstance(record, dict) else None

    def _read(self, name: str) -> bytes | None:
        fs, root = fsspec.url_to_fs(self._out)
        try:
            content: bytes = fs.cat_file(f"{root.rstrip('/')}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return content


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
