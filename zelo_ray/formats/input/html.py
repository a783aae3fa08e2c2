"""Notice texts with HTML tags, and take the tags out of pools."""

import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from html import unescape
from typing import Any

from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.files import read_placed_lines
from zelo_ray.formats.input.long import ConversionNotes
from zelo_ray.formats.input.stored_inputs import (
    find_conversion,
    hash_sources,
    is_converted,
    pool_to_line,
    read_notes,
    record_conversion,
    store_lines,
    write_notes,
)
from zelo_ray.formats.own_query import OwnQueries, is_own_query
from zelo_ray.formats.wording import counted

_TAG = re.compile(
    r"</?(?:a|article|b|blockquote|body|br|code|div|em|font|h[1-6]|head|hr|html|i|img|li|ol|p|pre"
    r"|script|section|span|strong|style|sub|sup|table|tbody|td|th|thead|tr|u|ul)"
    r"(?:\s[^<>]*=[^<>]*)?\s*/?>",
    re.IGNORECASE,
)
"""Tags by which a text is seen to be HTML; ``<int>`` and ``a <b and c> d`` are none."""
_MARKUP = re.compile(
    r"<!--(?:(?!<!--).)*?-->|<[!?](?=[a-z\[])[^<>]*>"
    r"""|<(?P<end>/?)(?P<name>[a-z][\w:.-]*)(?P<rest>(?:"[^"]{0,2000}"|'[^']{0,2000}'|[^<>"'])*)>""",
    re.IGNORECASE | re.DOTALL,
)
_ENTITY = re.compile(r"&(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]*);", re.IGNORECASE)
_PARAGRAPH = re.compile(r"\n\s*\n")
_LOOKED_AT = 1000  # documents
_VERSION = 1
_INSTALL = "pip install 'zelo-ray[html]'"


def has_tags(text: str) -> bool:
    """Return whether a text holds tags of HTML."""
    return _TAG.search(text) is not None


def describe_tags(places: Sequence[str]) -> str:
    """Say how many of the first documents hold tags; "" if none do, or nothing can be read."""
    documents = tagged = 0
    try:
        for _, line in _lines(places):
            pool = _pool(line)
            for document in pool["documents"] if pool else ():
                documents += 1
                tagged += has_tags(str(document.get("content", "")))
            if documents >= _LOOKED_AT:
                break
    except InputError:  # which is told where the input is read
        return ""
    if not tagged:
        return ""
    looked_at = counted(documents, "document")
    return (
        f"{tagged:,} of the first {looked_at} hold HTML tags, which models are shown: "
        "--strip-html takes them out"
    )


def strip_pools(
    places: Sequence[str],
    out: str,
    show_query: Sequence[str] = (),
    show_metadata: Sequence[str] = (),
) -> tuple[str, list[str]]:
    """Write pools whose texts are not HTML below the results; return where, and messages.

    Changed are texts of queries and documents, and fields that models are shown, where these hold
    tags or entities. A document with nothing but tags is left out. A line that is no valid pool
    stays as it is.

    Args:
        places: files of JSON lines.
        out: directory or URL of the results.
        show_query: fields of queries that models are shown.
        show_metadata: fields of documents that models are shown.

    Raises:
        OptionError: the library is not installed.
        InputError: a file cannot be read, or all are empty.
    """
    mark = hash_sources(places, out, "strip_html", _VERSION, show_query, show_metadata)
    if made := find_conversion(out, mark):
        return made
    stripper = _Stripper(_load_extractor(), (*show_query,), (*show_metadata,))
    place = store_lines(out, (stripper.strip(at, line) for at, line in _lines(places)))
    if not stripper.lines:
        raise InputError(f"{', '.join(places)}: the input holds no pool; it is empty")
    messages = stripper.messages()
    write_notes(place, [*read_notes(places), *messages])
    record_conversion(out, mark, place, messages)
    return place, messages


