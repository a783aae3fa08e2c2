"""The files that a report is made of: read in parts, so that a long run fits."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_ROWS = 50_000


class NothingToReport(Exception):  # noqa: N818 - it names what is the matter
    """The directory holds no finished run."""


class Source:
    """The directory or URL of a run.

    Args:
        out: where its files lie.
        shown: what it is called, if not so.
    """

    def __init__(self, out: str, shown: str = "") -> None:
        self.out, self.shown = out, shown or out
        self._fs, self._root = fsspec.url_to_fs(out)

    def record(self, name: str) -> dict[str, Any]:
        """What a JSON file holds, such as ``run.json``."""
        record: dict[str, Any] = json.loads(self._fs.cat_file(f"{self._root}/{name}"))
        return record

    def has(self, *names: str) -> bool:
        """Whether all these files are there."""
        return all(self._fs.exists(f"{self._root}/{name}") for name in names)

    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of a text file, one by one."""
        with self._fs.open(f"{self._root}/{name}", "rb") as file:
            yield from file

    def table(self, name: str, where: Any = None) -> pa.Table:
        """A table, or its rows that a filter of pyarrow lets through."""
        with self._fs.open(f"{self._root}/{name}.parquet", "rb") as file:
            return pq.read_table(file, filters=where, use_threads=False)

    def columns(self, name: str) -> list[str]:
        """The names of a table's columns."""
        with self._fs.open(f"{self._root}/{name}.parquet", "rb") as file:
            return list(pq.read_schema(file).names)

    def head(self, name: str, rows: int) -> tuple[list[dict[str, Any]], int]:
        """The first rows of a table, and how many there are in all."""
        with self._fs.open(f"{self._root}/{name}.parquet", "rb") as file:
            parquet = pq.ParquetFile(file)
            first = next(parquet.iter_batches(batch_size=rows), None)
            return (first.to_pylist() if first else []), parquet.metadata.num_rows

    def chunks(self, name: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """A table in order, in parts of some ten thousand rows that divide no query.

        The rows of a query must stand together, as they do in all files of a run.
        """
        with self._fs.open(f"{self._root}/{name}.parquet", "rb") as file:
            parquet = pq.ParquetFile(file)
            held = parquet.schema_arrow.empty_table().select(list(columns))
            for batch in parquet.iter_batches(batch_size=_ROWS, columns=list(columns)):
                table = pa.concat_tables([held, pa.Table.from_batches([batch])])
                whole = int(starts(table)[-1])
                held = table.slice(whole)
                if whole:
                    yield table.slice(0, whole)
            if held.num_rows:
                yield held


def starts(table: pa.Table) -> np.ndarray:
    """The places in a table where another query begins, the first among them."""
    codes = codes_of(table["query_id"])[0]
    return np.flatnonzero(np.diff(codes, prepend=-1))


def codes_of(column: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """A column of strings as numbers of its distinct values, and these values."""
    encoded = column.combine_chunks().dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    return encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()


def bare(url: str) -> str:
    """A path or URL as a page may show it: without a name, a password or a token."""
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    host, slash, path = rest.partition("?")[0].partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
