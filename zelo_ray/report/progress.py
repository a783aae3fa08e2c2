"""Measure the progress of a run as an event for programs, and write it as a line or a table."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from zelo_ray.engine.replies import format_dollars
from zelo_ray.engine.tally import Tally
from zelo_ray.files.wording import printable

Event = dict[str, Any]
"""Figures of all judges together and of each in ``judges``: see docs/formats.md."""

_SECONDS, _ANSWERS = 60.0, 10
_WAYS_TO_WAIT = ("nothing to ask", "done", "stopped", "…", "starting", "up to a day")
"""Words in place of the time left; the later one is said of all judges together."""
_SUMMED = (
    *("done", "needed", "failures", "retries", "throttled", "in_flight", "waiting", "in_batches"),
    *("dollars", "unpriced", "input_tokens", "cached_tokens", "output_tokens"),
)
_NAME = 20  # cells that stay for names of judges, if there are columns to leave out
_GAP = 2


class _Pace:
    """Answers a second over the last minute, or over the last ten answers if these took longer.

    An average over the whole run would mislead for long after a slow start. The time before the
    first call is not counted, since actors take long to start.
    """

    def __init__(self) -> None:
        self._samples = deque[tuple[float, int]]()  # when there were how many; only what changed
        self._began = 0.0

    def measure(self, now: float, tally: Tally) -> float:
        """Record a judge's figures, and return the rate; 0 with too few samples."""
        samples, answered = self._samples, tally.answered
        if not samples and not (answered or tally.in_flight or tally.batched):
            return 0.0
        if not samples:
            self._began = now
            samples.append((now, 0))
        if answered < samples[-1][1]:  # the actor that counts has died, and counts from 0 again
            samples.clear()
        if not samples or answered != samples[-1][1]:
            samples.append((now, answered))
        while (
            len(samples) > 1
            and now - samples[1][0] >= _SECONDS
            and answered - samples[1][1] >= _ANSWERS
        ):
            samples.popleft()
        began, before = samples[0]
        return (answered - before) / (now - began) if now - began >= 1 else 0.0

    @property
    def seconds(self) -> float:
        """Return the seconds from the first call to the last answer."""
        return self._samples[-1][0] - self._began if self._samples else 0.0


class ProgressMeter:
    """Measures the progress of a run by the figures of its judges, as they grow.

    Attributes:
        cap: the budget and the part spent before, in dollars; None without a budget.
        latest: the last event; None before the first.
    """

    def __init__(self) -> None:
        self.cap: tuple[float, float] | None = None
        self.latest: Event | None = None
        self._paces: dict[str, _Pace] = {}

    def measure(
        self, tallies: Mapping[str, Tally], planned: Mapping[str, int], now: float
    ) -> Event:
        """Return the progress of all judges; ``planned`` is by judge, ``now`` in seconds."""
        judges = dict[str, Event]()
        spans = list[float]()
        for name, number in planned.items():
            tally, pace = tallies.get(name, Tally()), self._paces.setdefault(name, _Pace())
            rate = pace.measure(now, tally)
            judges[name] = _judge_figures(tally, number, rate, pace.seconds)
            spans.append(pace.seconds)
        known_tallies = {name: tallies[name] for name in judges if name in tallies}
        problem = None
        if problems := [(t.trouble, name) for name, t in known_tallies.items() if t.trouble.reason]:
            trouble, name = max(problems, key=lambda each: each[0])
            problem = {"judge": name, "reason": trouble.reason, "at": _iso_time(trouble.at)}
        total = {name: sum(judge[name] for judge in judges.values()) for name in _SUMMED}
        slowest = max(judges.values(), key=_lateness)
        rates = [judge["calls_per_second"] for judge in judges.values() if not has_ended(judge)]
        span, answered = max(spans), sum(tally.answered for tally in known_tallies.values())
        self.latest = {
            "at": _iso_time(time.time()),
            **total,
            "calls_per_second": sum(rates) if rates or not span else answered / span,
            "seconds_left": slowest["seconds_left"],
            "time_left": slowest["time_left"],
            "max_usd": self.cap[0] if self.cap else None,
            "dollars_before": self.cap[1] if self.cap else None,
            "last_problem": problem,
            "stopped": {
                name: t.disabled.message for name, t in known_tallies.items() if t.disabled
            },
            "judges": judges,
        }
        return self.latest


def _judge_figures(tally: Tally, planned: int, rate: float, span: float) -> Event:
    """Return a judge's figures; ``span`` is in seconds from its first call to its last answer."""
    needed = max(0, planned - tally.spared)
    done = min(needed, tally.known + tally.answered)  # a block that is run again counts twice
    seconds: float | None = None
    words = "…"
    if done == needed:
        seconds, words = 0.0, "done" if tally.answered else "nothing to ask"
    elif tally.batched:
        words = "up to a day"
    elif tally.disabled:
        seconds, words = 0.0, "stopped"
    elif rate:
        seconds = (needed - done) / rate
        words = duration(seconds)
    elif not (tally.answered or tally.in_flight or tally.waiting or tally.retries):
        words = "starting"
    if seconds == 0:
        rate = tally.answered / span if span else 0.0
    return {
        "done": done,
        "needed": needed,
        "failures": sum(number for status, number in tally.statuses.items() if status != "ok"),
        "retries": tally.retries,
        "throttled": tally.throttled,
        "in_flight": tally.in_flight,
        "waiting": tally.waiting,
        "in_batches": tally.batched,
        "calls_per_second": rate,
        "limit": tally.limits["rpm"] / 60 if "rpm" in tally.limits else None,
        "seconds_left": seconds,
        "time_left": words,
        "dollars": tally.dollars,
        "unpriced": tally.unpriced,
        "input_tokens": tally.input_tokens,
        "cached_tokens": tally.cached_tokens,
        "output_tokens": tally.output_tokens,
    }


