"""Render a report as one HTML page that opens from a file, without network access.

All data is escaped: by jinja in the page's text, as JSON without ``<`` in embedded data, and by
`plain` where a chart would read it as markup.
"""

import base64
import gzip
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from markupsafe import Markup

from zelo_ray.files.run_record import RUN
from zelo_ray.files.storage import write_text
from zelo_ray.reports.parts import Report

if TYPE_CHECKING:
    from jinja2 import Environment

_SCRIPTS = ("charts.js", "when.js", "take.js", "page.js")


def render_page(report: Report) -> str:
    """Render a report as one HTML text, with all that it needs."""
    from jinja2 import (  # noqa: PLC0415 - a page that is up to date needs none
        Environment,
        PackageLoader,
        StrictUndefined,
    )

    loader = PackageLoader("zelo_ray.reports")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["json"] = embed_json
    scripts = [Markup(asset(environment, name)) for name in _SCRIPTS]  # noqa: S704 - ours, not data
    return environment.get_template("page.html").render(
        report=report,
        sections=[section for section in (*report.sections, *report.details) if section],
        style=Markup(asset(environment, "page.css")),  # noqa: S704 - ours, not data
        scripts=scripts,
        # Only these scripts may run: an injected one would be blocked.
        allowed=" ".join(f"'sha256-{digest(script)}'" for script in scripts),
    )


def write_page(report: Report) -> bool:
    """Write the page beside the results, unless an up-to-date one exists.

    Returns:
        True if it was written.
    """
    if report.is_up_to_date and _is_younger(Path(report.out), report.page, RUN):
        return False
    write_text(report.out, report.page, render_page(report))
    return True


def _is_younger(folder: Path, page: str, record: str) -> bool:
    """Return whether a page was written after a record, by the times of the local files."""
    files_exist = (folder / page).exists() and (folder / record).exists()
    return files_exist and (folder / page).stat().st_mtime_ns > (folder / record).stat().st_mtime_ns


def asset(environment: "Environment", name: str) -> str:
    """Read a script or style of this package."""
    assert environment.loader is not None  # noqa: S101 - for the type checker
    return environment.loader.get_source(environment, name)[0]


def digest(script: str) -> str:
    """Return the hash of a script or style for a Content-Security-Policy."""
    # A browser hashes the parsed text, in which carriage returns have become newlines.
    text = script.replace("\r\n", "\n").replace("\r", "\n")
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def embed_json(value: Any) -> Markup:
    """Encode a value as JSON that is safe inside a script element; NaN becomes null."""
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704 - nothing can close the element


def pack_json(value: Any) -> str:
    """Encode a value as JSON, gzip and base64, for data that the page unpacks on demand."""
    return base64.b64encode(gzip.compress(orjson.dumps(value), 9, mtime=0)).decode()
