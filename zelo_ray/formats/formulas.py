"""Write texts into tables for people so that no spreadsheet runs them, and read these back."""

import re

_FORMULA = re.compile("'*(?:[\t\r\n]|\\s*[=+\\-@\uff0b\uff0d\uff1d\uff20])")
"""How a text begins that a spreadsheet may take for a formula; the last four are full-width."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def guard(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet may take for a formula; not a number."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguard(text: str) -> str:
    """Return the text that `guard` was given."""
    return text[1:] if text.startswith("'") and guard(text[1:]) == text else text