def has_ended(figures: Event) -> bool:
    """Return whether a judge, or the run, will be asked nothing more."""
    return bool(figures["seconds_left"] == 0)


def _lateness(judge: Event) -> tuple[float, int]:
    seconds, words = judge["seconds_left"], judge["time_left"]
    rank = _WAYS_TO_WAIT.index(words) if words in _WAYS_TO_WAIT else 0
    return float("inf") if seconds is None else seconds, rank


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def duration(seconds: float) -> str:
    """Format a span of time in its two largest units."""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24:,} d {hours % 24} h"


def _spent(figures: Event) -> str:
    """Return the dollars of a judge, or of all runs that share the run's cap, and the cap."""
    spent = format_dollars(figures["dollars"] + (figures.get("dollars_before") or 0.0))
    spent += " + ?" if figures["unpriced"] else ""
    cap = figures.get("max_usd")
    return spent if cap is None else f"{spent} of {format_dollars(cap)}"


_COLUMNS: Mapping[str, Callable[[Event], str]] = {
    "done": lambda row: f"{row['done']:,}/{row['needed']:,}",
    "in flight": lambda row: f"{row['in_flight']:,}",
    "waiting": lambda row: f"{row['waiting']:,}",
    "in batches": lambda row: f"{row['in_batches']:,}",
    "calls/s": lambda row: f"{row['calls_per_second']:,.1f}",
    "limit": lambda row: f"{row['limit']:,.1f}" if row.get("limit") else "",
    "429s": lambda row: f"{row['throttled']:,}",
    "retries": lambda row: f"{row['retries']:,}",
    "failed": lambda row: f"{row['failures']:,}",
    "cached": lambda row: f"{row['cached_tokens'] / (row['input_tokens'] or 1):.0%}",
    "spent": _spent,
    "left": lambda row: str(row["time_left"]),
}
_ALWAYS = ("done", "calls/s", "failed", "spent", "left")
_NARROW = ("cached", "limit", "in flight", "retries", "429s", "waiting", "in batches")
"""Columns that are shown if they say anything; narrow terminals leave out the first ones first."""
_NONE = {"", "0", "0%"}


def progress_line(event: Event) -> str:
    """Return the total, each judge, and the last problem in a line."""
    cells = {name: cell(event) for name, cell in _COLUMNS.items()}
    parts = [
        *(
            f"{name}: {text}"
            for name, text in cells.items()
            if name in _ALWAYS or text not in _NONE
        ),
        ", ".join(
            f"{name} {_COLUMNS['done'](judge)}"
            + (f" ({judge['failures']:,} failed)" if judge["failures"] else "")
            for name, judge in event["judges"].items()
        ),
        *_remarks(event),
    ]
    return printable(" · ".join(parts))


def _remarks(event: Event) -> Iterator[str]:
    """Yield which judges are asked nothing more and why, and the reason of the last problem."""
    names = dict[str, list[str]]()
    for name, message in event["stopped"].items():
        names.setdefault(message, []).append(name)
    yield from (f"stopped: {', '.join(judges)}: {why}" for why, judges in names.items())
    if problem := event["last_problem"]:
        at, now = (datetime.fromisoformat(each["at"]) for each in (problem, event))
        ago = duration(max(0.0, (now - at).total_seconds()))
        reason = " ".join(problem["reason"].split())
        yield f"last problem, {ago} ago: {problem['judge']}: {reason}"


def progress_table(event: Event, width: int, height: int | None = None) -> Group:
    """Build the table that a terminal of this size shows: a row for each judge, and the total.

    Where not all judges fit, those that have not ended are shown.
    """
    judges, notes = event["judges"], [*_remarks(event)]
    shown = [*judges]
    if height is not None and len(shown) > (room := max(2, height - len(notes) - 3)):
        shown = sorted(shown, key=lambda name: has_ended(judges[name]))[: room - 1]
    rows = [judges[name] for name in shown] + [event]
    cells = {name: [cell(row) for row in rows] for name, cell in _COLUMNS.items()}
    names = [name for name in _NARROW if {*cells[name]} - _NONE]

    def is_too_wide() -> bool:
        widths = [max(map(cell_len, (n, *cells[n]))) + _GAP for n in (*_ALWAYS, *names)]
        return _NAME + sum(widths) > width

    while names and is_too_wide():
        names = names[1:]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    table.add_column("judge", overflow="ellipsis")
    columns = [name for name in cells if name in (*_ALWAYS, *names)]
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True, overflow="ellipsis")
    for number, name in enumerate(shown):
        label = Text(printable(name), no_wrap=True, overflow="ellipsis")
        table.add_row(label, *(cells[column][number] for column in columns))
    if more := len(judges) - len(shown):
        table.add_row(f"… {more:,} more")
    table.add_row("total", *(cells[column][-1] for column in columns), style="bold")
    lines = [Text(printable(note), no_wrap=True, overflow="ellipsis") for note in notes]
    return Group(table, *lines)
