"""What a person sees of a run: one live table on a terminal, else a line now and then."""

import time
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from zelo_ray.bookkeeping import Tally, money

_SECONDS_BETWEEN_LINES = 10.0


class Display:
    """Progress by judge: done of total, calls a second, failures, dollars, time left."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._began: float | None = None
        self._last_line = time.monotonic()
        self._done = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, line: str) -> None:
        """Print one line."""
        self._console.print(line, soft_wrap=True, markup=False)

    def show(self, tallies: Mapping[str, Tally], planned: Mapping[str, int]) -> None:
        """Show the figures so far; ``planned`` is the number of requests by judge."""
        now = time.monotonic()
        if self._began is None and any(
            t.answered or t.in_flight or t.batched for t in tallies.values()
        ):
            self._began = now
        elapsed = now - self._began if self._began is not None else 0.0
        each = [(tallies.get(name, Tally()), of) for name, of in planned.items()]
        done = all(_left(tally, of, elapsed) == "done" for tally, of in each)
        if self._console.is_terminal:
            if self._live is None:
                self._live = Live(console=self._console, auto_refresh=False, transient=False)
                self._live.start()
            self._live.update(_table(tallies, planned, elapsed), refresh=True)
        elif (done and not self._done) or now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line, self._done = now, done
            self.say(_line(tallies, planned, elapsed))


def _needed(tally: Tally, planned: int) -> int:
    """How many of the planned requests are needed, as far as is known by now."""
    return max(0, planned - tally.spared)


def _done(tally: Tally, needed: int) -> int:
    return min(needed, tally.known + tally.answered)  # a block that is run again counts twice


def _rate(tally: Tally, elapsed: float) -> float:
    return tally.answered / elapsed if elapsed >= 1 else 0.0


def _failures(tally: Tally) -> int:
    return sum(count for status, count in tally.statuses.items() if status != "ok")


def _left(tally: Tally, total: int, elapsed: float) -> str:
    rate = _rate(tally, elapsed)
    needed = _needed(tally, total)
    left = needed - _done(tally, needed)
    if left <= 0:
        return "done"
    if tally.batched:
        return "up to a day"
    return duration(left / rate) if rate else "…"


def _table(tallies: Mapping[str, Tally], planned: Mapping[str, int], elapsed: float) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("judge")
    batched = any(tally.batched for tally in tallies.values())
    names = ["done", "of", "in flight", "waiting", *(["in batches"] if batched else [])]
    for name in (*names, "calls/s", "limit", "429s", "retries", "failures", "spent", "left"):
        table.add_column(name, justify="right")
    for name, total in planned.items():
        tally = tallies.get(name, Tally())
        needed = _needed(tally, total)
        table.add_row(
            escape(name),
            f"{_done(tally, needed):,}",
            f"{needed:,}",
            f"{tally.in_flight:,}",
            f"{tally.waiting:,}",
            *([f"{tally.batched:,}"] if batched else []),
            f"{_rate(tally, elapsed):,.1f}",
            f"{tally.limits['rpm'] / 60:,.1f}" if "rpm" in tally.limits else "",
            f"{tally.throttled:,}",
            f"{tally.retries:,}",
            f"{_failures(tally):,}",
            dollars(tally.dollars, tally.unpriced),
            _left(tally, total, elapsed),
        )
    return table


def _line(tallies: Mapping[str, Tally], planned: Mapping[str, int], elapsed: float) -> str:
    summed = Tally()
    for tally in tallies.values():
        summed.add(tally)
    needed = _needed(summed, sum(planned.values()))
    lefts = [_left(tallies.get(name, Tally()), n, elapsed) for name, n in planned.items()]
    parts = [
        f"{_done(summed, needed):,}/{needed:,} replies",
        f"{_rate(summed, elapsed):,.1f} calls/s",
        f"{_failures(summed):,} failures",
        f"{summed.throttled:,} 429s" if summed.throttled else "",
        dollars(summed.dollars, summed.unpriced),
        f"{summed.in_flight:,} in flight",
        f"{summed.waiting:,} waiting" if summed.waiting else "",
        f"{summed.batched:,} in batches" if summed.batched else "",
        f"left: {', '.join(dict.fromkeys(lefts))}",
    ]
    return " · ".join(part for part in parts if part)


def dollars(amount: float, unpriced: int = 0) -> str:
    """An amount of money, and whether calls of unknown price come on top of it."""
    return money(amount) + (" + ?" if unpriced else "")


def duration(seconds: float) -> str:
    """A span of time in the two units that matter."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
