"""Turn the scores of a reranker into an answer, valid or with the reason why it is not."""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any

from zelo_ray.providers.outcome import redact
from zelo_ray.records import Answer, Usage

_REASON_LENGTH = 200
_ECHO = 16  # the shortest text that is hidden in an error message
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""Parts of the names of environment variables whose values are secret."""


def answer_of(scores: Any, count: int, usage: Usage | None = None, model: str = "") -> Answer:
    """Build an answer from an iterable of scores in the order of so many documents.

    It is invalid unless there is a finite number for each. A mapping or a set has no order.
    """
    used = usage or Usage()
    plain = scores.tolist() if hasattr(scores, "tolist") else scores
    if isinstance(plain, Mapping | Set | str | bytes) or not isinstance(plain, Iterable):
        return Answer("invalid", "", used, model, f"{type(scores).__name__} instead of scores")
    numbers = list(plain)
    if why := _fault(numbers, count):
        return Answer("invalid", "", used, model, why)
    text = json.dumps({"scores": [float(score) for score in numbers]})
    return Answer("ok", text, used, model)


def _fault(scores: Sequence[Any], count: int) -> str:
    if len(scores) != count:
        return f"{len(scores)} scores for {count} documents"
    if missing := sum(score is None for score in scores):
        return f"{missing} of {count} documents without a score"
    for score in scores:
        if isinstance(score, bool) or not isinstance(score, Real):
            return f"a score of type {type(score).__name__} instead of a number"
        try:
            if not math.isfinite(score):
                return f"a score of {score}"
        except OverflowError:
            return "a score too large for a floating-point number"
    return ""


def failed_answer(error: BaseException, texts: Sequence[str] = ()) -> Answer:
    """Build the answer of a local reranker that raised an error, in one short line.

    HTTP libraries put whole URLs, and so keys, into their messages, which are hidden. One of the
    ``texts`` that the message repeats is replaced by [text], and a message that repeats part of one
    is left out.
    """
    keys = [v for name, v in os.environ.items() if any(s in name.upper() for s in _SECRETS)]
    message = str(error)
    for text in sorted(texts, key=len, reverse=True):
        if len(text) >= _ECHO:
            message = message.replace(text, "[text]")
    echoes = texts if len(message) >= _ECHO else ()  # a word or a number is no echo
    reason = f"{type(error).__name__}: {redact(message, echoes, keys)}"
    return Answer("failed", "", Usage(), reason=reason.removesuffix(": ")[:_REASON_LENGTH])
