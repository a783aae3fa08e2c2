"""Decide when a line of progress is due: now and then, and at once when there is news."""

from zelo_ray.report.progress.figures import JudgeProgress, RunProgress

_SECONDS_BETWEEN_LINES = 10.0


class NewsTimer:
    """Remembers which news was shown, and when. ``now`` is in seconds on a monotonic clock."""

    def __init__(self, now: float) -> None:
        self._last_line = now
        self._done, self._reported = False, set[tuple[str, str]]()

    def is_due(self, now: float, sums: RunProgress) -> bool:
        """Return whether there is news, or the last line was long ago."""
        done = all(standing.ended for standing in sums.judges)
        news = {(standing.name, what) for standing in sums.judges for what in _news(standing)}
        nothing_new = news <= self._reported and (self._done or not done)
        if nothing_new and now - self._last_line < _SECONDS_BETWEEN_LINES:
            return False
        self._last_line, self._done, self._reported = now, done, self._reported | news
        return True


def _news(standing: JudgeProgress) -> list[str]:
    """Return the kinds of a judge's news that are shown at once."""
    tally = standing.tally
    begun = {
        "trouble": tally.trouble.reason,
        "failures": standing.failures,
        "disabled": tally.disabled,
    }
    return [what for what, is_there in begun.items() if is_there]
