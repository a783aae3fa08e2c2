"""Define reports: sections of tables, charts and sentences for the terminal and the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from zelo_ray.errors import ExitStatus
from zelo_ray.reports.warning import RankedWarnings

Figure = Mapping[str, Any]
"""``data`` and ``layout`` in Plotly's format, as far as the page's ``charts.js`` supports it.

Colours are CSS variables of the page (``--up``).
"""


@dataclass(frozen=True, slots=True)
class TextCell:
    """A table's cell of running text."""

    text: str


@dataclass(frozen=True, slots=True)
class PageLink:
    """A table's cell that links to another page; ``address`` is relative, or a trusted URL."""

    text: str
    address: str


Cells = list[str | TextCell | PageLink]
"""A row of a table. Numbers are `zelo_ray.reports.wording.Quantity`, a subclass of str."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences: one line each on the terminal, one paragraph on the page."""

    form: ClassVar[str] = "sentences"
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, or several by name from which the reader selects, with a caption on how to read it.

    With several choices the key of a figure is a tuple with a name for each choice. Charts whose
    choice has the same name change together. The terminal shows no charts.
    """

    form: ClassVar[str] = "chart"
    figures: Mapping[str, Figure] | Mapping[tuple[str, ...], Figure]
    caption: str
    choice: str | tuple[str, ...] = ""

    @property
    def selects(self) -> list[tuple[str, list[str]]]:
        """Return each choice with its names."""
        choices = (self.choice,) if isinstance(self.choice, str) else self.choice
        keys = [(key,) if isinstance(key, str) else key for key in self.figures]
        names = [[*dict.fromkeys(column)] for column in zip(*keys, strict=True)]
        return [*zip(choices, names, strict=True)]


@dataclass(frozen=True, slots=True)
class Duel:
    """A comparison of two runs by query, which are selected in the browser."""

    form: ClassVar[str] = "duel"
    data: Mapping[str, Any]
    caption: str


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table.

    Attributes:
        columns: their names; a narrow terminal leaves out the last ones.
        rows: of cells.
        caption: sentences on how to read it.
        numbers: names of right-aligned columns.
        open_rows: how many rows are shown; a page folds the others.
        file: the result file with all rows; empty if there is none.
        total: the number of all rows, if these are only the first.
    """

    form: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Cells]
    caption: str = ""
    numbers: frozenset[str] = frozenset()
    open_rows: int | None = None
    file: str = ""
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries, whose documents and judgments are unpacked in the browser when opened.

    ``unit`` is the unit of scores; ``scale`` is their lowest and highest value, if bounded.
    """

    form: ClassVar[str] = "queries"
    items: Sequence[Mapping[str, Any]]
    caption: str
    elsewhere: str
    unit: str = "logits"
    scale: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Contrasts:
    """By pair of runs, queries on which they differ, with the documents of both side by side."""

    form: ClassVar[str] = "contrasts"
    pairs: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
    caption: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading; ``name`` is its anchor on the page."""

    name: str
    title: str
    parts: Sequence[Sentences | Chart | Duel | ReportTable | Queries | Contrasts]


def _no_sections() -> Sequence[Section | None]:
    return ()


def no_next_step(_words: Sequence[str]) -> str | None:
    """Suggest no command."""
    return None


@dataclass(frozen=True)
class Report:
    """The results of a command, as the terminal and the page show them.

    Attributes:
        title: what was done, in a few words.
        tiles: figures at a glance: their names and values.
        lead: sentences that summarise the results.
        sections: shown by terminal and page; None is left out.
        make_details: returns further sections, which only the page shows; may take long.
        find_warnings: returns the warnings about the results; may take long.
        notes: further sentences that a reader has to know.
        made: how the results were made, for the page only.
        banner: shown above everything else.
        kind: of page.
        out: directory or URL of the results; empty if nothing was written.
        page: the file name of the page.
        files: the result files that the last line names, besides the page.
        record: the content of its JSON file, such as ``run.json``.
        tables: of the command, if they are in memory.
        complete: whether the results are complete.
        is_worse: whether a candidate is worse than the baseline, or a judge changed.
        is_up_to_date: whether these are the results of an earlier run, as nothing has changed.
        next_step: returns the command that usually comes next, from the typed words.
    """

    title: str
    tiles: Sequence[tuple[str, str]]
    lead: Sequence[str]
    sections: Sequence[Section | None]
    make_details: Callable[[], Sequence[Section | None]] = _no_sections
    find_warnings: Callable[[], RankedWarnings] | None = None
    notes: Sequence[str] = ()
    made: str = ""
    banner: str = ""
    kind: str = "report"
    out: str = ""
    page: str = "report.html"
    files: Sequence[str] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    complete: bool = True
    is_worse: bool = False
    is_up_to_date: bool = False
    next_step: Callable[[Sequence[str]], str | None] = no_next_step

    @property
    def status(self) -> ExitStatus:
        """Return the exit status of the command."""
        if self.is_worse:
            return ExitStatus.WORSE
        return ExitStatus.COMPLETE if self.complete else ExitStatus.INCOMPLETE

    @cached_property
    def warnings(self) -> RankedWarnings | None:
        """Return the warnings about the results, the worst first."""
        return self.find_warnings() if self.find_warnings else None

    @cached_property
    def details(self) -> Sequence[Section | None]:
        """Return the sections that only the page shows."""
        return self.make_details()

    def section(self, name: str) -> Section:
        """Return the section of a name.

        Raises:
            KeyError: there is none.
        """
        for section in self.sections:
            if section and section.name == name:
                return section
        for section in self.details:  # built on first access
            if section and section.name == name:
                return section
        raise KeyError(name)

    def table(self, name: str) -> ReportTable:
        """Return the first table of a section.

        Raises:
            KeyError: there is none.
        """
        for part in self.section(name).parts:
            if isinstance(part, ReportTable):
                return part
        raise KeyError(name)
