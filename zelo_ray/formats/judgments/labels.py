"""Read people's labels: a directory of ``zelo-ray label``, or a file from anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.formats.files import read_record
from zelo_ray.formats.judgments.answers import (
    ANSWERS,
    CurrentAnswers,
    Pair,
    answers_in,
    with_grade,
)
from zelo_ray.formats.judgments.grades import (
    NO_COLUMNS,
    GradeRows,
    open_judgments,
    read_grade_rows,
    unknown_judgments_error,
)
from zelo_ray.formats.probe import SAMPLE_RECORD
from zelo_ray.formats.stored import StoredTable
from zelo_ray.formats.tables import table_of_rows

LABEL_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id", "person")),
        *((name, pa.float64()) for name in ("grade", "probability")),
    ]
)
DOCUMENTS = "documents.parquet"
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
    """the columns of ``FRAME_COLUMNS``, if known: all documents that could be drawn"""
    stages: int = 1
    """how often the sample was drawn or enlarged"""
    cannot_say: int = 0
    """documents on which everyone asked answered "cannot say\""""
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


def read_labels(place: str, columns: Mapping[str, str] = NO_COLUMNS) -> PeoplesLabels:
    """Read labels from a directory of ``label``, a table, or judgments of any known kind.

    A table may name the person of each row, and its inclusion probability; of columns of several
    raters each is a person.

    Raises:
        InputError: it cannot be read, is of no known kind, holds no label, or a row is invalid.
    """
    source = open_judgments(place)
    if source.kind == "labels":
        return _read_sample(place.rstrip("/"))
    rows = read_grade_rows(source, columns, "grades")
    if rows is None:
        raise unknown_judgments_error(source)
    graded = rows.take(np.flatnonzero(_is_graded(rows.table)))
    if not len(graded.table):
        raise InputError(f"{place}: holds no label")
    _check_probabilities(graded)
    _refuse_repeated(graded)
    person = pc.fill_null(graded.table["judge"], "")
    table = graded.table.append_column("person", person).select(LABEL_COLUMNS.names)
    unsure = len({*pairs_in_table(rows.table)}.difference(pairs_in_table(graded.table)))
    return PeoplesLabels(
        table.cast(LABEL_COLUMNS),
        table["probability"].null_count == 0,
        float(np.max(table["grade"].to_numpy())),
        cannot_say=unsure,
        place=place,
    )


def _is_graded(table: pa.Table) -> NDArray[np.bool_]:
    finite: NDArray[np.bool_] = pc.is_finite(pc.fill_null(table["grade"], np.nan)).to_numpy()
    return finite


def _check_probabilities(labels: GradeRows) -> None:
    """Refuse a probability that is none, and one that is missing beside others."""
    column = labels.table["probability"]
    chance = pc.fill_null(column, 1.0).to_numpy()
    if (strange := ~((chance > 0) & (chance <= 1))).any():
        row = int(strange.argmax())
        raise InputError(
            f"{labels.place(row)}: the probability {chance[row]:g} is not above 0 and up to 1"
        )
    if 0 < (blank := column.null_count) < len(column):
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(
            f"{labels.place(row)}: has no probability, like {blank:,} of {len(column):,} labels: "
            "give each one, or leave out the column"
        )


def _refuse_repeated(labels: GradeRows) -> None:
    """Refuse a second label of one document by the same person."""
    first_rows, place = dict[tuple[str, ...], int](), labels.place
    ids = (labels.table[name].to_pylist() for name in ("query_id", "doc_id", "judge"))
    for row, label in enumerate(zip(*ids, strict=True)):
        if (first := first_rows.setdefault(label, row)) != row:
            raise InputError(
                f"{place(row)}: the document of {place(first)} again, by the same person"
            )


def grades_table(said: CurrentAnswers) -> pa.Table:
    """Return all valid grades in the columns of ``LABEL_COLUMNS``, without probabilities."""
    rows = [
        (*pair, answer.person, answer.grade, None)
        for pair, by in sorted(said.items())
        for answer in with_grade(by)
    ]
    return table_of_rows(rows, LABEL_COLUMNS)


def pairs_in_table(table: pa.Table) -> list[Pair]:
    """Return the ids of queries and documents of a table, in its order."""
    return list(zip(table["query_id"].to_pylist(), table["doc_id"].to_pylist(), strict=True))


def _read_sample(place: str) -> PeoplesLabels:
    about = read_record(f"{place}/{SAMPLE_RECORD}")
    columns = (*FRAME_COLUMNS.names, "priority")
    documents = StoredTable(f"{place}/{DOCUMENTS}", FRAME_COLUMNS).read(columns)
    pairs = pairs_in_table(documents)
    answers = answers_in(place)
    if strange := answers.keys() - set(pairs):
        query_id, doc_id = min(strange)
        raise InputError(
            f"{place}/{ANSWERS}: document {doc_id!r} of query {query_id!r} is not among the "
            f"documents of {DOCUMENTS}"
        )
    stages = about.get("stages", ())
    done = next((row for row, pair in enumerate(pairs) if pair not in answers), len(pairs))
    sizes, priorities = (documents[name].to_numpy() for name in ("size", "priority"))
    graded = [with_grade(answers[pair]) for pair in pairs[:done]]
    chances = _inclusion_probabilities(sizes, priorities, done, sum(map(bool, graded)))
    rows = [
        (*pair, answer.person, answer.grade, chance)
        for pair, grades, chance in zip(pairs[:done], graded, chances, strict=True)
        for answer in grades
    ]
    return PeoplesLabels(
        table_of_rows(rows, LABEL_COLUMNS),
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
