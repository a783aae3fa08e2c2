"""Results of every command: tables, a report, and the text for the terminal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from zelo_ray.api.tables import Table, Text
from zelo_ray.errors import OptionError
from zelo_ray.formats.record import RUN
from zelo_ray.formats.wording import printable
from zelo_ray.present.warnings import RankedWarnings, terminal_lines

WIDTH = 120
"""Characters of a line, where nobody says how many there are."""
TEXT = "summary.txt"
"""What the terminal showed at the end of a command, where it does not follow from the tables."""

PAGE = "report.html"

Parts = Iterable[str | RichTable]


class Results:
    """The results of a command. Its tables are attributes, such as ``run.scores``.

    Attributes:
        out: directory or URL where they are; empty where nothing was written.
        complete: whether all that was asked for is there.
        tables: all tables, by name.
    """

    def __init__(
        self,
        out: str,
        tables: Mapping[str, Table],
        parts: Callable[[int], Parts],
        *,
        complete: bool,
        files: Sequence[str] = (),
    ) -> None:
        self.out, self.tables, self.complete = out, dict(tables), complete
        self._parts, self._files, self._stands = parts, [*files], False
        self._warnings: RankedWarnings | None = None

    def __getattr__(self, name: str) -> Table:
        tables: dict[str, Table] = self.__dict__.get("tables", {})
        if name in tables:
            return tables[name]
        raise AttributeError(f"there is no {name!r}; there are the tables {', '.join(tables)}")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.tables]

    def parts(self, width: int) -> Parts:
        """Yield what the terminal shows at the end, as lines and tables."""
        yield from self._parts(width)
        yield from terminal_lines(self._warnings)
        if self.out and self._files:
            yield f"results: {self.out}/{', '.join(self._files)}"

    def told(self, width: int = WIDTH) -> Text:
        """Return the text that the terminal shows at the end.

        Args:
            width: characters that a line of a table may take.
        """
        return plain(self.parts(width), width)

    def report(self) -> str:
        """Write ``report.html``, one page that needs no network; return where it is.

        Raises:
            OptionError: nothing was written, as the command was given no ``out``.
        """
        if not self.out:
            raise OptionError("a report stands beside the results: give out=DIR")
        if not (self._stands and _is_younger(Path(self.out), PAGE, RUN)):
            from zelo_ray.present.html import reported  # noqa: PLC0415 - paid where it is used

            self._warnings = reported(self.out)[1]
        if self._files and PAGE not in self._files:
            self._files.append(PAGE)
        return f"{self.out.rstrip('/')}/{PAGE}"

    def __repr__(self) -> str:
        return str(self.told())

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.told())}</pre>"


def _is_younger(folder: Path, page: str, record: str) -> bool:
    """Return whether a page was written after a record, by the times of the local files."""
    files_exist = (folder / page).exists() and (folder / record).exists()
    return files_exist and (folder / page).stat().st_mtime_ns > (folder / record).stat().st_mtime_ns


def plain(parts: Parts, width: int) -> Text:
    """Render lines and tables as plain text, with control characters made harmless."""
    lines: list[str] = []
    for part in parts:
        if isinstance(part, str):
            lines.append(printable(part))
        else:
            file = StringIO()  # in a notebook, rich would show what it prints, wherever it goes
            Console(file=file, width=width, color_system=None, force_jupyter=False).print(part)
            lines += [line.rstrip() for line in file.getvalue().rstrip("\n").split("\n")]
    return Text("\n".join(lines).strip("\n"))
