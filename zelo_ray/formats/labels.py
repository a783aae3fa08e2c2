"""Read people's labels: a directory of ``zelo-ray label``, or a file from anywhere."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.formats.answers import (
    ANSWERS,
    CurrentAnswers,
    Pair,
    PersonsAnswer,
    current_answers,
    read_answers,
)
from zelo_ray.formats.files import list_directory, read_record
from zelo_ray.formats.interchange.cells import read_typed_columns
from zelo_ray.formats.interchange.truth import probe_truth, read_truth
from zelo_ray.formats.stored import StoredTable

LABEL_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id", "person")),
        *((name, pa.float64()) for name in ("grade", "probability")),
    ]
)
_GRADES = ("grade", "relevance", "score", "label")
SAMPLE_RECORD, DOCUMENTS = "label.json", "documents.parquet"
FRAME_COLUMNS = pa.schema(
    [("query_id", pa.string()), ("doc_id", pa.string()), ("size", pa.float64())]
)


@dataclass(frozen=True, slots=True)
class PeoplesLabels:
    """People's grades, with the inclusion probabilities of their documents.

    ``rows`` has query_id, doc_id, person, grade and probability (float64, of being drawn and
    answered; null where the document was not drawn at random); a row for each person's grade.
    """

    rows: pa.Table
    is_random_sample: bool
    """whether all of the documents were drawn at random"""
    highest_grade: float
    """the highest grade of the scale"""
    frame: pa.Table | None = None
    """the columns of ``FRAME``, if known: all documents that could be drawn"""
    stages: int = 1
    """how often the sample was drawn or enlarged"""
    cannot_say: int = 0
    """documents on which everyone asked answered "cannot say\""""
    ungraded_rows: int = 0
    """rows of a table that have no grade"""
    out_of_turn: int = 0
    """documents answered out of turn, which count only when all before them are answered"""
    measure: str = ""
    """the measure that the documents were drawn for, if known"""
    place: str = ""
    """the path or URL of the labels"""
    truth: str = ""
    """the digest of the judgments that they are to correct, if known"""
    sample_size: int = 0
    """documents in the sample, answered or not; 0 if unknown"""

    @property
    def documents(self) -> int:
        """Count the documents that have a grade."""
        return len({*pairs_in_table(self.rows)})


def read_labels(place: str) -> PeoplesLabels:
    """Read labels from a directory of ``label``, a table, or judgments of any known kind.

    A table is CSV, TSV, JSON lines or Parquet with query_id, doc_id and grade (or relevance, score
    or label), and perhaps person and probability.

    Raises:
        InputError: it cannot be read, is of no known kind, or holds no label.
    """
    if SAMPLE_RECORD in (list_directory(place) or ()):
        return _read_sample(place.rstrip("/"))
    labels = read_label_table(place)
    if labels is None:
        qrels = read_truth(place)
        blank = {"person": pa.array([""] * len(qrels)), "probability": pa.nulls(len(qrels))}
        columns = {"query_id": qrels["query_id"], "doc_id": qrels["doc_id"]}
        grades = {"grade": qrels["relevance"]}
        labels = (
            pa.table({**columns, **grades, **blank})
            .select(LABEL_COLUMNS.names)
            .cast(LABEL_COLUMNS),
            0,
            0,
        )
    rows, unsure, blanks = labels
    if not len(rows):
        raise InputError(f"{place}: holds no label")
    drawn = rows["probability"].null_count == 0
    top = float(np.max(rows["grade"].to_numpy()))
    return PeoplesLabels(rows, drawn, top, cannot_say=unsure, ungraded_rows=blanks, place=place)


def read_label_table(url: str) -> tuple[pa.Table, int, int] | None:
    """Read the labels of a table.

    Returns:
        The columns of ``ROWS``, the number of documents without any grade, and the number of rows
        without one; None if the file is not such a table.

    Raises:
        InputError: it cannot be read, or a row is invalid.
    """
    names = probe_truth(url).columns
    column = next((name for name in _GRADES if name in names), None)
    if column is None or not {"query_id", "doc_id"} <= names or "documents" in names:
        return None
    wanted = {
        column if field.name == "grade" else field.name: field.type for field in LABEL_COLUMNS
    }
    table, place = read_typed_columns(url, wanted)
    table = table.rename_columns(LABEL_COLUMNS.names)
    graded = np.flatnonzero(pc.is_finite(pc.fill_null(table["grade"], np.nan)).to_numpy())
    every, ungraded = _documents(table), len(table) - len(graded)
    table = table.take(pa.array(graded))
    unsure = len(every - _documents(table))
    for name in ("query_id", "doc_id"):
        empty = pc.fill_null(pc.equal(table[name], ""), True).to_numpy()
        if empty.any():
            raise InputError(f"{place(graded[empty.argmax()])}: has no {name}")
    chance = pc.fill_null(table["probability"], 1.0).to_numpy()
    if (strange := ~((chance > 0) & (chance <= 1))).any():
        row = int(strange.argmax())
        where, value = place(graded[row]), chance[row]
        raise InputError(f"{where}: the probability {value:g} is not above 0 and up to 1")
    if 0 < (blank := table["probability"].null_count) < len(table):
        row = int(np.argmax(table["probability"].is_null().to_numpy()))
        raise InputError(
            f"{place(graded[row])}: has no probability, like {blank:,} of {len(table):,} labels: "
            "give each one, or leave out the column"
        )
    person = pc.fill_null(table["person"], "")
    table = table.set_column(table.schema.get_field_index("person"), "person", person)
    _refuse_repeated(table, lambda row: place(graded[row]))
    return table.cast(LABEL_COLUMNS), unsure, ungraded


