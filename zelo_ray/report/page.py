"""Render a report as one HTML page that opens from a file, without network access.

All data is escaped, by jinja and `markupsafe`. Only the page's own script may run.
"""

import base64
import gzip
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup

from zelo_ray.report.model import Cell, Chart, Link, Report, Table, Value, text_of

PAGE = "report.html"


def render_page(report: Report, kind: str = "report") -> str:
    """Render a report as one HTML text, with all that it needs."""
    from jinja2 import (  # noqa: PLC0415 - a page that is up to date needs none
        Environment,
        PackageLoader,
        StrictUndefined,
    )

    loader = PackageLoader("zelo_ray.report")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    style, script = (loader.get_source(page, name)[0] for name in ("page.css", "page.js"))
    page.filters |= {"text": text_of, "form": _form}
    return page.get_template("page.html").render(
        report=report,
        kind=kind,
        sections=[section for section in (*report.sections, *report.details) if section.parts],
        style=Markup(style),  # noqa: S704 - ours, not data
        script=Markup(script),  # noqa: S704 - ours, not data
        allowed=f"'sha256-{digest(script)}'",  # an injected script would be blocked
    )


def _form(part: Any) -> str:
    """Return the name of what draws a part, or a value of a table."""
    forms = {Table: "table", Chart: "chart", Markup: "html", Link: "link", Cell: "cell"}
    return forms.get(type(part), "sentence")


def digest(script: str) -> str:
    """Return the hash of a script or style for a Content-Security-Policy."""
    # A browser hashes the parsed text, in which carriage returns have become newlines.
    text = script.replace("\r\n", "\n").replace("\r", "\n")
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def fold(title: str, notes: Sequence[str], inside: Markup) -> Markup:
    """Fold a part of a page below its title."""
    folded = '<details><summary><b>{}</b> <span class="dim">{}</span></summary>{}</details>'
    return Markup(folded).format(title, " · ".join(notes), inside)  # noqa: S704 - ours, not data


def pack(inside: Markup) -> Markup:
    """Pack what stands in a folded part: a browser unpacks it when the part is opened."""
    packed = base64.b64encode(gzip.compress(inside.encode(), 9, mtime=0)).decode()
    return Markup('<script type="text/plain">{}</script>').format(packed)


def foldings(items: Iterable[Markup], filtered: str = "") -> Markup:
    """List folded parts; ``filtered`` is what a field for a word to look for says, if wanted."""
    field = Markup('<input type="search" placeholder="{0}" aria-label="{0}" hidden>')
    head = field.format(filtered) if filtered else Markup("")
    return Markup('<div class="foldings">{}{}</div>').format(head, Markup("").join(items))


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Markup | Value]]) -> Markup:
    """Build a table of HTML cells for a folded part."""
    head = Markup("").join(Markup("<th>{}</th>").format(name) for name in columns)
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                Markup("<td>{}</td>").format(v if isinstance(v, Markup) else text_of(v))
                for v in row
            )
        )
        for row in rows
    )
    frame = '<div class="wide"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    return Markup(frame).format(head, body)  # noqa: S704 - ours, not data
