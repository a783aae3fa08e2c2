"""Open a file of a user: recognise what it is by its beginning, and read its rows.

A file is opened once: what is read of it to recognise it is kept, and read on from there.
"""

import csv
import io
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from typing import Any, Literal

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.errors import InputError, UnreadableFile, format_error
from zelo_ray.files import storage
from zelo_ray.files.pools import LineLimits
from zelo_ray.files.schema import (
    ERRORS,
    IDS,
    LOST_DIGITS,
    Columns,
    converter,
    find_roles,
    role_of,
    type_of,
)
from zelo_ray.files.storage import is_jsonl, list_directory, open_for_reading, read_blocks
from zelo_ray.files.wording import counted, unguard_formula

Kind = Literal[
    "pools",  # JSON lines as `annotate` reads them, or what should be such lines
    "lists",  # rows with all documents of a query in one column
    "conversations",  # answers of assistants
    "mteb",  # rows of a query, positive and negative texts
    "table",  # rows with one document, or one comparison, each; roles tell what
    "trec run",
    "trec qrels",
    "beir qrels",  # lines of query, document and score without a header
    "topics",
    "text",  # lines without columns
    "results",  # a directory of `annotate`
    "labels",  # a directory of `label`
    "collection",  # a folder with a corpus and queries, or a data set of ir_datasets
    "folder",
]
Numbered = Iterator[tuple[int, dict[str, Any]]]
"""Rows with the numbers of their lines, or of their places in a list or table."""
DATASET = "ir_datasets:"
RESULTS, SAMPLE_RECORD = "scores.parquet", "label.json"
CORPUS_NAMES = ("corpus", "docs", "documents", "collection")
QUERIES_NAMES = ("queries", "topics")
BEIR_QRELS = ("query-id", "corpus-id", "score")
_UNREAD = {
    b"\xff\xfe": "is UTF-16: save it as UTF-8",
    b"\xfe\xff": "is UTF-16: save it as UTF-8",
    b"PK\x03\x04": "is a workbook or a zip archive: save the table as CSV, or unpack it",
    b"BZh": "is packed by bzip2: pack it by gzip or zstd",
    b"\xfd7zX": "is packed by xz: pack it by gzip or zstd",
    b"\x1f\x8b": "is packed by gzip: give it a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: give it a name that ends in .zst",
    b"ARROW1": "is Arrow or Feather: write it as Parquet (pandas: df.to_parquet)",
    b"\xff\xff\xff\xff": "is a stream of Arrow: write it as Parquet (pyarrow.parquet.write_table)",
    b"\x80\x04": "is a pickle, which could run code: write it as Parquet (pandas: df.to_parquet)",
    b"\x80\x05": "is a pickle, which could run code: write it as Parquet (pandas: df.to_parquet)",
    b"SQLite format": "is a database: export the table as CSV or Parquet",
}
"""By the first bytes of a file that is not read, what it is and what to do."""
_PLAIN = {
    "trec run": "a TREC run",
    "trec qrels": "a file of TREC's qrels",
    "beir qrels": "lines of query, document and score",
    "topics": "TREC topics",
}
_HF_FILES = frozenset({"dataset_info.json", "state.json", "dataset_dict.json"})
_RATINGS = ("doc_id", "score", "std_error", "comparisons", "rank", "wins")
"""Header of a table that ``fit`` writes for people, with guarded texts (`unguard_formula`)."""
_LOOKED_AT = 100  # rows, or lines
_LONGEST_CELL = 2**31 - 1
_RUN_COLUMNS, _QRELS_COLUMNS, _BEIR_COLUMNS = 6, 4, 3
_TOPICS = re.compile(rb"\s*(?:<[^>]*>\s*)*?<top>", re.DOTALL | re.IGNORECASE)
_WEB_PAGE = (b"<!doctype html", b"<html")
_QUOTED_CELL = re.compile(r'"((?:[^"]|"")*)"')
_SEPARATORS = ("\t", ",", ";")
_ROWS = 2**16
_MANY = 100_000  # rows that take long enough to be worth threads


