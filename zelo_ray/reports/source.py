"""Read the result files of a report piece by piece, so that a long run fits into memory."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from zelo_ray.files.run_record import read_record
from zelo_ray.files.storage import exists, read_placed_lines
from zelo_ray.files.tables import StoredTable, schema_of, undivided

_ROWS = 50_000


class Source:
    """The directory or URL of a run.

    Args:
        out: the directory or URL of its files.
        records: by table, the type of its rows; of several types, each may lack some columns.
    """

    def __init__(self, out: str, records: Mapping[str, Sequence[type]] | None = None) -> None:
        self.out = out
        self._records = records or {}

    def record(self, name: str) -> dict[str, Any]:
        """Read a JSON file, such as ``run.json``."""
        return read_record(self._url(name))

    def has(self, *names: str) -> bool:
        """Return whether all these files exist."""
        return all(exists(self._url(name)) for name in names)

    def lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a text file."""
        for _, line in read_placed_lines(self._url(name)):
            yield line

    def table(self, name: str, where: Any = None) -> pa.Table:
        """Read a table, or its rows that pass a pyarrow filter."""
        stored = self._stored(name)
        return stored.read() if where is None else stored.where(where)

    def rows(self, name: str) -> list[Any]:
        """Return the rows of a table, each a dict by column; none if there is no such table."""
        return self.table(name).to_pylist() if self.has(f"{name}.parquet") else []

    def columns(self, name: str) -> list[str]:
        """Return the names of a table's columns."""
        return self._stored(name).names

    def head(self, name: str, rows: int) -> tuple[list[dict[str, Any]], int]:
        """Return the first rows of a table, and the number of all its rows."""
        stored = self._stored(name)
        return stored.head(rows).to_pylist(), stored.row_count

    def chunks(self, name: str, columns: Sequence[str], every: int = 1) -> Iterator[pa.Table]:
        """Yield a table in order, in parts of about ten thousand rows that do not split a query.

        The rows of a query must be adjacent, as they are in all files of a run. With ``every`` only
        one in so many stretches of rows is read, which may split a query.
        """
        batches = self._stored(name).batches(_ROWS, columns, every)
        yield from undivided(batch.select(list(columns)) for batch in batches)

    def of_queries(self, name: str, query_ids: Collection[str]) -> Iterator[pa.Table]:
        """Yield the rows of some queries in order, in parts that do not split a query."""
        yield from undivided(self._stored(name).rows_of_queries(query_ids))

    def _stored(self, name: str) -> StoredTable:
        url, records = self._url(f"{name}.parquet"), self._records.get(name, ())
        return StoredTable(url, *map(schema_of, records))

    def _url(self, name: str) -> str:
        return f"{self.out.rstrip('/')}/{name}"


class MemorySource(Source):
    """Tables in memory, of a command that wrote no files."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        super().__init__("")
        self._tables = tables

    def has(self, *names: str) -> bool:
        """Return whether all these tables exist, by the names of their files."""
        return all(name.removesuffix(".parquet") in self._tables for name in names)

    def table(self, name: str, where: Any = None) -> pa.Table:
        """Return a table, or its rows that pass a pyarrow filter."""
        table = self._tables[name]
        return table if where is None else table.filter(where)

    def columns(self, name: str) -> list[str]:
        """Return the names of a table's columns."""
        return list(self._tables[name].column_names)

    def _stored(self, name: str) -> StoredTable:
        raise NotImplementedError(f"{name} is in memory, and read as a whole")


def without_credentials(url: str) -> str:
    """Return a path or URL without user name, password or token."""
    scheme, separator, remainder = url.partition("://")
    if not separator:
        return url
    host, slash, path = remainder.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
