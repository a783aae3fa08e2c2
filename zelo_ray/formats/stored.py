"""Read stored tables: one Parquet file, or a folder of parts in its place."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.errors import InputError, UnreadableFile, format_error
from zelo_ray.formats.files import open_for_reading, part_files

_DAMAGED = (pa.ArrowException, UnicodeDecodeError)
_QUERY = "query_id"
_ROWS = 2**14
_MANY = 100_000  # rows that take long enough to be worth threads


class StoredTable:
    """A stored table, of which each method opens one file after another.

    Args:
        url: of a Parquet file; if it does not exist, its parts are read (`part_files`).
        schemas: it must have all columns of one of these, and may have others.
        defaults: by name, the value of a column that it may lack, as one of an earlier version.

    Raises:
        InputError: by each method: it is not Parquet, or damaged, or lacks a column.
    """

    def __init__(
        self, url: str, *schemas: pa.Schema, defaults: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._schemas, self._defaults = schemas, defaults
        self.files = part_files(url) or [url]
        with self._open(self.files[0]) as file:
            self._stored: pa.Schema = file.schema_arrow
        fitting = [schema for schema in schemas if not _lacking(self._stored, schema, defaults)]
        absent = [e for e in (fitting or [()])[0] if e.name not in self._stored.names]
        self.schema = pa.schema([*self._stored, *absent], self._stored.metadata)

    @property
    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.schema.names)

    @property
    def row_count(self) -> int:
        """Count the rows."""
        count = 0
        for place in self.files:
            with self._open(place) as file:
                count += file.metadata.num_rows
        return count

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows, with those of the columns that the table has; with all columns if None."""
        wanted, tables = self._existing(columns), []
        for place in self.files:
            with self._open(place) as file:
                table = file.read(wanted, use_threads=_is_large(file))
                tables.append(self._filled(table, columns))
        return pa.concat_tables(tables)

    def batches(
        self, size: int, columns: Sequence[str] | None = None, every: int = 1
    ) -> Iterator[pa.Table]:
        """Yield rows in tables of at most ``size``; with ``every`` = 5 only each 5th row group."""
        wanted, offset = self._existing(columns), 0
        for place in self.files:
            with self._open(place) as file:
                groups = [n for n in range(file.num_row_groups) if (offset + n) % every == 0]
                offset += file.num_row_groups
                if not groups:
                    continue
                for batch in file.iter_batches(size, groups, wanted, use_threads=_is_large(file)):
                    yield self._filled(pa.Table.from_batches([batch]), columns)

    def head(self, size: int) -> pa.Table:
        """Read the first ``size`` rows, or all if there are fewer."""
        tables = [self.schema.empty_table()]
        for batch in self.batches(size):
            tables.append(batch)
            if sum(table.num_rows for table in tables) >= size:
                break
        return pa.concat_tables(tables).slice(0, size)

    def where(self, condition: pc.Expression) -> pa.Table:
        """Read the rows that meet a condition of pyarrow."""
        # Not by Arrow's read_table, whose threads may close the file after Python has shut down.
        tables = [batch.filter(condition) for batch in self.batches(_ROWS)]
        return pa.concat_tables([self.schema.empty_table(), *tables])

    def rows_of_queries(self, query_ids: Collection[str]) -> Iterator[pa.Table]:
        """Yield the rows of some queries, in the order of the table.

        Of row groups without these queries only the ids are read, which are tiny (dictionaries and
        run lengths). Arrow's own filters would import pandas.
        """
        wanted = frozenset(query_ids)
        for place in self.files:
            with self._open(place, read_dictionary=[_QUERY]) as file:
                for group in range(file.num_row_groups):
                    ids = file.read_row_group(group, [_QUERY], use_threads=False)[_QUERY]
                    spans = list(_spans(ids, wanted))
                    if spans:
                        rows = self._filled(file.read_row_group(group, use_threads=False))
                        yield from (rows.slice(start, end - start) for start, end in spans)

    def query_ids(self) -> list[str]:
        """Return the ids of the queries, each once, in the order of their first rows."""
        query_ids = dict[str, None]()
        for place in self.files:
            with self._open(place, read_dictionary=[_QUERY]) as file:
                for group in range(file.num_row_groups):
                    ids = file.read_row_group(group, [_QUERY], use_threads=False)[_QUERY]
                    for chunk in ids.chunks:
                        query_ids |= dict.fromkeys(chunk.unique().to_pylist())
        return list(query_ids)

    def _open(self, place: str, **options: Any) -> AbstractContextManager[pq.ParquetFile]:
        return _opened(place, self._schemas, self._defaults, **options)

    def _existing(self, columns: Sequence[str] | None) -> list[str] | None:
        return None if columns is None else [name for name in columns if name in self._stored.names]

    def _filled(self, table: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
        """Return what was read of a file with the defaults of the wanted columns that it lacks."""
        for column in self.schema:
            if column.name not in self._stored.names and (not columns or column.name in columns):
                values = pa.repeat(pa.scalar(self._defaults[column.name], column.type), len(table))
                table = table.append_column(column, values)
        return table


def _is_large(file: pq.ParquetFile) -> bool:
    """Return whether to read a file with threads.

    A thread of Arrow may close the file after Python has shut down, which aborts the process.
    """
    return bool(file.metadata.num_rows > _MANY)


def _spans(ids: pa.ChunkedArray, wanted: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the first row, and the row after the last, of each run of rows of some queries."""
    offset = 0
    for chunk in ids.chunks:
        of = [n for n, name in enumerate(chunk.dictionary.to_pylist()) if name in wanted]
        if of:
            numbers = np.from_dlpack(chunk.indices)  # as to_numpy imports pandas
            held = np.flatnonzero(np.isin(numbers, of))
            for run in np.split(held, np.flatnonzero(np.diff(held) > 1) + 1):
                yield offset + int(run[0]), offset + int(run[-1]) + 1
        offset += len(chunk)


@contextlib.contextmanager
def _opened(
    url: str, schemas: Sequence[pa.Schema], defaults: Mapping[str, Any], **options: Any
) -> Iterator[pq.ParquetFile]:
    """Open one Parquet file to read it."""
    with open_for_reading(url) as file:
        try:
            # Read ahead, Arrow has threads of its own even where none are asked for.
            opened = pq.ParquetFile(file, pre_buffer=False, **options)
            lacks = [_lacking(opened.schema_arrow, schema, defaults) for schema in schemas]
            if lacks and all(lacks):
                first = min(lacks, key=len)[0]
                raise InputError(f"{url}: has no column {first.name} ({first.type})")
            yield opened
        except _DAMAGED as error:
            raise InputError(
                f"{url}: is not a Parquet file, or is damaged ({format_error(error)})"
            ) from None


def _lacking(
    found: pa.Schema, schema: pa.Schema, defaults: Mapping[str, Any]
) -> "list[pa.Field[Any]]":
    """Return the columns that are missing, or of another type, and have no default."""
    kinds = {field.name: _kind(field.type) for field in found}
    return [
        column
        for column in schema
        if kinds.get(column.name) != _kind(column.type)
        and (column.name in kinds or column.name not in defaults)
    ]


def _kind(of: pa.DataType) -> str:
    """Return the name of a column's type, whatever its width in bits."""
    if pa.types.is_list(of) or pa.types.is_large_list(of):
        return f"list of {_kind(of.value_type)}"
    if pa.types.is_dictionary(of):
        return _kind(of.value_type)
    if pa.types.is_integer(of):
        return "integer"
    if pa.types.is_floating(of):
        return "number"
    return str(of).removeprefix("large_").removesuffix("_view")


def parquet_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read those of the columns that a stored table has; all columns if None.

    Raises:
        InputError: it is not Parquet, or damaged, or a text in it is not UTF-8.
    """
    return _check_values(url, StoredTable(url).read(columns))


def _check_values(url: str, table: pa.Table) -> pa.Table:
    """Return a table after checking its values, which Arrow does not do on reading."""
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise UnreadableFile(f"{url}: cannot be read ({format_error(error)})") from None
    return table


def parquet_rows(
    url: str, columns: Sequence[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and the content of each row of a Parquet file; all columns if None."""
    number = 0
    for batch in StoredTable(url).batches(_ROWS, columns):
        for row in _check_values(url, batch).to_pylist():
            number += 1
            yield f"{url}: row {number}", row
