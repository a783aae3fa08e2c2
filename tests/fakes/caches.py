"""Caches of prompts, billed as the providers document it: by exact beginnings, for some minutes."""

import time
from dataclasses import dataclass, field
from typing import Any

_BYTES = 4  # of a token
_SECONDS = 300.0
_STEP = 128
"""Tokens by which OpenAI's and Gemini's caches keep a beginning."""
LEAST = {"openai": 1024, "anthropic": 4096, "gemini": 4096}


@dataclass
class Caches:
    """What the fakes keep of prompts. A beginning can be read once an answer to it has begun."""

    kept: dict[tuple[str, str, str], float] = field(default_factory=dict)
    """by provider, model and text: until when"""

    def look(self, name: str, model: str, texts: tuple[str, str], body: Any) -> tuple[int, int]:
        """Tokens of a prompt that are read from the cache, and that are written to it."""
        now, ends = time.monotonic(), _ends(name, texts, body)
        whole = "".join(texts)
        there = [at for at in ends if self.kept.get((name, model, whole[:at]), 0.0) > now]
        read = _tokens(whole[: max(there)]) if there else 0
        if name != "anthropic":
            return read // _STEP * _STEP, 0
        return read, _tokens(whole[: max(ends)]) - read if ends else 0

    def note(self, name: str, model: str, texts: tuple[str, str], body: Any) -> None:
        """Keep the beginnings of a prompt whose answer begins."""
        until, whole = time.monotonic() + _SECONDS, "".join(texts)
        self.kept.update(((name, model, whole[:at]), until) for at in _ends(name, texts, body))


def _tokens(text: str) -> int:
    return len(text.encode(errors="replace")) // _BYTES


def _ends(name: str, texts: tuple[str, str], body: Any) -> list[int]:
    """Where beginnings end that may be kept: at breakpoints, or every few tokens."""
    whole = "".join(texts)
    if name == "anthropic":
        content, at, found = body["messages"][0]["content"], len(texts[0]), list[int]()
        if isinstance(body.get("system"), list):
            found.append(at)
        for block in content if isinstance(content, list) else ():
            at += len(block["text"])
            if "cache_control" in block:
                found.append(at)
    else:
        found = [*range(_STEP * _BYTES, len(whole), _STEP * _BYTES)]
    return [at for at in found if _tokens(whole[:at]) >= LEAST[name]]
