"""Show the progress of a run: a live table, lines now and then, events for programs, or nothing."""

import io
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Self, TextIO

from rich.console import Console
from rich.live import Live

from zelo_ray.engine.tally import Tally
from zelo_ray.files.wording import printable
from zelo_ray.report.progress import (
    Event,
    ProgressMeter,
    has_ended,
    progress_line,
    progress_table,
)

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
