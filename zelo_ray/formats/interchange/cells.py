"""Read columns of given types from a file of rows of any kind."""

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from zelo_ray.errors import InputError
from zelo_ray.formats.delimited import has_header
from zelo_ray.formats.interchange.outcomes import is_missing
from zelo_ray.formats.lossy_ids import refuse_lossy_id, refuse_lossy_ids
from zelo_ray.formats.pools import shorten_error
from zelo_ray.formats.stored import parquet_table, read_table_rows

Checked = Callable[[str, Mapping[str, Any]], None]
"""A check of a row, called with its place and the row."""
_YES_NO = {"true": True, "1": True, "false": False, "0": False}


def read_typed_columns(
    url: str, columns: Mapping[str, pa.DataType], check: Checked = lambda *_: None
) -> tuple[pa.Table, Callable[[int], str]]:
    """Read some columns of a file; return them, and a function that gives the place of a row.

    Args:
        url: Parquet, JSON lines, a JSON array, or a head and lines with commas or tabs.
        columns: their types: text, number or yes and no. One that is not there is all null.
        check: each row that is not of Parquet or under a head, which has the columns of the first.

    Raises:
        InputError: it cannot be read, or a value is not of its type. Whole numbers are texts, too;
            texts are numbers only under a head, where all values are texts.
    """
    return (_of_parquet if url.endswith(".parquet") else _of_rows)(url, columns, check)


def _of_parquet(
    url: str, columns: Mapping[str, pa.DataType], _: Checked
) -> tuple[pa.Table, Callable[[int], str]]:
    table = parquet_table(url, [*columns])
    names = set(table.column_names)
    arrays = {}
    for name, of in columns.items():
        if name in names and of == pa.string() and "id" in name:
            refuse_lossy_ids(table[name], name, lambda row: f"{url}: row {row + 1}")
        try:
            arrays[name] = table[name].cast(of) if name in names else pa.nulls(len(table), of)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"{url}: the column {name}: {shorten_error(error)}") from None
    return pa.table(arrays), lambda row: f"{url}: row {row + 1}"


def _of_rows(
    url: str, columns: Mapping[str, pa.DataType], check: Checked
) -> tuple[pa.Table, Callable[[int], str]]:
    places, text = [], pa.string()
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    read = _of_text if (headed := has_header(url)) else _of_value
    for place, row in read_table_rows(url):
        if not headed:
            check(place, row)
        places.append(place)
        for name, of in columns.items():
            value = row.get(name)
            if of == text and "id" in name:
                refuse_lossy_id(place, name, value)
            if value is not None and not (headed and of == text):
                value = read(value, of)
                if value is None:
                    raise InputError(f"{place}: {name} cannot be {row[name]!r}")
            cells[name].append(None if value is _MISSING else value)
    return pa.table(cells, schema=pa.schema(columns)), places.__getitem__


_MISSING = object()


def _of_text(value: str, kind: pa.DataType) -> object:
    """Convert a text to a value of a type; return None if it is no such value."""
    if is_missing(value):
        return _MISSING
    if kind == pa.bool_():
        return _YES_NO.get(value.strip().lower())
    try:
        return None if "_" in value else float(value)
    except ValueError:
        return None


def _of_value(value: object, kind: pa.DataType) -> object:
    """Convert a JSON value to a value of a type; return None if it is of another type."""
    if kind == pa.string():
        return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
    if kind == pa.bool_():
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)
