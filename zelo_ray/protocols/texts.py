"""What every protocol needs: prompts from files, documents cut to size, delimiters to trust.

And, when the replies are there, verdicts out of them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from string import Template

from zelo_ray.records import Document, Failure, Reply, V, code_for, read_response

__all__ = ["BYTES_PER_TOKEN", "code_for", "cut", "failure_of", "load_prompt", "response_in"]

BYTES_PER_TOKEN = 4
"""UTF-8 bytes a token: near enough for English, Chinese and Japanese, and cautious elsewhere."""
_CUT = " […]"


class Prompt:
    """A text with places to fill, written as `string.Template` has them."""

    def __init__(self, template: str) -> None:
        self.template = template
        self._parts: list[tuple[str, str]] = []
        """a piece of text, and the name of what follows it; empty for nothing"""
        end = 0
        for found in Template.pattern.finditer(template):
            text, end = template[end : found.start()], found.end()
            name = found["named"] or found["braced"] or ""
            self._parts.append((text if name else f"{text}$", name))
        self._parts.append((template[end:], ""))

    @property
    def names(self) -> list[str]:
        """What is to be filled in, each once."""
        return list(dict.fromkeys(name for _, name in self._parts if name))

    def substitute(self, given: Mapping[str, object]) -> str:
        """The text with its places filled, as `string.Template.substitute` does, and sooner.

        Raises:
            KeyError: a place has no text.
        """
        return "".join(text + str(given[name]) if name else text for text, name in self._parts)


@cache
def load_prompt(name: str) -> tuple[Prompt, Prompt]:
    """The system and user templates of a prompt file; its number is its version."""
    text = files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    system, user = text.split("=== user ===\n")
    return Prompt(system.strip()), Prompt(user.strip())


def cut(document: Document, tokens: int, fields: Sequence[str] = ()) -> Document:
    """The document as a judge sees it: metadata fields that were asked for, then text to a budget.

    The text is cut between words where it can be, and says so where it was.
    """
    lines = [f"{name}: {document.metadata[name]}" for name in fields if name in document.metadata]
    text = "\n".join([*lines, document.content])
    data = text.encode()
    budget = tokens * BYTES_PER_TOKEN
    if len(data) > budget:
        kept = data[: budget - len(_CUT.encode())].decode(errors="ignore")
        words = kept.rpartition(" ")[0]
        text = (words if len(words) > math.ceil(0.9 * len(kept)) else kept) + _CUT
    return replace(document, content=text)


def response_in(reply: Reply, verdict: type[V]) -> V | str:
    """The verdict that a reply holds, or why it holds none."""
    if reply.status != "ok":
        return reply.reason
    try:
        return read_response(verdict, reply.text)
    except Exception as error:  # noqa: BLE001 - a user's own reader, which raised when it was kept
        return f"its reader raised {type(error).__name__}"


def failure_of(
    query_id: str, doc_ids: Sequence[str], judge: str, reply: Reply, why: str
) -> Failure:
    """What a judge's question about these documents comes to when its reply is no good."""
    status = "invalid" if reply.status == "ok" else reply.status
    return Failure(query_id, tuple(doc_ids), judge, status, why, reply.attempts, reply.key)
