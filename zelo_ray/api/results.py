"""Define the results of every command: tables, a report, and its text for the terminal."""

from collections.abc import Iterator
from html import escape
from io import StringIO

from rich.console import Console

from zelo_ray.api.tables import PlainText, Table, find_tables
from zelo_ray.errors import OptionError
from zelo_ray.files.wording import printable
from zelo_ray.reports.parts import Report
from zelo_ray.reports.terminal import Line, render_lines

WIDTH = 120
"""The default width of a text, in characters."""


class Results:
    """The results of a command. Its tables are attributes, such as ``run.scores``.

    Attributes:
        out: their directory or URL; empty if nothing was written.
        complete: whether everything that was asked for is there.
        tables: all tables, by name.
        report: the figures, sections and warnings that terminal and page show.
    """

    def __init__(self, report: Report) -> None:
        self.report, self.out, self.complete = report, report.out, report.complete
        in_memory = {name: Table(table) for name, table in report.tables.items()}
        self.tables = in_memory or (find_tables(report.out) if report.out else {})
        self._has_page = self._has_warnings = False

    def __getattr__(self, name: str) -> Table:
        tables: dict[str, Table] = self.__dict__.get("tables", {})
        if name in tables:
            return tables[name]
        raise AttributeError(f"no table {name!r}; tables are {', '.join(tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def lines(self, width: int) -> Iterator[Line]:
        """Yield the lines and tables that the terminal shows at the end."""
        has_page, with_warnings = self._has_page, self._has_warnings
        yield from render_lines(self.report, width, with_warnings=with_warnings, has_page=has_page)

    def to_text(self, width: int = WIDTH) -> PlainText:
        """Return the text that the terminal shows at the end.

        Args:
            width: characters that a line of a table may take.
        """
        return render_text(self.lines(width), width)

    def write_report(self) -> str:
        """Write ``report.html``, a page that needs no network; return its path.

        Raises:
            OptionError: the function was called without ``out``.
        """
        if not self.out:
            raise OptionError("a report is written next to the results: give out=DIR")
        self._has_warnings |= self._write_page()
        self._has_page = True
        return f"{self.out.rstrip('/')}/{self.report.page}"

    def _write_page(self) -> bool:
        from zelo_ray.reports.page import write_page  # noqa: PLC0415 - paid where it is used

        return write_page(self.report)

    def __repr__(self) -> str:
        return str(self.to_text())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"


def render_text(lines: Iterator[Line], width: int) -> PlainText:
    """Render lines and tables as plain text, with control characters escaped."""
    texts: list[str] = []
    for line in lines:
        if isinstance(line, str):
            texts.append(printable(line))
        else:
            file = StringIO()  # in a notebook, rich would display it, too
            Console(file=file, width=width, color_system=None, force_jupyter=False).print(line)
            texts += [row.rstrip() for row in file.getvalue().rstrip("\n").split("\n")]
    return PlainText("\n".join(texts).strip("\n"))
