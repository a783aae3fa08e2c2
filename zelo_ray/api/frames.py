"""What callers hold in memory, as Arrow tables and as pools: frames, lists of rows, mappings."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.pools import short
from zelo_ray.records import Pool

_IDS = ("query_id", "doc_id", "doc_id_a", "doc_id_b", "judge")
_POOL_COLUMNS = ("query_id", "query", "doc_id", "content")


def is_frame(value: object) -> bool:
    """Whether it is a table: of pandas, Arrow, polars, or one of ours."""
    return isinstance(value, pa.Table) or hasattr(value, "__arrow_c_stream__")


def table_of(value: Any, what: str, *columns: str) -> pa.Table:
    """A frame, a list of rows, or a mapping of columns as an Arrow table; whole ids become texts.

    Args:
        value: the frame.
        what: what it is called in messages.
        columns: those that it must have.

    Raises:
        InputError: it is none, lacks a column, or has a row without one of its ids.
    """
    try:
        table = _arrow(value)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{what}: is no table ({short(error)})") from None
    _refuse_lacking(what, table.column_names, columns)
    for name in (name for name in _IDS if name in table.column_names):
        column = table[name]
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(f"{what}: row {row + 1} has no {name}")
        if pa.types.is_integer(column.type) or pa.types.is_dictionary(column.type):
            at = table.column_names.index(name)
            table = table.set_column(at, name, column.cast(pa.string()))
    return table


def nested_table(nested: Mapping[str, Mapping[str, float]], value: str) -> pa.Table:
    """Numbers by query and document as a table, whose last column is called ``value``."""
    rows = [(str(q), str(d), float(n)) for q, each in nested.items() for d, n in each.items()]
    columns = zip(*rows, strict=True) if rows else [(), (), ()]
    types = (pa.string(), pa.string(), pa.float64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(dict(zip(("query_id", "doc_id", value), arrays, strict=True)))


def is_nested(value: object) -> bool:
    """Whether it is a mapping of queries to mappings of documents to numbers."""
    return isinstance(value, Mapping) and all(isinstance(v, Mapping) for v in value.values())


def pool_lines(pools: Any) -> bytes:
    """Pools in memory as JSON lines: a frame, a list of dicts or of `Pool`, or one of them.

    Raises:
        InputError: it is none of these, a column is missing, or something is no JSON.
    """
    if is_frame(pools):
        pools = list(_grouped(pools))
    elif isinstance(pools, Mapping | Pool):
        pools = [pools]
    return b"".join(_line(number, pool) for number, pool in enumerate(pools, 1))


def _arrow(value: Any) -> pa.Table:
    if isinstance(value, pa.Table):
        return value
    if hasattr(value, "reset_index"):  # pandas, whose index is no column
        return pa.Table.from_pandas(value, preserve_index=False)
    if isinstance(value, Sequence):
        return pa.Table.from_pylist([dict(row) for row in value])
    return pa.table(value)


def _refuse_lacking(what: str, there: Iterable[str], wanted: Iterable[str]) -> None:
    names = list(there)
    if lacking := [name for name in wanted if name not in names]:
        raise InputError(
            f"{what}: has no column {lacking[0]!r}; it has {', '.join(names) or 'none'}"
        )


def _line(number: int, pool: object) -> bytes:
    if isinstance(pool, Pool):
        pool = _as_line(pool)
    if not isinstance(pool, Mapping):
        raise InputError(
            f"inputs: item {number} is of type {type(pool).__name__}: write paths, or dicts of "
            "query and documents"
        )
    try:
        text = json.dumps(pool, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError) as error:
        raise InputError(f"inputs: item {number} is no JSON: {error}") from None
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _plain(value: Any) -> Any:
    """A number or an array of numpy's as Python has it."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no type of JSON")


def _as_line(pool: Pool) -> dict[str, Any]:
    session = {"session_id": pool.session_id} if pool.session_id else {}
    documents = [
        {"id": each.id, "content": each.content}
        | ({"metadata": dict(each.metadata)} if each.metadata else {})
        for each in pool.documents
    ]
    return {"query": {"id": pool.query_id, "query": pool.query} | session, "documents": documents}


def _grouped(frame: Any) -> Iterator[dict[str, Any]]:
    """Pools from rows of one document each, in the order in which queries first appear."""
    columns = _columns(frame)
    _refuse_lacking("inputs", columns, _POOL_COLUMNS)
    names = [n for n in (*_POOL_COLUMNS, "score", "metadata", "session_id") if n in columns]
    pools: dict[str, dict[str, Any]] = {}
    for number, values in enumerate(zip(*(columns[n] for n in names), strict=True), 1):
        row = {name: v for name, v in zip(names, values, strict=True) if v is not None}
        query_id, doc_id = _id(row, "query_id", number), _id(row, "doc_id", number)
        query: dict[str, Any] = {"id": query_id, "query": row.get("query")}
        if "session_id" in row:
            query["session_id"] = row["session_id"]
        pool = pools.setdefault(query_id, {"query": query, "documents": []})
        if pool["query"] != query:
            raise InputError(f"inputs: row {number}: query {query_id!r} has another text before")
        document: dict[str, Any] = {"id": doc_id, "content": row.get("content")}
        document.update({name: row[name] for name in ("metadata", "score") if name in row})
        pool["documents"].append(document)
    yield from pools.values()


def _columns(frame: Any) -> dict[str, list[Any]]:
    """The columns as plain values; None for what is missing."""
    if hasattr(frame, "reset_index"):
        return {str(n): _values(frame[n]) for n in frame.columns}
    table = _arrow(frame)
    return {
        name: [_without_nulls(v) for v in table[name].to_pylist()] for name in table.column_names
    }


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return values


def _without_nulls(value: Any) -> Any:
    """Metadata without the fields that only other rows have, and no NaN."""
    if isinstance(value, dict):
        return {name: each for name, each in value.items() if each is not None}
    return None if isinstance(value, float) and value != value else value  # noqa: PLR0124 - NaN


def _id(row: Mapping[str, Any], name: str, number: int) -> str:
    value = row.get(name)
    if value is None:
        raise InputError(f"inputs: row {number} has no {name}")
    if isinstance(value, bool) or not isinstance(value, str | int):
        kind = type(value).__name__
        raise InputError(f"inputs: row {number}: {name} is a {kind}; write text or whole numbers")
    return str(value)
