"""Write the progress of a run, and messages, as lines of JSON for programs."""

import io
import json
import sys
import time
from collections.abc import Mapping
from typing import Any, Self, TextIO

from zelo_ray.engine.tally import Tally
from zelo_ray.files.wording import printable
from zelo_ray.report.progress.figures import ProgressMeter, progress_figures
from zelo_ray.report.progress.news import NewsTimer


class MessageStream(io.TextIOBase):
    """A text stream that passes each line on to another one as an event of JSON.

    Args:
        target: gets the events.
    """

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


class ProgressEvents:
    """Watch that writes each line and figure as an event, as often as a display writes lines.

    Args:
        stream: gets the events; by default the standard error.
    """

    def __init__(self, stream: MessageStream | None = None) -> None:
        self._stream = stream or MessageStream(sys.stderr)
        self._begin()

    def _begin(self) -> None:
        self._meter, self._timer = ProgressMeter(), NewsTimer(time.monotonic())
        self._is_written = True

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_written:
            self._write()
        self._begin()

    def say(self, line: str) -> None:
        """Write a message."""
        self._stream.write(f"{line}\n")

    def budget(self, cap: float, spent: float) -> None:
        """Set the cap in US dollars, and the part of it spent before this run."""
        self._meter.cap = (cap, spent)

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Take the figures so far, and write them if that is due."""
        if planned:
            now = time.monotonic()
            sums = self._meter.measure(tallies, planned, now)
            self._is_written = self._timer.is_due(now, sums)
            if self._is_written:
                self._write()

    def _write(self) -> None:
        if sums := self._meter.latest:
            self._stream.write_event("progress", progress_figures(sums))
