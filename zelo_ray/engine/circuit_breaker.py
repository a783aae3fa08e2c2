"""Hold a judge's calls back while nothing comes back from it, and give it up in the end.

A circuit breaker (M. Nygard, *Release It!*, 2nd edition, 2018, chapter 5). When call after call
comes to nothing, new ones wait, and one of them at a time goes as a probe, at growing intervals,
until one is answered. So an outage costs few calls, and no request its attempts. Beside it a
`FailureDetector` says when a judge has failed for good.
"""

import asyncio
from collections import Counter, deque

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.providers import Retry, RetryKind
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge

_UNREACHED = 3
"""Calls in a row that made no connection: no prompt is at fault there."""
_REQUESTS = 5
"""Different requests in a row without an answer; some few prompts may be at fault themselves."""
_FEWEST = 3
"""The same where fewer calls may be in flight; and calls in a row, where that is even less: the
same request is made again and again then, before another one has its turn."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds before a probe
_LONG_DELAY = 120.0  # seconds: a server that asks for more is away, whatever it is asked
_FIRST_SECONDS = 180.0
"""For a judge that was never heard of: its server, its URL or its key may be wrong, and a person
who has just started a run is there to mend them."""
_TRIES = 3  # to reach a server named by its URL
_UNREACHED_SECONDS = 15.0  # in which no connection to a provider can be made


class CircuitBreaker:
    """Circuit breaker of one judge: lets its calls go while it answers, else one at a time.

    Args:
        slots: calls that may be in flight.
        clock: the time.
    """

    def __init__(self, slots: int, clock: Clock = CLOCK) -> None:
        self._requests, self._clock = min(_REQUESTS, max(_FEWEST, slots)), clock
        self._calls_tell = slots < _FEWEST
        self._failing, self._suspect = Counter[str](), set[str]()
        self._unreached = 0
        self._waiting = deque[asyncio.Future[bool]]()
        self._probing: asyncio.Task[None] | None = None
        self._probed, self._answered = asyncio.Event(), asyncio.Event()
        self._wait, self._delay, self._closed = _FIRST_WAIT, 0.0, False
        self.is_open = False
        """whether calls are held back"""
        self.answers = 0
        """responses so far, of any kind"""

    @property
    def is_sure(self) -> bool:
        """Return whether so many requests failed that their content cannot be the cause."""
        return len(self._failing.keys() - self._suspect) >= _FEWEST

    async def admit(self) -> bool:
        """Wait until a call may go.

        Returns:
            Whether it goes as a probe, while all others wait.
        """
        if not self.is_open or self._closed:
            return False
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._probing = self._probing or asyncio.create_task(self._probe())
        is_probe: bool = await turn
        return is_probe

    def record_answer(self) -> None:
        """Let all calls go: something came back from the judge."""
        self.answers += 1
        self._failing.clear()
        self._suspect.clear()
        self._unreached, self._wait, self._delay = 0, _FIRST_WAIT, 0.0
        self._release()

    def record_failure(
        self,
        trouble: Retry,
        key: str,
        *,
        is_probe: bool,
        suspect: bool = False,
    ) -> None:
        """Count a failed call, and hold calls back after too many in a row.

        Args:
            trouble: why the call failed.
            key: of its request.
            is_probe: whether it went as a probe.
            suspect: whether other requests were answered since this one failed before.
        """
        delay = trouble.delay or 0.0
        self._failing[key] += 1
        if suspect:
            self._suspect.add(key)
        self._unreached += trouble.kind is RetryKind.UNREACHED
        self._delay = max(self._delay, delay)
        failed = self._failing.total() if self._calls_tell else len(self._failing)
        is_failing = self._unreached >= _UNREACHED or failed >= self._requests
        is_failing |= trouble.kind is RetryKind.UNAVAILABLE and self._failing[key] >= _FEWEST
        if is_failing or delay > _LONG_DELAY:
            self.is_open = not self._closed
            self._answered.clear()
        if is_probe:
            self._probed.set()

    def close(self) -> None:
        """Release all waiting calls: no call is made after this."""
        self._closed = True
        self._release()

    def _release(self) -> None:
        self.is_open = False
        self._answered.set()
        self._probed.set()
        while self._let_go(is_probe=False):
            pass

    def _let_go(self, *, is_probe: bool) -> bool:
        """Release the call that has waited longest; return False where none waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(is_probe)
                return True
        return False

    async def _probe(self) -> None:
        """Let one call go at a time, each a while after the one before it failed."""
        try:
            while self.is_open and self._waiting:
                wait, self._wait = self._wait, min(2 * self._wait, _LONGEST_WAIT)
                wait, self._delay = max(wait, self._delay), 0.0
                await self._clock.wait_for(self._answered.wait(), wait)
                self._probed.clear()
                if self.is_open and self._let_go(is_probe=True):
                    await self._probed.wait()
        finally:
            self._probing = None


class FailureDetector:
    """Failure detector of one judge: notes its signs of life, and says when to give it up.

    Time is passed in, in seconds of any clock.

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
            "the account's limits and who else uses it; raise patience, or run the same command "
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
