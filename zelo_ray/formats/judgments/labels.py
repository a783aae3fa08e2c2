"""Read people's labels: a directory of ``zelo-ray label``, or a file from anywhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.files.run_record import ANSWERS, SAMPLE_RECORD, read_record
from zelo_ray.files.tables import StoredTable, table_of_rows
from zelo_ray.formats.judgments.answers import (
    PersonsAnswer,
    answers_in,
    with_value,
)
from zelo_ray.formats.judgments.grades import (
    NO_COLUMNS,
    GradeRows,
    open_judgments,
    read_grade_rows,
    unknown_judgments_error,
)
from zelo_ray.formats.judgments.label_units import DOCUMENT, TOP, UNITS, Ids, LabelUnit

LABEL_COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id", "person")),
        *((name, pa.float64()) for name in ("grade", "probability")),
    ]
)
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
    sample_size: int = 0
    """documents in the sample, answered or not; 0 if unknown"""

    @property
    def documents(self) -> int:
        """Count the documents that have a grade."""
        return len({*ids_in_table(self.rows)})


def read_labels(place: str, columns: Mapping[str, str] = NO_COLUMNS) -> PeoplesLabels:
    """Read labels from a directory of ``label``, a table, or judgments of any known kind.

    A table may name the person of each row, and its inclusion probability.

    Raises:
        InputError: it cannot be read, is of no known kind, holds no label, or a row is invalid.
    """
    source = open_judgments(place)
    if source.kind == "labels":
        return _labels_of_sample(place.rstrip("/"))
    rows = read_grade_rows(source, columns, "grades")
    if rows is None:
        raise unknown_judgments_error(source)
    graded = rows.take(np.flatnonzero(_is_graded(rows.table)))
    if not len(graded.table):
        raise InputError(f"{place}: holds no label")
    check_probabilities(graded)
    _refuse_repeated(graded)
    person = pc.fill_null(graded.table["judge"], "")
    table = graded.table.append_column("person", person).select(LABEL_COLUMNS.names)
    unsure = len({*ids_in_table(rows.table)}.difference(ids_in_table(graded.table)))
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


def check_probabilities(labels: GradeRows) -> None:
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


def ids_in_table(table: pa.Table, unit: LabelUnit = DOCUMENT) -> list[Ids]:
    """Return the ids of the documents or pairs of a table, in its order."""
    return list(zip(*(table[name].to_pylist() for name in unit.ids), strict=True))


def unit_of_sample(about: Mapping[str, Any]) -> LabelUnit:
    """Return what people are asked about in a sample with this record."""
    return UNITS[about.get("unit", DOCUMENT.name)]


@dataclass(frozen=True, slots=True)
class AnsweredSample:
    """A drawn sample, and the answers of people on it, as far as they count.

    Answers count up to the first document or pair, by priority, that nobody has judged.
    """

    about: Mapping[str, Any]
    """the contents of ``label.json``"""
    table: pa.Table
    """all that could be drawn, by priority"""
    answers: list[tuple[PersonsAnswer, float]]
    """answers with a value, with the chance of each to be drawn and answered"""
    cannot_say: int
    """of which everyone asked answered "cannot say\""""
    out_of_turn: int
    """answered out of turn"""

    @property
    def unit(self) -> LabelUnit:
        """Return what people were asked about."""
        return unit_of_sample(self.about)

    @property
    def is_even(self) -> bool:
        """Return whether all had the same chance to be drawn."""
        sizes = self.table["size"].to_numpy()
        return len(np.unique(sizes[sizes > 0])) < 2


def read_sample(place: str) -> AnsweredSample:
    """Read a directory of ``label``.

    Raises:
        InputError: it cannot be read, or holds an answer on something else.
    """
    about = read_record(f"{place}/{SAMPLE_RECORD}")
    unit = unit_of_sample(about)
    schema = pa.schema([*((name, pa.string()) for name in unit.ids), ("size", pa.float64())])
    table = StoredTable(f"{place}/{unit.file}", schema).read((*schema.names, "priority"))
    drawn = ids_in_table(table, unit)
    answers = answers_in(place)
    if strange := answers.keys() - set(drawn):
        raise InputError(
            f"{place}/{ANSWERS}: {unit.name_ids(min(strange))} "
            f"{'is' if unit is DOCUMENT else 'are'} not among the {unit.name}s of {unit.file}"
        )
    done = next((row for row, ids in enumerate(drawn) if ids not in answers), len(drawn))
    sizes, priorities = (table[name].to_numpy() for name in ("size", "priority"))
    valid = [with_value(answers[ids]) for ids in drawn[:done]]
    chances = _inclusion_probabilities(sizes, priorities, done, sum(map(bool, valid)))
    return AnsweredSample(
        about,
        table,
        [(answer, chance) for by, chance in zip(valid, chances, strict=True) for answer in by],
        cannot_say=sum(not by for by in valid),
        out_of_turn=len(answers) - done,
    )


def _labels_of_sample(place: str) -> PeoplesLabels:
    sample = read_sample(place)
    if sample.unit is not DOCUMENT:
        raise InputError(
            f"{place}: people said there which of two documents is better, and graded none; "
            "agree takes such answers by --human"
        )
    about, stages = sample.about, sample.about.get("stages", ())
    rows = [(*each.ids, each.person, each.value, chance) for each, chance in sample.answers]
    return PeoplesLabels(
        table_of_rows(rows, LABEL_COLUMNS),
        is_random_sample=True,
        highest_grade=float(about.get("top", TOP)),
        frame=sample.table.select(FRAME_COLUMNS.names).cast(FRAME_COLUMNS),
        stages=len(stages),
        cannot_say=sample.cannot_say,
        out_of_turn=sample.out_of_turn,
        measure=str(about.get("measure") or ""),
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
