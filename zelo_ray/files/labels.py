"""Read what people said: a directory of ``zelo-ray label``, or their labels in any other file.

A line of ``answers.jsonl`` is an answer on a document or a pair, in order of time; a grade or
preference of null is "cannot say"; ``undo`` takes back all earlier answers of this person on it:

    {"at": "2026-03-01T12:00:00+00:00", "person": "ann", "query_id": "q", "doc_id": "d", "grade": 2}
    {"at": ..., "doc_id_a": "d", "doc_id_b": "e", "preference": -1, "swapped": true}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.judgments import open_judgments, read_numbers, refuse_repeated
from zelo_ray.files.rows import Rows
from zelo_ray.files.run_record import ANSWERS, SAMPLE_RECORD, read_record
from zelo_ray.files.storage import list_directory, open_for_reading
from zelo_ray.files.tables import StoredTable, iter_rows, table_of_rows

Ids = tuple[str, ...]
"""Ids of a query and its document, or of a query and two documents."""
_ID, _SIZE = pa.string(), pa.float64()
LABEL_COLUMNS = pa.schema(
    {"query_id": _ID, "doc_id": _ID, "person": _ID, "grade": _SIZE, "probability": _SIZE}
)
_FRAME_COLUMNS = pa.schema({"query_id": _ID, "doc_id": _ID, "size": _SIZE})


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """An answer that people can give: its key on the page, the stored number, its word in files."""

    key: str
    value: float | None
    word: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class LabelUnit:
    """The kind of thing that one answer is about."""

    name: str
    ids: tuple[str, ...]  # its columns in the file of the sample
    texts: tuple[str, ...]
    answer: str  # the field of an answer's line
    column: str  # the column of a spreadsheet
    choices: tuple[AnswerChoice, ...]  # the answers but for "cannot say"

    @property
    def file(self) -> str:
        """Return the name of the file that holds all that could be drawn, by priority."""
        return f"{self.name}s.parquet"

    @property
    def values(self) -> list[float]:
        """Return the numbers that answers are stored as."""
        return [choice.value for choice in self.choices if choice.value is not None]

    @property
    def words(self) -> str:
        """Return the answers in words, as for a message on a spreadsheet."""
        if self.answer == "grade":
            return f"a grade from {self.choices[0].word} to {self.choices[-1].word}"
        return ", ".join(choice.word for choice in self.choices)

    def name_ids(self, ids: Ids) -> str:
        """Name a document, or a pair, in a message."""
        documents = " and ".join(map(repr, ids[1:]))
        return f"document{'s' if ids[2:] else ''} {documents} of query {ids[0]!r}"


CANNOT_SAY = AnswerChoice("u", None, "u", "Cannot say")
TOP = 3
"""The highest grade."""
_GRADES = tuple(AnswerChoice(str(grade), float(grade), str(grade)) for grade in range(TOP + 1))
_SIDES = (
    AnswerChoice("a", -1.0, "A", "A is better"),
    AnswerChoice("b", 1.0, "B", "B is better"),
    AnswerChoice("t", 0.0, "tie", "Tie"),
)
_IDS, _PAIR_IDS = ("query_id", "doc_id"), ("query_id", "doc_id_a", "doc_id_b")
DOCUMENT = LabelUnit("document", _IDS, ("document",), "grade", "grade", _GRADES)
PAIR = LabelUnit("pair", _PAIR_IDS, ("document_a", "document_b"), "preference", "better", _SIDES)


@dataclass(frozen=True, slots=True)
class PersonsAnswer:
    """One person's answer on one document or pair, and its time (ISO 8601, UTC)."""

    at: str
    person: str
    ids: Ids
    value: float | None = None
    """a grade, or a preference: -1, 0 or 1, negative where the first document is better"""
    undo: bool = False
    note: str = ""
    swapped: bool = False  # whether the second document of a pair was shown first

    def to_json_line(self) -> bytes:
        """Return the answer as a JSON line, as it is stored, with its line break."""
        unit = PAIR if len(self.ids) == len(PAIR.ids) else DOCUMENT
        row: dict[str, Any] = {"at": self.at, "person": self.person}
        row |= dict(zip(unit.ids, self.ids, strict=True))
        row |= {"undo": True} if self.undo else {unit.answer: self.value}
        row |= {"swapped": self.swapped} if unit is PAIR and not self.undo else {}
        row |= {"note": self.note} if self.note else {}
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _parse_answer(line: bytes) -> PersonsAnswer:
    row = orjson.loads(line)
    unit = PAIR if PAIR.ids[1] in row else DOCUMENT
    at, person, *ids = (row[name] for name in ("at", "person", *unit.ids))
    undo, note, swapped = row.get("undo", False), row.get("note", ""), bool(row.get("swapped"))
    value = None if undo else row[unit.answer]
    are_texts = all(isinstance(text, str) for text in (at, person, *ids, note))
    if not are_texts or isinstance(value, bool) or not isinstance(value, int | float | None):
        raise TypeError("ids and names are texts, a grade or preference a number or null")
    value = None if value is None else float(value)
    return PersonsAnswer(at, person, tuple(ids), value, undo=undo, note=note, swapped=swapped)


