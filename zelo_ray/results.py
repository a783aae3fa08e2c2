"""What a command left: on disk, at a URL or in memory."""

from collections.abc import Iterator
from html import escape
from io import StringIO
from math import isnan
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console

from zelo_ray.commands import results_of
from zelo_ray.commands.adapter import with_lines
from zelo_ray.commands.report import read_report
from zelo_ray.errors import ExitStatus, OptionError
from zelo_ray.files.storage import list_directory
from zelo_ray.files.tables import StoredTable, parquet_table
from zelo_ray.files.wording import printable
from zelo_ray.options import check_url, read_config
from zelo_ray.reports.document import CommandResult
from zelo_ray.reports.parts import ReportTable
from zelo_ray.reports.terminal import Line, render_lines
from zelo_ray.reports.wording import Quantity

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 10
_PARQUET = ".parquet"


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
        more = f"\n… {rows:,} rows in all" if rows > _SHOWN else ""
        return "\n".join(map(printable, shown.split("\n"))) + more

    def _repr_html_(self) -> str:
        head, rows = self._head()
        return f"{head.to_pandas().to_html(index=False, border=0)}<p>{rows:,} rows</p>"

    def _head(self) -> tuple[pa.Table, int]:
        """Return the first rows and the number of all rows."""
        if not isinstance(self._source, str):
            return self._source.slice(0, _SHOWN), len(self._source)
        stored = StoredTable(self._source)
        return stored.head(_SHOWN), stored.row_count


class Results:
    """What a command left. Its tables are attributes and items: ``run.scores``, ``run["scores"]``.

    What its record says is an attribute, too, such as ``run.summary``, and so are the tables of its
    report, as they are shown: ``contest.leaderboard``.

    Attributes:
        out: the directory, file or URL that was written; empty if nothing was.
        complete: whether everything that was asked for is there.
        status: with which the command line would end.
        record: what the command says of itself, such as the content of ``run.json``.
        tables: all tables, by name.
        report: the figures, sections and warnings that terminal and page show; None if it has none.
    """

    def __init__(self, result: CommandResult) -> None:
        self._result, self.report, self.status = result, result.report, result.status
        report = result.report
        self.out = report.out if report and report.out else result.out
        gaps = (ExitStatus.INCOMPLETE, ExitStatus.FAILED)
        self.complete = result.status not in gaps and (report is None or report.complete)
        self.record = report.record if report and report.record else result.figures or {}
        in_memory = result.tables or (report.tables if report else {})
        self.tables = {name: Table(table) for name, table in in_memory.items()}
        if not self.tables and report and report.out:
            names = [n for n in list_directory(report.out) or () if n.endswith(_PARQUET)]
            place = report.out.rstrip("/")
            self.tables = {n.removesuffix(_PARQUET): Table(f"{place}/{n}") for n in names}
        self._has_page = self._has_warnings = False

    def __getitem__(self, name: str) -> Table:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "tables" not in self.__dict__:
            raise AttributeError(name)
        if name in self.tables:
            return self.tables[name]
        if name in self.record:
            return self.record[name]
        for section in filter(None, self.report.sections if self.report else ()):
            tables = [part for part in section.parts if isinstance(part, ReportTable)]
            if section.name == name and tables:
                return _shown(tables[0])
        raise AttributeError(f"no table {name!r}; tables are {', '.join(self.tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def to_text(self, width: int = 120) -> str:
        """Return the text that the terminal shows at the end, of lines of this width."""
        return render_text(self._lines(width), width)

    def _lines(self, width: int) -> Iterator[Line]:
        if self.report:
            told, paged = self._has_warnings, self._has_page
            yield from render_lines(self.report, width, with_warnings=told, has_page=paged)
        yield from self._result.lines

    def write_report(self) -> str:
        """Write ``report.html``, a page that needs no network; return its path.

        Raises:
            OptionError: the command has no report, or was called without ``out``.
        """
        if not (self.report and self.report.out):
            raise OptionError("a report is written next to the results: give out=DIR")
        from zelo_ray.reports.page import write_page  # noqa: PLC0415 - paid where it is used

        self._has_warnings |= write_page(self.report)
        self._has_page = True
        return f"{self.report.out.rstrip('/')}/{self.report.page}"

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"


def _shown(table: ReportTable) -> Table:
    """Return a table of a report, with numbers as numbers where all of a column are."""
    columns = dict[str, list[Any]]()
    for place, name in enumerate(table.columns):
        cells = [row[place] for row in table.rows]
        numbers = [cell.value for cell in cells if isinstance(cell, Quantity)]
        if len(numbers) == len(cells):
            columns[name] = [None if isnan(number) else number for number in numbers]
        else:
            columns[name] = [str(getattr(cell, "text", cell)) for cell in cells]
    return Table(pa.table(columns))


def render_text(lines: Iterator[Line], width: int) -> str:
    """Render lines and tables as plain text, with control characters escaped."""
    texts: list[str] = []
    for line in lines:
        if isinstance(line, str):
            texts += printable(line).split("\n")
        else:
            file = StringIO()  # in a notebook, rich would display it, too
            Console(file=file, width=width, color_system=None, force_jupyter=False).print(line)
            texts += [row.rstrip() for row in file.getvalue().rstrip("\n").split("\n")]
    return "\n".join(texts).strip("\n")


def load_run(
    out: str | PathLike[str] | None = None,
    *,
    config: str | PathLike[str] | None = None,
    progress: object = None,  # noqa: ARG001 - as every function; it takes no time
) -> Results:
    """Load the results in a directory or URL, as the function that wrote them returned them.

    Args:
        out: the directory or URL.
        config: the YAML file of the command, whose ``out`` is taken where none is given.
        progress: not shown.

    Raises:
        NotFoundError: there are no results, or the run is not finished.
        InputError: a file is damaged.
        OptionError: there is no file system for the URL, or no place is named.
    """
    if not isinstance(out, str | PathLike | None):
        raise OptionError("load_run takes the directory of a run; measure() takes a ranking")
    place = out or read_config(fspath(config or "")).get("out")
    if not place:
        raise OptionError("name the directory or URL of the results")
    try:
        check_url(fspath(place))
    except ValueError as error:
        raise OptionError(str(error)) from None
    found: Results | None = results_of(fspath(place))
    return found or Results(with_lines(read_report(fspath(place))))
