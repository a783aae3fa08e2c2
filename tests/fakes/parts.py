"""The parts of a fake that know nothing of HTTP: faults, the journal, the books."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

# Faults that every provider has. The others are errors, named in each provider's ERRORS.
ANSWER_FAULTS = ("refusal", "filtered", "truncated", "out_of_range", "prose", "missing_field")
WIRE_FAULTS = ("drop", "timeout", "malformed", "not_json", "gateway")
WIRE_FAULTS += ("malformed_billed", "timeout_billed")  # after the model's work
BATCH_FAULTS = ("batch_expired", "batch_failed", "batch_cancelled")
BATCH_WIRE_FAULTS = ("create_lost", "create_500", "results_cut")
ENDPOINTS = ("answer", "line", "files", "file", "create", "look", "list", "cancel", "results")
ENDPOINTS += ("upload",)
_OF_ENDPOINT = {"create_lost": "create", "create_500": "create", "results_cut": "results"}
_OF_ENDPOINT |= dict.fromkeys(BATCH_FAULTS, "create")


def draw(*parts: object) -> float:
    """A number in [0, 1) that follows from the parts alone."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def question_sha(provider: ModuleType, path: Mapping[str, str], body: Any) -> str:
    """What a body asks as a hash, online or in a batch: equal questions strike equal faults."""
    asked = provider.canonical(path, body) if isinstance(body, dict) else body
    written = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS).decode()
    return hashlib.sha256(without_codes(written).encode()).hexdigest()


def without_codes(text: str) -> str:
    """A prompt without the codes of its markers, which are others in each ledger."""
    return _CODE.sub("*", text)


_CODE = re.compile(r"\b[0-9a-f]{12}\b")


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, by name: see ``ANSWER_FAULTS``, ``WIRE_FAULTS``, ``ERRORS``.

    It strikes each attempt with probability ``rate``, but only the first ``times`` attempts of any
    one body, and ``total`` requests in all. ``retry_after`` is what an error asks to wait, in
    seconds; ``headers`` come on top of its own.

    Calls are struck, and lines of batches (a line knows no ``WIRE_FAULTS``); with an ``endpoint``,
    that one alone: "answer", "line", or one of the other ``ENDPOINTS``. Batches have faults of
    their own, which need no endpoint:

    * "batch_expired", "batch_cancelled": half of the lines are answered and billed. Gemini gives
      nothing of such a batch, and bills nothing.
    * "batch_failed": nothing is answered; ``code`` and ``message`` say why. Anthropic has no such
      end: each of its lines is errored.
    * "create_lost": the batch is created, and the connection dropped; "create_500": it is not.
    * "results_cut": the first download of a batch's results breaks off halfway.
    """

    name: str
    rate: float = 1.0
    times: int | None = None
    total: int | None = None
    provider: str | None = None
    retry_after: float | None = None
    message: str = ""
    endpoint: str | None = None
    code: str = ""
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

    def strikes(self, provider: str, endpoint: str, seed: int, sha: str, seen: int) -> bool:
        """Whether it strikes this attempt; ``seen`` counts the earlier ones of the same body."""
        times = 1 if self.times is None and self.name == "results_cut" else self.times
        return (
            self.provider in (None, provider)
            and self._is_for(endpoint)
            and (times is None or seen < times)
            and (self.rate >= 1 or draw(seed, self.name, sha, seen) < self.rate)
        )

    def _is_for(self, endpoint: str) -> bool:
        if only := self.endpoint or _OF_ENDPOINT.get(self.name):
            return endpoint == only
        return endpoint == "answer" or (endpoint == "line" and self.name not in WIRE_FAULTS)


class LedgerWriter:
    """What was billed: tokens and responses of each model, online and in batches."""

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str, bool], Counter[str]] = {}

    def bill(self, provider: str, model: str, usage: dict[str, Any]) -> None:
        """Add one billed response."""
        amounts = {name: amount for name, amount in usage.items() if name != "batch"}
        account = self.sums.setdefault((provider, model, usage["batch"]), Counter())
        account.update(amounts | {"responses": 1})


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
    top_logprobs: int = 0
    """How many log-probabilities of each token are asked for."""


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
    cache_write_tokens: int = 0
    letters: Mapping[str, float] = field(default_factory=dict)
    """Of an answer of one letter: the probability of each."""


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