class _File:
    """The content of a file in blocks of whole lines, of which the first is kept."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._blocks: Iterator[bytes] | None = read_blocks(url)
        self.head = next(self._blocks, b"")
        self._next: list[bytes] = (
            [*islice(self._blocks, 1)] if len(self.head) >= storage.BLOCK_BYTES else []
        )
        self.is_whole = not self._next

    def blocks(self) -> Iterator[bytes]:
        """Yield all blocks; read the file again only if it is larger than one, the second time."""
        if self.is_whole:
            return iter([self.head])
        blocks, following = self._blocks, self._next
        self._blocks, self._next = None, []
        return read_blocks(self.url) if blocks is None else chain([self.head], following, blocks)

    def read(self) -> bytes:
        return b"".join(self.blocks())

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers."""
        number = 0
        for block in self.blocks():
            for at, line in enumerate(block.split(b"\n"), number + 1):
                if line.strip():
                    yield at, line.rstrip(b"\r")
            number += block.count(b"\n")


@dataclass(frozen=True, slots=True)
class Source:
    """A place that was opened: what it is, its columns, and its rows."""

    place: str
    kind: Kind
    names: tuple[str, ...] = ()
    """the columns, as far as the first rows show them; of a folder its files"""
    first: Mapping[str, Any] = field(default_factory=dict)
    """a typical row"""
    columns: Mapping[str, str] = field(default_factory=dict)
    """the names that the user gave, by role"""
    unit: str = ""
    """what rows are called in messages: row or item; "" for lines"""
    is_cells: bool = False
    """whether all values are texts, under a header"""
    has_commas: bool = False
    """whether numbers may have a comma before their fraction, as semicolons part cells"""
    _read: Callable[[], Numbered] | None = None
    _file: _File | None = None
    _parquet: Callable[[], AbstractContextManager[pq.ParquetFile]] | None = None
    _damage: UnreadableFile | None = None
    _asked: set[str] = field(default_factory=set)
    """the roles that somebody has looked for"""

    def where(self, number: int) -> str:
        """Return the place of a row, for messages."""
        return f"{self.place}: {self.unit} {number}" if self.unit else f"{self.place}:{number}"

    def rows(self) -> Numbered:
        """Yield all rows."""
        if self._damage:
            raise self._damage
        if self._read is None:
            raise InputError(f"{self.place}: {self.summary}, not a table")
        return self._read()

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a text."""
        return self._file.lines() if self._file else iter(())

    def blocks(self) -> Iterator[bytes]:
        """Yield the text in blocks of whole lines."""
        return self._file.blocks() if self._file else iter(())

    def roles(self, *wanted: str) -> dict[str, str]:
        """Return the columns of some roles."""
        self._asked.update(wanted)
        return find_roles(self.place, self.names, self.columns, wanted)

    def has(self, *roles: str) -> bool:
        """Return whether there may be a column of each of some roles."""
        every = {*map(role_of, self.names)} | {
            r for r, n in self.columns.items() if n in self.names
        }
        if not every.isdisjoint(roles) and "doc_id" in roles and not {*IDS}.isdisjoint(self.names):
            every.add("doc_id")
        return every.issuperset(roles)

    @property
    def summary(self) -> str:
        """Say what the place seems to be."""
        if self.kind in _PLAIN:
            return _PLAIN[self.kind]
        names = ", ".join(self.names[:12]) + (" ..." if self.names[12:] else "")
        if self.kind in ("results", "labels", "folder", "collection"):
            return f"a folder of {names}" if names else "an empty folder"
        if names:
            return f"a table with the columns {names}"
        line = next((line for _, line in self.lines()), b"")[:80].decode("utf-8", "replace")
        return f"a text that begins with {line.strip()!r}" if line else "an empty file"

    def table(
        self, roles: Mapping[str, str], required: Sequence[str] = ()
    ) -> tuple[pa.Table, Callable[[int], str]]:
        """Read the columns of some roles with their types; return also where a row stands.

        Ids, texts, objects (as JSON) and fields are texts, numbers float64. In JSON a row must have
        the ``required`` columns, if only as null.
        """
        if self._parquet:
            table = self._arrow(roles)
            if table is not None:
                return table, lambda row: self.where(row + 1)
        numbers, batches = array("q"), list[pa.RecordBatch]()
        schema = pa.schema([(role, ARROW[type_of(role)]) for role in roles])
        values: dict[str, list[Any]] = {role: [] for role in roles}
        style = {"cells": self.is_cells, "has_commas": self.has_commas}
        cells = [
            (name, values[role].append, converter(role, **style)) for role, name in roles.items()
        ]
        known, wanted = {*self.names}, [roles[role] for role in required if role in roles]
        for number, row in self.rows():
            if not (self.is_cells or row.keys() <= known):
                self._check_new_columns(number, row, roles)
                known |= row.keys()
            for name, add, convert in cells:
                value = row.get(name)
                if value is not None:
                    try:
                        value = convert(value)
                    except ValueError as error:
                        raise InputError(f"{self.where(number)}: {name} {error}") from None
                add(value)
            if wanted and not row.keys() >= {*wanted}:
                lacking = next(name for name in wanted if name not in row)
                raise InputError(
                    f"{self.where(number)}: has no {lacking}; write null for a missing answer"
                )
            numbers.append(number)
            if len(numbers) % _ROWS == 0:
                batches.append(pa.record_batch(values, schema=schema))
                for column in values.values():
                    column.clear()
        batches.append(pa.record_batch(values, schema=schema))
        return pa.Table.from_batches(batches, schema), lambda row: self.where(numbers[row])

    def _check_new_columns(
        self, number: int, row: Mapping[str, Any], roles: Mapping[str, str]
    ) -> None:
        """Refuse a row of JSON with a column that matters and that the first rows lack."""
        for name in row.keys() - {*self.names}:
            role = role_of(name)
            if role in _WHO_AND_WHAT & self._asked and role not in roles and row[name] is not None:
                raise InputError(
                    f"{self.where(number)}: has {name!r}, which the first {_LOOKED_AT} rows lack: "
                    "give it to all of them, if as null"
                )

    def _arrow(self, roles: Mapping[str, str]) -> pa.Table | None:
        """Read columns of Parquet; return None if a value takes a closer look."""
        assert self._parquet  # noqa: S101 - the one caller asks
        if any(type_of(role) in ("object", "field", "flag") for role in roles):
            return None
        try:
            with self._parquet() as file:
                # A thread of Arrow may close a file after Python has shut down, and abort it.
                threads = file.metadata.num_rows > _MANY
                table = file.read([*dict.fromkeys(roles.values())], use_threads=threads)
            for role, name in roles.items():
                if type_of(role) == "id" and table[name].type in (pa.float16(), pa.float32()):
                    raise InputError(f"{self.place}: {name} {LOST_DIGITS}")
            return pa.table({role: _cast(table[name], role) for role, name in roles.items()})
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, _OddValueError):
            return None


_FLOAT_OR_EMPTY = r"^[+-]?(\d([.,]\d+)?[eE]\+\d+|\d{16,}\.0*)$|^$"
_WHO_AND_WHAT = frozenset(
    {
        *("judge", "turn", "winner", "preference", "loser", "method", "grade", "probability"),
        *ERRORS,
    }
)
"""Roles that all rows have, or none."""
ARROW: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("id", "object", "field"), pa.string()),
    "text": pa.large_string(),
    "number": pa.float64(),
    "flag": pa.bool_(),
}


class _OddValueError(Exception):
    """A column has a value that only the conversion of single values can tell about."""


def _cast(column: pa.ChunkedArray, role: str) -> pa.ChunkedArray:
    """Give a column of Parquet the type of its role, as `converter` does."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    is_whole = pa.types.is_integer(column.type)
    fits = {
        "id": is_text or is_whole,
        "text": is_text,
        "number": is_whole or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type),
    }
    if not fits.get(type_of(role)):
        raise _OddValueError
    column = column.cast(ARROW[type_of(role)])
    if type_of(role) == "id" and pc.any(pc.match_substring_regex(column, _FLOAT_OR_EMPTY)).as_py():
        raise _OddValueError
    if type_of(role) == "number":
        if role in ERRORS:
            column = pc.if_else(pc.is_nan(column), None, column)
        if not pc.all(pc.is_finite(column)).as_py():
            raise _OddValueError
    return column


