"""Format texts for people: counts, names and fields of users, texts of limited width."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, Self

_JOINED = re.compile(
    "([\u2190-\u3299\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2190-\u3299\U0001f000-\U0001faff])"
)
"""A zero-width joiner between two emoji, which joins them to one."""
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def counted(number: int, one: str, many: str = "") -> str:
    """Return a count with its noun, such as ``1 query``; ``many`` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8, unlike a file name of other bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def not_utf8_message(name: str) -> str:
    """Return the message about a file name or argument that is not UTF-8."""
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return f"{shown}: holds bytes that are not UTF-8: rename the file, or write it in UTF-8"


def text_for_judges(value: Any) -> str:
    """Return a text, number or list of texts as it is shown to judges; "" for anything else."""
    if isinstance(value, float) and value.is_integer():  # such as a whole number beside a null
        value = int(value)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        value = "\n".join(value)
    if not isinstance(value, str | int | float) or value != value:  # noqa: PLR0124 - NaN
        return ""
    return str(value).strip().encode("utf-8", "replace").decode()


_PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")
"""User name and password in a URL."""


def without_passwords(text: str) -> str:
    """Return a text without user names and passwords of URLs."""
    return _PASSWORD.sub("…", text)


def printable(text: str) -> str:
    r"""Escape characters that control a terminal or are invisible.

    Such as ``\x1b`` for ESC, ``\u202e`` for a change of writing direction, ``\n`` for a line break.
    """
    if text.isprintable():
        return text
    pieces = _JOINED.split(text)  # alternately a text, and what precedes a joiner
    shown = ["".join(map(_escape_unseen, piece)) for piece in pieces]
    return "".join(piece + ("\u200d" if n % 2 else "") for n, piece in enumerate(shown))


def _escape_unseen(char: str) -> str:
    if unicodedata.category(char) not in _UNSEEN:
        return char
    return char.encode("unicode_escape").decode()


def shorten_middle(text: str, width: int) -> str:
    """Shorten a text to a width in terminal cells, keeping its beginning and its end."""
    if _cells(text) <= width:
        return text
    tail = (width - 1) // 3
    return shorten_end(text, width - tail) + shorten_end(text[::-1], tail + 1)[-2::-1]


def shorten_end(text: str, width: int) -> str:
    """Shorten a text to a width in terminal cells, with … in place of its end."""
    if _cells(text) <= width:
        return text
    head, room = "", width - 1
    for char in text:
        room -= _cells(char)
        if room < 0:
            break
        head += char
    return head + "…" if width > 0 else ""


def _cells(text: str) -> int:
    """Return the width of a text in terminal cells."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - most texts need none of it

    return cell_len(text)


class WrittenSummary(str):
    """Lines on what was written, such as ``3 pools: pools.jsonl``, which know the counts.

    Attributes:
        counts: how many of each noun were written.
    """

    __slots__ = ("counts",)
    counts: Mapping[str, int]

    def __new__(cls, *lines: str, **counts: int) -> Self:
        """Return the lines as one text, with control characters escaped."""
        text = super().__new__(cls, "\n".join(map(printable, lines)))
        text.counts = counts
        return text