def _documents(table: pa.Table) -> set[tuple[str, str]]:
    names = (table[name].to_pylist() for name in ("query_id", "doc_id"))
    return {*zip(*names, strict=True)}


def _refuse_repeated(table: pa.Table, place: Callable[[int], str]) -> None:
    """Refuse a second label of one document by the same person."""
    first_rows = dict[tuple[str, ...], int]()
    ids = (table[name].to_pylist() for name in ("query_id", "doc_id", "person"))
    for row, label in enumerate(zip(*ids, strict=True)):
        if (first := first_rows.setdefault(label, row)) != row:
            raise InputError(
                f"{place(row)}: the document of {place(first)} again, by the same person"
            )


def read_grades_by_person(place: str) -> tuple[pa.Table, int] | None:
    """Read all grades by person, whether or not they already count in a correction.

    Returns:
        query_id, doc_id, person and grade, and the number of answers without a grade; None where
        no row names a person.

    Raises:
        InputError: it cannot be read, or contains no grade.
    """
    names = list_directory(place)
    if names is None:
        columns = probe_truth(place).columns
        if not {"query_id", "doc_id", "person"} <= columns or {"judge", "preference"} & columns:
            return None
        labels = read_labels(place)
        rows, blank = labels.rows, labels.ungraded_rows
    elif SAMPLE_RECORD not in names:
        return None
    else:
        answers = current_answers(_answers(place, names))
        rows = grades_table(answers)
        blank = sum(map(len, answers.values())) - len(rows)
    if not len(rows):
        raise InputError(f"{place}: holds no grade of a person")
    return rows.select(["query_id", "doc_id", "person", "grade"]), blank


def grades_table(said: CurrentAnswers) -> pa.Table:
    """Return all valid grades in the columns of ``ROWS``, without probabilities."""
    return _table(
        [
            (*pair, answer.person, answer.grade, None)
            for pair, by in sorted(said.items())
            for answer in _answers_with_grade(by)
        ]
    )


def _table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns: Any = zip(*rows, strict=True) if rows else [()] * len(LABEL_COLUMNS)
    return pa.table(dict(zip(LABEL_COLUMNS.names, columns, strict=True)), schema=LABEL_COLUMNS)


def _answers(place: str, files: Collection[str]) -> list[PersonsAnswer]:
    return read_answers(f"{place.rstrip('/')}/{ANSWERS}")[0] if ANSWERS in files else []


def pairs_in_table(table: pa.Table) -> list[Pair]:
    """Return the ids of queries and documents of a table, in its order."""
    return list(zip(table["query_id"].to_pylist(), table["doc_id"].to_pylist(), strict=True))


def _read_sample(place: str) -> PeoplesLabels:
    about = read_record(f"{place}/{SAMPLE_RECORD}")
    columns = (*FRAME_COLUMNS.names, "priority")
    documents = StoredTable(f"{place}/{DOCUMENTS}", FRAME_COLUMNS).read(columns)
    pairs = pairs_in_table(documents)
    answers = current_answers(_answers(place, list_directory(place) or ()))
    if strange := answers.keys() - set(pairs):
        query_id, doc_id = min(strange)
        raise InputError(
            f"{place}/{ANSWERS}: document {doc_id!r} of query {query_id!r} is not among the "
            f"documents of {DOCUMENTS}"
        )
    stages = about.get("stages", ())
    done = next((row for row, pair in enumerate(pairs) if pair not in answers), len(pairs))
    sizes, priorities = (documents[name].to_numpy() for name in ("size", "priority"))
    graded = [_answers_with_grade(answers[pair]) for pair in pairs[:done]]
    chances = _inclusion_probabilities(sizes, priorities, done, sum(map(bool, graded)))
    rows = [
        (*pair, answer.person, answer.grade, chance)
        for pair, grades, chance in zip(pairs[:done], graded, chances, strict=True)
        for answer in grades
    ]
    return PeoplesLabels(
        _table(rows),
        is_random_sample=True,
        highest_grade=float(about.get("top", 3)),
        frame=documents.select(FRAME_COLUMNS.names),
        stages=len(stages),
        cannot_say=sum(not grades for grades in graded),
        out_of_turn=len(answers) - done,
        measure=str(about.get("measure") or ""),
        truth=str((about.get("truth") or {}).get("digest") or ""),
        place=place,
        sample_size=int(stages[-1]["labels"]) if stages else 0,
    )


def _answers_with_grade(by_person: dict[str, PersonsAnswer]) -> list[PersonsAnswer]:
    """Return the answers that have a grade, sorted by person."""
    return [by_person[who] for who in sorted(by_person) if by_person[who].grade is not None]


def _inclusion_probabilities(
    sizes: NDArray[np.float64], priorities: NDArray[np.float64], done: int, answered: int
) -> list[float]:
    """Return the probabilities of the first documents by priority to be drawn and get a grade.

    A document is in a priority sample if its size over a uniform number from (0, 1] is above the
    priority of the first document outside it (Duffield, Lund and Thorup 2007, J. ACM 54:32).
    "Cannot say" is taken to be independent of the document.
    """
    if not answered:
        return [1.0] * done
    threshold = float(priorities[done]) if done < len(priorities) else 0.0
    drawn = np.minimum(1.0, sizes[:done] / threshold) if threshold else np.ones(done)
    return [float(chance) * answered / done for chance in drawn]
