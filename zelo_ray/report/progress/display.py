"""Show the progress of a run: one live table on a terminal, else a line now and then."""

import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.live import Live

from zelo_ray.engine.tally import Tally
from zelo_ray.files.wording import printable
from zelo_ray.report.progress.figures import ProgressMeter, duration
from zelo_ray.report.progress.lines import dollars, progress_line
from zelo_ray.report.progress.news import NewsTimer
from zelo_ray.report.progress.table import progress_table

__all__ = ["Display", "dollars", "duration"]


class Display:
    """Progress by judge: done of total, calls a second, failures, dollars, time left.

    Without a terminal a line is printed every ten seconds, and at once when a judge has its first
    retry or failure, or is stopped.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._begin()

    def _begin(self) -> None:
        """Begin with nothing shown."""
        self._live: Live | None = None
        self._meter = ProgressMeter()
        self._timer = NewsTimer(time.monotonic())

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live and (sums := self._meter.latest):
            table = progress_table(sums, self._console.width, None, time.time())
            self._live.update(table, refresh=True)
            self._live.stop()
        self._begin()

    def say(self, line: str) -> None:
        """Print one line."""
        self._console.print(printable(line), soft_wrap=True, markup=False, emoji=False)

    def budget(self, cap: float, spent: float) -> None:
        """Set the cap in US dollars, and the part of it spent before this run."""
        self._meter.cap = (cap, spent)

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Show the figures so far; ``planned`` is the number of requests by judge."""
        if not planned:
            return
        now = time.monotonic()
        sums = self._meter.measure(tallies, planned, now)
        if not self._console.is_terminal:
            if self._timer.is_due(now, sums):
                self.say(progress_line(sums, time.time()))
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
            self._live.start()
        width, height = self._console.size
        self._live.update(progress_table(sums, width, height, time.time()), refresh=True)
