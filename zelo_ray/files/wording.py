"""Write counts, and texts of users, for people and for judges."""

import re
import unicodedata
from typing import Any

_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_FORMULA = re.compile("'*(?:[\t\r\n]|\\s*[=+\\-@\uff0b\uff0d\uff1d\uff20])")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def counted(number: int, one: str, many: str = "") -> str:
    """Return a count with its noun, such as ``1 query``; ``many`` is an irregular plural."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def escape_bytes(name: str) -> str:
    """Return a file name with bytes that are not UTF-8 written out."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def describe_other_bytes(name: str) -> str:
    """Return what to do about bytes that are not UTF-8 in a file name or argument; "" if none."""
    what = "holds bytes that are not UTF-8: rename the file, or write it in UTF-8"
    return "" if name.isascii() or escape_bytes(name) == name else f"{escape_bytes(name)}: {what}"


def text_for_judges(value: Any) -> str:
    """Return a text, number or list of texts as it is shown to judges; "" for anything else."""
    if isinstance(value, float) and value.is_integer():  # such as a whole number beside a null
        value = int(value)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        value = "\n".join(value)
    if not isinstance(value, str | int | float) or value != value:  # noqa: PLR0124 - NaN
        return ""
    return str(value).strip().encode("utf-8", "replace").decode()


def without_passwords(text: str) -> str:
    """Return a text without user names and passwords of URLs."""
    return _PASSWORD.sub("…", text)


def printable(text: str) -> str:
    r"""Escape characters that control a terminal or are invisible, such as ``\x1b`` for ESC."""
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in _INVISIBLE else char
        for char in text
    )


def guard_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet may run, unless it is a number."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguard_formula(text: str) -> str:
    """Undo `guard_formula`."""
    return text[1:] if text.startswith("'") and guard_formula(text[1:]) == text else text