def read_answers(url: str) -> tuple[list[PersonsAnswer], int]:
    """Read the answers of a file; return them, and their length in bytes.

    A torn last line is left out, and not counted: its writer was never told that it was saved.
    """
    with open_for_reading(url) as file:
        lines = file.read().splitlines(keepends=True)
    answers, end = list[PersonsAnswer](), 0
    for number, line in enumerate(lines, 1):
        try:
            answers += [_parse_answer(line)] if line.strip() else []
        except (ValueError, TypeError, KeyError):
            if number < len(lines):
                raise InputError(f"{url}:{number}: is not a valid answer") from None
            break
        end += len(line)
    return answers, end


CurrentAnswers = dict[Ids, dict[str, PersonsAnswer]]
"""The current answer, by document or pair, and person."""


def current_answers(answers: Iterable[PersonsAnswer]) -> CurrentAnswers:
    """Return the current answers, by ids and person: the last one that was not undone."""
    by_ids: CurrentAnswers = {}
    for answer in answers:
        by_person = by_ids.setdefault(answer.ids, {})
        if answer.undo:
            by_person.pop(answer.person, None)
        else:
            by_person[answer.person] = answer
    return {ids: by_person for ids, by_person in by_ids.items() if by_person}


def answers_in(place: str) -> CurrentAnswers:
    """Return the current answers in a directory of label; none if nobody has answered."""
    root = place.rstrip("/")
    names = list_directory(root) or ()
    return current_answers(read_answers(f"{root}/{ANSWERS}")[0] if ANSWERS in names else ())


def valid_answers(answers: CurrentAnswers) -> list[PersonsAnswer]:
    """Return the answers that say something, sorted by ids and person."""
    return [answer for ids in sorted(answers) for answer in _with_value(answers[ids])]


def _with_value(by_person: Mapping[str, PersonsAnswer]) -> list[PersonsAnswer]:
    return [by_person[who] for who in sorted(by_person) if by_person[who].value is not None]


def ids_in_table(table: pa.Table, unit: LabelUnit = DOCUMENT) -> list[Ids]:
    """Return the ids of the documents or pairs of a table, in its order."""
    return [*iter_rows(table, *unit.ids)]


def unit_of_sample(about: Mapping[str, Any]) -> LabelUnit:
    """Return what people are asked about in a sample with this record."""
    return PAIR if about.get("unit") == PAIR.name else DOCUMENT


@dataclass(frozen=True, slots=True)
class AnsweredSample:
    """A drawn sample, and the answers of people on it.

    They count up to the first document or pair, by priority, that nobody has judged.
    """

    about: Mapping[str, Any]  # the contents of ``label.json``
    table: pa.Table  # all that could be drawn, by priority
    every: CurrentAnswers
    answers: list[tuple[PersonsAnswer, float]]
    """those with a value that count, with the chance of each to be drawn and answered"""
    cannot_say: int  # how many of which everyone asked answered "cannot say"
    out_of_turn: int  # how many were answered out of turn

    @property
    def unit(self) -> LabelUnit:
        """Return what people are asked about."""
        return unit_of_sample(self.about)

    @property
    def is_even(self) -> bool:
        """Return whether all had the same chance to be drawn."""
        sizes = self.table["size"].to_numpy()
        return len(np.unique(sizes[sizes > 0])) < 2


