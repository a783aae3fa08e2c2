"""Suggest names that a user may have meant, and read names that stand before a path."""

import difflib
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

_SYNONYMS = dict.fromkeys(("depth", "top_k", "k", "limit"), "document_limit")
"""By a name that other tools use, the name of the option here."""
_NAMED = re.compile(r"([^/=]+)=(.+)", re.DOTALL)
_EXTRAS = {"hf": "hf", "s3": "s3", "gs": "gcs", "gcs": "gcs"}
"""By the scheme of a URL, the extra that it needs."""


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Suggest a similar known word, as the end of a message; "" if there is none."""
    words, name = list(words), _SYNONYMS.get(_plain(word))
    near = [option for option in words if _plain(option) == name]
    if not near:
        by_lower_case = {option.lower(): option for option in words}
        close = difflib.get_close_matches(word.lower(), by_lower_case, 1)
        near = [by_lower_case[option] for option in close]
    return f" (did you mean {near[0]!r}?)" if near else ""


def _plain(word: str) -> str:
    return word.lstrip("-").replace("-", "_")


def split_name(source: str) -> tuple[str, str]:
    """Split ``NAME=path`` into name and path; the name is "" if there is none."""
    match = _NAMED.fullmatch(source)
    return (unquote(match[1]), match[2]) if match else ("", source)


def join_name(name: str, place: str) -> str:
    """Return ``NAME=path``, with what cannot stand in NAME as in URLs: %2F for a slash."""
    return f"{''.join(quote(c, safe='') if c in '%/=' else c for c in name)}={place}"


def describe_missing_library(url: str) -> str:
    """Say which extra has the library that the file system of a URL needs; "" if none has."""
    extra = _EXTRAS.get(url.partition("://")[0])
    return f"needs the extra {extra}: pip install 'zelo-ray[{extra}]'" if extra else ""