def concat(
    parts: Sequence[tuple[pa.Table, Callable[[int], str]]],
) -> tuple[pa.Table, Callable[[int], str]]:
    """Join the tables of several sources, and what tells where their rows stand."""
    starts = np.cumsum([0, *(len(table) for table, _ in parts[:-1])])

    def where(row: int) -> str:
        part = bisect_right(starts, row) - 1
        return parts[part][1](row - int(starts[part]))

    return pa.concat_tables([table for table, _ in parts], promote_options="default"), where


def open_source(place: str, columns: Mapping[str, str] | None = None) -> Source:
    """Open a file, a folder or a URL; refuse what is of no form that can be read."""
    user = columns if columns is not None else {}
    names = [] if place.startswith(DATASET) else list_directory(place)
    if names is not None:
        return Source(place, _kind_of_folder(place, names), tuple(names), columns=user)
    try:
        file = _File(place)
    except UnreadableFile as error:
        if is_jsonl(place):  # of which the lines before the damage may be read
            return Source(place, "pools", columns=user, _damage=error)
        raise
    source = _open_file(place, file, user)
    if isinstance(user, Columns):
        user.files[place] = [*source.names, *_inner_names(source.first)]
    return replace(source, _file=file)


def _open_file(place: str, file: _File, user: Mapping[str, str]) -> Source:
    head = file.head
    if head.startswith(b"PAR1") or place.endswith(".parquet"):
        return _open_parquet(place, file, user)
    for start, reason in _UNREAD.items():
        if head.startswith(start):
            raise InputError(f"{place}: {reason}")
    lines = [line.rstrip(b"\r") for line in head.split(b"\n", 4 * _LOOKED_AT) if line.strip()]
    lines = lines[:_LOOKED_AT]
    if not lines:
        kind: Kind = "pools" if is_jsonl(place) else "text"
        return Source(place, kind, columns=user)
    is_json = lines[0].lstrip()[:1] in (b"[", b"{") or any(
        is_pool(row) for row in map(_json, lines) if isinstance(row, dict)
    )
    if is_json and (source := _open_json(place, file, lines, user)):
        return source
    if lines[0].lstrip().lower().startswith(_WEB_PAGE):
        raise InputError(f"{place}: is a web page: name a file with its texts")
    if is_jsonl(place):
        return Source(place, "pools", columns=user)
    if kind_of_lines := _kind_of_lines(place, lines):
        return Source(place, kind_of_lines, columns=user)
    return _open_cells(place, file, lines, user) or Source(place, "text", columns=user)


