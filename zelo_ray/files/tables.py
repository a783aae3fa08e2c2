"""Convert records to Arrow tables, and write and read these as Parquet, one file a table."""

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any, Literal, Self, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.errors import InputError, UnreadableFile, format_error
from zelo_ray.files.storage import (
    PARTIAL,
    name_file_in_errors,
    open_for_reading,
    open_for_writing,
)

_ARROW = {
    str: pa.string(),
    float: pa.float64(),
    int: pa.int64(),
    bool: pa.bool_(),
    bytes: pa.binary(),
}
_GROUP_ROWS = 50_000
_MANY = 100_000  # rows that take long enough to be worth threads


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


def table_of(records: Sequence[Any], record: type) -> pa.Table:
    """Build a table of records of one type, in their order."""
    schema = schema_of(record)
    columns = {name: [getattr(r, name) for r in records] for name in schema.names}
    return pa.table(columns, schema=schema)


def table_of_rows(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Build a table of rows, which may be none, with their cells in the order of the schema."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)


class StoredTable:
    """A Parquet file, which each method opens; it has all columns of one of the schemas."""

    def __init__(self, url: str, *schemas: pa.Schema) -> None:
        self._url = url
        with open_parquet(self._url) as file:
            self.schema: pa.Schema = file.schema_arrow
            self.names: list[str] = self.schema.names
            self.row_count: int = file.metadata.num_rows
        types = {field.name: field.type for field in self.schema}
        lacks = [[f for f in schema if types.get(f.name) != f.type] for schema in schemas]
        if lacks and all(lacks):
            first = min(lacks, key=len)[0]
            other = f", but one of {types[first.name]}" if first.name in types else ""
            raise InputError(f"{url}: has no column {first.name} ({first.type}){other}")
        # A thread of Arrow may close a file after Python has shut down, which aborts the process.
        self._threads = self.row_count > _MANY

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all rows, with those of the columns that the table has; with all columns if None."""
        with open_parquet(self._url) as file:
            table = file.read(self._existing(columns), use_threads=self._threads)
            table.validate(full=True)  # Arrow does not check texts as it reads
            return table

    def batches(
        self, size: int, columns: Sequence[str] | None = None, every: int = 1
    ) -> Iterator[pa.Table]:
        """Yield rows in tables of at most ``size``; with ``every`` = 5 only each 5th row group."""
        with open_parquet(self._url) as file:
            groups = [*range(0, file.num_row_groups, every)]
            wanted = self._existing(columns)
            for batch in file.iter_batches(size, groups, wanted, use_threads=self._threads):
                batch.validate(full=True)
                yield pa.Table.from_batches([batch])

    def head(self, size: int) -> pa.Table:
        """Read the first ``size`` rows, or all if there are fewer."""
        return pa.concat_tables([self.schema.empty_table(), *islice(self.batches(size), 1)])

    def rows_of_queries(self, query_ids: Collection[str]) -> Iterator[pa.Table]:
        """Yield the rows of some queries, in the order of the table."""
        wanted = pa.array([*query_ids], pa.string())
        with open_parquet(self._url) as file:
            for group in range(file.num_row_groups):
                ids = file.read_row_group(group, ["query_id"], use_threads=False)["query_id"]
                chosen = pc.is_in(ids, wanted)
                if pc.any(chosen).as_py():
                    yield file.read_row_group(group, use_threads=False).filter(chosen)

    def _existing(self, columns: Sequence[str] | None) -> list[str] | None:
        return None if columns is None else [name for name in columns if name in self.names]


@contextlib.contextmanager
def open_parquet(url: str, data: bytes | None = None) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file, or the data of one that has been read."""
    whole = open_for_reading(url) if data is None else contextlib.nullcontext(pa.BufferReader(data))
    with whole as stream:
        try:
            # Read ahead, Arrow has threads of its own even where none are asked for.
            yield pq.ParquetFile(stream, pre_buffer=False)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            damaged = f"{url}: is not Parquet, or damaged ({format_error(error)})"
            raise UnreadableFile(damaged) from None


def read_table(out: str, name: str, columns: Sequence[str], *records: type) -> pa.Table:
    """Read those of the columns that a table has, of rows of one of the types ``records``."""
    return StoredTable(f"{out.rstrip('/')}/{name}.parquet", *map(schema_of, records)).read(columns)


def parquet_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read those of the columns that a Parquet file has; all columns if None."""
    return StoredTable(url).read(columns)


class ResultsWriter:
    """Writes tables and lines of one run, each to a file of its own, under a directory or URL.

    Rows are grouped by their number alone, so that equal rows make equal Parquet files. The files
    appear when the ``with`` block ends without an exception; else earlier ones stay as they were.
    """

    def __init__(
        self, out: str, tables: Mapping[str, pa.Schema], lines: Iterable[str] = (), rows: int = 0
    ) -> None:
        self._out, self._rows = out.rstrip("/"), rows or _GROUP_ROWS
        self._lines, self._writers = dict[str, Any](), dict[str, pq.ParquetWriter]()
        self._pending: dict[str, list[pa.Table]] = {name: [] for name in tables}
        with contextlib.ExitStack() as drafts:
            for name, schema in tables.items():
                file = drafts.enter_context(open_for_writing(self._place(name), PARTIAL))
                with self._named(name):
                    writer = pq.ParquetWriter(file, schema, compression="zstd")
                self._writers[name] = drafts.enter_context(writer)
            for name in lines:
                draft = open_for_writing(f"{self._out}/{name}", PARTIAL)
                self._lines[name] = drafts.enter_context(draft)
            self._drafts = drafts.pop_all()

    def add(self, name: str, table: pa.Table) -> None:
        """Append rows to a table."""
        self._pending[name].append(table)
        if sum(piece.num_rows for piece in self._pending[name]) >= self._rows:
            pending = pa.concat_tables(self._pending[name])
            while pending.num_rows >= self._rows:
                self._write(name, pending.slice(0, self._rows))
                pending = pending.slice(self._rows)
            self._pending[name] = [pending]

    def add_line(self, name: str, line: bytes) -> None:
        """Append a line to a text file."""
        with name_file_in_errors(f"{self._out}/{name}"):
            self._lines[name].write(line + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            for name, writer in self._writers.items() if kind is None else ():
                if pending := self._pending[name]:
                    self._write(name, pa.concat_tables(pending))
                with self._named(name):
                    writer.close()
        except BaseException:  # such as of a full disk
            self._discard()
            raise
        if kind is None:
            self._drafts.close()
        else:
            self._discard()

    def _discard(self) -> None:
        with contextlib.suppress(OSError):
            self._drafts.__exit__(GeneratorExit, GeneratorExit(), None)

    def _write(self, name: str, rows: pa.Table) -> None:
        if rows.num_rows:
            with self._named(name):
                self._writers[name].write_table(rows.combine_chunks())

    def _place(self, name: str) -> str:
        return f"{self._out}/{name}.parquet"

    def _named(self, name: str) -> contextlib.AbstractContextManager[None]:
        return name_file_in_errors(self._place(name))


def write_tables(out: str, tables: Mapping[str, pa.Table]) -> None:
    """Write tables by name, which replace all of their names once they are complete."""
    with ResultsWriter(out, {name: table.schema for name, table in tables.items()}) as results:
        for name, table in tables.items():
            results.add(name, table)


def iter_rows(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of some columns."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def undivided(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows, in tables that begin where a query begins."""
    pending: list[pa.Table] = []
    for part in tables:
        table = pa.concat_tables([*pending, part])
        boundary = int(query_starts(table)[-1])
        pending = [table.slice(boundary)]
        if boundary:
            yield table.slice(0, boundary)
    yield from pending


def query_starts(table: pa.Table) -> np.ndarray:
    """Return the rows of a table where another query begins, with the first row."""
    return np.flatnonzero(np.diff(category_codes(table["query_id"]), prepend=-1))


def category_codes(column: pa.ChunkedArray) -> Any:
    """Map each text of a column to a number: 0, 1, 2 ... as they first appear, [rows] int64."""
    chunks = column.dictionary_encode().chunks
    return np.concatenate([np.empty(0, np.int64), *(c.indices.to_numpy() for c in chunks)])
