"""Read the grades or votes of one place, with the place of each row for messages."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.labels import (
    PAIR,
    PersonsAnswer,
    answers_in,
    check_probabilities,
    read_sample,
    unit_of_sample,
    valid_answers,
)
from zelo_ray.files.run_record import SAMPLE_RECORD, read_record
from zelo_ray.files.tables import table_of_rows
from zelo_ray.files.wording import counted
from zelo_ray.formats.columns import columns_in, has_answer
from zelo_ray.formats.judgments.grades import (
    NO_COLUMNS,
    open_judgments,
    read_grade_rows,
    unknown_judgments_error,
)
from zelo_ray.formats.judgments.votes import VOTES, as_votes, merge_orders, read_vote_rows
from zelo_ray.formats.probe import FileProbe
from zelo_ray.formats.typed_columns import Place

_GRADES = pa.schema(
    [
        *((name, pa.string()) for name in ("query_id", "doc_id", "judge")),
        ("grade", pa.float64()),
    ]
)
_ALSO = (
    "such tables with a judge in each row",
    "tables of two items (doc_id_a and doc_id_b, a and b ...) and preference, winner or wins",
    "a directory of label",
)
"""What is read here beside qrels."""


@dataclass(frozen=True, slots=True)
class JudgmentsFile:
    """The content of one place: grades (query_id, doc_id, judge, grade as float64) or votes.

    ``place`` tells where a row is; ``names_judges``: the rows name their judges; ``pooled``: they
    are the combined grades of a graded run. ``missing`` counts rows whose answer is null.
    """

    table: pa.Table
    place: Place
    names_judges: bool
    pooled: bool = False
    missing: int = 0
    notes: tuple[str, ...] = ()
    """what a reader should know of it"""

    @property
    def votes(self) -> bool:
        """Return whether the rows are votes, not grades."""
        return "preference" in self.table.column_names

    def filter_rows(self, mask: pa.ChunkedArray) -> "JudgmentsFile":
        """Return some of the rows, with their places."""
        at = np.flatnonzero(mask.to_numpy())
        return replace(self, table=self.table.filter(mask), place=lambda row: self.place(at[row]))


def read_judgments(
    place: str,
    judge: str,
    *,
    columns: Mapping[str, str] = NO_COLUMNS,
) -> JudgmentsFile:
    """Read the grades or votes of a place of any known kind.

    Args:
        place: path or URL.
        judge: whose judgments they are, where its rows do not tell.
        columns: by role, the name of a column that is not called as is usual.

    Raises:
        InputError: it is of no known kind, or a row has not what it should have.
    """
    source = open_judgments(place)
    here = columns_in(source.names, columns)
    if source.kind == "labels":
        return _read_sample(place)
    if source.has_rows and has_answer(source.names, here):
        return _read_votes(source, judge, here)
    rows = read_grade_rows(source, columns, "grades")
    if rows is None:
        raise unknown_judgments_error(source, *_ALSO)
    graded = np.flatnonzero(pc.is_valid(rows.table["grade"]).to_numpy(zero_copy_only=False))
    part = rows.take(graded)
    names = ["query_id", "doc_id", "judge", "grade"]
    if part.table["probability"].null_count < len(part.table):
        check_probabilities(part)
        names.append("probability")
    table = part.table.select(names)
    table = table if part.names_judges else assign_judge(table, judge)
    return JudgmentsFile(
        table,
        part.place,
        part.names_judges,
        pooled=part.is_pooled and not part.names_judges,
        missing=len(rows.table) - len(graded),
    )


def assign_judge(table: pa.Table, judge: str) -> pa.Table:
    """Return the judgments with all of them given to one judge."""
    column = pa.array([judge] * len(table), pa.string())
    at = table.schema.get_field_index("judge")
    return table.append_column("judge", column) if at < 0 else table.set_column(at, "judge", column)


def _read_sample(place: str) -> JudgmentsFile:
    """Read the answers that people gave on the page of label, with the chances of being drawn.

    Where all had the same chance, these are all answers, counted in a correction or not, without
    it. Else those out of turn, whose chance is not known, are left out.
    """
    answers, notes = answers_in(place), tuple[str, ...]()
    valid: list[tuple[PersonsAnswer, float | None]] = [(a, None) for a in valid_answers(answers)]
    is_of_pairs = unit_of_sample(read_record(f"{place.rstrip('/')}/{SAMPLE_RECORD}")) is PAIR
    if not valid:
        raise InputError(
            f"{place}: holds no {'preference' if is_of_pairs else 'grade'} of a person"
        )
    sample = read_sample(place.rstrip("/"))
    missing = sum(map(len, answers.values())) - len(valid)
    if not sample.is_even:
        if out_of_turn := len(valid) - len(sample.answers):
            left_out = f"{place}: {counted(out_of_turn, 'answer')} out of turn left out, since the"
            notes = (f"{left_out} chance of each is known once all before it are answered",)
        valid = [*sample.answers]
        if not valid:
            raise InputError(
                f"{place}: all of its answers are out of turn; answer what comes first"
            )
    rows = [(*a.ids, a.person, a.value, *((a.swapped,) if is_of_pairs else ())) for a, _ in valid]
    table = table_of_rows(rows, VOTES if is_of_pairs else _GRADES)
    if not sample.is_even:
        chances = pa.array([chance for _, chance in valid], pa.float64())
        table = table.append_column("probability", chances)
    return JudgmentsFile(
        table,
        lambda row: f"{place}: label {row + 1}",
        names_judges=True,
        missing=missing,
        notes=notes,
    )


def _read_votes(source: FileProbe, judge: str, columns: Mapping[str, str]) -> JudgmentsFile:
    rows = read_vote_rows(source, columns)
    part = JudgmentsFile(as_votes(rows, judge), rows.place, rows.names_judges)
    answers = part.filter_rows(pa.chunked_array([rows.is_answered]))
    if rows.is_of_debates:
        merged = merge_orders(answers.table)
        answers = replace(answers, table=merged)
    missing = int((~rows.is_answered).sum())
    return replace(answers, missing=missing)
