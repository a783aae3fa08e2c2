"""Results of every command: tables, a report, and its text for the terminal."""

from collections.abc import Iterator
from html import escape
from io import StringIO

from rich.console import Console

from zelo_ray.api.tables import PlainText, Table, tables_in
from zelo_ray.errors import OptionError
from zelo_ray.formats.wording import printable
from zelo_ray.reports.parts import Report
from zelo_ray.reports.terminal import Line, render_lines

WIDTH = 120
"""Characters of a line, where nobody says how many there are."""


class Results:
    """The results of a command. Its tables are attributes, such as ``run.scores``.

    Attributes:
        out: directory or URL where they are; empty where nothing was written.
        complete: whether all that was asked for is there.
        tables: all tables, by name.
        report: what the terminal and the page show: figures, sections, warnings.
    """

    def __init__(self, report: Report) -> None:
        self.report, self.out, self.complete = report, report.out, report.complete
        in_memory = {name: Table(table) for name, table in report.tables.items()}
        self.tables = in_memory or (tables_in(report.out) if report.out else {})
        self._has_page = self._has_warnings = False

    def __getattr__(self, name: str) -> Table:
        tables: dict[str, Table] = self.__dict__.get("tables", {})
        if name in tables:
            return tables[name]
        raise AttributeError(f"there is no {name!r}; there are the tables {', '.join(tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def lines(self, width: int) -> Iterator[Line]:
        """Yield what the terminal shows at the end, as lines and tables."""
        has_page, with_warnings = self._has_page, self._has_warnings
        yield from render_lines(self.report, width, with_warnings=with_warnings, has_page=has_page)

    def to_text(self, width: int = WIDTH) -> PlainText:
        """Return the text that the terminal shows at the end.

        Args:
            width: characters that a line of a table may take.
        """
        return text_of(self.lines(width), width)

    def write_report(self) -> str:
        """Write ``report.html``, one page that needs no network; return where it is.

        Raises:
            OptionError: nothing was written, as the command was given no ``out``.
        """
        if not self.out:
            raise OptionError("a report stands beside the results: give out=DIR")
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


def text_of(lines: Iterator[Line], width: int) -> PlainText:
    """Render lines and tables as plain text, with control characters made harmless."""
    texts: list[str] = []
    for line in lines:
        if isinstance(line, str):
            texts.append(printable(line))
        else:
            file = StringIO()  # in a notebook, rich would show what it prints, wherever it goes
            Console(file=file, width=width, color_system=None, force_jupyter=False).print(line)
            texts += [row.rstrip() for row in file.getvalue().rstrip("\n").split("\n")]
    return PlainText("\n".join(texts).strip("\n"))
