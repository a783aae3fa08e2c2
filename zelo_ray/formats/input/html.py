"""Notice texts with HTML tags, and take the tags out of pools."""

import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import orjson

from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.files import read_placed_lines
from zelo_ray.formats.input.stored_inputs import (
    find_conversion,
    hash_sources,
    record_conversion,
    store_lines,
)
from zelo_ray.formats.wording import counted

_TAG = re.compile(
    r"</?(?:a|article|b|blockquote|body|br|code|div|em|font|h[1-6]|head|hr|html|i|img|li|ol|p|pre"
    r"|script|section|span|strong|style|sub|sup|table|tbody|td|th|thead|tr|u|ul)(?:\s[^<>]*)?/?>",
    re.IGNORECASE,
)
"""Tags of texts; what stands in angle brackets in mathematics or programs is none."""
_LOOKED_AT = 100  # pools
_VERSION = 1


def has_tags(text: str) -> bool:
    """Return whether a text holds tags of HTML."""
    return _TAG.search(text) is not None


def describe_tags(places: Sequence[str]) -> str:
    """Say how many of the first documents hold tags; "" if none do, or nothing can be read."""
    documents = tagged = 0
    try:
        for _, line in islice(_lines(places), _LOOKED_AT):
            for text in _texts(line):
                documents += 1
                tagged += has_tags(text)
    except InputError:  # which is told where the input is read
        return ""
    if not tagged:
        return ""
    looked_at = counted(documents, "document")
    return (
        f"{tagged:,} of the first {looked_at} hold HTML tags, which judges are shown: "
        "--strip-html takes them out"
    )


def strip_pools(places: Sequence[str], out: str) -> tuple[str, list[str]]:
    """Write pools whose texts have no tags below the results; return where, and messages.

    Only texts that hold tags are changed: the texts of their elements are joined, blocks by lines.
    A line that is no valid pool stays as it is.

    Args:
        places: files of JSON lines.
        out: directory or URL of the results.

    Raises:
        OptionError: the library is not installed.
        InputError: a file cannot be read.
    """
    mark = hash_sources(places, out, "strip_html", _VERSION)
    if made := find_conversion(out, mark):
        return made
    counts = {"documents": 0, "stripped": 0, "queries": 0}
    extract_text = _load_extractor()
    place = store_lines(out, (_strip(line, extract_text, counts) for _, line in _lines(places)))
    documents = counted(counts["documents"], "document")
    queries = counted(counts["queries"], "query", "queries")
    told = f"took HTML tags out of {counts['stripped']:,} of {documents} and out of {queries}"
    messages = [f"{told}; pools written to {place}"]
    record_conversion(out, mark, place, messages)
    return place, messages


def _load_extractor() -> Callable[[str], str]:
    try:
        extract: Callable[[str], str] = importlib.import_module("html_text").extract_text
    except ImportError:
        raise OptionError("strip_html: needs the extra: pip install 'zelo-ray[html]'") from None
    return extract


def _lines(places: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for place in places:
        yield from read_placed_lines(place)


def _strip(line: bytes, extract_text: Callable[[str], str], counts: dict[str, int]) -> bytes:
    """Return a line whose texts have no tags, and count what was changed."""
    pool = _pool(line)
    if pool is None:
        return line + b"\n"
    query, changed = pool["query"], 0
    if has_tags(text := str(query.get("query", ""))):
        query["query"], changed = extract_text(text), 1
        counts["queries"] += 1
    for document in pool["documents"]:
        counts["documents"] += 1
        if has_tags(text := str(document.get("content", ""))):
            document["content"] = extract_text(text)
            changed += 1
            counts["stripped"] += 1
    return orjson.dumps(pool) + b"\n" if changed else line + b"\n"


def _texts(line: bytes) -> list[str]:
    pool = _pool(line)
    return [str(document.get("content", "")) for document in pool["documents"]] if pool else []


def _pool(line: bytes) -> Any:
    """Return a line's pool, or None where it has not even the form of one."""
    try:
        pool = orjson.loads(line)
        rows = [pool["query"], *pool["documents"]]
    except (ValueError, LookupError, TypeError):
        return None
    return pool if all(isinstance(row, dict) for row in rows) else None
