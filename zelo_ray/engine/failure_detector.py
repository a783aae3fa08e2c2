"""Detect that a judge has failed for good. Time is passed in, in seconds of any clock."""

from zelo_ray.providers import Retry, RetryKind
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge

_FIRST_SECONDS = 180.0
"""For a judge that was never heard of: its server, its URL or its key may be wrong, and a person
who has just started a run is there to mend them."""
_TRIES = 3  # to reach a server named by its URL
_UNREACHED_SECONDS = 15.0  # in which no connection to a provider can be made


class FailureDetector:
    """Failure detector of one judge: notes its signs of life, and says when to give it up.

    Args:
        judge: who is asked.
        seconds: for how long nothing may come back from it.
        reached: whether it was asked before, in the same run.
    """

    def __init__(self, judge: Judge, seconds: float, *, reached: bool = False) -> None:
        self._judge, self._seconds = judge, seconds
        self.first_call_alone = bool(judge.base_url) and not reached
        """whether its first request goes alone, to find out whether there is such a server"""
        self._reached = self._replied = reached
        self._tries = 0
        self._silent_since: float | None = None
        self._unreached_at: float | None = None
        self._throttled_at: float | None = None

    def record_call(self, now: float) -> None:
        """Note a call: silence counts from the first one since the judge replied."""
        self._silent_since = now if self._silent_since is None else self._silent_since

    def record_reply(self) -> None:
        """Note that the judge replied, even with a refusal: its server and account are alive."""
        self._reached = self._replied = True
        self._silent_since = self._throttled_at = None

    def is_starting(self, trouble: Retry) -> bool:
        """Return whether the judge was never reached: it may be starting, and no attempt counts."""
        return trouble.kind is RetryKind.UNREACHED and not self._reached

    def record_failure(self, trouble: Retry, now: float, *, away: bool) -> Disabled | None:
        """Note a failed call; return why to give the judge up, if that is so.

        Args:
            trouble: why the call failed.
            now: the time.
            away: whether all the calls before it failed as well.
        """
        if trouble.kind is not RetryKind.UNREACHED:
            self._reached = True
        elif not self._reached:
            self._tries += 1
            self._unreached_at = now if self._unreached_at is None else self._unreached_at
            seconds = now - self._unreached_at
            tries = self._tries if self._judge.base_url else 0
            if tries >= _TRIES or (not tries and seconds >= _UNREACHED_SECONDS):
                often = f"{self._tries} times in {_in_words(seconds)}"
                what = f"{trouble.detail}, {often}; {self._advice}"
                return Disabled(StopReason.UNREACHED, what)
        silence = now - (now if self._silent_since is None else self._silent_since)
        throttled = trouble.kind is RetryKind.THROTTLED
        if (away or self.first_call_alone) and not throttled and silence > self.longest_silence:
            what = f"{trouble.detail}; nothing else for {_in_words(silence)}; {self._advice}"
            return Disabled(StopReason.SILENT, what)
        return None

    def record_throttling(self, lasting: float, now: float) -> Disabled | None:
        """Note a 429; return why to give the judge up, if that is so.

        Args:
            lasting: for how long its account has answered nothing else to anybody.
            now: the time.
        """
        self._throttled_at = now if self._throttled_at is None else self._throttled_at
        alike = min(lasting, now - self._throttled_at)
        if alike <= self.longest_silence:
            return None
        return Disabled(
            StopReason.THROTTLED,
            f"nothing but 429 (rate limit) for {_in_words(alike)}; check "
            "the account's limits and who else uses it; raise --patience, or run the same command "
            "later: nothing is lost",
        )

    @property
    def longest_silence(self) -> float:
        """Return the seconds for which nothing may come back."""
        return self._seconds if self._replied else min(self._seconds, _FIRST_SECONDS)

    @property
    def _advice(self) -> str:
        network = "the network, and the base URL if you set one"
        what = "that the server runs, and its URL" if self._judge.base_url else network
        return f"check {what}, then run the same command again"


def _in_words(seconds: float) -> str:
    """Express a number of seconds in words."""
    if seconds >= 7200:
        return f"{seconds / 3600:.0f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
