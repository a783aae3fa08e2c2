"""Build command lines for a shell, as a user would type them."""

import shlex
from typing import Any

from zelo_ray.options import CommandOptions, flag_of, has_flag

_BARE = ("--dry-run", "--collect", "--retry-failures")
"""The flags without a value that next steps use."""
_LONGEST = 200  # characters of a text that was not read from a file
_BY_FILE = {"judge_options", "prices", "api_key_env", "candidates"}


def repeat_with(options: CommandOptions, **changes: Any) -> str:
    """Return the command of these options, as it was typed if it was, with some changed."""
    if not options.typed:
        return command_from_options(options.model_copy(update=changes))
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


def command_from_options(options: CommandOptions) -> str:
    """Return a command with a flag for each option that differs from its default.

    Options of judges, their keys and prices have no flag: they are in a config file.
    """
    words = [options.usage.split()[0]]
    for field in type(options).positional:
        words += values_of(getattr(options, field))
    by_file = False
    for field, about in type(options).model_fields.items():
        value = getattr(options, field)
        default = about.get_default(call_default_factory=True)
        if field in type(options).positional or value == default:
            continue
        if not has_flag(about):
            by_file |= field in _BY_FILE
        elif isinstance(value, str) and ("\n" in value or len(value) > _LONGEST):
            words += [flag_of(field), "THE-FILE-OF-THAT-RUN"]
        else:
            words += [flag_of(field), *([] if value is True else values_of(value))]
    return command_of(*words, *(["--config", "THE-FILE-OF-THAT-RUN.yaml"] if by_file else []))


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
