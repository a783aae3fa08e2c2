"""Explain the grades to people."""

import re
from dataclasses import replace

from zelo_ray.files.labels import (
    CANNOT_SAY,
    DOCUMENT,
    TOP,
    AnswerChoice,
    LabelUnit,
)
from zelo_ray.protocols.grading import GRADES

RUBRIC = """\
Does this text answer the query? Judge the text alone, and by what it says, not by how well.

{}

"Cannot say" is for texts that you cannot judge: another language, broken, beyond what you know.
""".format("\n".join(reversed(GRADES)))
PAIR_RUBRIC = """\
Which of the two texts answers the query better? Judge them by what they say, not by their style,
their length or their order.

"Tie" is for texts that answer it equally well, or both not at all. "Cannot say" is for texts that
you cannot judge: another language, broken, beyond what you know.
"""
_BLANK = r"[^\S\n]*"
_NAMED = re.compile(
    rf"^[^\w\n]*(\d){_BLANK}[:.,=)-]?{_BLANK}([^:.,;(\n]+)",
    re.MULTILINE,
)
_LONGEST = 24  # characters that fit on a button on a phone


def text_for_people(rubric: str, instructions: str | None) -> str:
    """Return the text that people read: what counts as relevant, and what the grades mean."""
    if not instructions:
        return rubric
    return f"What counts as relevant, before all else:\n\n{instructions}\n\n{rubric}"


def name_choices(unit: LabelUnit, rubric: str) -> list[AnswerChoice]:
    """Return the answers on a document or pair, grades with their names, and "cannot say"."""
    choices = unit.choices
    if unit is DOCUMENT:
        names = grade_names(rubric, TOP)
        choices = tuple(
            replace(choice, name=name) for choice, name in zip(choices, names, strict=True)
        )
    return [*choices, CANNOT_SAY]


def grade_names(rubric: str, top: int) -> list[str]:
    """Return a short name of each grade, from the rubric's line that begins with it, or ""."""
    by_grade = {int(digit): " ".join(words.split()) for digit, words in _NAMED.findall(rubric)}
    names = [by_grade.get(grade, "") for grade in range(top + 1)]
    return [name if len(name) <= _LONGEST else "" for name in names]
