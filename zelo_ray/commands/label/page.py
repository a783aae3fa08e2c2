"""Render the page where people judge, as one self-contained file, and explain the grades."""

import re
from dataclasses import replace

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from zelo_ray.commands.label.queue import LabelQueue
from zelo_ray.files.labels import CANNOT_SAY, DOCUMENT, AnswerChoice, LabelUnit
from zelo_ray.protocols.grading import GRADES
from zelo_ray.report.page import digest

RUBRIC = """\
Does this text answer the query? Judge the text alone, and by what it says, not by how well.

{}

"Cannot say" is for texts that you cannot judge: another language, broken, beyond what you know.
""".format("\n".join(reversed(GRADES)))
PAIR_RUBRIC = """\
Which of the two texts answers the query better? Judge them by what they say, not by their style,
their length or their order.

"Tie" is for texts that answer it equally well, or both not at all. "Cannot say" is for texts that
you cannot judge: another language, broken, beyond what you know.
"""
_GRADE = re.compile(r"^[^\w\n]*(\d)[^\S\n]*[:.,=)-]?[^\S\n]*([^:.,;(\n]+)", re.MULTILINE)
_LONGEST = 24  # characters that fit on a button on a phone


def render_page(queue: LabelQueue, again: str, then: str, token: str) -> tuple[str, str]:
    """Return the page and the Content-Security-Policy that allows only its own script and style."""
    rubric, unit = queue.about["rubric"], queue.unit
    choices = [
        {"key": choice.key, "value": choice.value, "name": choice.name}
        for choice in name_choices(unit, rubric)
    ]
    if instructions := queue.about.get("instructions"):
        rubric = f"What counts as relevant, before all else:\n\n{instructions}\n\n{rubric}"
    loader = PackageLoader("zelo_ray.report")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    script, style = (loader.get_source(environment, f"label.{kind}")[0] for kind in ("js", "css"))
    commands = {"again": again, "next": then}
    about = {"token": token, "unit": unit.name, "choices": choices, "words": commands}
    embedded = orjson.dumps(about).decode().replace("<", "\\u003c").replace(">", "\\u003e")
    page = environment.get_template("label.html").render(
        rubric=rubric,
        unit=unit,
        choices=choices,
        about=Markup(embedded),  # noqa: S704 - nothing in it can close its element
        script=Markup(script),  # noqa: S704 - ours, not data
        style=Markup(style),  # noqa: S704 - ours, not data
    )
    allowed = f"script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'"
    policy = "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    return page, f"default-src 'none'; {allowed}; {policy}; frame-ancestors 'none'"


def name_choices(unit: LabelUnit, rubric: str) -> list[AnswerChoice]:
    """Return the answers on a document or pair; a line of the rubric may name a grade."""
    lines = _GRADE.findall(rubric) if unit is DOCUMENT else ()
    names = {key: " ".join(name.split()) for key, name in lines}
    short = {key: name for key, name in names.items() if len(name) <= _LONGEST}
    choices = (replace(each, name=short.get(each.key, each.name)) for each in unit.choices)
    return [*choices, CANNOT_SAY]
