"""Define what files for and from labelling tools have in common: choices, answers, JSON."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zelo_ray.commands.label.desk import SampleItem
from zelo_ray.commands.label.spreadsheet import Row
from zelo_ray.errors import InputError, format_error
from zelo_ray.formats.files import open_for_reading
from zelo_ray.formats.judgments.label_units import PAIR, AnswerChoice, LabelUnit

ANSWER, NOTE = "answer", "note"
"""What the two questions to a person are called in all files."""
Exported = Mapping[str, Any]
"""An object of an export: a task, an annotation or a record."""


@dataclass(frozen=True, slots=True)
class LabelTool:
    """A labelling tool for which files are written, and whose exports are read."""

    title: str
    write: Callable[[str, Sequence[SampleItem], LabelUnit, Sequence[AnswerChoice], str], str]
    """writes items to a URL, with choices and a text on what they mean; returns what to do"""
    recognise: Callable[[Exported], bool]
    """returns whether an object is of an export of the tool"""
    read: Callable[[str, Sequence[Exported], str, Sequence[AnswerChoice]], list[Row]]
    """reads answers from the objects of a URL, whose person is this one where none is named"""


@dataclass(frozen=True, slots=True)
class TimedRow:
    """An answer of an export and its time (ISO 8601, or "" if unknown)."""

    at: str
    row: Row


def title_texts(unit: LabelUnit) -> dict[str, str]:
    """Return the titles of the texts that people see, in order, by what files call them."""
    titles = ("A", "B") if unit is PAIR else ("Document",)
    return {"query": "Query", **dict(zip(unit.texts, titles, strict=True))}


def fill_texts(item: SampleItem, unit: LabelUnit) -> dict[str, str]:
    """Return the texts of an item as they are shown, by what files call them."""
    return dict(zip(title_texts(unit), (item.query, *item.texts), strict=True))


def find_choice(place: str, word: str, choices: Sequence[AnswerChoice]) -> AnswerChoice:
    """Find the choice that a word of an export stands for, by its own word or what people read.

    Raises:
        InputError: there is none.
    """
    for choice in choices:
        if word in (choice.word, choice.words):
            return choice
    words = ", ".join(choice.word for choice in choices)
    raise InputError(f"{place}: {word!r} is none of the choices ({words})")


def name_person(place: str, annotator: object, person: str) -> str:
    """Return who answered: as the export tells it, else the person that the command names.

    Args:
        place: of the answer.
        annotator: as the export has it: an id, or an object with an email or an id.
        person: named by the command, or "".

    Raises:
        InputError: nobody is named.
    """
    if isinstance(annotator, Mapping):
        annotator = annotator.get("email") or annotator.get("id")
    name = (
        "" if annotator is None or isinstance(annotator, bool) else " ".join(str(annotator).split())
    )
    if name in ("", "None") and not person:
        raise InputError(f"{place}: nobody is named; give --person")
    return person if name in ("", "None") else name


def join_texts(value: object) -> str:
    """Return the texts of a note, however an export packs them, as one."""
    if isinstance(value, Mapping):
        value = value.get("text")
    if isinstance(value, str):
        return value.strip()
    parts = map(join_texts, value) if isinstance(value, list) else ()
    return " ".join(filter(None, parts))


def keep_latest(rows: Iterable[TimedRow]) -> list[Row]:
    """Return the last answer of each person on each document, in order of time."""
    latest: dict[tuple[str, str], Row] = {}
    for answer in sorted(rows, key=lambda answer: answer.at):
        who = (answer.row.person, answer.row.key)
        latest.pop(who, None)
        latest[who] = answer.row
    return [*latest.values()]


def read_objects(url: str) -> list[dict[str, Any]] | None:
    """Read the objects of a JSON list or of JSON lines; None if the file is neither.

    Raises:
        InputError: it cannot be read, is broken, or holds something else than objects.
    """
    with open_for_reading(url) as file:
        text = file.read().decode("utf-8-sig", "replace")
    if not text.lstrip().startswith(("[", "{")):
        return None
    try:
        objects = _load(text)
    except ValueError as error:
        raise InputError(f"{url}: is not valid JSON ({format_error(error)})") from None
    if not all(isinstance(row, dict) for row in objects):
        raise InputError(f"{url}: is not a list of JSON objects")
    return objects


def _load(text: str) -> list[Any]:
    try:
        content = json.loads(text)
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]
        if len(lines) < 2 or not lines[1].lstrip().startswith("{"):
            raise
        return [json.loads(line) for line in lines]
    return content if isinstance(content, list) else [content]
