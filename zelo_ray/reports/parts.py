"""Define reports: sections of tables, charts and sentences, which a terminal and a page show."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from zelo_ray.errors import Status
from zelo_ray.reports.warning import RankedWarnings

Figure = Mapping[str, Any]
"""``data`` and ``layout`` in Plotly's words, as far as the page's own ``charts.js`` knows them.

Colours are names of the page's own (``--up``).
"""


@dataclass(frozen=True, slots=True)
class Link:
    """A table's cell that leads to a place of the page."""

    text: str
    target: str


@dataclass(frozen=True, slots=True)
class TextCell:
    """A table's cell of running text."""

    text: str


@dataclass(frozen=True, slots=True)
class Away:
    """A table's cell that leads to another page; ``address`` is relative, or a URL of ours."""

    text: str
    address: str


Cells = list[str | Link | TextCell | Away]
"""A row of a table. Numbers are `zelo_ray.reports.wording.Quantity`, which are texts, too."""


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences that stand by themselves: a line each on the terminal, a paragraph on the page."""

    form: ClassVar[str] = "sentences"
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, or several by name of which a person selects one, and a sentence on how to read it.

    With several choices a figure is named by a tuple, of one name for each of them. Charts with a
    choice of the same word change together. The terminal shows no charts.
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
    """Two runs against each other by query: any two, selected in the browser."""

    form: ClassVar[str] = "duel"
    data: Mapping[str, Any]
    caption: str


@dataclass(frozen=True, slots=True)
class ReportTable:
    """Rows of cells, of which a terminal and a page show the first.

    Attributes:
        columns: their names; where a terminal has no room for all, the last ones are left out.
        rows: of cells.
        caption: how to read it, in sentences.
        numbers: names of columns that are set to the right.
        open_rows: how many rows stand open; a page folds the others away.
        sortable: whether a page sorts it by a click on a heading.
        file: which of the result's files holds all rows; empty if there is none.
        total: how many rows there are in all, where these are only the first.
    """

    form: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Cells]
    caption: str = ""
    numbers: frozenset[str] = frozenset()
    open_rows: int | None = None
    sortable: bool = False
    file: str = ""
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Queries:
    """The queries, whose documents and judgments are unpacked in the browser when opened.

    ``unit`` is what scores are in; ``scale`` is their lowest and highest, if they have ends.
    """

    form: ClassVar[str] = "queries"
    items: Sequence[Mapping[str, Any]]
    caption: str
    elsewhere: str
    unit: str = "logits"
    scale: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Contrasts:
    """By pair of runs: queries on which they differ, with the documents of both side by side."""

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


def _no_next_step(_words: Sequence[str]) -> str | None:
    return None


@dataclass(frozen=True)
class Report:
    """The results of a command, as the terminal and the page show them.

    Attributes:
        title: what was done, in a few words.
        tiles: figures at a glance: what they are, and their value.
        lead: sentences on what the results come to.
        sections: shown by terminal and page; None is left out.
        make_details: returns further sections, which only the page shows: they may take long.
        find_warnings: returns what makes the results less than they look; this may take long.
        notes: what a reader has to know besides.
        made: how the results were made; only the page shows it.
        banner: what stands above all of it.
        kind: what kind of page it is.
        out: directory or URL of the results; empty where nothing was written.
        page: the name of the page that is written there.
        files: which of its files the last line names, beside the page.
        record: what its JSON file holds, such as ``run.json``.
        tables: the tables of a command, where they are in memory.
        complete: whether all that was asked for is there.
        is_worse: whether a candidate is worse than the baseline, or a judge changed.
        is_up_to_date: whether these are the results of an earlier run, since nothing had changed.
        next_step: returns the command that usually comes next, from what was typed.
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
    next_step: Callable[[Sequence[str]], str | None] = _no_next_step

    @property
    def status(self) -> Status:
        """Return the exit status of the command."""
        if self.is_worse:
            return Status.WORSE
        return Status.COMPLETE if self.complete else Status.INCOMPLETE

    @cached_property
    def warnings(self) -> RankedWarnings | None:
        """Return what makes the results less than they look, the worst first."""
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
        for section in self.details:  # which are made when they are looked at
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
