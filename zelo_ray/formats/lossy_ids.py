"""Refuse ids that were floating-point numbers at some point, and may have lost digits."""

import math
import re
from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError

_EXACT: Mapping[pa.DataType, float] = {
    pa.float64(): 2.0**53,
    pa.float32(): 2.0**24,
    pa.float16(): 2.0**11,
}
"""By type, the number from which on not every whole number can be represented."""
_WRITTEN = r"^[+-]?(\d([.,]\d+)?[eE]\+\d+|\d{16,}\.0*)$"
"""Such numbers as pandas, Arrow and spreadsheets write them."""
_PATTERN = re.compile(_WRITTEN)
_MEND = (
    "may have lost digits as a floating-point number: write ids as texts (in pandas dtype=str, in "
    "a spreadsheet a column of text)"
)


def refuse_lossy_id(place: str, name: str, value: object) -> None:
    """Refuse an id that is, or was, a float too large to be exact.

    Raises:
        InputError: it is a float of 2^53 or more, or a text such as ``1.23457E+18``.
    """
    if isinstance(value, str):
        if "+" not in value and "." not in value:  # as most are
            return
        if not (written := _PATTERN.match(value)):
            return
        number = math.inf if "+" in written[0][1:] else float(written[0])
    else:
        number = value if isinstance(value, float) else 0.0
    if abs(number) >= _EXACT[pa.float64()]:
        raise InputError(f"{place}: {name} {value!r} {_MEND}")


def refuse_lossy_ids(column: pa.ChunkedArray, name: str, place: Callable[[int], str]) -> None:
    """Refuse a column of ids that contains such an id.

    Args:
        column: of floats or texts; other types are exact.
        name: of the column, for messages.
        place: returns the place of a row, for messages.

    Raises:
        InputError: there is one.
    """
    if pa.types.is_floating(column.type):
        lossy = pc.greater_equal(pc.abs(column.cast(pa.float64())), _EXACT[column.type])
        if (row := pc.index(lossy, True).as_py()) >= 0:
            raise InputError(f"{place(row)}: {name} {column[row].as_py()!r} {_MEND}")
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        odd = pc.fill_null(pc.match_substring_regex(column, _WRITTEN), False)
        for row in pc.indices_nonzero(odd).to_pylist():
            refuse_lossy_id(place(row), name, column[row].as_py())
