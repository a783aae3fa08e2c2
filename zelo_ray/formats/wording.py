"""Format texts for people: counts, names that others chose, fields that they filled."""

import re
import unicodedata
from typing import Any

_JOINED = re.compile(
    "([\u2190-\u3299\ufe0f\U0001f000-\U0001faff])\u200d(?=[\u2190-\u3299\U0001f000-\U0001faff])"
)
"""A zero-width joiner that makes one emoji of two."""
_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def counted(number: int, one: str, many: str = "") -> str:
    """Return a count in words, such as ``1 query``; ``many`` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def is_utf8(text: str) -> bool:
    """Return whether a text can be encoded as UTF-8; a file name of other bytes cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def no_utf8(name: str) -> str:
    """Return the message on a file name or an argument that is not UTF-8, and how to mend it."""
    shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return f"{shown}: holds bytes that are no UTF-8: rename the file, or write it in UTF-8"


def shown_text(value: Any) -> str:
    """Return a text, number or list of texts as judges are shown it; "" for anything else."""
    if isinstance(value, float) and value.is_integer():  # such as a whole number beside a null
        value = int(value)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        value = "\n".join(value)
    if not isinstance(value, str | int | float) or value != value:  # noqa: PLR0124 - NaN
        return ""
    return str(value).strip().encode("utf-8", "replace").decode()


def printable(text: str) -> str:
    r"""Return a line with escapes for characters that steer a terminal or are not seen.

    So ``\x1b`` for ESC, ``\u202e`` where the direction of writing turns, ``\n`` for a line break.
    """
    if text.isprintable():
        return text
    pieces = _JOINED.split(text)  # a piece, then what stands before the joiner, in turn
    shown = ["".join(map(_seen, piece)) for piece in pieces]
    return "".join(piece + ("\u200d" if n % 2 else "") for n, piece in enumerate(shown))


def _seen(char: str) -> str:
    if unicodedata.category(char) not in _UNSEEN:
        return char
    return char.encode("unicode_escape").decode()


def middle_out(text: str, width: int) -> str:
    """Shorten a text to a width in cells, keeping its beginning and its end."""
    if _cells(text) <= width:
        return text
    tail = (width - 1) // 3
    return beginning(text, width - tail) + beginning(text[::-1], tail + 1)[-2::-1]


def beginning(text: str, width: int) -> str:
    """Shorten a text to a width in cells, with a mark where its end is left out."""
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
    """Return how many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - most texts need none of it

    return cell_len(text)
