"""Build explanations from paragraphs of several kinds, which are wrapped differently."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from zelo_ray.files.wording import printable
from zelo_ray.protocols.narrative import DEEP

Kind = Literal["text", "said", "rows", "judgments"]
"""text: of the user, below a heading; said: sentences; rows: of a table or a list; judgments: texts
of judges"""
_WIDE = 100


@dataclass(frozen=True, slots=True)
class ExplanationPart:
    """A paragraph of whole lines, however long, without control characters."""

    kind: Kind
    lines: tuple[str, ...]
    best: str = ""
    """of a ranking, the id of the first document"""

    def whole(self) -> str:
        """Return all of it, with running text in lines of 100 characters."""
        return "\n".join(shown for line in self.lines for shown in self._broken(line))

    def _broken(self, line: str) -> Iterable[str]:
        if self.kind == "said":
            return [line]
        if not line.startswith(DEEP) and not (self.kind == "text" and line.startswith(" ")):
            return [line]
        ahead = line[: len(line) - len(line.lstrip())]
        return textwrap.wrap(
            line, _WIDE, subsequent_indent=ahead, break_long_words=False, break_on_hyphens=False
        )


def make_part(kind: Kind, lines: Iterable[str]) -> ExplanationPart:
    """Make a paragraph of some lines, without control characters."""
    return ExplanationPart(kind, tuple(map(printable, lines)))


def text_part(head: str, text: str) -> ExplanationPart:
    """Make a paragraph of the user's text below its heading; blank lines are left out."""
    body = [f"    {' '.join(line.split())}" for line in text.splitlines() if line.strip()]
    return make_part("text", [head, *(body or ["    (no text)"])])


def first_words(text: str, length: int = 120) -> str:
    """Return the beginning of a text, in one line."""
    return " ".join(text[: 8 * length].split())[:length]


def ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yield ranges of ranks, such as ``2 to 4``; each number stands for itself and the next."""
    start = None
    for at, number in enumerate(numbers):
        start = number if start is None else start
        if at + 1 == len(numbers) or numbers[at + 1] != number + 1:
            yield f"{start} to {number + 1}"
            start = None
