"""Define the tables of results, which are read when they are used."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import StoredTable, parquet_table
from zelo_ray.files.wording import printable

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 10
_SUFFIX = ".parquet"


class PlainText(str):
    """A text that notebooks and Python's prompt show as it is, without quotes and escapes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Table:
    """A table of results. A Parquet file is read on first use.

    Libraries that read Arrow take it: ``pyarrow.table(run.scores)``, ``polars.DataFrame(...)``.

    Args:
        source: a table, or the path or URL of a Parquet file.

    Example:
        >>> table = Table(pa.table({"doc_id": ["d1", "d2"], "score": [0.5, -0.5]}))
        >>> len(table), table.columns
        (2, ['doc_id', 'score'])
        >>> table.to_pandas().score.max()
        np.float64(0.5)
    """

    def __init__(self, source: str | pa.Table) -> None:
        self._source = source

    def to_arrow(self) -> pa.Table:
        """Return the whole table as an Arrow table.

        Raises:
            InputError: the file does not exist, or is damaged.
        """
        if isinstance(self._source, str):
            self._source = parquet_table(self._source)
        return self._source

    def to_pandas(self) -> "pd.DataFrame":
        """Return the whole table as a pandas data frame.

        Raises:
            InputError: the file does not exist, or is damaged.
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._head()[0].column_names)

    def __len__(self) -> int:
        return self._head()[1]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts from column name to value."""
        for batch in self.to_arrow().to_batches():
            yield from batch.to_pylist()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        head, rows = self._head()
        shown = head.to_pandas().to_string(index=False, max_colwidth=60) if rows else "no rows"
        return "\n".join(map(printable, shown.split("\n"))) + self._more(rows)

    def _repr_html_(self) -> str:
        head, rows = self._head()
        return f"{head.to_pandas().to_html(index=False, border=0)}<p>{rows:,} rows</p>"

    @staticmethod
    def _more(rows: int) -> str:
        return f"\n… {rows:,} rows in all" if rows > _SHOWN else ""

    def _head(self) -> tuple[pa.Table, int]:
        """Return the first rows and the number of all rows."""
        if not isinstance(self._source, str):
            return self._source.slice(0, _SHOWN), len(self._source)
        stored = StoredTable(self._source)
        return stored.head(_SHOWN), stored.row_count


def find_tables(out: str) -> dict[str, Table]:
    """Return the tables in a directory or URL, by name."""
    names = [name for name in list_directory(out) or () if name.endswith(_SUFFIX)]
    return {name.removesuffix(_SUFFIX): Table(f"{out.rstrip('/')}/{name}") for name in names}
