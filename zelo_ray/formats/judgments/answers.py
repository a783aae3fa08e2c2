"""Read people's answers on documents or pairs: one JSON line an answer, in order of time.

    {"at": "2026-03-01T12:00:00+00:00", "person": "ann", "query_id": "q", "doc_id": "d", "grade": 2}
    {"at": ..., "doc_id_a": "d", "doc_id_b": "e", "preference": -1, "swapped": true}

A grade or preference of null is "cannot say". A line with ``"undo": true`` takes back all earlier
answers of this person on that document or pair.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from zelo_ray.errors import InputError
from zelo_ray.files.run_record import ANSWERS
from zelo_ray.files.storage import list_directory, open_for_reading
from zelo_ray.formats.judgments.label_units import DOCUMENT, PAIR, Ids, LabelUnit


@dataclass(frozen=True, slots=True)
class PersonsAnswer:
    """One person's answer on one document or pair, and its time (ISO 8601, UTC).

    ``value`` is a grade, or a preference: -1, 0 or 1, negative where the first document is better.
    """

    at: str
    person: str
    ids: Ids
    value: float | None = None
    undo: bool = False
    note: str = ""
    swapped: bool = False
    """whether the second document of a pair was shown first"""

    @property
    def unit(self) -> LabelUnit:
        """Return what the answer is about."""
        return PAIR if len(self.ids) == len(PAIR.ids) else DOCUMENT

    def to_json_line(self) -> bytes:
        """Return the answer as a JSON line, as it is stored, with its line break."""
        unit = self.unit
        row: dict[str, Any] = {"at": self.at, "person": self.person}
        row |= dict(zip(unit.ids, self.ids, strict=True))
        row |= {"undo": True} if self.undo else {unit.answer: self.value}
        row |= {"swapped": self.swapped} if unit is PAIR and not self.undo else {}
        row |= {"note": self.note} if self.note else {}
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def read_answers(url: str) -> tuple[list[PersonsAnswer], int]:
    """Read the answers of a file; return them, and their length in bytes.

    A torn last line is left out, and not counted: its writer was never told that it was saved.

    Raises:
        InputError: the file cannot be read, or any other line is not an answer.
    """
    with open_for_reading(url) as file:
        data: bytes = file.read()
    answers, end = list[PersonsAnswer](), 0
    lines = data.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        try:
            answer = _parse_answer(line) if line.strip() else None
        except (ValueError, TypeError, KeyError):
            if number < len(lines):
                raise InputError(f"{url}:{number}: is not a valid answer") from None
            break
        end += len(line)
        answers.extend([answer] if answer else [])
    return answers, end


CurrentAnswers = dict[Ids, dict[str, PersonsAnswer]]
"""The current answer, by document or pair, and person."""


def current_answers(answers: Iterable[PersonsAnswer]) -> CurrentAnswers:
    """Return the current answers, by ids and person: the last one that was not undone."""
    by_ids: CurrentAnswers = {}
    for answer in answers:
        by = by_ids.setdefault(answer.ids, {})
        if answer.undo:
            by.pop(answer.person, None)
        else:
            by[answer.person] = answer
    return {ids: by for ids, by in by_ids.items() if by}


def answers_in(place: str) -> CurrentAnswers:
    """Return the current answers in a directory of label; none if nobody has answered."""
    root = place.rstrip("/")
    if ANSWERS not in (list_directory(root) or ()):
        return {}
    return current_answers(read_answers(f"{root}/{ANSWERS}")[0])


def valid_answers(answers: CurrentAnswers) -> list[PersonsAnswer]:
    """Return the answers that say something, sorted by ids and person."""
    return [answer for ids in sorted(answers) for answer in with_value(answers[ids])]


def with_value(by_person: Mapping[str, PersonsAnswer]) -> list[PersonsAnswer]:
    """Return the answers of one document or pair that say something, sorted by person."""
    return [by_person[who] for who in sorted(by_person) if by_person[who].value is not None]


def _parse_answer(line: bytes) -> PersonsAnswer:
    row: Mapping[str, Any] = orjson.loads(line)
    unit = PAIR if PAIR.ids[1] in row else DOCUMENT
    at, person, *ids = (row[name] for name in ("at", "person", *unit.ids))
    undo, note = row.get("undo", False), row.get("note", "")
    value = None if undo else row[unit.answer]
    if not all(isinstance(text, str) for text in (at, person, *ids, note)):
        raise TypeError("ids and names are texts")
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError("a grade or preference is a number or null")
    swapped = bool(row.get("swapped", False))
    value = None if value is None else float(value)
    return PersonsAnswer(at, person, tuple(ids), value, undo=undo, note=note, swapped=swapped)
