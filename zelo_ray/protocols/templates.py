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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from zelo_ray.names import did_you_mean
from zelo_ray.options import JUDGING, AnnotateOptions, TextOrFile
from zelo_ray.wrapping import break_special_tokens

USER = "=== user ===\n"
THEN = "=== then ===\n"
_HEADING = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)
_PLACE = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")
_USER_LINE = re.compile(rf"^{USER.strip()}[ \t]*(?:\n|\Z)", re.MULTILINE)
_STEPS = " from steps 1 to 3"  # of the built-in prompt
_CODE = "The code of the markers is $code."
QUERY, INSTRUCTIONS, ANSWER = "query", "instructions", "answer_format"


class Prompt:
    """Prompt template with places to fill, in the syntax of `string.Template`."""

    def __init__(self, template: str) -> None:
        self.template = template
        self._parts: list[tuple[str, str]] = []
        """a piece of text, and the name of what follows it; empty for nothing"""
        end = 0
        for match in Template.pattern.finditer(template):
            text, end = template[end : match.start()], match.end()
            name = match["named"] or match["braced"] or ""
            self._parts.append((text if name else f"{text}$", name))
        self._parts.append((template[end:], ""))

    def substitute(self, values: Mapping[str, object]) -> str:
        """Fill the places of the text, as `string.Template.substitute` does, but faster."""
        return "".join(text + str(values[name]) if name else text for text, name in self._parts)


PromptParts = tuple[Prompt, tuple[Prompt, ...]]
"""The templates of a prompt: the system's, and parts of the user's.

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
    """Load the templates of a prompt file."""
    system, user = _read_file(name)
    parts = tuple(Prompt(part.strip()) for part in user.split(THEN))
    return Prompt(_HEADING.sub("", system).strip()), parts


@cache
def load_section(name: str, section: str) -> str:
    """Load one section of the system prompt of a file."""
    _, *pieces = _HEADING.split(_read_file(name)[0])
    return dict(zip(pieces[::2], pieces[1::2], strict=True))[section].strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateForm:
    """The places of a template that may take the place of one prompt of the package."""

    prompt: str
    """the name of the prompt's file"""
    query: str = "query"
    """the name of the query's markers"""
    documents: tuple[tuple[str, str, str], ...]
    """of each document: its place, the name of its markers, and its place in the prompt's file"""
    optional: tuple[tuple[str, str], ...] = ((INSTRUCTIONS, INSTRUCTIONS),)
    """other places, and what they are called in the prompt's file"""

    @property
    def required(self) -> tuple[str, ...]:
        """Return the places that a template must have."""
        return (QUERY, *(place for place, _, _ in self.documents), ANSWER)

    @property
    def places(self) -> dict[str, str]:
        """Return by place the text that stands there in the syntax of `Prompt`."""
        blocks = [(QUERY, self.query, QUERY), *self.documents]
        block = "[{0} $code]\n${1}\n[end of {0} $code]"
        return {
            **{place: block.format(marker, field) for place, marker, field in blocks},
            **{place: f"${field}" for place, field in self.optional},
            ANSWER: _literal(load_section(self.prompt, "answer").replace(_STEPS, "")),
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
            _, used = _parse(self.template, self.template_form)
            if self.instructions and INSTRUCTIONS not in used:
                raise ValueError(
                    "the template has no place {{instructions}}, so no judge would see "
                    "instructions; add the place, or leave one of the two out"
                )
        return self


def choose_prompt(name: str, options: object) -> PromptParts:
    """Load the prompt of a file, or the template in the options that takes its place."""
    if isinstance(options, TemplateOptions) and options.template:
        form = options.template_form
        if form.prompt == name:
            return _parse(options.template, form)[0]
    return load_prompt(name)


@cache
def _parse(text: str, form: TemplateForm) -> tuple[PromptParts, frozenset[str]]:
    """Turn a template into a prompt; return its places, too."""
    *systems, user = _USER_LINE.split(break_special_tokens(text))
    if len(systems) > 1:
        raise ValueError(f"the template has {len(systems)} lines {USER.strip()!r}; it takes one")
    system = "".join(systems)
    above, below = _PLACE.findall(system), _PLACE.findall(user)
    outside = {QUERY, *(place for place, _, _ in form.documents)}
    for place in [*above, *below]:
        written, count = f"{{{{{place}}}}}", [*above, *below].count(place)
        if place not in form.places:
            allowed = ", ".join(f"{{{{{name}}}}}" for name in form.places)
            near = did_you_mean(place, form.places)
            raise ValueError(f"the template has an unknown place {written}{near}; use {allowed}")
        if place in outside and place in above:
            raise ValueError(
                f"the template has {written} in its system prompt, where a judge would take its "
                f"text for instructions; put it below a line {USER.strip()!r}"
            )
        if count > 1 and place != QUERY:
            raise ValueError(f"the template has {written} {count} times; once is enough")
    if missing := [place for place in form.required if place not in {*above, *below}]:
        raise ValueError(f"the template has no place {{{{{missing[0]}}}}}")
    material = load_section(form.prompt, "material")
    head = "".join(piece for piece, _ in _fill(system, form)).strip()
    parts, begun = list[str](), f"{_CODE}\n\n"
    # What comes before the last text from outside is shared by other requests: see `PromptParts`.
    for piece, place in _fill(user, form):
        begun += piece
        if place in outside:
            outside.remove(place)  # a query that is shown once more ends nothing
            if outside:
                parts.append(begun)
                begun = ""
    prompt = Prompt("\n\n".join(filter(None, (head, material))))
    users = tuple(Prompt(part.strip()) for part in (*parts, begun) if part.strip())
    return (prompt, users), frozenset([*above, *below])


def _fill(text: str, form: TemplateForm) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a template in the syntax of `Prompt`, with the place of each, if any."""
    for number, piece in enumerate(_PLACE.split(text)):
        yield (form.places[piece], piece) if number % 2 else (_literal(piece), "")


def _literal(text: str) -> str:
    """Return a text in the syntax of `Prompt`, in which nothing of it is a place."""
    return text.replace("$", "$$")
