"""Convert columns of a table to arrays, or raise an error that names the problem."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def read_texts(table: pa.Table, name: str, error: type[Exception]) -> Any:
    """Return a column of IDs as one array.

    Raises:
        error: there is no such column, or it has nulls.
    """
    # Long offsets: the ids of a large run can take more than 2 GB together.
    return _column(table, name, error, pa.large_string())


def read_numbers(table: pa.Table, name: str, error: type[Exception]) -> NDArray[np.float64]:
    """Return a column of numbers as float64.

    Raises:
        error: there is no such column, or it has nulls.
    """
    column = _column(table, name, error, pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def _column(table: pa.Table, name: str, error: type[Exception], kind: pa.DataType) -> Any:
    if name not in table.column_names:
        raise error(f"there is no column {name!r}, only {', '.join(table.column_names) or 'none'}")
    column = table[name]
    if column.null_count:
        raise error(f"{column.null_count} of {len(column)} rows have no {name}")
    try:
        cast = column.cast(kind)
    except pa.ArrowInvalid as invalid:
        raise error(f"column {name!r}: {invalid}") from None
    return pa.concat_arrays(cast.chunks) if cast.num_chunks else pa.array([], kind)