@dataclass(slots=True)
class _Stripper:
    """Makes lines of pools whose texts are not HTML, and counts what it changes."""

    extract_text: Callable[[str], str]
    show_query: tuple[str, ...]
    show_metadata: tuple[str, ...]
    lines: int = 0
    documents: int = 0
    changed: int = 0
    queries: int = 0
    notes: ConversionNotes = field(default_factory=ConversionNotes)
    own_queries: OwnQueries = field(default_factory=OwnQueries)

    def strip(self, place: str, line: bytes) -> bytes:
        """Return a line, with its end, whose texts are not HTML."""
        self.lines += 1
        pool = _pool(line)
        if pool is None:
            return line + b"\n"
        query, documents = pool["query"], pool["documents"]
        changed = self._strip_fields(query, ("query", *self.show_query))
        self.queries += changed
        for document in documents:
            self.documents += 1
            had_text = str(document.get("content", "")).strip()
            if self._strip_fields(document, ("content",), keep=False):
                self.changed += 1
                changed = True
                if had_text and not document["content"]:
                    where = f"document {document.get('id')} in query {query.get('id')}"
                    self.notes.note_left_out("documents with nothing but HTML tags", where)
            metadata = document.get("metadata")
            if isinstance(metadata, dict):
                changed |= self._strip_fields(metadata, self.show_metadata)
        id_, text = query.get("id"), query.get("query")
        if not is_converted(place) and isinstance(id_, str) and isinstance(text, str):
            for document in documents:  # of other files it was told when they were converted
                is_own_query(self.own_queries, id_, text, document)
        if not changed:
            return line + b"\n"
        pool["documents"] = [row for row in documents if row.get("content") != ""]
        return pool_to_line(pool)

    def messages(self) -> list[str]:
        """Say what was changed, and what was left out."""
        documents = counted(self.documents, "document")
        queries = f" and of {counted(self.queries, 'query', 'queries')}" if self.queries else ""
        done = f"took HTML out of {self.changed:,} of {documents}{queries}"
        return [done, *self.notes.to_lines(), *self.own_queries.notes(left_out=False)]

    def _strip_fields(
        self, row: dict[str, Any], names: Iterable[str], *, keep: bool = True
    ) -> bool:
        """Strip fields that are texts or lists of texts; return whether one was changed.

        With ``keep`` a text with nothing but tags stays as it is.
        """
        changed = False
        for name in names:
            value = row.get(name)
            if isinstance(value, str):
                stripped: Any = self._strip_text(value, keep=keep)
            elif isinstance(value, list):
                stripped = [
                    self._strip_text(e, keep=keep) if isinstance(e, str) else e for e in value
                ]
            else:
                continue
            if stripped != value:
                row[name], changed = stripped, True
        return changed

    def _strip_text(self, text: str, *, keep: bool) -> str:
        if not has_tags(text):
            return _ENTITY.sub(lambda match: unescape(match[0]), text)
        return self.extract_text(text) or (text if keep else "")


def _load_extractor() -> Callable[[str], str]:
    """Return the function that makes text of HTML.

    Raises:
        OptionError: the library is not installed.
    """
    try:
        html_text = importlib.import_module("html_text")
        etree, lxml_html = map(importlib.import_module, ("lxml.etree", "lxml.html"))
        names = importlib.import_module("lxml.html.defs").tags
    except ImportError:
        raise OptionError(f"--strip-html needs the extra html: {_INSTALL}") from None
    blocks = html_text.NEWLINE_TAGS | html_text.DOUBLE_NEWLINE_TAGS

    def extract_text(text: str) -> str:
        html = _mend_html(text, names, blocks).encode("utf-8", "backslashreplace")
        # Without huge_tree all that lies deeper than 255 elements would be lost.
        parser = lxml_html.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
        tree = etree.fromstring(html, parser)
        extracted: str = "" if tree is None else html_text.extract_text(tree)
        return extracted

    return extract_text


def _mend_html(text: str, names: AbstractSet[str], blocks: AbstractSet[str]) -> str:
    """Return a text as HTML of which a parser loses nothing that is meant to be read.

    A ``<`` that begins no tag, as in ``a<b`` or ``List<int>``, is written as an entity. Ends of
    lines in ``<pre>``, and in texts without any block or ``<br>``, are written as elements.

    Args:
        text: HTML, perhaps carelessly written.
        names: of all elements of HTML.
        blocks: names of elements that stand on lines of their own.
    """
    matches = list(_MARKUP.finditer(text))
    ended = {match["name"].lower() for match in matches if match["end"]}
    tags = [match for match in matches if _is_tag(match, names, ended)]
    keep_lines = not any((match["name"] or "").lower() in blocks for match in tags)
    pieces, at, pre = list[str](), 0, 0
    for match in tags:
        pieces += (_plain(text[at : match.start()], keep_lines=keep_lines or pre > 0), match[0])
        at = match.end()
        if (match["name"] or "").lower() == "pre":
            pre = max(0, pre + (-1 if match["end"] else 1))
    return "".join([*pieces, _plain(text[at:], keep_lines=keep_lines or pre > 0)])


def _is_tag(match: re.Match[str], names: AbstractSet[str], ended: AbstractSet[str]) -> bool:
    """Return whether what looks like a tag is one: of HTML, or of another kind of markup.

    Args:
        match: of `_MARKUP`.
        names: of all elements of HTML.
        ended: names that the text has end tags of.
    """
    if not match["name"]:  # a comment or a declaration
        return True
    name, rest = match["name"].lower(), match["rest"]
    with_attributes = rest[:1].isspace()
    if name in names:
        bare = not rest.strip(" \t\r\n/")
        return bare or (with_attributes and ("=" in rest or len(name) > 1))
    return name in ended or rest.endswith("/") or (with_attributes and "=" in rest)


def _plain(text: str, *, keep_lines: bool) -> str:
    text = text.replace("<", "&lt;")
    return _PARAGRAPH.sub("<p></p>", text).replace("\n", "<br>") if keep_lines else text


def _lines(places: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for place in places:
        yield from read_placed_lines(place)


def _pool(line: bytes) -> Any:
    """Return a line's pool, or None where it has not even the form of one."""
    try:
        pool = json.loads(line)  # orjson would round numbers of more than 64 bits
        rows = [pool["query"], *pool["documents"]]
    except (ValueError, LookupError, TypeError):
        return None
    return pool if all(isinstance(row, dict) for row in rows) else None
