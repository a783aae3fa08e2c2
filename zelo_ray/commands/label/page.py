"""Render the page where people judge documents or pairs, as one self-contained file."""

from collections.abc import Mapping
from typing import Any

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from zelo_ray.commands.label.rubric import name_choices, text_for_people
from zelo_ray.files.labels import LabelUnit
from zelo_ray.report.page import digest


def labelling_page(
    about: Mapping[str, Any], unit: LabelUnit, commands: Mapping[str, str], token: str
) -> tuple[str, str]:
    """Return the page and the Content-Security-Policy that allows only its own script and style.

    Args:
        about: the sample, whose rubric is shown.
        unit: what is judged.
        commands: those that the page shows.
        token: that the server requires with each answer.
    """
    rubric = about["rubric"]
    choices = [
        {"key": choice.key, "value": choice.value, "name": choice.name}
        for choice in name_choices(unit, rubric)
    ]
    rubric = text_for_people(rubric, about.get("instructions"))
    loader = PackageLoader("zelo_ray.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    script, style = (loader.get_source(environment, f"label.{kind}")[0] for kind in ("js", "css"))
    page = environment.get_template("label.html").render(
        rubric=rubric,
        unit=unit,
        choices=choices,
        about=_embedded({"token": token, "unit": unit.name, "choices": choices, "words": commands}),
        script=Markup(script),  # noqa: S704 - ours, not data
        style=Markup(style),  # noqa: S704 - ours, not data
    )
    allowed = f"script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'"
    policy = "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    return page, f"default-src 'none'; {allowed}; {policy}; frame-ancestors 'none'"


def _embedded(value: Any) -> Markup:
    """Encode a value as JSON that is safe inside a script element."""
    text = orjson.dumps(value).decode()
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))  # noqa: S704 - nothing can close the element
