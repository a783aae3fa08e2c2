"""Build pages from sections of charts and tables, for any kind of run, and render them.

Whatever comes from data is escaped on its way: by jinja in the page's text, as JSON without ``<``
in its data, and by `plain` where a chart would read it as markup of its own.
"""

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, ClassVar

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from zelo_ray.present.warnings import RankedWarnings

Figure = Mapping[str, Any]
"""``data`` and ``layout`` in Plotly's words, as far as the page's own ``charts.js`` knows them.

Colours are names of the page's own (``--up``).
"""

_SCRIPTS = ("charts.js", "when.js", "take.js", "sort.js", "page.js")


@dataclass(frozen=True, slots=True)
class Link:
    """A table's cell that leads to a place of the page."""

    text: str
    target: str


@dataclass(frozen=True, slots=True)
class Text:
    """A table's cell of running text."""

    text: str


@dataclass(frozen=True, slots=True)
class Away:
    """A table's cell that leads to another page; ``address`` is relative, or a URL of ours."""

    text: str
    address: str


Cells = list[str | Link | Text | Away]
"""A row of a table."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure, or several by name of which a person selects one, and a sentence on how to read it.

    With several choices a figure is named by a tuple, of one name for each of them. Charts with a
    choice of the same word change together.
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
class Table:
    """Rows of cells; the columns whose names stand in ``numbers`` are set to the right.

    Rows past the first ``open_rows`` are folded away. A ``sortable`` table is sorted by a click on
    a heading.
    """

    form: ClassVar[str] = "table"
    columns: Sequence[str]
    rows: Sequence[Cells]
    caption: str = ""
    numbers: frozenset[str] = frozenset()
    open_rows: int | None = None
    sortable: bool = False


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
    """A part of the page with a heading; ``name`` is its anchor."""

    name: str
    title: str
    parts: Sequence[Chart | Duel | Table | Queries | Contrasts]


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page: a heading, figures at a glance, sentences under them, and sections.

    A ``banner`` stands above all of it; ``kind`` says what kind of page it is.
    """

    title: str
    tiles: Sequence[tuple[str, str]]
    lead: Sequence[str]
    sections: Sequence[Section | None]
    notes: Sequence[str] = field(default=())
    banner: str = ""
    warnings: RankedWarnings | None = None
    kind: str = "report"


def render(page: Page) -> str:
    """Render the page as one HTML text, with all that it needs."""
    loader = PackageLoader("zelo_ray.present.html")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["json"] = embedded
    scripts = [Markup(asset(environment, name)) for name in _SCRIPTS]  # noqa: S704 - ours, not data
    return environment.get_template("page.html").render(
        page=page,
        sections=[section for section in page.sections if section],
        style=Markup(asset(environment, "page.css")),  # noqa: S704 - ours, not data
        scripts=scripts,
        # Only these scripts may run: another that got into the page all the same would not.
        allowed=" ".join(f"'sha256-{digest(script)}'" for script in scripts),
    )


def asset(environment: Environment, name: str) -> str:
    """Read a script or style of this package."""
    assert environment.loader is not None  # noqa: S101 - for the type checker
    return environment.loader.get_source(environment, name)[0]


def digest(script: str) -> str:
    """Return the hash of a script or style for a Content-Security-Policy."""
    # A browser hashes what it parsed, in which a carriage return has become a newline.
    text = script.replace("\r\n", "\n").replace("\r", "\n")
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embedded(value: Any) -> Markup:
    """Encode a value as JSON that is safe inside a script element; NaN becomes null."""
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704 - nothing can close the element


def packed(value: Any) -> str:
    """Encode a value as JSON, gzip and base64, for data that are read only when asked for."""
    return base64.b64encode(gzip.compress(orjson.dumps(value), 9, mtime=0)).decode()


def plain(text: str) -> str:
    """Escape text for a chart, whose only markup is ``<br>`` and entities."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(text: str, length: int) -> str:
    """Cut text to a length, with an ellipsis where it goes on."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def number(value: float | None, form: str = ".3f") -> str:
    """Format a number; return an en dash for NaN, which is null in JSON."""
    return "\N{EN DASH}" if value is None or isnan(value) else f"{value:{form}}"


def interval(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Format an interval, such as [0.700, 0.812]; return an en dash where there is none."""
    return "\N{EN DASH}" if low is None or isnan(low) else f"[{low:{form}}, {high:{form}}]"


def estimate(value: float | None, low: float | None, high: float | None, form: str = ".3f") -> str:
    """Format a number and its interval, as far as they are known."""
    has_interval = low is not None and not isnan(low)
    return number(value, form) + (f" {interval(low, high, form)}" if has_interval else "")


def chance(value: float) -> str:
    """Format a probability in percent, never rounded to 0% or 100%."""
    if 0 < value < 0.001:
        return "<0.1%"
    return ">99.9%" if 0.999 < value < 1 else number(value, ".1%")


def plural(count: int, noun: str, nouns: str = "") -> str:
    """Format a number with its noun: 1 query, 2,000 queries."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
