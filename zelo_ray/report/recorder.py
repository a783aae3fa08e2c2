"""Record the progress of a run in its output every few seconds, for onlookers from elsewhere."""

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import fsspec

from zelo_ray.engine.tally import Tally
from zelo_ray.errors import ExitStatus, ZeloError
from zelo_ray.files.run_record import find_record
from zelo_ray.files.storage import write_json
from zelo_ray.files.wording import without_passwords
from zelo_ray.report.progress import Event, ProgressMeter
from zelo_ray.report.watches import ProgressLines

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch

PROGRESS = ".progress.json"
"""The file, in the output of a command."""

_FIRST_SECONDS = 1.0  # so that what is refused at once leaves nothing behind
_LOCAL_SECONDS, _URL_SECONDS = 2.0, 15.0
_PATIENCE_SECONDS = 10.0  # for the last write: a storage that hangs must not hold up the run


class ProgressRecorder:
    """Watch that passes all on to another one, and records the progress in the run's output.

    Nothing is recorded before the output is locked: see `follow`. What cannot be written is left
    out, since a run must not depend on who looks at it. Times are by the clock of its machine.
    """

    def __init__(self, watch: "Watch") -> None:
        self.watch = watch
        """who shows the progress to the user"""
        self._out = self._part = ""
        self._meter, self._parts = ProgressMeter(), dict[str, Event]()
        self._record: dict[str, Any] = {
            "process": os.getpid(),
            "host": socket.gethostname(),
            "token": uuid.uuid4().hex,  # that no other run has
            "every": _LOCAL_SECONDS,
            "state": "running",
            "exit_status": None,
            "message": "",
            "next_line": "",
        }
        self._ended, self._is_news, self._is_written = threading.Event(), False, False
        self._writer: threading.Thread | None = None

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
            self._parts[self._part] = self._meter.measure(tallies, planned, time.monotonic())
        self.watch.show(tallies, planned)

    def follow(self, out: str, command: str) -> None:
        """Record in this output, which has been locked; of a second one, as a part of the first.

        What is shown begins anew.
        """
        if isinstance(self.watch, ProgressLines):
            self.watch.begin()
        if self._writer is None:
            self._out = out.rstrip("/")
            self._record |= {"command": command, "began_at": time.time()}
            self._writer = threading.Thread(target=self._keep_writing, daemon=True)
            self._writer.start()
        self._part = out.rstrip("/").removeprefix(self._out).strip("/")
        self._meter = ProgressMeter()

    def end(self, status: int, next_line: str, *, is_news: bool = True) -> None:
        """Record that the command has its results; no news are those that were up to date."""
        self._is_news = is_news
        self._end(state="ended", exit_status=int(status), next_line=next_line)

    def fail(self, error: BaseException) -> None:
        """Record that the command ended by an error, whose text is only told if it is for users."""
        status, message = ExitStatus.FAILED, type(error).__name__
        if isinstance(error, ZeloError):
            status, message = error.exit_status, without_passwords(str(error))
        elif isinstance(error, KeyboardInterrupt):
            message = "interrupted"
        self._end(state="failed", exit_status=int(status), message=message)

    def _end(self, **record: Any) -> None:
        self._record = {**self._record, **record}
        self._ended.set()
        if self._writer:
            self._writer.join(_PATIENCE_SECONDS)

    def _keep_writing(self) -> None:
        with contextlib.suppress(Exception):  # a later write tells the same
            if "file" not in fsspec.url_to_fs(self._out)[0].protocol:
                self._record["every"] = _URL_SECONDS
        wait = _FIRST_SECONDS
        while not self._ended.wait(wait):
            self._write()
            wait = self._record["every"]
        if self._is_news or self._parts or self._is_written:
            self._write()

    def _write(self) -> None:
        record = {**self._record, "written_at": time.time(), "parts": {**self._parts}}
        with contextlib.suppress(Exception):  # no storage, no room: the run goes on without
            recorded = find_record(self._out, PROGRESS) if self._is_written else {}
            if recorded.get("token", record["token"]) != record["token"]:
                return  # the next run has begun already
            self._is_written = True
            write_json(self._out, PROGRESS, record)
