"""Pools as JSON lines: read one at a time, set invalid ones aside with a reason, write.

A line is ``{"query": {"id", "query"}, "documents": [{"id", "content", "metadata"?, "score"?}]}``;
unknown keys are kept for the annotated output, and otherwise ignored.
"""

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from zelo_ray.errors import InputError, format_error
from zelo_ray.files.storage import READ_ERRORS, open_for_writing, open_unpacked
from zelo_ray.records import Document, Pool

PoolRow = dict[str, Any]
"""A pool as the object of an input line."""
LINE_FIELDS = frozenset({"id", "query", "session_id"})
"""The fields of a query that are not part of ``Pool.about``."""
_OWN_QUERY = {
    "left out": "left out the query itself from its candidates, as BEIR's evaluation does, where "
    "id and text are the same",
    "other text": "kept documents that have the id of their query but another text",
}
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Line:
    """One input line: its ``pool``, or the ``reason`` why it is invalid.

    A document with the id and the text of its query is the query itself, as in ArguAna and Quora,
    whose queries are documents, and is left out of the pool, as BEIR's evaluation does.
    """

    file: str
    number: int
    raw: bytes
    pool: Pool | None = None
    reason: str = ""
    own_query: Literal["", "left out", "other text"] = ""
    """whether a document has the query's id: with its text, or with another one, which is kept"""

    @property
    def text(self) -> str:
        """Return the line with bytes that are not UTF-8 written out."""
        return self.raw.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class LineLimits:
    """The largest sizes, in bytes, of a valid line."""

    line: int = 4 * 2**20
    document: int = 2**20
    query: int = 2**16


def read_lines(file: str, limits: LineLimits) -> Iterator[Line]:
    """Yield the lines of one shard, valid or not, without blank ones."""
    number = 0
    try:
        with open_unpacked(file) as stream:
            while raw := stream.readline(limits.line + 1):
                number += 1
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                if len(raw) > limits.line:
                    reason = f"longer than {limits.line:,} bytes"
                    yield Line(file, number, raw[:1000], reason=reason)
                    while raw and not raw.endswith(b"\n"):
                        raw = stream.readline(limits.line)
                elif raw.strip():
                    yield parse_line(file, number, raw.rstrip(b"\r\n"), limits)
    except READ_ERRORS as error:
        reason = f"the file cannot be read further: {format_error(error)}"
        yield Line(file, number + 1, b"", reason=reason)


def parse_line(file: str, number: int, raw: bytes, limits: LineLimits) -> Line:
    """Validate one line."""
    try:
        pool = _parse(raw, limits)
    except ValueError as error:
        return Line(file, number, raw, reason=str(error))
    own = next((document for document in pool.documents if document.id == pool.query_id), None)
    if own is None:
        return Line(file, number, raw, pool)
    if not is_same_text(pool.query, own):
        return Line(file, number, raw, pool, own_query="other text")
    pool = replace(pool, documents=tuple(d for d in pool.documents if d is not own))
    return Line(file, number, raw, pool, own_query="left out")


@dataclass(slots=True)
class Notes:
    """Notes on what was left out and made up as files were read."""

    said: dict[str, None] = field(default_factory=dict)
    _ids: dict[str, dict[str, None]] = field(default_factory=dict)

    def say(self, line: str) -> None:
        """Note a line, once."""
        self.said[line] = None

    def leave_out(self, what: str, *ids: str) -> None:
        """Note that something was left out."""
        self._ids.setdefault(f"left out {what}", {}).update(dict.fromkeys(ids))

    def count_own_query(self, line: Line) -> None:
        """Note a query that is among its own candidates."""
        if line.pool and line.own_query:
            self._ids.setdefault(_OWN_QUERY[line.own_query], {})[line.pool.query_id] = None

    def lines(self) -> list[str]:
        """Return all notes in words."""
        counted = ((what, ids) for what, ids in self._ids.items() if ids)
        return [*self.said, *(f"{what}: {len(ids):,} ({few(ids)})" for what, ids in counted)]


def few(ids: Collection[str]) -> str:
    """Return the first three of some ids in words."""
    return ", ".join([*ids][:3]) + (" ..." if len(ids) > 3 else "")


def is_same_text(query: str, document: Document) -> bool:
    """Return whether a document has the same text as the query, with its title or without."""
    content, title = document.content, document.metadata.get("title")
    texts = [content, content.removeprefix(f"{title}\n")] if isinstance(title, str) else [content]
    return any(text.split() == query.split() for text in texts)


def _parse(raw: bytes, limits: LineLimits) -> Pool:
    """Parse a line to a pool; a ValueError says in one line why it is none."""
    try:
        row = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"Invalid JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("is not an object")  # noqa: TRY004 - one error for a line
    query, documents, ids = row.get("query"), row.get("documents", []), set[str]()
    if query is None:
        raise ValueError("query: is missing")
    _check("query", query, "query", limits.query)
    if not isinstance(documents, list):
        raise ValueError("documents: must be a list")  # noqa: TRY004 - as above
    for at, item in enumerate(documents):
        _check(f"documents[{at}]", item, "content", limits.document)
        if item["id"] in ids:
            raise ValueError(f"document id {item['id']!r} appears twice")
        ids.add(item["id"])
    session = _session(row.get("session_id"), query.get("session_id"))
    about = {name: value for name, value in query.items() if name not in LINE_FIELDS}
    made = (Document(each["id"], each["content"], each.get("metadata") or {}) for each in documents)
    return Pool(query["id"], query["query"], tuple(made), session, about)


