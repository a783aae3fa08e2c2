"""The judgments of one file, with the place of each row for messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.formats.files import lines, listing, parquet, reading, rows
from zelo_ray.formats.pools import InputError, short
from zelo_ray.formats.tables import schema_of
from zelo_ray.formats.truth import look, read_truth
from zelo_ray.records import GradedScore

_VALUES = ("grade", "relevance", "score")
_POOLED = frozenset(schema_of(GradedScore).names)
_Kinds = Mapping[str, pa.DataType]


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


def read_judgments(url: str, judge: str) -> Part:
    """The grades or votes of a file, or of qrels of any kind.

    Args:
        url: where it is.
        judge: whose judgments they are, where its rows do not tell.

    Raises:
        InputError: it is of no known kind, or a row has not what it should have.
    """
    columns = look(url).columns
    wanted = {"query_id": pa.string()}
    if "preference" in columns:
        wanted |= {"doc_id_a": pa.string(), "doc_id_b": pa.string(), "preference": pa.float64()}
        value, optional = "preference", {"swapped": pa.bool_()}
    elif {"query_id", "doc_id"} <= columns and (values := [v for v in _VALUES if v in columns]):
        value, optional = values[0], {}
        wanted |= {"doc_id": pa.string(), value: pa.float64()}
    else:
        return of_qrels(url, judge)
    own = "judge" in columns
    wanted |= {"judge": pa.string()} if own else {}
    table, place = (_parquet if url.endswith(".parquet") else _json)(url, wanted, optional)
    known = pc.is_valid(table[value])
    at = np.flatnonzero(known.to_numpy())
    table = table.filter(known)
    for column in wanted:
        if table[column].null_count:
            row = int(np.argmax(table[column].is_null().to_numpy()))
            raise InputError(f"{place(at[row])}: has no {column}")
    if not own:
        table = table.append_column("judge", pa.array([judge] * len(table), pa.string()))
    table = table.rename_columns({value: "grade"} if value in _VALUES else {})
    pooled, missing = not own and columns >= _POOLED, len(known) - len(at)
    return Part(table, lambda row: place(at[row]), own, pooled, missing)


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
        _refuse_other_kind(place, row, wanted)
        places.append(place)
        for name, kind in {**wanted, **optional}.items():
            columns[name].append(_cell(place, name, row.get(name), kind))
    schema = pa.schema([*wanted.items(), *optional.items()])
    return pa.table(columns, schema=schema), places.__getitem__


def _refuse_other_kind(place: str, row: Mapping[str, Any], wanted: _Kinds) -> None:
    """The first line says what all lines are: one of another kind would vanish."""
    for name in ("judge", "preference"):
        if name in row and name not in wanted:
            raise InputError(f"{place}: has a {name}, which the first line has not")
    for name in (*_VALUES, "preference"):
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
