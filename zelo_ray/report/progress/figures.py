"""Compute the progress of each judge, its rate, and the time left."""

import math
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from zelo_ray.engine.tally import Tally
from zelo_ray.reasons import Disabled, judges_by_reason

_SECONDS, _ANSWERS = 60.0, 10
_STARTING = "starting"
"""The time left of a judge before its first call."""


class Pace:
    """Answers a second over the last minute, or over the last ten answers if these took longer.

    An average over the whole run would mislead for long after a slow start. The time before the
    first call is not counted, since actors take long to start.
    """

    def __init__(self) -> None:
        self._seen = deque[tuple[float, int]]()  # when there were how many; only what changed
        self._began = 0.0

    def record(self, now: float, tally: Tally) -> None:
        """Record a judge's figures."""
        samples, answered = self._seen, tally.answered
        if not samples:
            if answered or tally.in_flight or tally.batched:
                samples.append((now, 0))
                self._began = now
            return
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

    @property
    def seconds(self) -> float:
        """Return the seconds from the first call to the last answer."""
        return self._seen[-1][0] - self._began if self._seen else 0.0

    def rate(self, now: float) -> float:
        """Return the answers per second; 0 with too few samples."""
        if not self._seen or now - self._seen[0][0] < 1:
            return 0.0
        (began, before), (_, answered) = self._seen[0], self._seen[-1]
        return (answered - before) / (now - began)


@dataclass(frozen=True, slots=True)
class JudgeProgress:
    """Progress of one judge."""

    name: str
    tally: Tally
    done: int
    needed: int
    """number of planned requests that are needed, as far as known"""
    rate: float
    """answers per second lately; of a judge that has ended, over all of its time; 0 if unknown"""
    time_left: str
    seconds: float
    """seconds left; infinite if unknown"""
    span: float = 0.0
    """seconds from the first call to the last answer"""

    @property
    def failures(self) -> int:
        """Count the requests that ended without an answer that counts."""
        return sum(count for status, count in self.tally.statuses.items() if status != "ok")

    @property
    def ended(self) -> bool:
        """Return whether the judge will be asked nothing more."""
        return self.seconds == 0


def judge_progress(
    name: str, tally: Tally, planned: int, rate: float, span: float = 0.0
) -> JudgeProgress:
    """Compute a judge's progress with its planned requests."""
    needed = max(0, planned - tally.spared)
    done = min(needed, tally.known + tally.answered)  # a block that is run again counts twice
    time_left, seconds = "…", math.inf
    if done == needed:
        time_left, seconds = ("done" if tally.answered else "nothing to ask"), 0.0
    elif tally.batched:
        time_left = "up to a day"
    elif tally.disabled:
        time_left, seconds = "stopped", 0.0
    elif rate:
        seconds = (needed - done) / rate
        time_left = duration(seconds)
    elif not (tally.answered or tally.in_flight or tally.waiting or tally.retries):
        time_left = _STARTING
    if not seconds:
        rate = tally.answered / span if span else 0.0
    return JudgeProgress(name, tally, done, needed, rate, time_left, seconds, span)


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of all judges. ``cap`` is the budget and the part spent before, in dollars."""

    judges: Sequence[JudgeProgress]
    cap: tuple[float, float] | None = None

    @property
    def whole(self) -> JudgeProgress:
        """Return the progress of all judges together; the slowest gives the time left."""
        summed = Tally()
        for standing in self.judges:
            summed.add(standing.tally)
        last = max(self.judges, key=_how_late)
        span = max(row.span for row in self.judges)
        rate = sum(row.rate for row in self.judges if not row.ended)
        if last.ended and span:
            rate = summed.answered / span
        has_begun = summed.answered or summed.in_flight or summed.waiting or summed.retries
        return JudgeProgress(
            name="total",
            tally=summed,
            done=sum(row.done for row in self.judges),
            needed=sum(row.needed for row in self.judges),
            rate=rate,
            time_left="…" if has_begun and last.time_left == _STARTING else last.time_left,
            seconds=last.seconds,
            span=span,
        )

    @property
    def last_troubled(self) -> JudgeProgress | None:
        """Return the judge with the last trouble, if any has had one."""
        last = max(self.judges, key=lambda standing: standing.tally.trouble)
        return last if last.tally.trouble.reason else None

    @property
    def disabled(self) -> dict[Disabled, list[str]]:
        """Return the judges that are asked nothing more, by the reason."""
        reasons = {standing.name: standing.tally.disabled for standing in self.judges}
        return judges_by_reason({name: why for name, why in reasons.items() if why})


class ProgressMeter:
    """Measures the progress of a run by the figures of its judges, as they grow.

    Attributes:
        cap: the budget and the part spent before, in dollars; None without a budget.
        latest: the last measurement; None before the first.
    """

    def __init__(self) -> None:
        self.cap: tuple[float, float] | None = None
        self.latest: RunProgress | None = None
        self._paces: dict[str, Pace] = {}

    def measure(
        self, tallies: Mapping[str, Tally], planned: Mapping[str, int], now: float
    ) -> RunProgress:
        """Return the progress of all judges.

        Args:
            tallies: figures by judge.
            planned: number of requests by judge, at least one judge.
            now: seconds on a clock that only moves forwards.
        """
        standings = []
        for name, number in planned.items():
            tally, pace = tallies.get(name, Tally()), self._paces.setdefault(name, Pace())
            pace.record(now, tally)
            standings.append(judge_progress(name, tally, number, pace.rate(now), pace.seconds))
        self.latest = RunProgress(standings, self.cap)
        return self.latest


def progress_figures(sums: RunProgress, now: float | None = None) -> dict[str, Any]:
    """Return the progress of a run as numbers and texts for JSON.

    Args:
        sums: of all judges.
        now: seconds since 1970; by default the present time.
    """
    whole, cap, last = sums.whole, sums.cap, sums.last_troubled
    return {
        "at": _iso_time(time.time() if now is None else now),
        **_judge_figures(whole),
        "max_usd": cap[0] if cap else None,
        "dollars_before": cap[1] if cap else None,
        "last_problem": last
        and {
            "judge": last.name,
            "reason": last.tally.trouble.reason,
            "at": _iso_time(last.tally.trouble.at),
        },
        "stopped": {
            name: reason.message for reason, names in sums.disabled.items() for name in names
        },
        "judges": {standing.name: _judge_figures(standing) for standing in sums.judges},
    }


def _judge_figures(standing: JudgeProgress) -> dict[str, Any]:
    tally = standing.tally
    return {
        "done": standing.done,
        "needed": standing.needed,
        "failures": standing.failures,
        "retries": tally.retries,
        "throttled": tally.throttled,
        "in_flight": tally.in_flight,
        "waiting": tally.waiting,
        "in_batches": tally.batched,
        "calls_per_second": standing.rate,
        "seconds_left": standing.seconds if math.isfinite(standing.seconds) else None,
        "time_left": standing.time_left,
        "dollars": tally.dollars,
        "unpriced": tally.unpriced,
        "input_tokens": tally.input_tokens,
        "cached_tokens": tally.cached_tokens,
        "output_tokens": tally.output_tokens,
    }


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _how_late(standing: JudgeProgress) -> tuple[float, int]:
    """Return a sort key by time left; words of the same time by how much they say."""
    words = ("nothing to ask", "done", "stopped", "…", _STARTING, "up to a day")
    return standing.seconds, words.index(standing.time_left) if standing.time_left in words else 0


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