def read_sample(place: str) -> AnsweredSample:
    """Read a directory of ``label``."""
    about, root = read_record(f"{place}/{SAMPLE_RECORD}"), place.rstrip("/")
    unit = unit_of_sample(about)
    schema = pa.schema([*((name, pa.string()) for name in unit.ids), ("size", pa.float64())])
    table = StoredTable(f"{root}/{unit.file}", schema).read((*schema.names, "priority"))
    drawn, answers = ids_in_table(table, unit), answers_in(root)
    if strange := answers.keys() - {*drawn}:
        what = f"an answer on {unit.name_ids(min(strange))}, not among the {unit.name}s"
        raise InputError(f"{root}/{ANSWERS}: {what} of {unit.file}")
    done = next((row for row, ids in enumerate(drawn) if ids not in answers), len(drawn))
    valid = [_with_value(answers[ids]) for ids in drawn[:done]]
    # A document is in a priority sample if its size over a uniform number from (0, 1] is above the
    # priority of the first document outside it (Duffield, Lund and Thorup 2007, J. ACM 54:32).
    # "Cannot say" is taken to be independent of the document.
    priorities, sizes = table["priority"].to_numpy(), table["size"].to_numpy()[:done]
    threshold = float(priorities[done]) if done < len(priorities) else 0.0
    chances = np.minimum(1.0, sizes / threshold) if threshold else np.ones(done)
    answered = sum(map(bool, valid))
    counted_answers = [
        (answer, float(chance) * answered / done)
        for by_person, chance in zip(valid, chances, strict=True)
        for answer in by_person
    ]
    unsure, ahead = done - answered, len(answers) - done
    return AnsweredSample(about, table, answers, counted_answers, unsure, ahead)


@dataclass(frozen=True, slots=True)
class PeoplesLabels:
    """People's grades, with the inclusion probabilities of their documents.

    ``rows`` has query_id, doc_id, person, grade and probability (of being drawn and answered; null
    where the document was not drawn at random); a row for each person's grade.
    """

    rows: pa.Table
    is_random_sample: bool  # whether all of the documents were drawn at random
    highest_grade: float  # the highest grade of the scale
    frame: pa.Table | None = None
    """query_id, doc_id and size, if known, of all documents that could be drawn"""
    stages: int = 1  # how often the sample was drawn or enlarged
    cannot_say: int = 0  # documents on which everyone asked answered "cannot say"
    out_of_turn: int = 0
    """documents answered out of turn, which count only when all before them are answered"""
    sample_size: int = 0  # documents in the sample, answered or not; 0 if unknown

    @property
    def documents(self) -> int:
        """Count the documents that have a grade."""
        return len({*ids_in_table(self.rows)})


def read_labels(place: str, columns: Mapping[str, str] | None = None) -> PeoplesLabels:
    """Read labels from a directory of ``label``, a table, or judgments of any known kind."""
    source = open_judgments(place, columns)
    if source.kind == "labels":
        return _labels_of_sample(place.rstrip("/"))
    rows = read_numbers(source, "grades", "labels")
    verb = "judged by one person" if rows.has("judge") else "judged"
    rows = rows.with_nulls("judge", "probability")
    rows = rows.with_column("person", pc.fill_null(rows["judge"], ""))
    graded = rows.take(~rows.is_null("value"))
    if not len(graded):
        raise InputError(f"{place}: holds no label")
    check_probabilities(graded)
    refuse_repeated(graded, verb, "person")
    table = pa.table({n: graded["value" if n == "grade" else n] for n in LABEL_COLUMNS.names})
    return PeoplesLabels(
        table.cast(LABEL_COLUMNS),
        graded["probability"].null_count == 0,
        float(pc.max(graded["value"]).as_py()),
        cannot_say=len({*ids_in_table(rows.table)}.difference(ids_in_table(graded.table))),
    )


def _labels_of_sample(place: str) -> PeoplesLabels:
    sample = read_sample(place)
    about, stages = sample.about, sample.about.get("stages", ())
    if sample.unit is not DOCUMENT:
        raise InputError(f"{place}: has people's votes, and no grades; agree --human takes them")
    rows = [(*each.ids, each.person, each.value, chance) for each, chance in sample.answers]
    return PeoplesLabels(
        table_of_rows(rows, LABEL_COLUMNS),
        is_random_sample=True,
        highest_grade=float(about.get("top", TOP)),
        frame=sample.table.select(_FRAME_COLUMNS.names).cast(_FRAME_COLUMNS),
        stages=len(stages),
        cannot_say=sample.cannot_say,
        out_of_turn=sample.out_of_turn,
        sample_size=int(stages[-1]["labels"]) if stages else 0,
    )


def check_probabilities(labels: Rows) -> None:
    """Refuse a probability that is none, and one that is missing beside others."""
    chances, blank = labels.floats("probability"), labels["probability"].null_count
    is_odd = (chances <= 0) | (chances > 1)
    labels.refuse(is_odd, "is not above 0 and up to 1", "the probability ", chances)
    if blank < len(labels):
        has = f"has no probability, like {blank:,} of {len(labels):,} labels"
        labels.refuse(np.isnan(chances), f"{has}: give each one, or leave out the column")
