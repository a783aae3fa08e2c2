"""Options that name a file or directory: a path or a URL."""

import re
from typing import Annotated

import fsspec
from pydantic import AfterValidator, Field


def check_url(url: str) -> str:
    """The path or URL itself, if there is a file system for it.

    Raises:
        ValueError: its scheme is unknown, or wants a package that is not installed.
    """
    try:
        fsspec.url_to_fs(url)
    except ImportError as error:
        raise ValueError(f"{url}: {error} (is it the extra s3 or gcs of zelo-ray?)") from None
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from None
    return url


Place = Annotated[str, Field(min_length=1), AfterValidator(check_url)]
"""A path or a URL of a kind that can be opened."""


def text_at(given: str) -> str:
    """The text of a file or URL; what names none is the text itself.

    Raises:
        ValueError: it is a file or a URL that cannot be read.
    """
    if "\n" in given or ("://" not in given and not fsspec.url_to_fs(given)[0].isfile(given)):
        return given
    return read_text(given)


def read_text(place: str) -> str:
    """The text of a file or URL.

    Raises:
        ValueError: it cannot be read.
    """
    try:
        with fsspec.open(check_url(place), "r", encoding="utf-8") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{place}: cannot be read ({error})") from None


def words_at(given: str) -> str:
    """As `text_at`, of somebody's own words: what can only be the name of a file is no text.

    Raises:
        ValueError: there is no such file, it cannot be read, or holds no words, or too many.
    """
    text = text_at(given).strip()
    if not text or "\0" in text:
        raise ValueError("is empty, or holds a NUL character")
    if _A_FILE.search(text) or (text.isascii() and len(text.split()) == 1):
        raise ValueError(f"{text[:80]!r} is no file here, and no text of several words")
    if len(text) > _MOST:
        raise ValueError(f"has {len(text):,} characters, and stands in every prompt: {_MOST:,} do")
    return text


FileText = Annotated[str, AfterValidator(text_at)]
"""A text, or the file or URL that holds it."""
Words = Annotated[str, AfterValidator(words_at)]
"""The same, of words in which judges and people are told something."""
_A_FILE = re.compile(r"^[^\n]*\.(txt|text|md|markdown|rst|ya?ml|json|html?|pdf|docx?)$")
_MOST = 100_000
_NAMED = re.compile(r"([^/=]+)=(.+)", re.DOTALL)


def split_name(source: str) -> tuple[str, str]:
    """The name of a judge and the place, of NAME=path; an empty name where there is none."""
    named = _NAMED.fullmatch(source)
    return (named[1], named[2]) if named else ("", source)


def _check_named(source: str) -> str:
    check_url(split_name(source)[1])
    return source


NamedPlace = Annotated[str, Field(min_length=1), AfterValidator(_check_named)]
"""A place, perhaps as ``NAME=place``."""
