"""Load the prompts of the package: text files with places to fill.

A file has the system prompt, then ``=== user ===`` and the user's, in parts that ``=== then ===``
separates. In the system prompt, a line such as ``=== answer ===`` names the section below it, by
which a template of the user's takes it over; these lines are no part of the prompt.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template

USER = "=== user ===\n"
THEN = "=== then ===\n"
_HEADING = re.compile(r"^=== (\w+) ===\n", re.MULTILINE)


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
