"""Anchors: worked examples that pin the grades, one document for each grade of a query.

Those in this folder were written for the project, one file a domain. A file of the same form may
take their place; of several sets in it, parted by ``---``, one is drawn for each query.
"""

from functools import cache
from importlib.resources import files
from random import Random
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from zelo_ray.errors import OptionError
from zelo_ray.records import CODE_PLACEHOLDER, first_error

GRADES = (0, 1, 2, 3)
_FILES = [each.name for each in files(__package__).iterdir() if each.name.endswith(".yaml")]
DOMAINS = tuple(sorted(name.removesuffix(".yaml") for name in _FILES))
"""Of the examples that come with the project."""
USUAL = "web"

_Text = Annotated[str, Field(min_length=1)]
_CONFIG = ConfigDict(
    frozen=True, strict=True, extra="forbid", str_strip_whitespace=True, defer_build=True
)


class GradedExample(BaseModel):
    """Example document with the reason for its grade; labels by people have no reason."""

    model_config = _CONFIG

    document: _Text
    reason: str


class Anchor(BaseModel):
    """Query with an example of each grade; ``query_id`` if it is one of the input."""

    model_config = _CONFIG

    query_id: str = ""
    query: _Text
    grades: dict[int, GradedExample]

    @field_validator("grades")
    @classmethod
    def _each_grade_once(cls, grades: dict[int, GradedExample]) -> dict[int, GradedExample]:
        if missing := [grade for grade in GRADES if grade not in grades]:
            raise ValueError(f"no example of grade {', '.join(map(str, missing))}")
        if strange := [grade for grade in grades if grade not in GRADES]:
            raise ValueError(f"grade {strange[0]} is none of 0, 1, 2, 3")
        return grades


@cache
def load_anchors(text: str) -> tuple[Anchor, ...]:
    """Load the sets of examples of a domain, or those in a text of the same form."""
    from zelo_ray.options import read_yaml  # noqa: PLC0415 - not for help

    if text in DOMAINS:
        text = files(__package__).joinpath(f"{text}.yaml").read_text(encoding="utf-8")
    try:
        entries = read_yaml(text, "the anchors are")
    except ValueError as error:
        raise OptionError(str(error)) from None
    if not entries:
        raise OptionError("the anchors are empty: give a query, and an example of each grade")
    if isinstance(entries[0], str) and "\n" not in text:  # a name
        raise OptionError(
            f"unknown anchors {entries[0][:60]!r}: no such file, and none of {', '.join(DOMAINS)}"
        )
    sets = list[Anchor]()
    for entry in entries:
        try:
            sets.append(Anchor.model_validate(entry))
        except ValidationError as error:
            where = f"the anchors, set {len(sets) + 1}"
            raise OptionError(f"{where}: {first_error(error)}") from None
    return tuple(sets)


def write_examples(anchor: Anchor, rng: Random) -> str:
    """Write a set for a prompt: its examples in random order, reasons before grades.

    Texts are quoted line by line, so that no example looks like the document to be graded.
    """
    lines = [f"Query of the examples: {_on_one_line(anchor.query)}"]
    for name, grade in zip("ABCD", rng.sample(GRADES, len(GRADES)), strict=True):
        example = anchor.grades[grade]
        document = example.document.replace(CODE_PLACEHOLDER, "")
        lines += ["", f"Example {name}:", *(f"> {line}" for line in document.splitlines())]
        lines += [f"Rationale: {_on_one_line(example.reason)}"] if example.reason else []
        lines += [f"Grade: {grade}"]
    return "\n".join(lines)


def _on_one_line(text: str) -> str:
    return " ".join(text.replace(CODE_PLACEHOLDER, "").split())