def _kind_of_folder(place: str, names: Sequence[str]) -> Kind:
    if place.startswith(DATASET):
        return "collection"
    if SAMPLE_RECORD in names:
        return "labels"
    if RESULTS in names:
        return "results"
    stems = {stem(name) for name in names}
    if not (stems.isdisjoint(CORPUS_NAMES) or stems.isdisjoint(QUERIES_NAMES)) or "qrels" in stems:
        return "collection"
    if not _HF_FILES.isdisjoint(names):
        raise InputError(
            f"{place}: is a data set that datasets saved to disk, as Arrow: write it as Parquet "
            "(dataset.to_parquet)"
        )
    return "folder"


def stem(name: str) -> str:
    """Return the first part of a file's name, in lower case: ``corpus`` of ``Corpus.jsonl.gz``."""
    return name.split(".", maxsplit=1)[0].lower()


# --- tables -------------------------------------------------------------------------------------


def _table(
    place: str, user: Mapping[str, str], rows: Iterable[Mapping[str, Any]], **more: Any
) -> Source:
    """Build the source of a table from some of its first rows."""
    rows = [row for row in rows if row]
    first = _typical(rows, user)
    names = dict.fromkeys([*first, *(name for row in rows for name in row)])
    return Source(place, _kind_of_rows(names, first, user), tuple(names), first, user, **more)


