"""A judge that knows the right answer, as documents carry it: ``[[grade=2]]``, ``[[worth=1.37]]``.

With two documents it votes ``tanh(worth of the second - worth of the first)``; a winner
and points follow from that. One it grades with its worth, rounded to 0, 1, 2 or 3. Noise follows
from the model and the prompt. Other verdicts it fills from their schema.

Where there is no schema and one letter is asked for, it says how likely each is. Else it writes
the form that the system text shows: points in tags, or a tuple of sums as the last line, or plain
words.
"""

import math
import random
import re
from typing import Any

from tests.fakes.parts import without_codes

_WORTH = re.compile(r"\[\[(?:grade|worth)=(-?\d+(?:\.\d+)?)\]\]")
_TUPLE = re.compile(r"\(\d+, \d+\)")
_TAGGED = ("relevance", "accuracy", "depth", "clarity", "reasoning")
_SUMMED = 6
"""Criteria of which a tuple holds the sums."""
_VOTE = {"reasoning": {"type": "string"}, "preference": {}}
"""What a prompt asks for that names the preference, where a server takes no schema."""


def judge(
    system: str, user: str, schema: dict[str, Any], model: str, *, noise: float = 0.0
) -> dict[str, Any] | str:
    """The verdict on the first one or two documents of the prompt.

    ``noise`` is the standard deviation of the error on the difference, or on the grade, which is
    another for models of other names.
    """
    worths = [float(worth) for worth in _WORTH.findall(user)[:2]]
    first, second = [*worths, 0.0, 0.0][:2]
    gap = second - first if len(worths) == 2 else 0.0
    if noise:
        error = random.Random(f"0:{model}:{without_codes(user)}").gauss(0.0, noise)
        gap, first = gap + error, first + error
    fields = schema.get("properties") or (_VOTE if '"preference"' in system else {})
    if not fields and "Answer with one letter" in system:
        return _letters(gap)
    if not fields:
        return _prose(system, gap)
    return {
        name: _fill(name, _resolve(field, schema), schema, first, gap)
        for name, field in fields.items()
    }


def _letters(gap: float) -> dict[str, float]:
    """The probability of each letter; the rest is of other words."""
    share = (1 + math.tanh(gap)) / 2
    return {"A": 0.96 * (1 - share), "B": 0.96 * share}


def _prose(system: str, gap: float) -> str:
    first, second = _points(gap)
    if "<answer_1>" in system:
        said = f"<analysis>{_words(gap)}</analysis>\n"
        said += f"<answer_1>{first}</answer_1>\n<answer_2>{second}</answer_2>\n"
        return "\n".join(f"<{name}>\n{said}</{name}>" for name in _TAGGED)
    if _TUPLE.search(system):
        return f"{_words(gap)}\n\n({_SUMMED * first}, {_SUMMED * second})"
    return _words(gap)


def _words(gap: float) -> str:
    word = "neither is better" if gap == 0 else "B is better" if gap > 0 else "A is better"
    return (
        f"A answers part of the query. B was read with the same care. So {word} by {abs(gap):.2f}."
    )


def _points(gap: float) -> tuple[int, int]:
    """1 to 9 points for each answer: in the range of every scale that a prompt may have."""
    split = round(4 * math.tanh(gap))
    return 5 - split, 5 + split


def _winner(gap: float) -> str:
    if abs(gap) < 0.25:
        return "tie"
    return "2" if gap > 0 else "1"


def _resolve(field: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in field:
        return schema["$defs"][field["$ref"].rpartition("/")[2]]
    return field["anyOf"][0] if "anyOf" in field else field


def _fill(
    name: str,
    field: dict[str, Any],
    schema: dict[str, Any],
    worth: float,
    gap: float,
) -> Any:
    if name == "preference":
        return round(math.tanh(gap), 4)
    if name in ("answer_1", "answer_2"):
        return _points(gap)[name == "answer_2"]
    if name == "confidence":
        return round((1 + abs(math.tanh(gap))) / 2, 4)
    if name.startswith("facets_"):
        return ["one of them"]
    if name == "grade":  # also where a provider's schema knows no range
        return min(max(round(worth), 0), 3)
    kind, choices = field.get("type", "string").lower(), field.get("enum") or []
    if choices:
        named = "B" if gap > 0 else "A", _winner(gap)
        return next((name for name in named if name in choices), choices[0])
    if kind in ("integer", "number"):
        value = min(max(worth, field.get("minimum", -math.inf)), field.get("maximum", math.inf))
        return round(value) if kind == "integer" else value
    if kind == "object":
        nested = field.get("properties", {})
        return {
            key: _fill(key, _resolve(inner, schema), schema, worth, gap)
            for key, inner in nested.items()
        }
    if kind == "array" and field.get("items", {}).get("type", "").lower() == "integer":
        return list(_points(gap))
    if kind in ("array", "boolean", "null"):
        return {"array": [], "boolean": (gap or worth - 1.5) > 0, "null": None}[kind]
    return _words(gap)
