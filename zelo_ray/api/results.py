"""Results of every command: tables, a report, and its text for the terminal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from io import StringIO
from pathlib import Path
from typing import ClassVar

from rich.console import Console

from zelo_ray.api.tables import PlainText, Table
from zelo_ray.errors import OptionError
from zelo_ray.formats.record import RUN
from zelo_ray.formats.results import write_text
from zelo_ray.formats.wording import printable
from zelo_ray.reports.parts import Report
from zelo_ray.reports.terminal import Line, render_lines

WIDTH = 120
"""Characters of a line, where nobody says how many there are."""

PAGE = "report.html"


class Results:
    """The results of a command. Its tables are attributes, such as ``run.scores``.

    Attributes:
        out: directory or URL where they are; empty where nothing was written.
        complete: whether all that was asked for is there.
        tables: all tables, by name.
    """

    FILES: ClassVar[Sequence[str]] = ()
    """The files that the last line of a command names."""

    def __init__(
        self,
        out: str,
        tables: Mapping[str, Table],
        make_report: Callable[[], Report],
        *,
        complete: bool,
    ) -> None:
        self.out, self.tables, self.complete = out, dict(tables), complete
        self._make_report, self._files = make_report, [*self.FILES]
        self._up_to_date = False
        self._has_warnings = False

    def __getattr__(self, name: str) -> Table:
        tables: dict[str, Table] = self.__dict__.get("tables", {})
        if name in tables:
            return tables[name]
        raise AttributeError(f"there is no {name!r}; there are the tables {', '.join(tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    @cached_property
    def report(self) -> Report:
        """Return what the terminal and the page show: figures, sections, warnings."""
        return self._make_report()

    def lines(self, width: int) -> Iterator[Line]:
        """Yield what the terminal shows at the end, as lines and tables."""
        yield from render_lines(self.report, width, with_warnings=self._has_warnings)
        if self.out and self._files:
            yield f"results: {self.out}/{', '.join(self._files)}"

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
        if not (self._up_to_date and _is_younger(Path(self.out), PAGE, RUN)):
            self._write_page()
        if self._files and PAGE not in self._files:
            self._files.append(PAGE)
        return f"{self.out.rstrip('/')}/{PAGE}"

    def _write_page(self) -> None:
        from zelo_ray.reports.page import render_page  # noqa: PLC0415 - paid where it is used

        write_text(self.out, PAGE, render_page(self.report))
        self._has_warnings = True

    def __repr__(self) -> str:
        return str(self.to_text())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.to_text())}</pre>"


def _is_younger(folder: Path, page: str, record: str) -> bool:
    """Return whether a page was written after a record, by the times of the local files."""
    files_exist = (folder / page).exists() and (folder / record).exists()
    return files_exist and (folder / page).stat().st_mtime_ns > (folder / record).stat().st_mtime_ns


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
