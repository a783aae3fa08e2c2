"""Convert frames, lists of rows and mappings in memory to Arrow tables and pools."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError, format_error
from zelo_ray.files.make_pools import ShownFields
from zelo_ray.files.tables import table_of_rows
from zelo_ray.formats.columns import (
    IN_MEMORY,
    OF_QUERY,
    column_hint,
    find_columns,
    find_list_column,
    refuse_missing,
)
from zelo_ray.formats.input import long, wide
from zelo_ray.formats.input.collection import pools_as_lines
from zelo_ray.formats.input.long import note_single_documents
from zelo_ray.formats.input.row_places import RowPlaces
from zelo_ray.formats.interchange.iterables import pools_of
from zelo_ray.formats.interchange.texts import pool_row
from zelo_ray.formats.lossy_ids import refuse_lossy_id, refuse_lossy_ids
from zelo_ray.formats.own_query import drop_own_queries
from zelo_ray.formats.probe import is_wide
from zelo_ray.records import Pool

_IDS = ("query_id", "doc_id", "doc_id_a", "doc_id_b", "judge")
_ROWS = 2**14


def is_frame(value: object) -> bool:
    """Return whether a value is a table of pandas, Arrow, polars or this package."""
    return isinstance(value, pa.Table) or hasattr(value, "__arrow_c_stream__")


def frame_to_table(value: Any, what: str, *columns: str) -> pa.Table:
    """Convert a frame, a list of rows or a mapping of columns to Arrow, with integer ids as text.

    Args:
        value: the frame.
        what: its name in messages.
        columns: that it must have.

    Raises:
        InputError: it is not a table, lacks a column, or has a row without an id.
    """
    try:
        table = _arrow(value)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{what}: is not a table ({format_error(error)})") from None
    refuse_missing(what, table.column_names, columns)
    for name in (name for name in _IDS if name in table.column_names):
        column = table[name]
        refuse_lossy_ids(column, name, lambda row: f"{what}: row {row + 1}")
        if column.null_count:
            row = column.is_null().to_pylist().index(True)
            raise InputError(f"{what}: row {row + 1} has no {name}")
        if pa.types.is_integer(column.type) or pa.types.is_dictionary(column.type):
            at = table.column_names.index(name)
            table = table.set_column(at, name, column.cast(pa.string()))
    return table


def nested_table(nested: Mapping[str, Mapping[str, float]], value: str) -> pa.Table:
    """Convert numbers by query and document to a table, whose last column is called ``value``."""
    for query_id, documents in nested.items():
        for id_ in (query_id, *documents):
            refuse_lossy_id(f"query {query_id}", "the id", id_)
    rows = [(str(q), str(d), float(n)) for q, numbers in nested.items() for d, n in numbers.items()]
    columns = [("query_id", pa.string()), ("doc_id", pa.string()), (value, pa.float64())]
    return table_of_rows(rows, pa.schema(columns))


def is_nested(value: object) -> bool:
    """Return whether a value maps queries to mappings from documents to numbers."""
    return isinstance(value, Mapping) and all(isinstance(v, Mapping) for v in value.values())


def pool_lines(pools: Any) -> bytes:
    """Convert pools in memory to JSON lines; see `convert_pools`."""
    return convert_pools(pools, {})[0]


def convert_pools(
    given: Any,
    columns: Mapping[str, str],
    show: Sequence[str] = (),
    show_metadata: Sequence[str] = (),
) -> tuple[bytes, list[str]]:
    """Convert pools in memory to JSON lines; return them, and notes on what was left out.

    Args:
        given: rows of a document or a query each, as a frame or a list of dicts; pools, as a list
            of dicts or of `Pool`, or a single one; or a data set with ``docs_iter`` and the like.
        columns: by role, columns with other names.
        show: fields of queries that judges are shown.
        show_metadata: fields of documents that judges are shown.

    Raises:
        InputError: it is none of these, a column is missing, or a value has no form in JSON.
        OptionError: no row has a field that is to be shown.
    """
    omissions, given, names = ConversionNotes(), _with_index(given), list[str]()
    if is_dataset(given):
        pools: Iterable[Any] = note_single_documents(
            pools_as_lines(pools_of(given), omissions), omissions
        )
    elif is_frame(given):
        names = _names(given)
        rows = _of_rows(_rows(given), names, columns, omissions, (show, show_metadata))
        pools = note_single_documents(drop_own_queries(rows, omissions.made_up), omissions)
    else:
        pools = [given] if isinstance(given, Mapping | Pool) else given
        first = next(iter(pools), None)
        if isinstance(first, Mapping) and _is_row(first, columns):
            names = list(dict.fromkeys(name for row in pools for name in row))
            places = ((f"inputs: item {n}", row) for n, row in enumerate(pools, 1))
            rows = _of_rows(places, names, columns, omissions, (show, show_metadata))
            pools = note_single_documents(drop_own_queries(rows, omissions.made_up), omissions)
        elif isinstance(first, Mapping) and {"query", "documents"}.isdisjoint(first):
            role = "query" if "query_id" not in find_columns(IN_MEMORY, [*first], {}) else "content"
            raise _missing_column_error(role, [*first])
    if names:
        pools = ShownFields(show).count_passing(pools, IN_MEMORY, names)
    data = b"".join(_line(number, pool) for number, pool in enumerate(pools, 1))
    return data, omissions.to_lines()


def is_dataset(value: object) -> bool:
    """Return whether a value is a data set with the iterators of ``ir_datasets``."""
    return hasattr(value, "docs_iter") and hasattr(value, "queries_iter")


def _arrow(value: Any) -> pa.Table:
    if isinstance(value, pa.Table):
        return value
    if hasattr(value, "reset_index"):  # pandas, whose index is not a column
        return pa.Table.from_pandas(value, preserve_index=False)
    if isinstance(value, Sequence):
        return pa.Table.from_pylist([dict(row) for row in value])
    return pa.table(value)


def _line(number: int, pool: object) -> bytes:
    if isinstance(pool, Pool):
        pool = pool_row(pool)
    if not isinstance(pool, Mapping):
        raise InputError(
            f"inputs: item {number} is of type {type(pool).__name__}: write paths, or dicts of "
            "query and documents"
        )
    try:
        return pool_to_line(pool)
    except (TypeError, ValueError) as error:
        raise InputError(f"inputs: item {number} cannot be written as JSON: {error}") from None


def _is_row(first: Mapping[str, Any], columns: Mapping[str, str]) -> bool:
    """Return whether a dict is a row of a table rather than a pool."""
    if isinstance(first.get("query"), Mapping):
        return False
    return is_wide(first, find_list_column([*first], columns)) or _is_long(
        find_columns("inputs", [*first], columns)
    )


def _is_long(roles: Mapping[str, str]) -> bool:
    return "content" in roles and not {"query", "query_id"}.isdisjoint(roles)


def _of_rows(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    names: Sequence[str],
    frame: Mapping[str, str],
    notes: ConversionNotes,
    shown: tuple[Sequence[str], Sequence[str]],
) -> Iterator[dict[str, Any]]:
    """Yield pools from rows, each of one document or of one query.

    ``shown`` are the fields of queries, and of documents, that judges are shown.
    """
    listed, rows = find_list_column(names, frame), iter(rows)
    first = next(rows, None)
    every = chain([first] if first else [], rows)
    if first and listed and is_wide(first[1], listed):
        query_columns = [name for name in names if name != listed]
        roles = {role: name for role, name in frame.items() if role != "documents"}
        return wide.make_wide_pools(
            every,
            listed,
            find_columns("inputs", query_columns, roles, OF_QUERY),
            notes,
            shown[0],
            show_metadata=shown[1],
        )
    columns = find_columns("inputs", names, frame)
    if lacking := [role for role in ("query", "content") if role not in columns]:
        raise _missing_column_error(lacking[0], names)
    places = RowPlaces()
    table = long.gather_columns(every, {**columns, **_field_columns(names, *shown)}, places, notes)
    return long.make_long_pools(table, places, notes)


def _field_columns(
    names: Sequence[str], show: Sequence[str], show_metadata: Sequence[str]
) -> dict[str, str]:
    """Return the columns of further fields of queries and documents, by role."""
    held = [name for name in show_metadata if name in names]
    return {**long.query_field_columns(show), **long.document_field_columns(held)}


def _with_index(frame: Any) -> Any:
    """Return a pandas frame with the named levels of its index as columns.

    Raises:
        InputError: it is a Series, that is a single column.
    """
    if isinstance(frame, pa.ChunkedArray | pa.Array) or type(frame).__name__ == "Series":
        raise InputError("inputs: cannot be a Series; give a frame with columns query and content")
    if not (is_frame(frame) and hasattr(frame, "reset_index")):
        return frame
    levels = [name for name in frame.index.names if name and name not in frame.columns]
    return frame.reset_index(level=levels) if levels else frame


def _missing_column_error(role: str, names: Sequence[str]) -> InputError:
    columns = ", ".join(names) or "none"
    remedy = column_hint(IN_MEMORY, role, "html" if role == "content" else "NAME")
    return InputError(f"inputs: has no column {role!r}; it has {columns}; name it: {remedy}")


def _names(frame: Any) -> list[str]:
    if hasattr(frame, "reset_index"):
        return [str(name) for name in frame.columns]
    return list(_arrow(frame).column_names)


def _rows(frame: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the plain values of each row of a frame; missing values are None."""
    number = 0
    if hasattr(frame, "reset_index"):
        names = [str(name) for name in frame.columns]
        for start in range(0, len(frame), _ROWS):
            piece = frame.iloc[start : start + _ROWS]
            columns = [_values(piece.iloc[:, n]) for n in range(len(names))]
            for values in zip(*columns, strict=True):
                number += 1
                yield f"inputs: row {number}", dict(zip(names, values, strict=True))
        return
    for batch in _arrow(frame).to_batches(_ROWS):
        for row in batch.to_pylist():
            number += 1
            yield f"inputs: row {number}", row


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.astype(object).where(column.notna(), None).tolist()
    return [value.tolist() if hasattr(value, "tolist") else value for value in values]
