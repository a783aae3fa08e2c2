"""What a command left: on disk, at a URL or in memory."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import pyarrow as pa
from rich.console import Console

from zelo_ray.errors import ExitStatus, InputError, OptionError
from zelo_ray.files.run_record import RUN, find_owner, last_record
from zelo_ray.files.storage import list_directory, remove_file, write_json, write_text
from zelo_ray.files.tables import StoredTable, parquet_table, undivided, write_tables
from zelo_ray.files.wording import printable, without_passwords
from zelo_ray.options import CommandOptions
from zelo_ray.plugins import loaded_packages
from zelo_ray.report.document import make_document, report_fields
from zelo_ray.report.model import Report, with_short_names
from zelo_ray.report.page import PAGE, render_page
from zelo_ray.report.terminal import Line, render_report

if TYPE_CHECKING:
    import pandas as pd

Record = TypeVar("Record")
_SHOWN = 10
_ROWS = 50_000
_PARQUET = ".parquet"


class Table:
    """A table of results. A Parquet file is read on first use, and kept.

    Libraries that read Arrow take it: ``pyarrow.table(run.scores)``, ``polars.DataFrame(...)``.

    Example:
        >>> table = Table(pa.table({"doc_id": ["d1", "d2"], "score": [0.5, -0.5]}))
        >>> len(table), table.columns
        (2, ['doc_id', 'score'])
        >>> table.to_pandas().score.max()
        np.float64(0.5)
    """

    def __init__(self, source: str | pa.Table) -> None:
        self._source = source  # or the path or URL of a Parquet file

    def to_arrow(self) -> pa.Table:
        """Return the whole table as an Arrow table; raise `InputError` if its file is damaged."""
        if isinstance(self._source, str):
            self._source = parquet_table(self._source)
        return self._source

    def select(self, columns: Sequence[str]) -> pa.Table:
        """Return those of the columns that it has, as an Arrow table; a file is not kept."""
        if isinstance(self._source, str):
            return parquet_table(self._source, columns)
        return self._source.select([name for name in columns if name in self.columns])

    def to_pandas(self) -> "pd.DataFrame":
        """Return the whole table as a pandas data frame."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def parts(self, columns: Sequence[str], every: int = 1) -> Iterator[pa.Table]:
        """Yield columns in tables of some ten thousand rows that split no query.

        Rows of a query are adjacent. With ``every`` only one in so many stretches of rows is read,
        which may split one.
        """
        if not isinstance(self._source, str):
            yield self._source.select(list(columns))
            return
        batches = StoredTable(self._source).batches(_ROWS, columns, every)
        yield from undivided(batch.select(list(columns)) for batch in batches)

    def of_queries(self, query_ids: Collection[str]) -> Iterator[pa.Table]:
        """Yield the rows of some queries, in tables that split no query."""
        if isinstance(self._source, str):
            yield from undivided(StoredTable(self._source).rows_of_queries(query_ids))
        else:
            wanted = pa.array([*query_ids], pa.string())
            yield self._source.filter(pa.compute.is_in(self._source["query_id"], wanted))

    def head(self, rows: int = _SHOWN) -> tuple[pa.Table, int]:
        """Return the first rows, and the number of all."""
        if not isinstance(self._source, str):
            return self._source.slice(0, rows), len(self._source)
        stored = StoredTable(self._source)
        return stored.head(rows), stored.row_count

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return list(self.head()[0].column_names)

    def __len__(self) -> int:
        return self.head()[1]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as dicts from column name to value."""
        for batch in self.to_arrow().to_batches():
            yield from batch.to_pylist()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        head, rows = self.head()
        shown = head.to_pandas().to_string(index=False, max_colwidth=60) if rows else "no rows"
        more = f"\n… {rows:,} rows in all" if rows > _SHOWN else ""
        return "\n".join(map(printable, shown.split("\n"))) + more

    def _repr_html_(self) -> str:
        head, rows = self.head()
        return f"{head.to_pandas().to_html(index=False, border=0)}<p>{rows:,} rows</p>"


class Results:
    """What a command left. Its tables are attributes and items: ``run.scores``, ``run["scores"]``.

    What its record says is an attribute, too, such as ``run.summary``.

    Attributes:
        record: what the command says of itself: the content of ``run.json``, if it wrote one.
        tables: all tables, by name.
        out: the directory, file or URL that was written; empty if nothing was.
        status: with which the command line ends.
        lines: what is for people alone, below the report.
        lead: those of them that a program may want to read, too.
        notes: further sentences for programs.
        next_command: what usually comes next; empty if nothing does.
        files: what was written, if that is not all tables of a directory.
        is_current: whether these are results of an earlier run, as nothing has changed.
    """

    def __init__(
        self,
        record: Mapping[str, Any],
        tables: Mapping[str, pa.Table] | None = None,
        out: str = "",
        *,
        build: Callable[["Results"], Report] | None = None,
        status: ExitStatus = ExitStatus.COMPLETE,
        lines: Sequence[Line] = (),
        lead: Sequence[str] = (),
        notes: Sequence[str] = (),
        next_command: str = "",
        files: Sequence[str] = (),
        is_current: bool = False,
    ) -> None:
        self.record, self.out, self.status = record, out, status
        self.lines, self.next_command = lines, next_command
        self.files = files or [f"{out.rstrip('/')}/{name}" for name in record.get("files", ())]
        self.lead, self.notes = lead, notes
        self.is_current, self._build = is_current, build
        self.tables = {name: Table(table) for name, table in (tables or {}).items()}
        if tables is None and out and build:
            files = [name for name in list_directory(out) or () if name.endswith(_PARQUET)]
            first = [f"{name}{_PARQUET}" for name in record.get("tables", ())]
            names = dict.fromkeys(name for name in (*first, *files) if name in files)
            place = out.rstrip("/")
            self.tables = {n.removesuffix(_PARQUET): Table(f"{place}/{n}") for n in names}

    @property
    def complete(self) -> bool:
        """Return whether everything that was asked for is there."""
        return self.status not in (ExitStatus.INCOMPLETE, ExitStatus.FAILED)

    @cached_property
    def report(self) -> Report | None:
        """Return the figures, sections and warnings that terminal and page show, if it has any."""
        return self._build(self) if self._build else None

    def rows(self, name: str, **equal: Any) -> list[dict[str, Any]]:
        """Return the rows of a table, or those that have these values; none if it is missing."""
        rows: list[dict[str, Any]] = self.part(name, None, **equal).to_pylist()
        return rows

    def records(self, name: str, kind: type[Record], **equal: Any) -> list[Record]:
        """Return the same as records."""
        return [kind(**row) for row in self.part(name, kind, **equal).to_pylist()]

    def part(self, name: str, kind: type | None, **equal: Any) -> pa.Table:
        """Return the same, with the columns of a record type."""
        if name not in self.tables:
            return pa.table({})
        rows = self.tables[name].to_arrow()
        names = [*get_type_hints(kind)] if kind else rows.column_names
        if lacks := [each for each in (*names, *equal) if each not in rows.column_names]:
            raise InputError(f"{self.out}/{name}{_PARQUET}: has no column {lacks[0]}")
        for column, value in equal.items():
            rows = rows.filter(pa.compute.equal(rows[column], value))
        return rows.select(names)

    def __getitem__(self, name: str) -> Table:
        return self.tables[name]

    def __contains__(self, name: str) -> bool:
        return name in self.tables

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "tables" not in self.__dict__:
            raise AttributeError(name)
        if name in self.tables:
            return self.tables[name]
        if name in self.record:
            return self.record[name]
        raise AttributeError(f"no table {name!r}; tables are {', '.join(self.tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    @property
    def page(self) -> str:
        """Return where the page is; empty if there is none."""
        return f"{self.out.rstrip('/')}/{PAGE}" if self.out and self._build else ""

    def write_report(self) -> str:
        """Write ``report.html``, a page that needs no network, if need be; return its path."""
        if not (self.page and self.report):
            raise OptionError("a report is written next to the results: give out=DIR")
        if not (self.is_current and self._has_page()):
            write_text(self.out, PAGE, render_page(with_short_names(self.report)))
        return self.page

    def _has_page(self) -> bool:
        """Return whether the page is younger than the record, by the times of local files."""
        page, record = Path(self.page), Path(self.out, RUN)
        return page.exists() and page.stat().st_mtime_ns > record.stat().st_mtime_ns

    def render(self, width: int = 120) -> Iterator[Line]:
        """Yield what the terminal shows, as lines of a width and tables."""
        if self.report:
            names = [path.rpartition("/")[2] for path in self.files]
            names = names or [f"{name}{_PARQUET}" for name in sorted(self.tables)]
            files = ", ".join([*names[:4], *(["…"] if names[4:] else []), PAGE])
            shown = with_short_names(self.report)
            yield from render_report(shown, width, f"{self.out}/{files}" if self.out else "")
        yield from self.lines

    def to_text(self, width: int = 120) -> str:
        """Return the text that the terminal shows at the end, with lines of this width."""
        return render_text(self.render(width), width)

    def to_document(self, command: str, title: str) -> dict[str, Any]:
        """Return what programs read: see docs/formats.md."""
        written = [f"{self.out.rstrip('/')}/{name}{_PARQUET}" for name in self.tables]
        values = {
            "out": self.out or None,
            "files": [*self.files] or (written if self.page else []),
            "page": self.page or None,
            "next_command": without_passwords(self.next_command) or None,
            "record" if self._build and (self.out or self.tables) else "result": self.record,
        }
        fields: dict[str, Any] = {"lead": self.lead, "notes": self.notes}
        if self.report:
            fields = report_fields(self.report)
        if self.report and self.tables and not self.out:
            values["result"] = {name: table.to_arrow() for name, table in self.tables.items()}
        return make_document(command, fields.pop("title", title), self.status, **fields, **values)

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"


def finish(
    command: str,
    options: CommandOptions,
    tables: Mapping[str, pa.Table],
    build: Callable[[Results], Report],
    *,
    sources: Sequence[str] = (),
    complete: bool = True,
    is_worse: bool = False,
    next_command: str = "",
    **record: Any,
) -> Results:
    """Write the tables of a command and then its record, if it has an ``out``; return its results.

    ``sources`` are places that were read, where nothing may be written; ``record`` is what the
    report needs beside tables.
    """
    out: str = getattr(options, "out", None) or ""
    refuse_taken(command, out, sources)
    status = ExitStatus.COMPLETE if complete else ExitStatus.INCOMPLETE
    status = ExitStatus.WORSE if is_worse else status
    full = {
        "kind": command,
        "status": int(status),
        "options": options.model_dump(mode="json"),
        "versions": {name: version(name) for name in ("zelo-ray", "numpy", "scipy", "pyarrow")}
        | loaded_packages(),
        "tables": [*tables],
        **record,
    }
    if out:
        for name in {*last_record(out).get("tables", ())} - {*tables}:  # of other options
            remove_file(f"{out.rstrip('/')}/{name}{_PARQUET}")
        write_tables(out, tables)
        write_json(out, RUN, full)  # last: a kill leaves nothing that could be taken for results
    return Results(full, tables, out, build=build, status=status, next_command=next_command)


def refuse_taken(command: str, out: str, sources: Sequence[str] = ()) -> None:
    """Raise `OptionError` if ``out`` holds anything of another command, or people's labels."""
    if out and (owned := find_owner(out, command, sources)):
        raise OptionError(f"{out} holds {owned}; name another --out")


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
