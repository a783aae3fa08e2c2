"""Read some columns of a probed place, by role and of given types."""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError, format_error
from zelo_ray.files.tables import parquet_table
from zelo_ray.formats.columns import NAMES, is_called
from zelo_ray.formats.lossy_ids import refuse_lossy_id, refuse_lossy_ids
from zelo_ray.formats.probe import FileProbe

Place = Callable[[int], str]
"""Returns where a row stands, for messages."""
_MISSING = frozenset(("", "na", "nan", "null", "none"))
_YES_NO = {"true": True, "1": True, "false": False, "0": False}
_COMMA = re.compile(r"[+-]?\d+,\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_TEXT, _NUMBER, _FLAG = pa.string(), pa.float64(), pa.bool_()
NAMING = frozenset({"query_id", "doc_id", "a", "b", "winner", "loser"})
"""The roles whose values are names, which may have lost digits as numbers."""
_OF_ALL = frozenset({"judge", "turn", "winner", "preference", "loser", "method"})
"""The roles that all rows have, or none."""
_COUNTS = frozenset({"a_wins", "b_wins", "ties"})
"""The roles whose numbers may be written as yes and no."""


def is_missing(value: object) -> bool:
    """Return whether a cell is missing: null, NaN, or a text such as NA."""
    if isinstance(value, str):
        return value.strip().lower() in _MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def read_columns(
    source: FileProbe,
    columns: Mapping[str, str],
    types: Mapping[str, pa.DataType],
    required: Collection[str] = (),
) -> tuple[pa.Table, Place]:
    """Read some columns; return them by role, and a function that gives the place of a row.

    Args:
        source: rows of any form.
        columns: by role, the name of its column.
        types: by role, its type: text, number or yes and no. One without a column is all null.
        required: roles that each row must have, where rows have columns of their own (JSON); a
            missing value is null there. A column that the first row lacks is read from where it
            first stands, unless it says whose judgments the rows are.

    Raises:
        InputError: it cannot be read, or a value is not of its type. Whole numbers are texts, too,
            and texts numbers if they are written as such; blanks around a cell do not count.
    """
    table = parquet_table(source.place, [*columns.values()]) if source.form == "parquet" else None
    if source.table is not None and _is_typed(source.table, columns, types):
        table = source.table
    if table is not None:
        return _cast(source.place, table, columns, types), _numbered(source.place)
    places, tracked = list[str](), _Shape(columns, types, required)
    cells: dict[str, list[Any]] = {role: [] for role in types}
    wanted = [(role, columns[role], types[role]) for role in types if role in columns]
    form = _CellForm(source.texts_alone, source.has_decimal_commas)
    for place, row in source.rows():
        for role, name in () if source.texts_alone else tracked.check(place, row):
            wanted.append((role, name, types[role]))
            cells[role] = [None] * len(places)
        places.append(place)
        for role, name, of in wanted:
            value = row.get(name)
            if value is not None:
                value = _value((place, name), role, value, of, form)
            cells[role].append(value)
    for role in types.keys() - {role for role, _, _ in wanted}:
        cells[role] = [None] * len(places)
    return pa.table(cells, schema=pa.schema(types)), places.__getitem__


def _numbered(what: str) -> Place:
    return lambda row: f"{what}: row {row + 1}"


def _is_typed(
    table: pa.Table, columns: Mapping[str, str], types: Mapping[str, pa.DataType]
) -> bool:
    """Return whether the numbers of a table in memory are numbers, and not texts of such."""
    numbers = [table[name].type for role, name in columns.items() if types.get(role) == _NUMBER]
    kinds = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
    return all(any(is_kind(of) for is_kind in kinds) for of in numbers)


def _cast(
    what: str, table: pa.Table, columns: Mapping[str, str], types: Mapping[str, pa.DataType]
) -> pa.Table:
    arrays = {}
    for role, of in types.items():
        name = columns.get(role)
        if name is None:
            arrays[role] = pa.nulls(len(table), of)
            continue
        if role in NAMING:
            refuse_lossy_ids(table[name], name, _numbered(what))
        try:
            column = table[name]
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            if role in NAMING and pa.types.is_floating(column.type):  # beside a missing id
                column = _whole_numbers(what, name, column)
            column = column.cast(of)
            arrays[role] = pc.if_else(pc.equal(column, ""), None, column) if of == _TEXT else column
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(f"{what}: the column {name}: {format_error(error)}") from None
    return pa.table(arrays)


def _whole_numbers(what: str, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of floats, which names beside missing ones may be, as whole numbers."""
    column = pc.if_else(pc.is_nan(column), None, column)
    odd = pc.index(pc.equal(column, pc.floor(column)), False).as_py()
    if odd >= 0:
        raise InputError(f"{_numbered(what)(odd)}: {name} cannot be {column[odd].as_py()!r}")
    return column.cast(pa.int64())


class _Shape:
    """Checks that rows of JSON have the columns of the first one that matter."""

    def __init__(
        self,
        columns: Mapping[str, str],
        types: Mapping[str, pa.DataType],
        required: Collection[str],
    ) -> None:
        self._required = [columns[role] for role in required if role in columns]
        self._absent = [role for role in types if role not in columns and role in NAMES]
        self._named = {*columns.values()}
        self._checked = set[tuple[str, ...]]()

    def check(self, place: str, row: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return roles and names of columns that no row had before this one."""
        names = tuple(row)
        if names in self._checked:
            return []
        self._checked.add(names)
        for name in self._required:
            if name not in row:
                raise InputError(f"{place}: has no {name}; a missing answer is null")
        new = list[tuple[str, str]]()
        for role in [*self._absent]:
            extra = next((n for n in names if n not in self._named and is_called(n, role)), "")
            if extra and role in _OF_ALL:
                raise InputError(f"{place}: has a {extra}, which the first line lacks")
            if extra:
                new.append((role, extra))
                self._absent.remove(role)
        return new


@dataclass(frozen=True, slots=True)
class _CellForm:
    """The form of the values of a file: cells of text, perhaps with commas before fractions."""

    is_cells: bool
    has_commas: bool


def _value(cell: tuple[str, str], role: str, value: Any, of: pa.DataType, form: _CellForm) -> Any:
    """Return a value as one of a type; None if it is missing. ``cell``: its place, and column."""
    what = ": ".join(cell)
    if role in NAMING:
        refuse_lossy_id(*cell, value)
    read: str | float | bool | None = None
    if of == _TEXT:
        if isinstance(value, str):
            return (value.strip() if form.is_cells else value) or None
        if isinstance(value, float) and value.is_integer():  # a whole number beside a missing one
            value = int(value)
        read = str(value) if isinstance(value, int) and not isinstance(value, bool) else None
    elif is_missing(value) and (form.is_cells or not isinstance(value, str)):
        return None  # in JSON a missing answer is null, and the text NA a mistake
    elif of == _FLAG:
        read = value if isinstance(value, bool) else _YES_NO.get(str(value).strip().lower())
    elif role in _COUNTS and str(value).lower() in ("true", "false"):
        read = float(str(value).lower() == "true")
    elif isinstance(value, str):
        read = parse_number(what, value, has_commas=form.has_commas)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        read = float(value)
    if read is None:
        raise InputError(f"{what} cannot be {value!r}")
    return read


def parse_number(what: str, text: str, *, has_commas: bool = False) -> float | None:
    """Parse a number; return None if the text is none.

    Args:
        what: the place and column of the text.
        text: which may stand between blanks.
        has_commas: whether its comma stands before a fraction.

    Raises:
        InputError: its comma may stand before a fraction or after the thousands.
    """
    text = text.strip()
    if has_commas and _COMMA.fullmatch(text):
        if _THOUSANDS.fullmatch(text):
            raise InputError(
                f"{what} {text!r} may be a fraction or thousands: write it without the comma, or "
                "with a point"
            )
        text = text.replace(",", ".")
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None
