"""Define a report: its figures, sentences, sections and warnings, as plain values.

    Section("judges", "Judges", [table(rows, {"judge": "name", "asked": "asked"})])

A part of a section is a sentence, a `Table`, a `Chart`, or a piece of HTML (`markupsafe.Markup`).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, isnan, nan
from typing import Any, Literal, NamedTuple

from markupsafe import Markup, escape

from zelo_ray.engine.replies import format_dollars

DASH = "\N{EN DASH}"
Severity = Literal["wrong", "doubtful", "note"]
SEVERITIES: tuple[Severity, ...] = ("wrong", "doubtful", "note")
"""There is no result, or a wrong one; it is less certain than it looks; good to know."""
_URL, _FOLDERS = re.compile(r"@https?://\S+"), re.compile(r"[^\s:]*/")


class Cell(NamedTuple):
    """A number in a table: how it is written, and its interval.

    ``form`` is a format such as ``.3f``, ``.1%`` or ``,``; ``$`` writes dollars, and ``p`` a
    probability, which is never rounded to 0% or 100%. NaN is shown as a dash.
    """

    value: float | None
    form: str = ".3f"
    low: float = nan
    high: float = nan

    def text(self, *, ends: bool = True) -> str:
        """Return the number as text, with its interval if it has one and ``ends`` are wanted."""
        alone = write_number(self.value, self.form)
        if not ends or isnan(self.low) or (self.form == "$" and not self.value):
            return alone
        return (
            f"{alone} [{write_number(self.low, self.form)}, {write_number(self.high, self.form)}]"
        )


class Link(NamedTuple):
    """A link to another page; ``address`` is relative, or a URL of ours."""

    text: str
    address: str


Value = str | int | float | Cell | Link | None


def write_number(value: float | None, form: str) -> str:
    """Return a number as text; see `Cell`."""
    if value is None or isnan(value):
        return DASH
    if form == "$":
        return format_dollars(value) if value else "free"
    if form == "p":
        edge = "<0.1%" if 0 < value < 0.001 else ">99.9%" if 0.999 < value < 1 else ""
        return edge or f"{value:.1%}"
    return f"{value:{form}}"


def text_of(value: Value, *, ends: bool = True) -> str:
    """Return a value of a table as text."""
    match value:
        case None:
            return ""
        case Cell():
            return value.text(ends=ends)
        case Link():
            return value.text
        case int():
            return f"{value:,}"
        case float():
            return write_number(value, ".3f")
    return value


@dataclass(frozen=True, slots=True)
class Table:
    """A table; a page folds what follows the first ``open_rows``.

    ``file`` is the result file with all rows, and ``total`` their number, if these are only some.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Value]]
    caption: str = ""
    file: str = ""
    total: int = 0
    open_rows: int = 20

    @property
    def numbers(self) -> list[bool]:
        """Return which columns hold nothing but numbers."""
        columns = [*zip(*self.rows, strict=True)] or [() for _ in self.columns]
        return [
            any(isinstance(value, int | float | Cell) for value in column)
            and not any(isinstance(value, str | Link) for value in column if value)
            for column in columns
        ]


def table(
    rows: Iterable[Any],
    columns: Mapping[str, str | Callable[[Any], Value]],
    caption: str = "",
    **more: Any,
) -> Table:
    """Build a table of rows (dicts or objects): by column a name of theirs, or a function."""
    cells: list[list[Value]] = [[_take(row, of) for of in columns.values()] for row in rows]
    return Table([*columns], cells, caption, **more)


def _take(row: Any, of: str | Callable[[Any], Value]) -> Any:
    if not isinstance(of, str):
        return of(row)
    return row[of] if isinstance(row, Mapping) else getattr(row, of)


def estimate(name: str = "value", form: str = ".3f") -> Callable[[Any], Cell]:
    """Return what takes a figure of a row, with its interval from ``low`` to ``high``."""

    def cell(row: Any) -> Cell:
        value, low, high = (_take(row, each) for each in (name, "low", "high"))
        return Cell(value, form, nan if low is None else low, nan if high is None else high)

    return cell


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture, or several of which the reader selects one, with a caption on how to read it.

    With several choices the key of a picture has a name for each. The terminal shows no charts.
    """

    pictures: Mapping[tuple[str, ...], Markup]
    caption: str
    choices: tuple[str, ...] = ()

    @property
    def selects(self) -> list[tuple[str, list[str]]]:
        """Return each choice with its names."""
        names = [[*dict.fromkeys(column)] for column in zip(*self.pictures, strict=True)]
        return [*zip(self.choices, names, strict=True)]


def chart(
    pictures: Markup | Mapping[str, Markup] | Mapping[tuple[str, str], Markup],
    caption: str,
    *choices: str,
) -> Chart:
    """Build a chart of one picture, or of several by the names of their choices."""
    if isinstance(pictures, Markup):
        return Chart({(): pictures}, caption)
    keyed: dict[tuple[str, ...], Markup] = {
        (key,) if isinstance(key, str) else key: picture for key, picture in pictures.items()
    }
    return Chart(keyed, caption, choices)


Part = str | Table | Chart | Markup


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading; ``name`` is its anchor on the page."""

    name: str
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Warn:
    """A reason to trust results less: what was found, and the flag or command that helps."""

    code: str
    severity: Severity
    text: str
    advice: str = ""
    section: str = ""

    def __str__(self) -> str:
        return f"{self.text}. {self.advice}." if self.advice else f"{self.text}."


