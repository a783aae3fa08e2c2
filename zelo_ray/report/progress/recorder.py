"""Record the progress of a run in its output every few seconds, for onlookers from elsewhere."""

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec

from zelo_ray.engine.tally import Tally
from zelo_ray.errors import ExitStatus, ZeloError
from zelo_ray.files.wording import without_passwords
from zelo_ray.report.progress.display import Display
from zelo_ray.report.progress.events import ProgressEvents
from zelo_ray.report.progress.figures import ProgressMeter
from zelo_ray.report.progress.snapshot import (
    PROGRESS,
    PartProgress,
    ProgressSnapshot,
    ProgressState,
    parse_snapshot,
)

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch

_FIRST_SECONDS = 1.0  # so that what is refused at once leaves nothing behind
_LOCAL_SECONDS, _URL_SECONDS = 2.0, 15.0
_PATIENCE_SECONDS = 10.0  # for the last write: a storage that hangs must not hold up the run


class ProgressRecorder:
    """Watcher that passes all on to another one, and records the progress in the run's output.

    Nothing is recorded before the output is locked: see `follow`. What cannot be written is left
    out, since a run must not depend on who looks at it.

    Args:
        watch: the other one.
    """

    def __init__(self, watch: "Watch") -> None:
        self.watch = watch
        """who shows the progress to the user"""
        self._out = self._command = self._part = ""
        self._parts = dict[str, PartProgress]()
        self._meter = ProgressMeter()
        self._token, self._count, self._began_at = uuid.uuid4().hex, 0, 0.0
        self._every = _LOCAL_SECONDS
        self._state, self._status = ProgressState.RUNNING, None
        self._message, self._next_line, self._is_news = "", "", False
        self._ended, self._writer = threading.Event(), None

    _status: int | None
    _writer: threading.Thread | None

    @property
    def is_recording(self) -> bool:
        """Return whether an output was locked, and its progress is recorded."""
        return self._writer is not None

    def say(self, line: str) -> None:
        """Pass on a line."""
        self.watch.say(line)

    def budget(self, cap: float, spent: float) -> None:
        """Pass on and record the cap on US dollars, and what was spent before."""
        self._meter.cap = (cap, spent)
        self.watch.budget(cap, spent)

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Pass on and record the figures by judge."""
        if planned:
            self._record(tallies, planned)
        self.watch.show(tallies, planned)

    def _record(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        progress = self._meter.measure(tallies, planned, time.monotonic())
        before = self._parts.get(self._part)
        replied_at = before.replied_at if before else 0.0
        answered = progress.whole.tally.answered
        if answered != (before.progress.whole.tally.answered if before else 0):
            replied_at = time.time()
        self._parts[self._part] = PartProgress(self._part, progress, replied_at)

    def follow(self, out: str, command: str) -> None:
        """Record in this output, which has been locked; of a second one, as a part of the first.

        Args:
            out: directory or URL.
            command: the kind of its results.
        """
        if self._writer is None:
            self._out, self._command, self._began_at = out.rstrip("/"), command, time.time()
            self._writer = threading.Thread(target=self._keep_writing, daemon=True)
            self._writer.start()
        self._part = out.rstrip("/").removeprefix(self._out).strip("/")
        self._meter = ProgressMeter()

    def end(self, status: int, next_line: str, *, is_news: bool = True) -> None:
        """Record that the command has its results.

        Args:
            status: its exit status.
            next_line: names the command that usually comes next.
            is_news: false where nothing was done, since all is up to date.
        """
        self._is_news = is_news
        self._end(ProgressState.ENDED, status, next_line=next_line)

    def fail(self, error: BaseException) -> None:
        """Record that the command ended by an error, whose text is only told if it is for users."""
        if isinstance(error, ZeloError):
            self._end(
                ProgressState.FAILED, error.exit_status, message=without_passwords(str(error))
            )
        else:
            name = type(error).__name__
            message = "interrupted" if isinstance(error, KeyboardInterrupt) else name
            self._end(ProgressState.FAILED, ExitStatus.FAILED, message=message)

    def _end(
        self, state: ProgressState, status: int, message: str = "", next_line: str = ""
    ) -> None:
        self._status, self._message, self._next_line = int(status), message, next_line
        self._state = state
        self._ended.set()
        if self._writer:
            self._writer.join(_PATIENCE_SECONDS)

    def _keep_writing(self) -> None:
        wait, is_local = _FIRST_SECONDS, True
        with contextlib.suppress(Exception):  # a later write tells the same
            is_local = "file" in fsspec.url_to_fs(self._out)[0].protocol
        self._every = _LOCAL_SECONDS if is_local else _URL_SECONDS
        while not self._ended.wait(wait):
            self._write()
            wait = self._every
        if self._is_news or self._parts or self._count:
            self._write()

    def _write(self) -> None:
        with contextlib.suppress(Exception):  # no storage, no room: the run goes on without
            fs, root = fsspec.url_to_fs(self._out)
            path = f"{root}/{PROGRESS}"
            if self._count and self._state is not ProgressState.RUNNING:
                current = parse_snapshot(fs.cat_file(path))
                if current and current.token != self._token:  # the next run has begun already
                    return
            self._count += 1
            content = self._snapshot().to_json()
            if "file" not in fs.protocol:
                fs.pipe_file(path, content)
                return
            beside = Path(f"{path}.partial")
            beside.write_bytes(content)
            beside.replace(path)

    def _snapshot(self) -> ProgressSnapshot:
        return ProgressSnapshot(
            command=self._command,
            process=os.getpid(),
            host=socket.gethostname(),
            token=self._token,
            count=self._count,
            every=self._every,
            began_at=self._began_at,
            written_at=time.time(),
            state=self._state,
            parts=tuple(self._parts.values()),
            status=self._status,
            message=self._message,
            next_line=self._next_line,
        )


def fresh_display(watch: "Watch") -> AbstractContextManager[object]:
    """Return a context in which the display of progress starts again."""
    shown = watch.watch if isinstance(watch, ProgressRecorder) else watch
    return shown if isinstance(shown, Display | ProgressEvents) else nullcontext()
