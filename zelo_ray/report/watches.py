"""Show the progress of a run, as a table, lines or events, and record it for onlookers."""

import contextlib
import io
import json
import os
import socket
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TextIO

import fsspec
from rich.console import Console
from rich.live import Live

from zelo_ray.engine.tally import Tally
from zelo_ray.errors import ExitStatus, ZeloError
from zelo_ray.files.run_record import find_record
from zelo_ray.files.storage import write_json
from zelo_ray.files.wording import printable, without_passwords
from zelo_ray.report.progress import Event, ProgressMeter, has_ended, progress_line, progress_table

if TYPE_CHECKING:
    from zelo_ray.engine.job import Watch

_SECONDS_BETWEEN_LINES = 10.0
_NEWS = ("failures", "retries")


class SilentWatch:
    """Watch that shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, line: str) -> None:
        """Do nothing."""

    def budget(self, cap: float, spent: float) -> None:
        """Do nothing."""

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Do nothing."""

    def follow(self, out: str, command: str) -> None:
        """Do nothing."""


class MessagesOnly(SilentWatch):
    """Watch that prints messages to the standard error, and no progress."""

    def say(self, line: str) -> None:
        """Print one line."""
        sys.stderr.write(f"{printable(line)}\n")


class ProgressLines(SilentWatch):
    """Watch that prints progress every ten seconds, and at once where there is news.

    News is the first retry or failure of a judge, that it is stopped, and the end of all. The last
    figures are always printed.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._meter, self._written = ProgressMeter(), dict[str, Event]()
        self.begin()

    def begin(self) -> None:
        """Print the last figures, if they were not, and begin with nothing shown."""
        if (event := self._meter.latest) and event["judges"] != self._written:
            self._write(event)
        self._meter, self._written_at = ProgressMeter(), time.monotonic()
        self._news, self._written = set[tuple[str, str]](), dict[str, Event]()

    def __exit__(self, *_: object) -> None:
        self.begin()

    def say(self, line: str) -> None:
        """Print one line."""
        self.console.print(printable(line), soft_wrap=True, markup=False, emoji=False)

    def budget(self, cap: float, spent: float) -> None:
        """Set the cap in US dollars, and the part of it spent before this run."""
        self._meter.cap = (cap, spent)

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Take the figures so far; ``planned`` is the number of requests by judge."""
        if planned:
            now = time.monotonic()
            event = self._meter.measure(tallies, planned, now)
            if self._is_due(event, now):
                self._written = event["judges"]
                self._write(event)

    def _is_due(self, event: Event, now: float) -> bool:
        judges = event["judges"].items()
        news = {(what, name) for name, judge in judges for what in _NEWS if judge[what]}
        news |= {("stopped", name) for name in event["stopped"]}
        news |= {("end", "")} if has_ended(event) else set()
        if news <= self._news and now - self._written_at < _SECONDS_BETWEEN_LINES:
            return False
        self._news, self._written_at = self._news | news, now
        return True

    def _write(self, event: Event) -> None:
        self.say(progress_line(event))


class LiveTable(ProgressLines):
    """Watch that keeps a table up to date on a terminal."""

    _live: Live | None = None

    def begin(self) -> None:
        """Leave the whole table on the terminal, and begin with nothing shown."""
        if self._live and (event := self._meter.latest):
            self._live.update(progress_table(event, self.console.width), refresh=True)
            self._live.stop()
        self._live = None
        super().begin()

    def _is_due(self, event: Event, now: float) -> bool:  # noqa: ARG002 - as lines need them
        return True

    def _write(self, event: Event) -> None:
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
        self._live.update(progress_table(event, *self.console.size), refresh=True)


def make_display(console: Console | None = None) -> ProgressLines:
    """Return a watch for people: a live table on a terminal, else lines."""
    lines = ProgressLines(console)
    return LiveTable(console) if lines.console.is_terminal else lines


class MessageStream(io.TextIOBase):
    """A text stream that writes each line to another one as an event of JSON."""

    def __init__(self, target: TextIO) -> None:
        self._target, self._begun = target, ""

    def write(self, text: str) -> int:
        """Write the lines that are complete, each as a message; blank ones are left out."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            if line.strip():
                self.write_event("message", {"text": line.rstrip("\r")})
        return len(text)

    def write_event(self, event: str, values: Mapping[str, Any]) -> None:
        """Write an event with its values as one line."""
        text = json.dumps({"event": event, **values}, allow_nan=False)
        self._target.write(f"{text}\n")
        self._target.flush()

    def finish(self) -> None:
        """Write the last line, if nothing ended it."""
        if self._begun:
            self.write("\n")

    def fileno(self) -> int:
        """Return the number of the other stream's file."""
        return self._target.fileno()


class ProgressEvents(ProgressLines):
    """Watch that writes messages and progress as events."""

    def __init__(self, stream: MessageStream | None = None) -> None:
        self._stream = stream or MessageStream(sys.stderr)
        super().__init__()

    def say(self, line: str) -> None:
        """Write a message."""
        self._stream.write(f"{line}\n")

    def _write(self, event: Event) -> None:
        self._stream.write_event("progress", event)


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
