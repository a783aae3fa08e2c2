"""Answers about two documents that are made up, for judges that compute instead of reading prose.

All that such a judge has to say is which way it leans: a number in [-1, 1], negative for the
document that is shown first. The fields of the verdict say what becomes of it:

* ``preference``: the number itself;
* ``winner``: "1" or "2", or "tie" where it is nearer to 0 than 1/8;
* ``confidence``: its distance from 0, as a chance: from 1/2 to 1;
* ``answer_1``, ``answer_2``: the middle of the field's range, less and plus a quarter of the range
  times the number; whole where the field is an integer, else to two decimals.

Fields of text get words, and fields that are models of their own are filled in the same way.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from zelo_ray.records import Prose

_TIE = 0.125


def compares(verdict: type[BaseModel]) -> bool:
    """Whether a verdict says, in any of its fields, which of two documents is better."""
    fields = verdict.model_fields.items()
    return any(
        name in _FIELDS or ((inner := _model(field)) is not None and compares(inner))
        for name, field in fields
    )


def answer(verdict: type[BaseModel], lean: float, words: str) -> str:
    """The text of an answer that leans so, in the form that the verdict has."""
    fields = _filled(verdict, lean, words)
    if not isinstance(verdict, Prose):
        return json.dumps(fields)
    found: Prose = verdict.model_validate(fields)
    return found.write()


def _filled(verdict: type[BaseModel], lean: float, words: str) -> dict[str, Any]:
    filled: dict[str, Any] = {}
    for name, field in verdict.model_fields.items():
        if name in _FIELDS:
            filled[name] = _FIELDS[name](field, lean)
        elif inner := _model(field):
            filled[name] = _filled(inner, lean, words)
        elif field.annotation is str:
            filled[name] = words
    return filled


def _model(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _winner(_: FieldInfo, lean: float) -> str:
    if abs(lean) < _TIE:
        return "tie"
    return "2" if lean > 0 else "1"


def _points(field: FieldInfo, lean: float) -> float:
    """What is given to the document that a judge leans to by so much."""
    low, high = _limit(field, "ge"), _limit(field, "le")
    more = (high - low) / 4 * lean
    if field.annotation is int:
        return (low + high) // 2 + round(more)
    return round((low + high) / 2 + more, 2)


def _limit(field: FieldInfo, end: str) -> float:
    found: float = next(getattr(each, end) for each in field.metadata if hasattr(each, end))
    return found


_FIELDS: Mapping[str, Callable[[FieldInfo, float], Any]] = {
    "preference": lambda _, lean: lean,
    "winner": _winner,
    "confidence": lambda _, lean: (1 + abs(lean)) / 2,
    "answer_1": lambda field, lean: _points(field, -lean),
    "answer_2": _points,
}
