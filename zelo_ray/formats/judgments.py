"""The judgments of one file, with the place of each row for messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.formats.files import lines, listing, parquet, reading, rows
from zelo_ray.formats.pools import InputError, short
from zelo_ray.formats.tables import schema_of
from zelo_ray.formats.truth import look, read_truth
from zelo_ray.formats.winners import FORMS, Form, votes_of
from zelo_ray.records import GradedScore

_VALUES = ("grade", "relevance", "score")
_POOLED = frozenset(schema_of(GradedScore).names)
_Kinds = Mapping[str, pa.DataType]
_PAIR = dict.fromkeys(("query_id", "doc_id_a", "doc_id_b"), pa.string())
_SWAPPED = {"swapped": pa.bool_()}


@dataclass(frozen=True, slots=True)
class Part:
    """What one file holds: grades (query_id, doc_id, judge, grade as float64) or votes.

    ``place`` tells where a row is; ``own``: the rows name their judges; ``pooled``: they are what
    the judges of a graded run came to together. ``missing`` counts rows whose answer is null.
    """

    table: pa.Table
    place: Callable[[int], str]
    own: bool
    pooled: bool = False
    missing: int = 0

    @property
    def votes(self) -> bool:
        """Whether they are votes."""
        return "preference" in self.table.column_names

    def only(self, kept: pa.ChunkedArray) -> "Part":
        """Some rows, which keep their places."""
        at = np.flatnonzero(kept.to_numpy())
        return replace(self, table=self.table.filter(kept), place=lambda row: self.place(at[row]))


def read_judgments(url: str, judge: str, *, renamed: bool = False, turn: int | None = None) -> Part:
    """The grades or votes of a file, or of qrels of any kind.

    Args:
        url: where it is.
        judge: whose judgments they are, where its rows do not tell.
        renamed: they are all the judge's where rows may be renamed, as FastChat's may.
        turn: of FastChat's rows, those of this turn alone.

    Raises:
        InputError: it is of no known kind, or a row has not what it should have.
    """
    columns = look(url).columns
    form = _form(columns)
    if form:
        value, kinds, optional = form.winner, dict.fromkeys(form.columns, pa.string()), {**_SWAPPED}
        kinds |= {"turn": pa.string()} if form.renamed and "turn" in columns else {}
    elif "preference" in columns:
        value, kinds, optional = "preference", {**_PAIR, "preference": pa.float64()}, {**_SWAPPED}
    elif {"query_id", "doc_id"} <= columns and (values := [v for v in _VALUES if v in columns]):
        value, optional = values[0], {}
        kinds = {**dict.fromkeys(("query_id", "doc_id"), pa.string()), value: pa.float64()}
    else:
        return of_qrels(url, judge)
    own = "judge" in columns and not (form and form.renamed and renamed)
    kinds |= {"judge": pa.string()} if own else {}
    optional |= {"judge": pa.string()} if form and not own else {}
    table, place = (_parquet if url.endswith(".parquet") else _json)(url, kinds, optional)
    part = _valid(Part(table, place, own), value, kinds)
    if form and form.renamed and turn is not None:
        part = _of_turn(url, part, turn)
    table = part.table
    if not own:
        table = table.drop_columns("judge") if "judge" in table.column_names else table
        table = table.append_column("judge", pa.array([judge] * len(table), pa.string()))
    if form:
        table = votes_of(form, table, part.place)
    table = table.rename_columns({value: "grade"} if value in _VALUES else {})
    return replace(part, table=table, pooled=not own and columns >= _POOLED)


def holds_votes(url: str) -> bool:
    """Whether a file holds votes on pairs, rather than grades."""
    columns = look(url).columns
    return "preference" in columns or _form(columns) is not None


def _form(columns: frozenset[str]) -> Form | None:
    return next((form for form in FORMS if columns >= {*form.columns}), None)


def _valid(part: Part, value: str, wanted: _Kinds) -> Part:
    """The rows that have an answer, if they have all else, too."""
    known = pc.is_valid(part.table[value])
    kept = part.only(known)
    for column in wanted:
        if kept.table[column].null_count:
            row = int(np.argmax(kept.table[column].is_null().to_numpy()))
            raise InputError(f"{kept.place(row)}: has no {column}")
    return replace(kept, missing=len(known) - len(kept.table))


def _of_turn(url: str, part: Part, turn: int) -> Part:
    if "turn" not in part.table.column_names:
        raise InputError(f"{url}: its rows have no turn, of which --turn could be one")
    kept = part.only(pc.equal(part.table["turn"], str(turn)))
    if not len(kept.table):
        raise InputError(f"{url}: has no row of turn {turn}")
    return kept


def _parquet(url: str, wanted: _Kinds, optional: _Kinds) -> tuple[pa.Table, Callable[[int], str]]:
    with reading(url) as file:
        source = parquet(url, file)
        names = set(source.schema_arrow.names)
        table = source.read([name for name in (*wanted, *optional) if name in names])
    columns = {}
    for name, kind in {**wanted, **optional}.items():
        try:
            columns[name] = table[name].cast(kind) if name in names else pa.nulls(len(table), kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"{url}: the column {name}: {short(error)}") from None
    return pa.table(columns), lambda row: f"{url}: row {row + 1}"


def _json(url: str, wanted: _Kinds, optional: _Kinds) -> tuple[pa.Table, Callable[[int], str]]:
    places = []
    columns: dict[str, list[Any]] = {name: [] for name in (*wanted, *optional)}
    for place, row in rows(url):
        _refuse_other_kind(place, row, {**wanted, **optional})
        places.append(place)
        for name, kind in {**wanted, **optional}.items():
            columns[name].append(_cell(place, name, row.get(name), kind))
    schema = pa.schema([*wanted.items(), *optional.items()])
    return pa.table(columns, schema=schema), places.__getitem__


def _refuse_other_kind(place: str, row: Mapping[str, Any], wanted: _Kinds) -> None:
    """The first line says what all lines are: one of another kind would vanish."""
    for name in ("judge", "preference", "winner", "winner_id", "turn"):
        if name in row and name not in wanted:
            raise InputError(f"{place}: has a {name}, which the first line has not")
    for name in (*_VALUES, "preference", "winner", "winner_id"):
        if name in wanted and name not in row:
            raise InputError(f"{place}: has no {name}; a missing answer is null")


def _cell(place: str, name: str, value: object, kind: pa.DataType) -> object:
    """A value of a JSON line, if it is of the kind that its column wants."""
    if value is None:
        return None
    if kind == pa.string():
        if isinstance(value, str | int) and not isinstance(value, bool):
            return str(value)
    elif kind == pa.bool_():
        if isinstance(value, bool):
            return value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise InputError(f"{place}: {name} cannot be {value!r}")


def of_qrels(url: str, judge: str) -> Part:
    """Judgments of any kind that `read_truth` reads, as those of one judge."""
    qrels = read_truth(url)
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
        if listing(url) is None and not url.endswith(".parquet"):
            for at, line in lines(url):
                if pair <= set(line.split()):
                    return at
        return f"{url}: document {qrels['doc_id'][row]} of query {qrels['query_id'][row]}"

    return Part(table, place, own=False)
