"""Render the page where people judge documents or pairs, as one self-contained file."""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from zelo_ray.commands.label import LabelWork, page_commands
from zelo_ray.commands.label.rubric import name_choices, text_for_people
from zelo_ray.reports.page import asset, digest, embed_json


def labelling_page(work: LabelWork, token: str) -> tuple[str, str]:
    """Return the page and the Content-Security-Policy that allows only its own script and style.

    Args:
        work: its rubric is shown; nothing else of it is in the page.
        token: that the server requires with each answer.
    """
    rubric, unit = work.about["rubric"], work.desk.unit
    choices = [
        {"key": choice.key, "value": choice.value, "name": choice.name}
        for choice in name_choices(unit, rubric)
    ]
    rubric = text_for_people(rubric, work.about.get("instructions"))
    environment = Environment(
        loader=PackageLoader("zelo_ray.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    script, style = (asset(environment, f"label.{kind}") for kind in ("js", "css"))
    page = environment.get_template("label.html").render(
        rubric=rubric,
        unit=unit,
        choices=choices,
        about=embed_json(
            {"token": token, "unit": unit.name, "choices": choices, "words": page_commands(work)}
        ),
        script=Markup(script),  # noqa: S704 - ours, not data
        style=Markup(style),  # noqa: S704 - ours, not data
    )
    allowed = f"script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'"
    policy = "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    return page, f"default-src 'none'; {allowed}; {policy}; frame-ancestors 'none'"
