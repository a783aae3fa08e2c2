"""Read pools from sharded JSON lines, one line at a time; reject invalid lines with a reason.

A line is ``{"query": {"id", "query"}, "documents": [{"id", "content", "metadata"?, "score"?}]}``;
unknown keys are kept for the annotated output, and otherwise ignored.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired, cast

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    with_config,
)
from typing_extensions import TypedDict  # of pydantic, which takes no other on Python 3.11

from zelo_ray.errors import InputError, format_error
from zelo_ray.files.storage import READ_ERRORS, open_unpacked
from zelo_ray.records import Document, Pool, first_error

_BOM = b"\xef\xbb\xbf"
LINE_FIELDS = frozenset({"id", "query", "session_id"})
"""The fields of a query that are not part of ``Pool.about``."""


@dataclass(frozen=True, slots=True)
class Line:
    """One input line: its ``pool``, or the ``reason`` why it is invalid."""

    file: str
    number: int
    raw: bytes
    pool: Pool | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LineLimits:
    """The largest sizes, in bytes, of a valid line."""

    line: int = 4 * 2**20
    document: int = 2**20
    query: int = 2**16


def read_lines(file: str, limits: LineLimits) -> Iterator[Line]:
    """Yield the lines of one shard, valid or not, without blank ones.

    A truncated file (a torn gzip, a lost connection) ends with an invalid line that says so.
    """
    number = 0
    try:
        with open_unpacked(file) as stream:
            while raw := stream.readline(limits.line + 1):
                number += 1
                if number == 1:
                    raw = raw.removeprefix(_BOM)
                if len(raw) > limits.line:
                    yield Line(
                        file, number, raw[:1000], reason=f"longer than {limits.line:,} bytes"
                    )
                    while raw and not raw.endswith(b"\n"):
                        raw = stream.readline(limits.line)
                elif raw.strip():
                    yield parse_line(file, number, raw.rstrip(b"\r\n"), limits)
    except READ_ERRORS as error:
        yield Line(
            file, number + 1, b"", reason=f"the file cannot be read further: {format_error(error)}"
        )


def parse_line(file: str, number: int, raw: bytes, limits: LineLimits) -> Line:
    """Validate one line."""
    try:
        parsed = read_input(raw)
        _refuse_odd_numbers(raw)
    except ValidationError as error:
        return Line(file, number, raw, reason=_describe_error(error))
    except ValueError as error:
        return Line(file, number, raw, reason=f"Invalid JSON: {error}")
    query, rows = parsed["query"], parsed.get("documents", [])
    if size := _too_long(query["query"], limits.query):
        reason = f"the query is {size:,} bytes; the limit is {limits.query:,}"
        return Line(file, number, raw, reason=reason)
    ids: set[str] = set()
    for document in rows:
        if (name := document["id"]) in ids:
            return Line(file, number, raw, reason=f"document id {name!r} appears twice")
        ids.add(name)
        if size := _too_long(document["content"], limits.document):
            reason = f"document {name!r} is {size:,} bytes; the limit is {limits.document:,}"
            return Line(file, number, raw, reason=reason)
    documents = tuple(Document(d["id"], d["content"], d.get("metadata") or {}) for d in rows)
    session = _session(parsed.get("session_id"), query.get("session_id"))
    about = {name: value for name, value in query.items() if name not in LINE_FIELDS}
    return Line(file, number, raw, Pool(query["id"], query["query"], documents, session, about))


def parse_pool(place: str, line: bytes) -> Pool:
    """Parse a pool, whatever the size of its texts.

    Raises:
        InputError: it is invalid.
    """
    most = len(line)
    parsed = parse_line(place, 0, line, LineLimits(most, most, most))
    if parsed.pool is None:
        raise InputError(f"{place}: {parsed.reason}")
    return parsed.pool


def _describe_error(error: ValidationError) -> str:
    """Describe the error in a line; for an id that is a number, also how to write it."""
    first = error.errors(include_url=False)[0]
    if first["type"] != "string_type" or first["loc"][-1] != "id":
        return first_error(error)
    id_ = first["input"]
    if isinstance(id_, float) and abs(id_) >= 2**53:
        return first_error(error, "must be a text; as a number it may have lost digits")
    shown = id_ if isinstance(id_, int | float) and not isinstance(id_, bool) else 1
    return first_error(error, f'must be a text: write "id": "{shown}"')


def _too_long(text: str, limit: int) -> int:
    """Return the size of a text in bytes if it is over the limit; else 0."""
    if len(text) <= limit // 4:  # a character takes at most four bytes
        return 0
    size = len(text.encode())
    return size if size > limit else 0


def _refuse_odd_numbers(raw: bytes) -> None:
    """Refuse numbers such as NaN, which Python reads and JSON lacks, and ones too large for Python.

    Raises:
        ValueError: there is one.
    """
    try:
        orjson.loads(raw)  # fast, and refuses all of them, and some valid JSON
    except ValueError:
        json.dumps(json.loads(raw), allow_nan=False)


def session_in(raw: bytes) -> str:
    """Return the session of a line that may be invalid; "" if there is none."""
    try:
        line = json.loads(raw)
        sessions = (line.get("session_id"), line["query"].get("session_id"))
    except (ValueError, KeyError, AttributeError, TypeError):
        return ""
    return _session(*sessions)


def query_in(raw: bytes) -> tuple[str, str]:
    """Return the id and the text of the query of a line that may be invalid; "" if it has none."""
    try:
        query = orjson.loads(raw)["query"]
        return str(query.get("id") or ""), str(query.get("query") or "")
    except (ValueError, KeyError, AttributeError, TypeError):
        return "", ""


def _session(*told: object) -> str:
    return next((str(id_) for id_ in told if isinstance(id_, str | int)), "")


def annotate_line(raw: bytes, scores: Mapping[str, Mapping[str, float]], *names: str) -> bytes:
    """Add values such as ``score`` to the documents of an input line; keep all other fields.

    Args:
        raw: the line.
        scores: by document, values by name; those that are not finite are left out.
        names: all names that may occur. A field of the input with such a name is renamed to
            ``input_NAME``, unless that exists, as in a line that was annotated before.
    """
    line = cast(dict[str, Any], json.loads(raw))
    for document in line.get("documents", []):
        for name in names:
            if name in document:
                document.setdefault(f"input_{name}", document.pop(name))
        values = scores.get(document["id"], {})
        document.update({name: value for name, value in values.items() if math.isfinite(value)})
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace")


def hash_id(kind: str, text: str) -> str:
    """Make an id as a hash of a text."""
    return f"{kind}-{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()[:12]}"


def _check_text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    return value


_Text = Annotated[str, AfterValidator(_check_text)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Query(_Strict):
    id: _Text
    query: _Text
    session_id: Any = None


class _Document(_Strict):
    id: _Text
    content: _Text
    metadata: dict[str, Any] | None = None


class _InputLine(_Strict):
    query: _Query
    session_id: Any = None
    documents: list[_Document] = Field(default_factory=list)


@with_config(strict=True, extra="allow")
class _PlainQuery(TypedDict):
    id: str
    query: str
    session_id: NotRequired[Any]


@with_config(strict=True, extra="ignore")
class _PlainDocument(TypedDict):
    id: str
    content: str
    metadata: NotRequired[dict[str, Any] | None]


@with_config(strict=True, extra="ignore")
class PlainLine(TypedDict):
    """The same fields as `_InputLine`, validated in half the time, but texts may be blank."""

    query: _PlainQuery
    session_id: NotRequired[Any]
    documents: NotRequired[list[_PlainDocument]]


_PLAIN = TypeAdapter(PlainLine)


def read_input(raw: bytes) -> PlainLine:
    """Parse and validate an input line.

    Raises:
        ValidationError: a field is missing or of a wrong type, or a text is blank or has a NUL.
    """
    try:
        line = _PLAIN.validate_json(raw)
    except ValidationError:
        _InputLine.model_validate_json(raw)  # raises, with clearer messages
        raise
    for part in (line["query"], *line.get("documents", [])):
        for text in part.values():
            if isinstance(text, str) and (not text.strip() or "\0" in text):
                # Raises, unless the text is a session id, which may be blank.
                _InputLine.model_validate_json(raw)
                return line
    return line
