"""Options that name a file or directory: a path or a URL."""

import re
from collections.abc import Callable
from typing import Annotated

import fsspec
from pydantic import AfterValidator, Field, ValidationInfo

GIVEN = "given"
"""The context in which options are validated that a user gave. Where they come from a record, the
texts are there already, and no text of it is the name of a file."""
_A_URL = re.compile(r"(file://.+|[\w+.-]+:(:|//)\S+)$")
_A_PATH = re.compile(r"(/|\.{1,2}/|~/|[a-z]:[\\/])", re.IGNORECASE)
_A_FILE = re.compile(  # up to three words: more are a sentence that ends with a file's name
    r"(\S+ ){0,2}\S*\.(txt|text|md|markdown|rst|ya?ml|jsonl?|html?|pdf|docx?|csv|tsv)",
    re.IGNORECASE,
)
_MOST = 100_000  # characters of what stands in every prompt


def check_url(url: str) -> str:
    """Return the path or URL itself, if there is a file system for it.

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


def text_at(place: str) -> str:
    """Return the text of a file or URL, or the text itself if it names neither.

    Raises:
        ValueError: it is a file or a URL that cannot be read, or can only be the name of a file.
    """
    if "\n" in place:
        return place
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
    try:
        with fsspec.open(check_url(place), "r", encoding="utf-8-sig") as file:
            return str(file.read())
    except UnicodeDecodeError:
        raise ValueError(f"{place}: is not UTF-8 text") from None
    except OSError as error:
        why = error.strerror or ("no such file" if isinstance(error, FileNotFoundError) else error)
        raise ValueError(f"{place}: cannot be read ({why})") from None


def words_at(place: str) -> str:
    """Return a text of several words as `text_at` does; a single word is taken for a file name.

    Raises:
        ValueError: there is no such file, it cannot be read, or holds no words, or too many.
    """
    text = text_at(place).strip()
    if not text:
        raise ValueError(f"{place[:80]!r} is empty")
    if "\0" in text:
        raise ValueError(f"{place[:80]!r} holds a NUL character: is it a text?")
    if text.isascii() and len(text.split()) == 1:
        raise ValueError(f"{text[:80]!r} is neither a file nor a text of several words")
    if len(text) > _MOST:
        raise ValueError(f"has {len(text):,} characters, and stands in every prompt: {_MOST:,} do")
    return text


def _once(read: Callable[[str], str]) -> AfterValidator:
    """Read what a user gave, and not what was read before."""

    def text(given: str, info: ValidationInfo) -> str:
        return read(given) if info.context == GIVEN else given

    return AfterValidator(text)


FileText = Annotated[str, _once(text_at)]
"""A text, or the file or URL that holds it."""
Words = Annotated[str, _once(words_at)]
"""The same, of words in which judges and people are told something."""
_NAMED = re.compile(r"([^/=]+)=(.+)", re.DOTALL)


def split_name(source: str) -> tuple[str, str]:
    """Split NAME=path into the name of a judge and the place; the name may be empty."""
    match = _NAMED.fullmatch(source)
    return (match[1], match[2]) if match else ("", source)


def _check_named(source: str) -> str:
    check_url(split_name(source)[1])
    return source


NamedPlace = Annotated[str, Field(min_length=1), AfterValidator(_check_named)]
"""A place, perhaps as ``NAME=place``."""
