"""Read the judgments of one file, with the place of each row for messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.formats.files import list_directory, read_placed_lines
from zelo_ray.formats.interchange.cells import read_typed_columns
from zelo_ray.formats.interchange.llamahub import is_llamahub, read_examples
from zelo_ray.formats.interchange.truth import probe_truth, read_truth
from zelo_ray.formats.interchange.winner_rows import FORMS, VOTES, WinnerRowForm, votes_of
from zelo_ray.formats.tables import schema_of
from zelo_ray.records import GradedScore

_VALUES = ("grade", "relevance", "score")
_POOLED = frozenset(schema_of(GradedScore).names)
_SWAPPED = {"swapped": pa.bool_()}
_KNOWN = (
    "such tables with a judge in each row",
    "tables of query_id, doc_id_a, doc_id_b and preference",
    "tables of question_id, model_a, model_b and winner",
    "LlamaHub's examples of two answers",
)
"""What is read here beside what `read_truth` reads."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of rows: the column of the answer, and the columns they must and may have."""

    form: WinnerRowForm | None
    value: str
    wanted: Mapping[str, pa.DataType]
    optional: Mapping[str, pa.DataType]

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """Return all columns to read, with their types."""
        return {**self.wanted, **self.optional}

    def refuse_other(self, place: str, row: Mapping[str, Any]) -> None:
        """Refuse a row of another kind than the first, whose answer would be lost."""
        for name in ("judge", "preference", "winner", "winner_id", "turn"):
            if name in row and name not in self.columns:
                raise InputError(f"{place}: has a {name}, which the first line lacks")
        for name in (*_VALUES, "preference", "winner", "winner_id"):
            if name in self.wanted and name not in row:
                raise InputError(f"{place}: has no {name}; a missing answer is null")


@dataclass(frozen=True, slots=True)
class JudgmentsFile:
    """The content of one file: grades (query_id, doc_id, judge, grade as float64) or votes.

    ``place`` tells where a row is; ``own``: the rows name their judges; ``pooled``: they are what
    the judges of a graded run came to together. ``missing`` counts rows whose answer is null.
    """

    table: pa.Table
    place: Callable[[int], str]
    names_judges: bool
    pooled: bool = False
    missing: int = 0
    is_of_turn: bool = False
    """whether its rows are of the turn that was asked for"""

    @property
    def votes(self) -> bool:
        """Return whether the rows are votes, not grades."""
        return "preference" in self.table.column_names

    def filter_rows(self, mask: pa.ChunkedArray) -> "JudgmentsFile":
        """Return some of the rows, with their places."""
        at = np.flatnonzero(mask.to_numpy())
        return replace(self, table=self.table.filter(mask), place=lambda row: self.place(at[row]))


def read_judgments(
    url: str, judge: str, *, renamed: bool = False, turn: int | None = None
) -> JudgmentsFile:
    """Read the grades or votes of a file, or of qrels of any kind.

    Args:
        url: where it is.
        judge: whose judgments they are, where its rows do not tell.
        renamed: they are all the judge's where rows may be renamed, as FastChat's may.
        turn: of FastChat's rows, those of this turn alone.

    Raises:
        InputError: it is of no known kind, or a row has not what it should have.
    """
    columns = probe_truth(url).columns
    if is_llamahub(url):
        return _of_llamahub(url, judge)
    kind = _kind(columns, renamed=renamed)
    if kind is None:
        return read_qrels_as_grades(url, judge)
    table, place = read_typed_columns(url, kind.columns, kind.refuse_other)
    has_judge = "judge" in kind.wanted
    part = _valid(JudgmentsFile(table, place, has_judge), kind)
    if kind.form and kind.form.renamed and turn is not None:
        part = _of_turn(url, part, turn)
    table = part.table if has_judge else assign_judge(part.table, judge)
    if kind.form:
        table = votes_of(kind.form, table, part.place)
    table = table.rename_columns({kind.value: "grade"} if kind.value in _VALUES else {})
    return replace(part, table=table, pooled=not has_judge and columns >= _POOLED)


def assign_judge(table: pa.Table, judge: str) -> pa.Table:
    """Return the judgments with all of them given to one judge."""
    column = pa.array([judge] * len(table), pa.string())
    at = table.schema.get_field_index("judge")
    return table.append_column("judge", column) if at < 0 else table.set_column(at, "judge", column)


def _kind(columns: frozenset[str], *, renamed: bool = False) -> _Kind | None:
    """Return the kind of rows with these columns; None if they are no judgments."""
    form = next((form for form in FORMS if columns >= {*form.columns}), None)
    optional = _SWAPPED
    if form:
        turn = ("turn",) if form.renamed and "turn" in columns else ()
        value, wanted = form.winner, dict.fromkeys((*form.columns, *turn), pa.string())
    elif "preference" in columns:
        value = "preference"
        wanted = dict.fromkeys(("query_id", "doc_id_a", "doc_id_b"), pa.string())
    elif {"query_id", "doc_id"} <= columns and (values := [v for v in _VALUES if v in columns]):
        value, optional = values[0], {}
        wanted = dict.fromkeys(("query_id", "doc_id"), pa.string())
    else:
        return None
    wanted |= {} if form else {value: pa.float64()}
    judge = {"judge": pa.string()} if "judge" in columns else {}
    if form and form.renamed and renamed:
        return _Kind(form, value, wanted, optional | judge)
    return _Kind(form, value, wanted | judge, optional)


def _valid(part: JudgmentsFile, kind: _Kind) -> JudgmentsFile:
    """Return the rows that have an answer; refuse one of these that lacks another field."""
    is_answered = pc.is_valid(part.table[kind.value])
    answers = part.filter_rows(is_answered)
    for column in kind.wanted:
        if answers.table[column].null_count:
            row = int(np.argmax(answers.table[column].is_null().to_numpy()))
            raise InputError(f"{answers.place(row)}: has no {column}")
    return replace(answers, missing=len(is_answered) - len(answers.table))


def _of_llamahub(url: str, judge: str) -> JudgmentsFile:
    judgments = read_examples(url)
    table = pa.Table.from_pylist([judgment.label(judge) for judgment in judgments], VOTES)
    return JudgmentsFile(table, lambda row: judgments[row].place, names_judges=False)


def _of_turn(url: str, part: JudgmentsFile, turn: int) -> JudgmentsFile:
    if "turn" not in part.table.column_names:
        raise InputError(f"{url}: its rows have no turn, of which --turn could be one")
    votes = part.filter_rows(pc.equal(part.table["turn"], str(turn)))
    if not len(votes.table):
        raise InputError(f"{url}: has no row of turn {turn}")
    return replace(votes, is_of_turn=True)


def read_qrels_as_grades(url: str, judge: str) -> JudgmentsFile:
    """Read judgments of any kind that `read_truth` reads, as those of one judge."""
    qrels = read_truth(url, _KNOWN)
    table = pa.table(
        {
            "query_id": qrels["query_id"],
            "doc_id": qrels["doc_id"],
            "judge": pa.array([judge] * len(qrels), pa.string()),
            "grade": qrels["relevance"],
        }
    )

    def place(row: int) -> str:
        pair = {qrels[name][row].as_py().encode() for name in ("query_id", "doc_id")}
        if list_directory(url) is None and not url.endswith(".parquet"):
            for at, line in read_placed_lines(url):
                if pair <= set(line.split()):
                    return at
        return f"{url}: document {qrels['doc_id'][row]} of query {qrels['query_id'][row]}"

    return JudgmentsFile(table, place, names_judges=False)
