"""Build command lines for a shell, as a user would type them."""

import shlex
from typing import Any

from zelo_ray.options import CommandOptions, flag_of

_BARE = ("--dry-run", "--collect", "--retry-failures")
"""The flags without a value that next steps use."""


def repeat_with(options: CommandOptions, **changes: Any) -> str:
    """Return the command as it was typed, with some options changed; empty if it was not."""
    if not options.typed:
        return ""
    without, words, last = [*map(flag_of, changes)], list[str](), ""
    for word in options.typed:
        flag, joined, _ = word.partition("=")
        if flag not in without and last not in without:
            words.append(word)
        last = flag if not joined and flag not in _BARE else ""
    for name, value in changes.items():
        if value not in (None, False):
            words += [flag_of(name), *([] if value is True else values_of(value))]
    return command_of(*words)


def sibling_path(place: str, what: str) -> str:
    """Return a new path or URL beside another one, named after it."""
    stem = place.rstrip("/")
    for ending in (".gz", ".zst", ".jsonl", ".txt", ".tsv", ".csv", ".parquet", ".qrels"):
        stem = stem.removesuffix(ending)
    return f"{stem}-{what}" if stem.strip("./") else what


def values_of(value: Any) -> list[str]:
    """Return the words after a flag."""
    items = value if isinstance(value, tuple | list) else [value]
    return [
        str(item).removesuffix(".0") if isinstance(item, float) else str(item) for item in items
    ]


def command_of(*words: str) -> str:
    """Return a command of this package from its words, quoted."""
    return " ".join(map(_quoted, ["zelo-ray", *words]))


def _quoted(word: str) -> str:
    """Quote a word for a shell, with control characters escaped as in bash and zsh."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 128 else f"\\U{code:08x}"