def is_pool(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a pool in the form that `annotate` reads, good or bad."""
    query = row.get("query")
    if not isinstance(query, Mapping):
        return False
    in_form = "query" in query or not {"text", "_id", "qid"} & query.keys()
    return in_form and ("documents" in row or not any(isinstance(v, list) for v in row.values()))


def list_column(names: Iterable[str], user: Mapping[str, str]) -> str:
    """Return the column that holds all documents of a query; "" if there is none."""
    if "documents" in user:
        return user["documents"]
    named = [name for name in names if role_of(name) == "documents"]
    return "documents" if "documents" in named else named[0] if named else ""


def _is_list(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name)
    if isinstance(value, Mapping):  # lists in place of rows
        return any(isinstance(v, list) and role_of(n) == "content" for n, v in value.items())
    return isinstance(value, list)


def _typical(rows: Sequence[Mapping[str, Any]], user: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a typical row: a pool, or of another kind if that is more common."""
    pools = [row for row in rows if is_pool(row)]
    lists = [row for row in rows if not is_pool(row) and _is_list(row, list_column(row, user))]
    if pools or lists:
        return (lists if len(lists) > len(pools) else pools)[0]
    return next((row for row in rows if "query" in row), rows[0] if rows else {})


def _kind_of_rows(names: Iterable[str], first: Mapping[str, Any], user: Mapping[str, str]) -> Kind:
    names = {*names}
    own_texts = not {"content", "documents", "title", "doc_id"}.isdisjoint(
        role for role, name in user.items() if name in _inner_names(first)
    )
    if is_pool(first) and not own_texts:
        return "pools"
    if isinstance(first.get("conversation"), list):
        return "conversations"
    if names >= {"query", "positive", "negative"} and not own_texts:
        return "mteb"
    listed = list_column(names, user)
    return "lists" if is_pool(first) or (listed and _is_list(first, listed)) else "table"


def _inner_names(value: object) -> list[str]:
    """Return the names of all fields inside a row, such as those of its documents."""
    if isinstance(value, Mapping):
        return [*map(str, value), *(n for inner in value.values() for n in _inner_names(inner))]
    return (
        [n for inner in value[:1] for n in _inner_names(inner)] if isinstance(value, list) else []
    )


def _open_parquet(place: str, file: _File, user: Mapping[str, str]) -> Source:
    @contextmanager
    def opened() -> Iterator[pq.ParquetFile]:
        whole = (
            nullcontext(pa.BufferReader(file.head)) if file.is_whole else open_for_reading(place)
        )
        try:
            with whole as raw, pq.ParquetFile(raw) as parquet:
                yield parquet
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise UnreadableFile(
                f"{place}: is not Parquet, or damaged ({format_error(error)})"
            ) from None

    def rows() -> Numbered:
        number = 0
        with opened() as parquet:
            for batch in parquet.iter_batches(2**12, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row

    first = [row for _, row in islice(rows(), 1)]
    with opened() as parquet:
        names = parquet.schema_arrow.names
    source = _table(place, user, first or [dict.fromkeys(names)], unit="row", _read=rows)
    return replace(source, names=tuple(names), _parquet=opened)


# --- JSON ---------------------------------------------------------------------------------------


def _open_json(
    place: str, file: _File, lines: Sequence[bytes], user: Mapping[str, str]
) -> Source | None:
    """Open JSON lines, or one JSON value; return None if it is neither."""
    values = [_json(line) for line in lines]
    objects = [isinstance(value, dict) for value in values]
    one_line = len(lines) == 1 and file.is_whole
    several = any(a and b for a, b in pairwise(objects))
    is_too_long = lines[0].lstrip()[:1] == b"{" and len(lines[0]) > LineLimits().line
    if not (several or is_too_long) and (
        values[0] is None or one_line or isinstance(values[0], list)
    ):
        whole = _json(file.read())
        rows = _rows_of_value(place, whole)
        if rows is not None and not (one_line and rows == [whole]):  # which is a line
            numbered = lambda: _objects(place, enumerate(rows, 1))  # noqa: E731 - of these rows
            first = [row for row in rows[:_LOOKED_AT] if isinstance(row, dict)]
            return _table(place, user, first, unit="item", _read=numbered)
        if not any(objects) and not is_jsonl(place):
            if whole is None and re.match(rb"\s*(\[\s*([\[{\"]|$)|\{\s*([\"}]|$))", lines[0]):
                _parse_json(place, file.read())  # which says where it breaks off
            return None
    rows_of_lines = [value for value in values if isinstance(value, dict)]
    if not rows_of_lines:
        return Source(place, "pools", columns=user) if is_jsonl(place) else None

    def read() -> Numbered:
        return _objects(place, ((n, _parse_json(f"{place}:{n}", line)) for n, line in file.lines()))

    return _table(place, user, rows_of_lines, _read=read)


def _json(data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return None


def _parse_json(where: str, data: bytes) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InputError(f"{where}: is not valid JSON ({error})") from None


def _objects(place: str, rows: Iterable[tuple[int, Any]]) -> Numbered:
    for number, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{place}: row {number} is not a JSON object")
        yield number, row


def _rows_of_value(place: str, value: Any) -> list[Any] | None:
    """Return the rows that one JSON value holds; None if it is a row itself, or none.

    Rows may stand in a list, by query and document, or in the only list of an object.
    """
    if isinstance(value, list):
        if value and isinstance(value[0], list):
            raise InputError(
                f"{place}: is a list of lists: write objects with names (pandas: "
                "to_json(orient='records', lines=True))"
            )
        return value if value and isinstance(value[0], dict) else None
    if not isinstance(value, dict) or not value:
        return None
    inner = [*value.values()]
    if {*value} >= {"columns", "data"} or (
        all(isinstance(part, dict) for part in inner)
        and any(role_of(name) in ("query_id", "query", "doc_id") for name in value)
        and not is_pool(value)
        and len({frozenset(part) for part in inner}) == 1
    ):
        raise InputError(
            f"{place}: is a frame column by column: write one row a line (pandas: "
            "to_json(orient='records', lines=True))"
        )
    by_query = all(isinstance(part, dict) and all(map(_is_grade, part.values())) for part in inner)
    if by_query and not any(role_of(name) == "query" for name in value):
        return [
            {"query_id": query_id, "doc_id": doc_id, "score": number}
            for query_id, part in value.items()
            for doc_id, number in part.items()
        ]
    if "conversation" in value or any(role_of(n) in ("query", "query_id") for n in value):
        return [value]  # a row by itself
    lists = [part for part in inner if isinstance(part, list) and part]
    others = [part for part in inner if isinstance(part, dict) and part]
    is_around = len(lists) == 1 and not others and isinstance(lists[0][0], dict)
    return lists[0] if is_around else None


def _is_grade(value: object) -> bool:
    """Return whether a value is a number, the text of one, or missing."""
    if isinstance(value, str):
        return value.lstrip("+-").replace(".", "", 1).isdigit()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


# --- lines and cells ----------------------------------------------------------------------------


def _kind_of_lines(place: str, lines: Sequence[bytes]) -> Kind | None:
    """Return the kind of lines without a header; None if they may have one."""
    if _TOPICS.match(b"\n".join(lines)[:4096]):
        return "topics"
    rows = [line.split() for line in lines]
    width = len(rows[0])
    # A first line with a separator may be a header, another one only a bad line among good ones.
    looked_at = rows[:1] if _separator(lines[0]) else [row for row in rows if len(row) == width]
    is_header = role_of(rows[0][0].decode("utf-8", "replace")) == "query_id"
    is_run = (rows[0][1:2] == [b"Q0"] and not is_header) or any(
        _is_number(r[3]) and _is_number(r[4]) for r in looked_at if width >= _RUN_COLUMNS
    )
    if width >= _RUN_COLUMNS and is_run:
        return "trec run"
    if _is_short_run(looked_at):
        raise InputError(
            f"{place}: looks like a run of {width} columns; a TREC run has 6: query Q0 document "
            "rank score tag"
        )
    if width == _QRELS_COLUMNS and any(_is_number(row[3]) for row in looked_at):
        return "trec qrels"
    parted = lines[0].rstrip().split(b"\t")
    return "beir qrels" if len(parted) == _BEIR_COLUMNS and _is_number(parted[2]) else None


def _is_short_run(rows: Sequence[Sequence[bytes]]) -> bool:
    """Return whether lines are a run without its tag, or without Q0 and tag.

    Judgments have four columns, too, but hardly a whole number as document and fractions as grades.
    """
    widths = {len(row) for row in rows}
    if widths == {_RUN_COLUMNS - 1}:
        return all(_is_number(row[3]) and _is_number(row[4]) for row in rows)
    return (
        widths == {_QRELS_COLUMNS}
        and rows[0][1].lower() not in (b"0", b"q0")
        and all(row[2].isdigit() and _is_number(row[3]) for row in rows)
        and any(b"." in row[3] for row in rows)
    )


def _is_number(cell: bytes | str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _separator(line: bytes) -> str:
    """Return the first of the usual separators that a line has outside of quotes, or ""."""
    unquoted = re.sub(rb'"[^"]*"', b"", line)
    return next((s for s in _SEPARATORS if s.encode() in unquoted), "")


def _open_cells(
    place: str, file: _File, lines: Sequence[bytes], user: Mapping[str, str]
) -> Source | None:
    """Open a table of cells under a header; return None if the first line cannot be one."""
    if lines[0].lower().startswith(b"sep="):  # as Excel writes it
        raise InputError(f"{place}: begins with 'sep=', as Excel writes it: delete that line")
    separator = _separator(lines[0])
    if not separator:
        return None
    if b"\r" in lines[0]:
        raise InputError(
            f"{place}: lines end with carriage returns (CR) alone: save the file with LF"
        )
    is_quoted = separator != "\t" or _has_quoted_cells(place, file)

    def read() -> Numbered:
        cells = _quoted_rows(place, file, separator) if is_quoted else _plain_rows(place, file)
        return _rows_under_header(place, cells)

    header = next(
        iter(_quoted_rows(place, file, separator) if is_quoted else _plain_rows(place, file))
    )
    names = _names(place, header[1])
    try:
        first = [row for _, row in islice(read(), 1)]
    except InputError:  # which is said where the rows are read
        first = []
    more = {"_read": read, "is_cells": True, "has_commas": separator == ";"}
    return _table(place, user, first or [dict.fromkeys(names)], **more)


def _names(place: str, header: Sequence[str]) -> list[str]:
    """Return the names of the columns; those at the end that have none are no columns."""
    names = [cell.strip() for cell in header]
    while names and not names[-1]:
        names.pop()
    named = [name for name in names if name]
    if len({*named}) < len(named):
        raise InputError(f"{place}: two columns have the same name ({', '.join(names)})")
    return names


def _rows_under_header(place: str, lines: Iterator[tuple[int, list[str]]]) -> Numbered:
    names = _names(place, next(lines)[1])
    width, guarded = len(names), tuple(names[-len(_RATINGS) :]) == _RATINGS
    for number, cells in lines:
        if len(cells) < width or any(cells[width:]):
            columns = counted(len(cells), "column")
            raise InputError(f"{place}:{number}: has {columns}, but the header has {width}")
        if any(cells):
            plain = map(unguard_formula, cells) if guarded else cells
            yield number, {n: cell or None for n, cell in zip(names, plain, strict=False) if n}


def _decoded(place: str, file: _File, end: str) -> Iterator[str]:
    """Yield the lines of a file with their ends; they end with ``end``, or anyhow if it is ""."""
    number = 0
    for block in file.blocks():
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            at = number + block.count(b"\n", 0, error.start) + 1
            raise InputError(f"{place}:{at}: is not UTF-8 ({format_error(error)})") from None
        yield from io.StringIO(text, newline=end)
        number += block.count(b"\n")


def _quoted_rows(place: str, file: _File, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row by csv's strict reader, and the line in which it begins.

    Other libraries read what follows an open quote as one cell, or shift rows, and say nothing.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))  # of the process
    texts, is_end = _decoded(place, file, "\n" if separator == "\t" else ""), False

    def lines() -> Iterator[str]:
        nonlocal is_end
        yield from texts
        is_end = True

    reader = csv.reader(
        lines(), delimiter=separator, skipinitialspace=separator != "\t", strict=True
    )
    start = 1
    try:
        for cells in reader:
            if any(cells):
                yield start, cells
            start = reader.line_num + 1
    except csv.Error:
        if is_end:
            raise UnreadableFile(
                f"{place}:{start}: cannot be read (a quote is never closed)"
            ) from None
        at = max(reader.line_num, start)
        row = f" of the row that begins in line {start}" if at > start else ""
        raise InputError(
            f"{place}:{at}: text follows the quote that ends a cell{row}: within a quoted cell "
            'write each quote twice ("")'
        ) from None


def _plain_rows(place: str, file: _File) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of lines with tabs, in which a quote that encloses no whole cell is text."""
    for number, text in enumerate(_decoded(place, file, "\n"), 1):
        cells = text.rstrip("\r\n").split("\t")
        if any(cells):
            yield (
                number,
                [
                    cell[1:-1].replace('""', '"')
                    if '"' in cell and _QUOTED_CELL.fullmatch(cell)
                    else cell
                    for cell in cells
                ],
            )


def _has_quoted_cells(place: str, file: _File) -> bool:
    """Return whether quotes in a file with tabs enclose whole cells everywhere.

    Where a cell over several lines is made of lines that are rows by themselves, it is one only if
    other cells show that the file was written with quotes.
    """
    if b'"' not in file.head and file.is_whole:
        return False
    lines, tabs, is_doubtful, is_quoted = list[str](), -1, False, False

    def recorded() -> Iterator[str]:
        for text in _decoded(place, file, "\n"):
            lines.append(text)
            yield text

    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    try:
        for cells in csv.reader(recorded(), delimiter="\t", strict=True):
            tabs = len(cells) - 1 if tabs < 0 else tabs
            raw = "".join(lines)
            if len(lines) > 1 and all(text.count("\t") == tabs for text in lines if text.strip()):
                is_doubtful = True
            elif not is_quoted and '"' in raw:
                odd = (cell for cell in cells if '"' in cell or "\n" in cell or "\t" in cell)
                is_quoted = any('"' + cell.replace('"', '""') + '"' in raw for cell in odd)
            lines.clear()
    except csv.Error:
        return False
    return is_quoted or not is_doubtful


def refuse(source: Source, wanted: str, *hints: str) -> InputError:
    """Return the error for a place that holds nothing of what is wanted, and what may help."""
    if source._damage:
        return source._damage
    more = "".join(f"; {hint}" for hint in hints if hint)
    if source.kind == "table":
        absent = [name for name in source.columns.values() if name not in source.names]
        more += f"; it has no column {absent[0]!r}" if absent else ""
        usual = "name columns by --columns ROLE=NAME, such as query=NAME or doc_id=NAME"
        more += f"; {usual}" if "--columns" not in more else ""
    return InputError(f"{source.place}: holds no {wanted}; it is {source.summary}{more}")
