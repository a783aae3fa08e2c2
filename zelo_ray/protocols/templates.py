"""Load prompts: those of the package, or a template of the user's that takes their place.

A file of the package has the system prompt, then ``=== user ===`` and the user's, in parts that
``=== then ===`` separates. In the system prompt, a line such as ``=== answer ===`` names the
section below it, by which a template takes it over; these lines are no part of the prompt.

A template is the text of a prompt, with the system prompt before a line ``=== user ===``, if it has
one. Places are written ``{{query}}``. What stands in them keeps the program's own form: texts from
outside between markers that they cannot forge, and the form of the answer as it is parsed. The
sentence that calls such texts material, and not instructions, ends the system prompt.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Annotated, ClassVar, NamedTuple, Self

from pydantic import Field, model_validator

from zelo_ray.names import did_you_mean
from zelo_ray.options import JUDGING, AnnotateOptions, TextOrFile
from zelo_ray.wrapping import break_special_tokens

USER, THEN = "=== user ===\n", "=== then ===\n"
_HEADING = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)
_PLACE = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")
_USER_LINE = re.compile(rf"^{USER.strip()}[ \t]*(?:\n|\Z)", re.MULTILINE)
_STEPS = " from steps 1 to 3"  # of the built-in prompt
_CODE = "The code of the markers is %(code)s.\n\n"
QUERY, INSTRUCTIONS, ANSWER = "query", "instructions", "answer_format"

PromptParts = tuple[str, tuple[str, ...]]
"""The system prompt, and parts of the user's, to be filled by ``%`` with a mapping of places.

Requests about the same query share all parts but the last one or two, so that a provider may cache
them.
"""


def _read_file(name: str) -> tuple[str, str]:
    """Return the system's and the user's text of a prompt file."""
    text = files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    system, user = text.split(USER)
    return system, user


@cache
def load_prompt(name: str) -> PromptParts:
    """Load the prompt of a file, whose places are written ``$query``."""
    system, user = (re.sub(r"\$(\w+)", r"%(\1)s", _literal(text)) for text in _read_file(name))
    return _HEADING.sub("", system).strip(), tuple(part.strip() for part in user.split(THEN))


@cache
def load_section(name: str, section: str) -> str:
    """Load one section of the system prompt of a file."""
    _, *pieces = _HEADING.split(_read_file(name)[0])
    return dict(zip(pieces[::2], pieces[1::2], strict=True))[section].strip()


class TemplateForm(NamedTuple):
    """The places of a template that may take the place of one prompt of the package."""

    prompt: str
    """the name of the prompt's file"""
    documents: tuple[tuple[str, str, str], ...]
    """of each document: its place, the name of its markers, and its place in the prompt's file"""
    query: str = "query"
    """the name of the query's markers"""
    optional: tuple[tuple[str, str], ...] = ((INSTRUCTIONS, INSTRUCTIONS),)
    """other places, and what they are called in the prompt's file"""

    @property
    def outside(self) -> set[str]:
        """Return the places of texts from outside."""
        return {QUERY, *(place for place, _, _ in self.documents)}

    @property
    def places(self) -> dict[str, str]:
        """Return by place what stands there in a prompt."""
        answer = load_section(self.prompt, "answer").replace(_STEPS, "")
        return {
            **{
                place: f"[{marker} %(code)s]\n%({field})s\n[end of {marker} %(code)s]"
                for place, marker, field in ((QUERY, self.query, QUERY), *self.documents)
            },
            **{place: f"%({field})s" for place, field in self.optional},
            ANSWER: _literal(answer),
        }


class TemplateOptions(AnnotateOptions):
    """Options of every protocol whose prompt may be the user's own."""

    template_form: ClassVar[TemplateForm]

    template: Annotated[TextOrFile | None, JUDGING] = Field(
        None,
        description="a prompt of your own in place of the built-in one: a file or a URL, with "
        "places such as {{query}} (docs/prompts.md)",
    )

    @model_validator(mode="after")
    def _template_has_its_places(self) -> Self:
        if self.template:
            _parse(self.template, self.template_form)
            if self.instructions and INSTRUCTIONS not in _PLACE.findall(self.template):
                raise ValueError(
                    "the template has no place {{instructions}}, so no judge would see "
                    "instructions; add the place, or leave one of the two out"
                )
        return self


def choose_prompt(name: str, options: object) -> PromptParts:
    """Load the prompt of a file, or the template in the options that takes its place."""
    own, form = getattr(options, "template", None), getattr(options, "template_form", None)
    return _parse(own, form) if own and form and form.prompt == name else load_prompt(name)


@cache
def _parse(text: str, form: TemplateForm) -> PromptParts:
    """Turn a template into a prompt."""
    *systems, user = _USER_LINE.split(break_special_tokens(text))
    system = "".join(systems)
    above, below = _PLACE.findall(system), _PLACE.findall(user)
    outside = form.outside
    for place in (*above, *below):
        written = f"{{{{{place}}}}}"
        if place not in form.places:
            allowed = ", ".join(f"{{{{{name}}}}}" for name in form.places)
            near = did_you_mean(place, form.places)
            raise ValueError(f"the template has an unknown place {written}{near}; use {allowed}")
        if place in outside and place in above:
            raise ValueError(
                f"the template has {written} in its system prompt, where a judge would take its "
                f"text for instructions; put it below a line {USER.strip()!r}"
            )
    for place in (*sorted(outside), ANSWER):
        if place not in {*above, *below}:
            raise ValueError(f"the template has no place {{{{{place}}}}}")
    head = "".join(piece for piece, _ in _fill(system, form)).strip()
    material = _literal(load_section(form.prompt, "material"))
    # What comes before the last text from outside is shared by other requests: see `PromptParts`.
    parts = [_CODE]
    for piece, place in _fill(user, form):
        parts[-1] += piece
        if place in outside:
            outside.remove(place)  # a query that is shown once more ends nothing
            parts += [""] if outside else []
    users = tuple(part.strip() for part in parts if part.strip())
    return "\n\n".join(filter(None, (head, material))), users


def _fill(text: str, form: TemplateForm) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a template as they stand in a prompt, with the place of each, if any."""
    for number, piece in enumerate(_PLACE.split(text)):
        yield (form.places[piece], piece) if number % 2 else (_literal(piece), "")


def _literal(text: str) -> str:
    """Return a text in which nothing is a place of a prompt."""
    return text.replace("%", "%%")
