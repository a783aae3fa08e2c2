"""The parts of a fake that know nothing of HTTP: faults, token buckets, the journal."""

import hashlib
import os
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import orjson

# Faults that every provider has. The others are errors, named in each provider's ERRORS.
ANSWER_FAULTS = ("refusal", "filtered", "truncated", "out_of_range", "prose", "missing_field")
WIRE_FAULTS = ("drop", "timeout", "malformed", "not_json", "gateway")


def tokens(*texts: str) -> int:
    """Tokens of a text, as the fakes count them: UTF-8 bytes / 4."""
    return -(-sum(len(text.encode(errors="replace")) for text in texts) // 4)


def draw(*parts: object) -> float:
    """A number in [0, 1) that follows from the parts alone."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, by name: see ``ANSWER_FAULTS``, ``WIRE_FAULTS``, ``ERRORS``.

    It strikes each attempt with probability ``rate``, but only the first ``times`` attempts of any
    one body, and ``total`` requests in all. ``retry_after`` is what an error asks to wait, in
    seconds; ``headers`` come on top of its own.
    """

    name: str
    rate: float = 1.0
    times: int | None = None
    total: int | None = None
    provider: str | None = None
    retry_after: float | None = None
    message: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Read ``name`` or ``name:rate=0.1,times=1,provider=openai``."""
        name, _, rest = text.partition(":")
        types = {"rate": float, "times": int, "total": int, "retry_after": float}
        pairs = dict(pair.split("=", 1) for pair in rest.split(",") if pair)
        if unknown := set(pairs) - {known.name for known in fields(cls)}:
            raise ValueError(f"fault {text!r}: unknown {', '.join(sorted(unknown))}")
        return cls(name, **{key: types.get(key, str)(value) for key, value in pairs.items()})

    def strikes(self, provider: str, seed: int, sha: str, seen: int) -> bool:
        """Whether it strikes this attempt; ``seen`` counts the earlier ones of the same body."""
        return (
            self.provider in (None, provider)
            and (self.times is None or seen < self.times)
            and (self.rate >= 1 or draw(seed, self.name, sha, seen) < self.rate)
        )


class Bucket:
    """A token bucket that starts full, refills all the time, and can go into debt."""

    def __init__(self, per_minute: float, burst: float, now: float) -> None:
        self.limit, self.rate = per_minute, per_minute / 60
        self.capacity = max(1.0, self.rate * burst)
        self._level, self._at = self.capacity, now

    def level(self, now: float) -> float:
        self._level = min(self.capacity, self._level + (now - self._at) * self.rate)
        self._at = now
        return self._level

    def wait(self, amount: float, now: float) -> float:
        """Seconds until ``amount`` (at most the capacity) can be taken."""
        return max(0.0, (min(amount, self.capacity) - self.level(now)) / self.rate)

    def take(self, amount: float) -> None:
        self._level -= amount

    def reset(self, now: float) -> float:
        """Seconds until it is full again."""
        return (self.capacity - self.level(now)) / self.rate


@dataclass(frozen=True)
class Rates:
    """What is left of a model's limits, for headers: by "requests" and "tokens"."""

    limits: dict[str, float]
    remaining: dict[str, int]
    resets: dict[str, float]


class Limits:
    """The buckets of every provider's models."""

    def __init__(self, rpm: float | None, tpm: float | None, burst: float) -> None:
        limits = {"requests": rpm, "tokens": tpm}
        self._limits = {what: limit for what, limit in limits.items() if limit}
        self._burst = burst
        self._buckets: dict[tuple[str, str], dict[str, Bucket]] = {}

    def _of(self, provider: str, model: str, now: float) -> dict[str, Bucket]:
        if (provider, model) not in self._buckets:
            full = {what: Bucket(limit, self._burst, now) for what, limit in self._limits.items()}
            self._buckets[provider, model] = full
        return self._buckets[provider, model]

    def wait(self, provider: str, model: str, input_tokens: int) -> float:
        """Take what a request needs, or say how many seconds it has to wait."""
        now, needs = time.monotonic(), {"requests": 1, "tokens": input_tokens}
        buckets = self._of(provider, model, now)
        wait = max((bucket.wait(needs[what], now) for what, bucket in buckets.items()), default=0.0)
        if not wait:
            for what, bucket in buckets.items():
                bucket.take(needs[what])
        return wait

    def answered(self, provider: str, model: str, output_tokens: int) -> None:
        """Take what an answer used; Gemini counts input only."""
        if "tokens" in self._limits and provider != "gemini":
            self._of(provider, model, time.monotonic())["tokens"].take(output_tokens)

    def rates(self, provider: str, model: str) -> Rates:
        """What is left."""
        now = time.monotonic()
        buckets = self._of(provider, model, now) if model else {}
        return Rates(
            limits={what: bucket.limit for what, bucket in buckets.items()},
            remaining={what: max(0, int(b.level(now))) for what, b in buckets.items()},
            resets={what: bucket.reset(now) for what, bucket in buckets.items()},
        )


class Journal:
    """What was asked and what came of it: a list, and a line of JSON a request in a file."""

    def __init__(self, path: str | Path | None, *, keep: bool) -> None:
        self.entries: list[dict[str, Any]] = []
        self._keep = keep
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(path, flags, 0o644) if path else None

    def write(self, entry: dict[str, Any]) -> None:
        """Write an entry before its response is sent, so that no answer is missing here."""
        if self._file is not None:
            os.write(self._file, orjson.dumps(entry) + b"\n")
        if self._keep:
            self.entries.append(entry)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@dataclass(frozen=True)
class Asked:
    """What a request body asks, whichever provider's."""

    model: str
    system: str
    user: str
    schema: dict[str, Any]
    max_tokens: int | None

    @property
    def input_tokens(self) -> int:
        return tokens(self.system, self.user, orjson.dumps(self.schema).decode())


@dataclass(frozen=True)
class Said:
    """What the model answers: ``kind`` is "ok", "refusal", "filtered" or "truncated"."""

    id: str
    kind: str
    text: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    thinking_tokens: int


class Invalid(Exception):  # noqa: N818
    """A body that the provider would not take."""

    def __init__(self, message: str, name: str = "bad_request") -> None:
        super().__init__(message)
        self.name = name


def spoil(kind: str, verdict: Any) -> str:
    """The text of a verdict, spoilt as the fault says."""
    if isinstance(verdict, dict) and kind == "out_of_range":
        verdict = {k: 7 if isinstance(v, int | float) else v for k, v in verdict.items()}
    if isinstance(verdict, dict) and kind == "missing_field":
        verdict = dict(list(verdict.items())[:-1])
    text = verdict if isinstance(verdict, str) else orjson.dumps(verdict).decode()
    if kind == "prose":
        return "Having read both, I would say that the first one answers the question better."
    return text[: len(text) // 2] if kind == "truncated" else text


def cut_to_limit(said: Said, max_tokens: int | None) -> Said:
    """Stop where the output limit is, as a model would; hidden thinking counts."""
    if said.kind != "ok" or max_tokens is None or said.output_tokens <= max_tokens:
        return said
    room = max(0, max_tokens - said.thinking_tokens) * 4
    text = said.text.encode()[:room].decode(errors="ignore")
    return replace(said, kind="truncated", text=text, output_tokens=max_tokens)
