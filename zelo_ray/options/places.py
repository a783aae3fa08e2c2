"""Define the types of options that name a file or directory, by a path or a URL."""

import re
from collections.abc import Callable
from typing import Annotated, get_args

from pydantic import AfterValidator, Field, ValidationInfo
from pydantic.fields import FieldInfo

from zelo_ray.names import describe_missing_library, split_name
from zelo_ray.options.base import FROM_USER

_A_URL = re.compile(r"(file://.+|[\w+.-]+:(:|//)\S+)$")
_A_PATH = re.compile(r"(/|\.{1,2}/|~/|[a-z]:[\\/])", re.IGNORECASE)
_A_FILE = re.compile(  # up to three words; more are a sentence
    r"(\S+ ){0,2}\S*\.(txt|text|md|markdown|rst|ya?ml|jsonl?|html?|pdf|docx?|csv|tsv)",
    re.IGNORECASE,
)
_MOST = 100_000  # characters of a text that is part of every prompt


def check_url(url: str) -> str:
    """Return a path or URL unchanged after checking that there is a file system for it.

    Raises:
        ValueError: its scheme is unknown, or needs a package that is not installed.
    """
    import fsspec  # noqa: PLC0415 - as long as half of a command's help, which opens nothing

    try:
        fsspec.url_to_fs(url)
    except ImportError as error:
        raise ValueError(f"{url}: {describe_missing_library(url) or error}") from None
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from None
    return url


Place = Annotated[str, Field(min_length=1), AfterValidator(check_url)]
"""A path or a URL of a kind that can be opened."""


def read_text_or_literal(place: str) -> str:
    """Return the text of a file or URL, or the argument itself if it names neither.

    Raises:
        ValueError: the file or URL cannot be read, or the file does not exist.
    """
    if "\n" in place:
        return place
    import fsspec  # noqa: PLC0415 - see check_url

    disk = fsspec.filesystem("file")
    if _A_URL.match(place) or disk.isfile(place):
        return read_text(place)
    if place and disk.isdir(place):
        raise ValueError(f"{place}: is a directory, not a text")
    if _A_PATH.match(place) or _A_FILE.fullmatch(place):
        raise ValueError(f"{place}: no such file")
    return place


def read_text(place: str) -> str:
    """Read the text of a file or URL.

    Raises:
        ValueError: it cannot be read.
    """
    import fsspec  # noqa: PLC0415 - see check_url

    try:
        with fsspec.open(check_url(place), "r", encoding="utf-8-sig") as file:
            return str(file.read())
    except UnicodeDecodeError:
        raise ValueError(f"{place}: is not UTF-8 text") from None
    except OSError as error:
        why = error.strerror or ("no such file" if isinstance(error, FileNotFoundError) else error)
        raise ValueError(f"{place}: cannot be read ({why})") from None


def read_words(place: str) -> str:
    """Return a text like `read_text_or_literal`, but refuse one word, which must be a file name.

    Raises:
        ValueError: there is no such file, it cannot be read, or it is empty or too long.
    """
    text = read_text_or_literal(place).strip()
    if not text:
        raise ValueError(f"{place[:80]!r} is empty")
    if "\0" in text:
        raise ValueError(f"{place[:80]!r} holds a NUL character, so it is not a text")
    if text.isascii() and len(text.split()) == 1:
        raise ValueError(f"{text[:80]!r} is neither a file nor a text of several words")
    if len(text) > _MOST:
        raise ValueError(
            f"has {len(text):,} characters, more than the {_MOST:,} allowed in a prompt"
        )
    return text


class _TextReader(AfterValidator):
    """The mark of an option whose value a user may give as the name of a file."""


def _only_from_user(read: Callable[[str], str]) -> AfterValidator:
    """Return a validator that applies ``read`` to options from a user, not to those of a record."""

    def text(given: str, info: ValidationInfo) -> str:
        return read(given) if info.context == FROM_USER else given

    return _TextReader(text)


def text_reader(field: FieldInfo) -> AfterValidator | None:
    """Return what reads the file that an option may name; None if its value is no text."""
    nested = (getattr(kind, "__metadata__", ()) for kind in get_args(field.annotation))
    marks = (*field.metadata, *(mark for group in nested for mark in group))
    return next((mark for mark in marks if isinstance(mark, _TextReader)), None)


FileText = Annotated[str, _only_from_user(read_text_or_literal)]
"""A text, or the file or URL that holds it."""
TextOrFile = Annotated[str, _only_from_user(read_words)]
"""A text of several words for judges or people, or the file or URL that holds it."""


def _check_named(source: str) -> str:
    check_url(split_name(source)[1])
    return source


NamedPath = Annotated[str, Field(min_length=1), AfterValidator(_check_named)]
"""A place, perhaps as ``NAME=place``."""
