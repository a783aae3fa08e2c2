"""Convert records to Arrow tables, whose schema follows from the annotations of their type."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa

_ARROW = {
    str: pa.string(),
    float: pa.float64(),
    int: pa.int64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
}


@dataclass(frozen=True, slots=True)
class Rejected:
    """One rejected input line: its file and number, the reason, and its content."""

    file: str
    line: int
    reason: str
    raw: str


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _ARROW:
        return _ARROW[hint]
    if get_origin(hint) is Literal:
        return pa.string()
    first = get_args(hint)[0]
    return pa.list_(_arrow_type(first)) if get_origin(hint) is tuple else _arrow_type(first)


def schema_of(record: type) -> pa.Schema:
    """Return the Arrow schema of a record type (a dataclass of plain fields)."""
    hints = get_type_hints(record)
    return pa.schema([(f.name, _arrow_type(hints[f.name])) for f in fields(record)])


def defaults_of(*records: type) -> dict[str, Any]:
    """Return the defaults of fields, which a table of an earlier version may lack."""
    every = (field for record in records for field in fields(record))
    return {field.name: field.default for field in every if field.default is not MISSING}


def table_of(records: Sequence[Any], record: type) -> pa.Table:
    """Build a table of records of one type, column by column, in their order."""
    schema = schema_of(record)
    columns = {name: [getattr(r, name) for r in records] for name in schema.names}
    return pa.table(columns, schema=schema)


def table_of_rows(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Build a table of rows, which may be none, with their cells in the order of the schema."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
