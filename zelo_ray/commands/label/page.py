"""Render the page where people judge documents, as one self-contained file."""

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from zelo_ray.commands.label import LabelWork, page_commands
from zelo_ray.commands.label.rubric import grade_names, text_for_people
from zelo_ray.reports.page import asset, digest, embed_json


def labelling_page(work: LabelWork, token: str) -> tuple[str, str]:
    """Return the page and the Content-Security-Policy that allows only its own script and style.

    Args:
        work: its rubric is shown; nothing else of it is in the page.
        token: that the server requires with each answer.
    """
    rubric, words = work.about["rubric"], page_commands(work)
    names = grade_names(rubric, work.desk.top)
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
        names=names,
        about=embed_json({"token": token, "top": len(names) - 1, "names": names, "words": words}),
        script=Markup(script),  # noqa: S704 - ours, not data
        style=Markup(style),  # noqa: S704 - ours, not data
    )
    allowed = f"script-src 'sha256-{digest(script)}'; style-src 'sha256-{digest(style)}'"
    policy = "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    return page, f"default-src 'none'; {allowed}; {policy}; frame-ancestors 'none'"