def _check(what: str, item: Any, text: str, limit: int) -> None:
    """Refuse a query or a document without a good id, text or metadata."""
    if not isinstance(item, dict):
        raise ValueError(f"{what}: must be an object with id and {text}")  # noqa: TRY004 - as above
    for name in ("id", text):
        value, wrong = item.get(name), ""
        if name not in item:
            wrong = ": is missing"
        elif not isinstance(value, str):
            wrong = f": must be a text{_how_to_write(name, value)}"
        elif not value.strip():
            wrong = ": is empty"
        elif "\0" in value:
            wrong = ": holds a NUL character"
        # A character takes at most four bytes.
        elif len(value) > limit // 4 and (size := len(value.encode())) > limit:
            wrong = f" is {size:,} bytes; the limit is {limit:,}"
        if wrong:
            raise ValueError(f"{what}.{name}{wrong}")
    if text == "content" and not isinstance(item.get("metadata"), dict | None):
        raise ValueError(f"{what}.metadata: must be an object")


def _how_to_write(name: str, value: Any) -> str:
    if name != "id" or isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    if isinstance(value, float) and abs(value) >= 2**53:
        return "; as a number it may have lost digits"
    return f': write "id": "{value}"'


def valid_pool(line: Line) -> Pool:
    """Return the pool of a line; refuse an invalid one."""
    if line.pool is None:
        raise InputError(f"{line.file}:{line.number}: {line.reason}")
    return line.pool


def pool_lines(files: Iterable[str]) -> Iterator[tuple[bytes, Pool]]:
    """Yield the lines of files of pools, and the pools; refuse an invalid line."""
    for line in (line for file in files for line in read_lines(file, LineLimits())):
        yield line.raw, valid_pool(line)


def session_in(raw: bytes) -> str:
    """Return the session of a line that may be invalid; "" if there is none."""
    line, query = _objects_in(raw)
    return _session(line.get("session_id"), query.get("session_id"))


def query_in(raw: bytes) -> tuple[str, str]:
    """Return the id and the text of the query of a line that may be invalid; "" if it has none."""
    _, query = _objects_in(raw)
    return str(query.get("id") or ""), str(query.get("query") or "")


def _objects_in(raw: bytes) -> tuple[PoolRow, PoolRow]:
    try:
        line = orjson.loads(raw)
    except orjson.JSONDecodeError:
        line = None
    query = line.get("query") if isinstance(line, dict) else None
    return (line, query) if isinstance(query, dict) else ({}, {})


def _session(*ids: object) -> str:
    return next((str(id_) for id_ in ids if isinstance(id_, str | int)), "")


def annotate_line(raw: bytes, scores: Mapping[str, Mapping[str, float]], *names: str) -> bytes:
    """Add finite values such as ``score`` to the documents of an input line.

    A field of the input with one of the ``names`` becomes ``input_NAME``, unless that exists, as in
    a line that was annotated before; all others stay.
    """
    line = json.loads(raw)
    for document in line.get("documents", []):
        for name in names:
            if name in document:
                document.setdefault(f"input_{name}", document.pop(name))
        values = scores.get(document["id"], {})
        document.update({name: value for name, value in values.items() if math.isfinite(value)})
    return to_line(line)


def hash_id(kind: str, text: str) -> str:
    """Make an id as a hash of a text."""
    return f"{kind}-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:12]}"


def pool_row(pool: Pool) -> PoolRow:
    """Return a pool as the object of an input line, with its session in its query."""
    session = {"session_id": pool.session_id} if pool.session_id else {}
    fields = {"id": pool.query_id, "query": pool.query}
    query = {**fields, **pool.about, **fields, **session}
    return {"query": query, "documents": [*map(document_row, pool.documents)]}


def document_row(document: Document) -> dict[str, Any]:
    """Return a document as an object of an input line."""
    row: dict[str, Any] = {"id": document.id, "content": document.content}
    return row | ({"metadata": dict(document.metadata)} if document.metadata else {})


def to_line(pool: Mapping[str, Any]) -> bytes:
    """Return a pool as an input line without its end, in the same form for input of every kind."""
    text = json.dumps(pool, ensure_ascii=False, default=_plain)
    return text.encode("utf-8", "backslashreplace")


def _plain(value: Any) -> Any:
    """Convert a number or an array of numpy, or what Parquet holds, to a plain Python value."""
    if isinstance(value, Mapping):
        return dict(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def write_lines(url: str, lines: Iterable[bytes]) -> int:
    """Write lines; return how many."""
    count = 0
    with open_for_writing(url) as file:
        for line in lines:
            file.write(line + b"\n")
            count += 1
    return count
