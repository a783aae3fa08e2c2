"""Scores as a reranker gave them, made into an answer, or into the reason why they are none."""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Real
from typing import Any

from zelo_ray.providers.outcome import sayable
from zelo_ray.records import Answer, Usage

_REASON_LENGTH = 200
_TELLING = 16
"""Characters of a text that tell something of it."""
_SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
"""What the names of environment variables hold whose values nobody is to read."""


def answer_of(scores: Any, count: int, usage: Usage | None = None, model: str = "") -> Answer:
    """Build an answer from scores in the documents' order.

    Args:
        scores: an array, a tensor, or whatever gives ``count`` numbers in the documents' order;
            None where one is missing. A mapping or a set has no such order.
        count: how many documents were sent.
        usage: what the call used.
        model: who answered.

    Returns:
        The scores as JSON; an invalid answer unless there is a finite number for each document.
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
    bad = [s for s in scores if isinstance(s, bool) or not isinstance(s, Real)]
    if bad:
        return f"a score that is no number, but {type(bad[0]).__name__}"
    try:
        infinite = [score for score in scores if not math.isfinite(score)]
    except OverflowError:
        return "a score that no floating-point number holds"
    return f"a score of {infinite[0]}" if infinite else ""


def placed(rows: Sequence[Mapping[str, Any]], key: str, count: int) -> list[Any] | str:
    """Put scores back in the order of the documents, since servers sort them.

    Args:
        rows: one for each document, with its ``index`` and, under ``key``, its score.
        key: the name of the score.
        count: how many documents were sent.

    Returns:
        The scores, with None for a document that got none; or why they cannot be placed.
    """
    scores: dict[int, Any] = {}
    for row in rows:
        index = row["index"]
        if type(index) is not int or not 0 <= index < count:
            return f"a score for document {index!r} of {count}"
        if index in scores:
            return f"two scores for document {index}"
        scores[index] = row[key]
    return [scores.get(index) for index in range(count)]


def failed(error: BaseException, texts: Sequence[str] = ()) -> Answer:
    """Build the answer of a local reranker that raised: its error, in one short line.

    Args:
        error: what it raised. HTTP libraries put whole URLs into theirs, and so keys.
        texts: the query and the documents: where a message repeats one, it says [text] instead,
            and where it repeats part of one, it is left out.
    """
    keys = [v for name, v in os.environ.items() if any(s in name.upper() for s in _SECRETS)]
    message = str(error)
    for text in sorted(texts, key=len, reverse=True):
        if len(text) >= _TELLING:
            message = message.replace(text, "[text]")
    echoes = texts if len(message) >= _TELLING else ()  # a word or a number is no echo
    reason = f"{type(error).__name__}: {sayable(message, echoes, keys)}"
    return Answer("failed", "", Usage(), reason=reason.removesuffix(": ")[:_REASON_LENGTH])
