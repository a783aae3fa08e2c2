"""Take prompts from a template of the user's, with named places for what the program fills in.

A template is the text of a prompt, with the system prompt before a line ``=== user ===``, if it has
one. Places are written ``{{query}}``. What stands in them keeps the program's own form: texts from
outside between markers that they cannot forge, and the form of the answer as it is parsed. The
sentence that calls such texts material, and not instructions, ends the system prompt.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from zelo_ray.names import did_you_mean
from zelo_ray.options import JUDGING, AnnotateOptions, TextOrFile
from zelo_ray.protocols.prompt_files import (
    USER,
    Prompt,
    PromptParts,
    load_prompt,
    load_section,
)
from zelo_ray.wrapping import break_special_tokens

_PLACE = re.compile(r"\{\{\s*([\w-]+)\s*\}\}")
_USER_LINE = re.compile(rf"^{USER.strip()}[ \t]*(?:\n|\Z)", re.MULTILINE)
_STEPS = " from steps 1 to 3"  # of the built-in prompt
_CODE = "The code of the markers is $code."
QUERY, INSTRUCTIONS, ANSWER = "query", "instructions", "answer_format"


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
        return {
            **{place: _block(marker, field) for place, marker, field in blocks},
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


def describe_unused_places(options: object) -> str:
    """Say which places a template leaves out that the built-in prompt has; empty for none.

    Where there are no instructions their place holds nothing, but the usual criteria in best-of.
    """
    if not (isinstance(options, TemplateOptions) and options.template):
        return ""
    form = options.template_form
    _, used = _parse(options.template, form)
    words = {INSTRUCTIONS} if (INSTRUCTIONS, INSTRUCTIONS) in form.optional else set[str]()
    unused = [_written(place) for place, _ in form.optional if place not in used | words]
    if not unused:
        return ""
    return f"the template has no {' and no '.join(unused)}, so judges see none"


@cache
def _parse(text: str, form: TemplateForm) -> tuple[PromptParts, frozenset[str]]:
    """Turn a template into a prompt; return its places, too.

    Raises:
        ValueError: a place is missing, unknown, given twice, or would let a text pose as
            instructions.
    """
    pieces = _USER_LINE.split(break_special_tokens(text))
    if len(pieces) > 2:
        raise ValueError(f"the template has {len(pieces) - 1} lines {USER.strip()!r}; it takes one")
    system, user = pieces if len(pieces) == 2 else ("", pieces[0])
    _refuse_wrong_places(system, user, form)
    system = "\n\n".join(
        filter(None, (_filled(system, form), load_section(form.prompt, "material")))
    )
    return (Prompt(system), _split_parts(user, form)), frozenset(_PLACE.findall(text))


def _refuse_wrong_places(system: str, user: str, form: TemplateForm) -> None:
    """Refuse a template whose places are not those of its form.

    Raises:
        ValueError: they are not; the message names the place and says what to do.
    """
    above, below = _PLACE.findall(system), _PLACE.findall(user)
    if "{%" in system + user:
        raise ValueError("the template holds {% ... %}: it may have places such as {{query}} only")
    for place in [*above, *below]:
        if place not in form.places:
            allowed = ", ".join(map(_written, form.places))
            raise ValueError(
                f"the template has an unknown place {_written(place)}"
                f"{did_you_mean(place, form.places)}; there are {allowed}"
            )
    outside = (QUERY, *(place for place, _, _ in form.documents))
    if posing := next((place for place in outside if place in above), ""):
        raise ValueError(
            f"the template has {_written(posing)} in its system prompt, where a judge would take "
            f"its text for instructions; put it below a line {USER.strip()!r}"
        )
    for place in form.required:
        if place not in {*above, *below}:
            single = f"{{{place}}}" in system + user
            why = "; places have two braces" if single else ""
            raise ValueError(f"the template has no place {_written(place)}{why}")
    for place in form.places:
        if place != QUERY and (count := [*above, *below].count(place)) > 1:
            raise ValueError(f"the template has {_written(place)} {count} times; once is enough")


def _split_parts(user: str, form: TemplateForm) -> tuple[Prompt, ...]:
    """Split the user's prompt after its query, and after all documents but the last.

    What comes before is shared by other requests: see `PromptParts`.
    """
    parts, begun = list[str](), f"{_CODE}\n\n"
    ends = {QUERY, *(place for place, _, _ in form.documents)}
    for number, piece in enumerate(_PLACE.split(user)):
        if number % 2 == 0:
            begun += _literal(piece)
            continue
        begun += form.places[piece]
        if piece in ends:
            ends.remove(piece)  # a query that is shown once more ends nothing
            if ends:
                parts.append(begun)
                begun = ""
    return tuple(Prompt(part.strip()) for part in (*parts, begun) if part.strip())


def _filled(text: str, form: TemplateForm) -> str:
    pieces = _PLACE.split(text)
    pieces[::2] = map(_literal, pieces[::2])
    pieces[1::2] = [form.places[place] for place in pieces[1::2]]
    return "".join(pieces).strip()


def _block(marker: str, field: str) -> str:
    return f"[{marker} $code]\n${field}\n[end of {marker} $code]"


def _literal(text: str) -> str:
    """Return a text in the syntax of `Prompt`, in which nothing of it is a place."""
    return text.replace("$", "$$")


def _written(place: str) -> str:
    return f"{{{{{place}}}}}"
