"""What every protocol needs: prompts from files, documents cut to size, delimiters to trust.

And, when the replies are there, verdicts out of them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from string import Template

from zelo_ray.records import Document, Failure, Reply, V, code_for, read_response

__all__ = ["BYTES_PER_TOKEN", "code_for", "cut", "failure_of", "load_prompt", "response_in"]

BYTES_PER_TOKEN = 4
"""UTF-8 bytes a token: near enough for English, Chinese and Japanese, and cautious elsewhere."""
_CUT = " […]"


@cache
def load_prompt(name: str) -> tuple[Template, Template]:
    """The system and user templates of a prompt file; its number is its version."""
    text = files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")
    system, user = text.split("=== user ===\n")
    return Template(system.strip()), Template(user.strip())


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
    return read_response(verdict, reply.text) if reply.status == "ok" else reply.reason


def failure_of(
    query_id: str, doc_ids: Sequence[str], judge: str, reply: Reply, why: str
) -> Failure:
    """What a judge's question about these documents comes to when its reply is no good."""
    status = "invalid" if reply.status == "ok" else reply.status
    return Failure(query_id, tuple(doc_ids), judge, status, why, reply.attempts, reply.key)
