"""Guard texts in tables for people, so that no spreadsheet runs them as formulas."""

import re

_FORMULA = re.compile("'*(?:[\t\r\n]|\\s*[=+\\-@\uff0b\uff0d\uff1d\uff20])")
"""The beginning of a text that spreadsheets may run; the last four characters are full-width."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def guard_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet may run, unless it is a number."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unguard_formula(text: str) -> str:
    """Undo `guard_formula`."""
    return text[1:] if text.startswith("'") and guard_formula(text[1:]) == text else text