@dataclass(frozen=True)
class Report:
    """What a command found, as the terminal and the page show it.

    Attributes:
        title: what was done, in a few words.
        tiles: figures at a glance, by name.
        lead: sentences that summarise the results.
        sections: for terminal and page.
        page_sections: returns those that only the page shows; may take long.
        find_warnings: returns the warnings; may take long.
        notes: further sentences that a reader has to know.
        made: how the results were made, for the page.
        banner: shown above everything else.
        names: of judges and rankers, which are shown short: see `names`.
    """

    title: str
    tiles: Mapping[str, Value] = field(default_factory=dict)
    lead: Sequence[str] = ()
    sections: Sequence[Section] = ()
    page_sections: Callable[[], Sequence[Section]] = tuple
    find_warnings: Callable[[], Iterable[Warn]] = tuple
    notes: Sequence[str] = ()
    made: str = ""
    banner: str = ""
    names: Sequence[str] = ()

    @cached_property
    def warnings(self) -> Sequence[Warn]:
        """Return the warnings, the worst first."""
        return sorted(self.find_warnings(), key=lambda warn: SEVERITIES.index(warn.severity))

    @cached_property
    def details(self) -> Sequence[Section]:
        """Return the sections that only the page shows."""
        return self.page_sections()

    def section(self, name: str) -> Section:
        """Return the section of a name; raise `KeyError` if there is none."""
        return {section.name: section for section in (*self.details, *self.sections)}[name]


def name_some(names: Sequence[str], most: int = 3) -> str:
    """Return names in a sentence: ``a, b and 2 more``."""
    if len(names) <= most:
        return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
    return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} more"


def without_place(name: str) -> str:
    """Return a judge's or ranker's name without the URL of its server and without folders."""
    return _FOLDERS.sub("", _URL.sub("", name))


def is_known(value: float | None) -> bool:
    """Return whether a number is one."""
    return value is not None and isfinite(value)


_KINDS = {
    "offline": ("only matches words", "only match words"),
    "simulated": ("draws its answers at random", "draw their answers at random"),
    "recorded": ("replays recorded answers", "replay recorded answers"),
}
"""What judges that are no models do, one and several."""


def warn_of_demonstration(judges: Sequence[str], section: str = "") -> Iterator[Warn]:
    """Yield a warning if judges are no models; names without a colon are of labels or panels."""
    named, facts = [name for name in judges if ":" in name], dict[str, str]()
    demonstrations = [name for name in named if name.partition(":")[0] in _KINDS]
    for kind, words in _KINDS.items():
        if names := [name for name in demonstrations if name.startswith(f"{kind}:")]:
            facts[kind] = f"{name_some(names)} {words[len(names) > 1]}"
    if [*facts] == ["recorded"]:
        text = f"{facts['recorded']}: the model might answer differently now"
        yield Warn("demonstration", "note", text, "Ask models: --judges openai:MODEL", section)
    elif facts:
        every = len(demonstrations) == len(named)
        text = f"{'; '.join(facts.values())}: this is {'' if every else 'partly '}a demonstration"
        advice = "Ask models that read: --judges openai:MODEL"
        yield Warn("demonstration", "wrong" if every else "doubtful", text, advice, section)


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names that can be shorter and still differ from all others, with what they are."""
    short = {name: without_place(name) for name in names}
    counts = Counter(short.values())
    return {name: each for name, each in short.items() if each != name and counts[each] == 1}


def with_short_names(report: Report) -> Report:
    """Return a report for people to read, which says once what a short name stands for."""
    short = short_names(dict.fromkeys(report.names))
    if not short:
        return report
    full = name_some([f"{each} is {name}" for name, each in short.items()], 8)
    legend = [f"In full: {full}."]

    def cut(value: Any) -> Any:
        for name in sorted(short, key=len, reverse=True):  # one may begin as another
            if isinstance(value, Markup):
                value = value.replace(escape(name), short[name])
            elif isinstance(value, str):
                value = value.replace(name, short[name])
        return value

    def part(one: Any) -> Any:
        if isinstance(one, Chart):
            pictures = {tuple(map(cut, key)): cut(each) for key, each in one.pictures.items()}
            return replace(one, pictures=pictures, caption=cut(one.caption))
        if not isinstance(one, Table):
            return cut(one)
        columns, rows = [*map(cut, one.columns)], [[*map(cut, row)] for row in one.rows]
        more = legend.pop() if rows != one.rows and legend else ""
        caption = f"{cut(one.caption)} {more}".strip()
        return replace(one, columns=columns, rows=rows, caption=caption)

    def section(one: Section) -> Section:
        return replace(one, title=cut(one.title), parts=[*map(part, one.parts)])

    return replace(
        report,
        tiles={cut(name): cut(value) for name, value in report.tiles.items()},
        lead=[*map(cut, report.lead)],
        sections=[*map(section, report.sections)],
        page_sections=lambda: [*map(section, report.details)],
        find_warnings=lambda: [replace(warn, text=cut(warn.text)) for warn in report.warnings],
        notes=[*map(cut, report.notes)],
        banner=cut(report.banner),
    )
