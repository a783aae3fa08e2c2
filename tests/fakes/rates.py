"""Token buckets of the providers' models, and the traffic that they let through or turned away."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

Limit = float | Mapping[str, float] | None
"""A figure a minute for every provider, or one for each that is named."""

GRACE = 0.25
"""Seconds after a 429 in which what comes was already on its way: nobody ignored anything."""


def limit_of(limit: Limit, provider: str) -> float | None:
    """The limit of one provider; None is none."""
    return limit.get(provider) if isinstance(limit, Mapping) else limit


class Stops:
    """The times for which the machine did not let this process run.

    What was sent meanwhile, at its own pace, is then taken all at once: nobody sent a burst.
    """

    _BEAT, _LONG = 0.05, 0.1
    _PILED = 0.5  # seconds within which what was sent meanwhile is taken

    def __init__(self) -> None:
        self._beat_at, self._stopped, self._went_on_at = time.monotonic(), 0.0, 0.0

    async def watch(self) -> None:
        """Look at the clock all the time."""
        self._beat_at = time.monotonic()
        while True:
            await asyncio.sleep(self._BEAT)
            now = time.monotonic()
            if (late := now - self._beat_at - self._BEAT) > self._LONG:
                self._stopped, self._went_on_at = late, now
            self._beat_at = now

    def seconds(self, now: float) -> float:
        """Seconds of the stop that has just ended; 0 if there was none."""
        if (late := now - self._beat_at - self._BEAT) > self._LONG:
            return late
        return self._stopped if now < self._went_on_at + self._PILED else 0.0


class Bucket:
    """A token bucket that starts full, refills all the time, and can go into debt.

    It overflows only while the process runs that takes from it.
    """

    def __init__(
        self, per_minute: float, burst: float, now: float, stops: Stops | None = None
    ) -> None:
        self.limit, self.rate = per_minute, per_minute / 60
        self.capacity = max(1.0, self.rate * burst)
        self._level, self._at, self._stops = self.capacity, now, stops

    def level(self, now: float) -> float:
        stopped = self._stops.seconds(now) if self._stops else 0.0
        refilled = self._level + (now - self._at) * self.rate
        self._level = min(self.capacity + stopped * self.rate, refilled)
        self._at = now
        return self._level

    def wait(self, amount: float, now: float) -> float:
        """Seconds until ``amount`` (at most the capacity) can be taken."""
        return max(0.0, (min(amount, self.capacity) - self.level(now)) / self.rate)

    def take(self, amount: float) -> None:
        self._level -= amount

    def reset(self, now: float) -> float:
        """Seconds until it is full again."""
        return max(0.0, self.capacity - self.level(now)) / self.rate


@dataclass(frozen=True)
class Rates:
    """What is left of a model's limits, for headers.

    By "requests", "tokens", and Anthropic's "input-tokens" and "output-tokens".
    """

    limits: dict[str, float]
    remaining: dict[str, int]
    resets: dict[str, float]


class Limits:
    """The buckets of every provider's models.

    Args:
        rpm: Requests a minute.
        tpm: Tokens a minute.
        itpm: Input tokens a minute that no cache held; Anthropic's alone.
        otpm: Output tokens a minute; Anthropic's alone.
        burst: Seconds of each that a rested account can spend at once.
    """

    def __init__(self, rpm: Limit, tpm: Limit, itpm: Limit, otpm: Limit, burst: float) -> None:
        self._limits = {"requests": rpm, "tokens": tpm}
        self._split = {"input-tokens": itpm, "output-tokens": otpm}
        self._burst = burst
        self.stops = Stops()
        self._buckets: dict[tuple[str, str], dict[str, Bucket]] = {}

    def _of(self, provider: str, model: str, now: float) -> dict[str, Bucket]:
        if (provider, model) not in self._buckets:
            families = self._limits | (self._split if provider == "anthropic" else {})
            self._buckets[provider, model] = {
                what: Bucket(figure, self._burst, now, self.stops)
                for what, limit in families.items()
                if (figure := limit_of(limit, provider))
            }
        return self._buckets[provider, model]

    def wait(self, provider: str, model: str, input_tokens: int, read_tokens: int = 0) -> float:
        """Take what a request needs, or say how many seconds it has to wait.

        ``read_tokens`` of the input come from a cache, and do not count for Anthropic's ``itpm``.
        """
        now = time.monotonic()
        needs = {
            "requests": 1,
            "tokens": input_tokens,
            "input-tokens": input_tokens - read_tokens,
            "output-tokens": 0,  # it is taken when answered: until then there has to be some left
        }
        buckets = self._of(provider, model, now)
        waits = (bucket.wait(max(1, needs[what]), now) for what, bucket in buckets.items())
        wait = max(waits, default=0.0)
        if not wait:
            for what, bucket in buckets.items():
                bucket.take(needs[what])
        return wait

    def answered(self, provider: str, model: str, output_tokens: int) -> None:
        """Take what an answer used; Gemini counts input only."""
        buckets = self._of(provider, model, time.monotonic())
        for what in ("tokens", "output-tokens") if provider != "gemini" else ():
            if what in buckets:
                buckets[what].take(output_tokens)

    def rates(self, provider: str, model: str) -> Rates:
        """What is left."""
        now = time.monotonic()
        buckets = self._of(provider, model, now) if model else {}
        return Rates(
            limits={what: bucket.limit for what, bucket in buckets.items()},
            remaining={what: max(0, int(b.level(now))) for what, b in buckets.items()},
            resets={what: bucket.reset(now) for what, bucket in buckets.items()},
        )


class Traffic:
    """How many calls each model took and turned away, and how many came too early again."""

    def __init__(self) -> None:
        self.models: dict[tuple[str, str], dict[str, float]] = {}
        self._until: dict[tuple[str, str, str], tuple[float, float]] = {}

    def _of(self, provider: str, model: str) -> dict[str, float]:
        return self.models.setdefault((provider, model), dict.fromkeys(_FIGURES, 0))

    def came(self, key: str, provider: str, model: str, now: float) -> None:
        """A call came; it is early where a wish to wait, told long enough ago, is not over."""
        told, until = self._until.get((key, provider, model), (0.0, 0.0))
        self._of(provider, model)["early"] += told + GRACE < now < until

    def accepted(self, provider: str, model: str, now: float) -> None:
        """A call is to be answered."""
        figures = self._of(provider, model)
        figures["first"] = figures["first"] or now
        figures["last"] = now
        figures["accepted"] += 1

    def throttled(
        self, key: str, provider: str, model: str, now: float, wait: float | None
    ) -> None:
        """A call is answered 429, with a wish to wait so many seconds."""
        self._of(provider, model)["throttled"] += 1
        if wait is not None:
            told, until = self._until.get((key, provider, model), (0.0, 0.0))
            first = told if now < until else now  # whoever sends on and on was told at the first
            self._until[key, provider, model] = (first, max(until, now + wait))


_FIGURES = ("accepted", "throttled", "early", "first", "last")
