"""Read people's answers on documents: one JSON line an answer, in order of time.

    {"at": "2026-03-01T12:00:00+00:00", "person": "ann", "query_id": "q", "doc_id": "d", "grade": 2}

A grade of null is "cannot say". A line with ``"undo": true`` takes back all earlier answers of this
person on that document.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from zelo_ray.errors import InputError
from zelo_ray.formats.files import list_directory, open_for_reading

ANSWERS = "answers.jsonl"

Pair = tuple[str, str]
"""A query's id and a document's."""


@dataclass(frozen=True, slots=True)
class PersonsAnswer:
    """One person's answer on one document, and its time (ISO 8601, UTC)."""

    at: str
    person: str
    query_id: str
    doc_id: str
    grade: float | None = None
    undo: bool = False
    note: str = ""

    @property
    def pair(self) -> Pair:
        """Return the ids of the query and the document that the answer is about."""
        return self.query_id, self.doc_id

    def to_json_line(self) -> bytes:
        """Return the answer as a JSON line, as it is stored, with its line break."""
        row = asdict(self)
        for name in ("undo", "note"):
            if not row[name]:
                del row[name]
        if self.undo:
            del row["grade"]
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


CurrentAnswers = dict[Pair, dict[str, PersonsAnswer]]
"""The current answer, by document and person."""


def current_answers(answers: Iterable[PersonsAnswer]) -> CurrentAnswers:
    """Return the current answers, by document and person: the last one that was not undone."""
    by_pair: CurrentAnswers = {}
    for answer in answers:
        by = by_pair.setdefault(answer.pair, {})
        if answer.undo:
            by.pop(answer.person, None)
        else:
            by[answer.person] = answer
    return {pair: by for pair, by in by_pair.items() if by}


def answers_in(place: str) -> CurrentAnswers:
    """Return the current answers in a directory of label; none if nobody has answered."""
    root = place.rstrip("/")
    if ANSWERS not in (list_directory(root) or ()):
        return {}
    return current_answers(read_answers(f"{root}/{ANSWERS}")[0])


def with_grade(by_person: Mapping[str, PersonsAnswer]) -> list[PersonsAnswer]:
    """Return the answers on one document that have a grade, sorted by person."""
    return [by_person[who] for who in sorted(by_person) if by_person[who].grade is not None]


def _parse_answer(line: bytes) -> PersonsAnswer:
    row: Mapping[str, Any] = orjson.loads(line)
    texts = {name: row[name] for name in ("at", "person", "query_id", "doc_id")}
    undo, note = row.get("undo", False), row.get("note", "")
    grade = None if undo else row["grade"]
    if not all(isinstance(text, str) for text in (*texts.values(), note)):
        raise TypeError("ids and names are texts")
    if isinstance(grade, bool) or not isinstance(grade, int | float | None):
        raise TypeError("a grade is a number or null")
    return PersonsAnswer(
        **texts, grade=None if grade is None else float(grade), undo=undo, note=note
    )
