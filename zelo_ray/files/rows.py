"""Open a file of a user: recognise what it is by its beginning, and read its rows.

A file is opened once: what is read of it to recognise it is kept, and read on from there.
"""

import contextlib
import csv
import io
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal, NoReturn, Self, TypeVar

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from zelo_ray.errors import InputError, UnreadableFile, format_error
from zelo_ray.files import storage
from zelo_ray.files.schema import (
    ARROW,
    ERRORS,
    FLOAT,
    IDS,
    LOST_DIGITS,
    Columns,
    converter,
    find_roles,
    role_of,
    type_of,
)
from zelo_ray.files.storage import is_jsonl, list_directory, read_blocks
from zelo_ray.files.tables import open_parquet
from zelo_ray.files.wording import counted, unguard_formula

Kind = Literal[
    "pools",  # JSON lines as `annotate` reads them, or what should be such lines
    "lists",  # rows with all documents of a query in one column
    "conversations",  # answers of assistants
    "mteb",  # rows of a query, positive and negative texts
    "table",  # rows with one document, or one comparison, each; roles tell what
    "text",  # lines without columns
    "results",  # a directory of `annotate`
    "labels",  # a directory of `label`
    "collection",  # a folder with a corpus and queries, or a data set of ir_datasets
    "folder",
]
T = TypeVar("T")
Floats = NDArray[np.float64]
Row = Mapping[str, Any]
Numbered = Iterator[tuple[int, dict[str, Any]]]
"""Rows with the numbers of their lines, or of their places in a list or table."""
DATASET = "ir_datasets:"
RESULTS, SAMPLE_RECORD = "scores.parquet", "label.json"
CORPUS_NAMES = ("corpus", "docs", "documents", "collection")
QUERIES_NAMES = ("queries", "topics")
BEIR_QRELS = ("query-id", "corpus-id", "score")
TREC_RUN = ("query_id", "Q0", "doc_id", "rank", "score", "run")
TREC_QRELS = ("query_id", "iteration", "doc_id", "grade")
"""The columns of TREC's files, which have no header, and white space between cells."""
_UNREAD = {
    b"\xff\xfe": "is UTF-16: save it as UTF-8",
    b"\xfe\xff": "is UTF-16: save it as UTF-8",
    b"PK\x03\x04": "is a workbook or a zip archive: save the table as CSV, or unpack it",
    b"BZh": "is packed by bzip2: pack it by gzip or zstd",
    b"\xfd7zX": "is packed by xz: pack it by gzip or zstd",
    b"\x1f\x8b": "is packed by gzip: give it a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: give it a name that ends in .zst",
    b"sep=": "begins with a line of Excel's: delete that line",
}
"""By the first bytes of a file that is not read, what it is and what to do."""
_PLAIN = {TREC_RUN: "a TREC run", TREC_QRELS: "a file of TREC's qrels"}
_MARKUP = re.compile(rb"\s*<(html|top|[!?])", re.IGNORECASE)
_LAST_BLANK = re.compile(rb"\n\s*\n\s*$")
_BLANKS = bytes.maketrans(b"\t\v\f\r", b"    ")
_RATINGS = ["doc_id", "score", "std_error", "comparisons", "rank", "wins"]
"""Header of a table that ``fit`` writes for people, with guarded texts (`unguard_formula`)."""
_LOOKED_AT = 100  # rows, or lines
csv.field_size_limit(2**31 - 1)  # of the process
_QUOTED_CELL = re.compile(r'"((?:[^"]|"")*)"')
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_FITTING: Mapping[str, tuple[Callable[[pa.DataType], bool], ...]] = {
    "id": (*_TEXTS, pa.types.is_integer),
    "text": _TEXTS,
    "number": (pa.types.is_integer, pa.types.is_boolean, pa.types.is_floating),
    "flag": (pa.types.is_boolean,),
}
"""By type of a role, the types of columns that are read as they are."""
_ROWS = 2**16
_MANY = 100_000  # rows that take long enough to be worth threads


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table, and where each stands in a user's file."""

    table: pa.Table
    where: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self.table[name]

    def has(self, name: str) -> bool:
        """Return whether there is a column."""
        return name in self.table.column_names

    def floats(self, name: str) -> Floats:
        """Return a column of numbers, NaN for null."""
        values: Floats = pc.fill_null(self.table[name], np.nan).to_numpy()
        return values

    def is_null(self, name: str) -> NDArray[np.bool_]:
        """Return which rows have no value in a column."""
        mask: NDArray[np.bool_] = self.table[name].is_null().to_numpy(zero_copy_only=False)
        return mask

    def with_column(self, name: str, column: Any) -> Self:
        """Return the rows with a column that is added, or replaces that of its name."""
        at = self.table.schema.get_field_index(name)
        table = self.table
        table = table.append_column(name, column) if at < 0 else table.set_column(at, name, column)
        return replace(self, table=table)

    def with_nulls(self, *roles: str) -> Self:
        """Return the rows with some columns, which are null where there are none."""
        rows = self
        for role in (role for role in roles if not self.has(role)):
            rows = rows.with_column(role, pa.nulls(len(self), ARROW[type_of(role)]))
        return rows

    def take(self, mask: NDArray[np.bool_]) -> Self:
        """Return some of the rows, with their places."""
        if mask.all():
            return self
        at = np.flatnonzero(mask)
        return replace(self, table=self.table.take(at), where=lambda row: self.where(int(at[row])))

    def refuse(
        self, wrong: NDArray[np.bool_], says: str, what: str = "", values: Any = None
    ) -> None:
        """Refuse the first row of which something is wrong, with its place and its value."""
        for row in np.flatnonzero(wrong)[:1].tolist():
            value = "" if values is None else values[row]
            shown = f"{value:g} " if isinstance(value, float) else f"{value!r} " if value else ""
            raise InputError(f"{self.where(row)}: {what}{shown}{says}")

    def require(self, names: Mapping[str, str], among: NDArray[np.bool_] | None = None) -> None:
        """Refuse a row without a value in some columns, of which ``names`` says what they are."""
        for role, name in names.items():
            missing = self.is_null(role)
            self.refuse(missing if among is None else missing & among, f"has no {name}")


def concat(parts: Sequence[Rows]) -> Rows:
    """Join the rows of several sources."""
    starts = np.cumsum([0, *map(len, parts[:-1])]).tolist()

    def where(row: int) -> str:
        part = bisect_right(starts, row) - 1
        return parts[part].where(row - starts[part])

    return Rows(pa.concat_tables([p.table for p in parts], promote_options="default"), where)


class _File:
    """The content of a file in blocks of whole lines, of which the first is kept."""

    def __init__(self, url: str) -> None:
        self.url, self.head, self.is_whole = url, b"", False
        try:
            blocks = read_blocks(url)
            self.head = next(blocks, b"")
            self.is_whole = len(self.head) < storage.BLOCK_BYTES or not next(blocks, b"")
        except UnreadableFile:
            if not is_jsonl(url):  # of which the lines before the damage may be read
                raise
            self.head = b""

    def blocks(self) -> Iterator[bytes]:
        """Yield all blocks; a file that is larger than one is read again."""
        return iter([self.head]) if self.is_whole else read_blocks(self.url)

    def read(self) -> bytes:
        return b"".join(self.blocks())

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers."""
        return storage.number_lines(self.blocks())


@dataclass(frozen=True, slots=True)
class Source:
    """A place that was opened: what it is, its columns, and its rows."""

    place: str
    kind: Kind
    names: tuple[str, ...] = ()
    """the columns, as far as the first rows show them; of a folder its files"""
    first: Row = field(default_factory=dict)  # a typical row
    columns: Mapping[str, str] = field(default_factory=dict)
    """the names that the user gave, by role"""
    unit: str = ""  # what rows are called in messages: row or item; "" for lines
    separator: str = ""  # what parts the cells of a table of texts; a blank in TREC's files
    _read: Callable[[], Numbered] | None = None
    _file: _File | None = None
    _columns: Callable[[Mapping[str, str]], pa.Table | None] | None = None
    """reads the columns of some roles by Arrow; None if it cannot"""

    def where(self, number: int) -> str:
        """Return the place of a row, for messages."""
        return f"{self.place}: {self.unit} {number}" if self.unit else f"{self.place}:{number}"

    def rows(self) -> Numbered:
        """Yield all rows."""
        if self._read is None:
            raise InputError(f"{self.place}: {self.summary}, not a table")
        return self._read()

    def each(self, read: Callable[[int, dict[str, Any]], T]) -> Iterator[T]:
        """Yield what a function makes of each row; a ValueError gets the place of its row."""
        for number, row in self.rows():
            try:
                value = read(number, row)
            except ValueError as error:
                raise InputError(f"{self.where(number)}: {error}") from None
            yield value

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a text."""
        return self._file.lines() if self._file else iter(())

    def texts(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of a text, decoded."""
        for number, line in self.lines():
            yield number, decode(self.where(number), line)

    def roles(self, *wanted: str) -> dict[str, str]:
        """Return the columns of some roles."""
        return find_roles(self.place, self.names, self.columns, wanted)

    def has(self, *roles: str) -> bool:
        """Return whether there may be a column of each of some roles."""
        named = (role for role, name in self.columns.items() if name in self.names)
        every = {*map(role_of, self.names), *named}
        if not every.isdisjoint(roles) and "doc_id" in roles and not {*IDS}.isdisjoint(self.names):
            every.add("doc_id")
        return every.issuperset(roles)

    @property
    def summary(self) -> str:
        """Say what the place seems to be."""
        if self.separator == " ":
            return _PLAIN[self.names]
        names = ", ".join(self.names[:12]) + (" ..." if self.names[12:] else "")
        if self.kind in ("results", "labels", "folder", "collection"):
            return f"a folder of {names}" if names else "an empty folder"
        if names:
            return f"a table with the columns {names}"
        line = next((line for _, line in self.lines()), b"")[:80].decode("utf-8", "replace")
        return f"a text that begins with {line.strip()!r}" if line else "an empty file"

    def table(self, roles: Mapping[str, str], strict: Collection[str] = ()) -> Rows:
        """Read the columns of some roles with their types.

        Ids, texts, objects (as JSON) and fields are texts, numbers float64. A role that is
        ``strict`` all objects of JSON have, if only as null, or none; a flag may be missing.
        """
        if self._columns and {*map(type_of, roles)} <= _FITTING.keys():
            with contextlib.suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                if (table := self._columns(roles)) is not None:
                    table = _typed_columns(self.place, table, roles)
                if table is not None:
                    return Rows(table, lambda row: self.where(row + 1))
        numbers, batches = array("q"), list[pa.RecordBatch]()
        schema = pa.schema([(role, ARROW[type_of(role)]) for role in roles])
        values: dict[str, list[Any]] = {role: [] for role in roles}
        cells = [
            (name, values[role].append, converter(role, self.separator))
            for role, name in roles.items()
        ]
        known = {*self.names}
        needed = (role for role in roles if role in strict and type_of(role) != "flag")
        required = {roles[role] for role in needed}
        for number, row in self.rows():
            for name, add, convert in cells:
                value = row.get(name)
                if value is not None:
                    try:
                        value = convert(value)
                    except ValueError as error:
                        raise InputError(f"{self.where(number)}: {name} {error}") from None
                add(value)
            if not self.separator and row.keys() != known:
                others = (n for n in row.keys() - known if row[n] is not None)
                late = {n for n in others if role_of(n) in strict and role_of(n) not in roles}
                if odd := sorted((required - row.keys()) | late):
                    what = "has" if late else "has no"
                    how = "unlike others: give it to all rows, if as null"
                    raise InputError(f"{self.where(number)}: {what} {odd[0]!r}, {how}")
            numbers.append(number)
            if len(numbers) % _ROWS == 0:
                batches.append(pa.record_batch(values, schema=schema))
                for column in values.values():
                    column.clear()
        batches.append(pa.record_batch(values, schema=schema))
        return Rows(pa.Table.from_batches(batches, schema), lambda row: self.where(numbers[row]))

    def refuse(self, wanted: str, *hints: str) -> NoReturn:
        """Refuse a place that holds nothing of what is wanted; say what may help."""
        more = "".join(f"; {hint}" for hint in hints if hint)
        if self.kind == "table" and self.separator != " ":
            absent = [name for name in self.columns.values() if name not in self.names]
            more += f"; it has no column {absent[0]!r}" if absent else ""
            usual = "name columns by --columns ROLE=NAME, such as query=NAME or doc_id=NAME"
            more += f"; {usual}" if "--columns" not in more else ""
        raise InputError(f"{self.place}: holds no {wanted}; it is {self.summary}{more}")


def _typed_columns(place: str, table: pa.Table, roles: Mapping[str, str]) -> pa.Table | None:
    """Give columns the types of roles, as `converter` does; None if a value takes a closer look."""
    columns = dict[str, pa.ChunkedArray]()
    for role, name in roles.items():
        column, type_ = table[name], type_of(role)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if type_ == "id" and column.type in (pa.float16(), pa.float32()):
            raise InputError(f"{place}: {name} {LOST_DIGITS}")
        if not any(fits(column.type) for fits in (*_FITTING[type_], pa.types.is_null)):
            return None
        column = column.cast(ARROW[type_])
        if role in ERRORS:
            column = pc.if_else(pc.is_nan(column), None, column)
        is_odd = [False]
        if type_ == "id":
            is_odd = pc.match_substring_regex(column, f"^({FLOAT})?$")
        elif type_ == "number":
            is_odd = pc.invert(pc.is_finite(column))
        if pc.any(is_odd).as_py():
            return None
        columns[role] = column
    return pa.table(columns)


def open_source(place: str, columns: Mapping[str, str] | None = None) -> Source:
    """Open a file, a folder or a URL; refuse what is of no form that can be read."""
    user = columns if columns is not None else {}
    names = [] if place.startswith(DATASET) else list_directory(place)
    if names is not None:
        return Source(place, _kind_of_folder(place, names), tuple(names), columns=user)
    file = _File(place)
    source = _open_file(place, file, user)
    if isinstance(user, Columns):
        user.files[place] = [*source.names, *_inner_names(source.first)]
    return replace(source, _file=file)


def _open_file(place: str, file: _File, user: Mapping[str, str]) -> Source:
    head = file.head
    if head.startswith(b"PAR1") or place.endswith(".parquet"):
        return _open_parquet(place, file, user)
    for start, reason in _UNREAD.items():
        if head.lstrip().startswith(start):
            raise InputError(f"{place}: {reason}")
    lines = [line.rstrip(b"\r") for line in head.split(b"\n", 4 * _LOOKED_AT) if line.strip()]
    lines = lines[:_LOOKED_AT]
    if not lines:
        return Source(place, "pools" if is_jsonl(place) else "text", columns=user)
    rows = (row for row in map(_json, lines) if isinstance(row, dict))
    if lines[0].lstrip()[:1] in (b"[", b"{") or any(map(is_pool, rows)):
        source = _open_json(place, file, lines, user)
        if source:
            return source
    if is_jsonl(place):
        return Source(place, "pools", columns=user)
    if names := _names_of_trec(place, lines):
        return _open_trec(place, file, names, user)
    if _MARKUP.match(head):
        looks = "it looks like a web page, XML or TREC topics"
        raise InputError(f"{place}: is not a table that is read; {looks}: write id<TAB>text")
    return _open_cells(place, file, lines[0], user) or Source(place, "text", columns=user)


def _kind_of_folder(place: str, names: Sequence[str]) -> Kind:
    stems = {stem(name) for name in names}
    has_texts = not (stems.isdisjoint(CORPUS_NAMES) or stems.isdisjoint(QUERIES_NAMES))
    kinds: Mapping[Kind, bool] = {
        "labels": SAMPLE_RECORD in names,
        "results": RESULTS in names,
        "collection": place.startswith(DATASET) or has_texts or "qrels" in stems,
    }
    return next((kind for kind, is_so in kinds.items() if is_so), "folder")


def stem(name: str) -> str:
    """Return the first part of a file's name, in lower case: ``corpus`` of ``Corpus.jsonl.gz``."""
    return name.split(".", maxsplit=1)[0].lower()


# --- tables -------------------------------------------------------------------------------------


def _table(place: str, user: Mapping[str, str], rows: Iterable[Row], **more: Any) -> Source:
    """Build the source of a table from some of its first rows."""
    rows = [row for row in rows if row]
    pools = [row for row in rows if is_pool(row)]
    lists = [row for row in rows if not is_pool(row) and _is_list(row, list_column(row, user))]
    typical = lists if len(lists) > len(pools) else pools
    first = (typical or [row for row in rows if "query" in row] or rows or [{}])[0]
    names = tuple(dict.fromkeys([*first, *(name for row in rows for name in row)]))
    inner, listed = _inner_names(first), list_column(names, user)
    own_texts = any(user.get(r) in inner for r in ("content", "documents", "title", "doc_id"))
    kinds: Mapping[Kind, bool] = {
        "pools": is_pool(first) and not own_texts,
        "conversations": isinstance(first.get("conversation"), list),
        "mteb": {*names} >= {"query", "positive", "negative"} and not own_texts,
        "lists": is_pool(first) or bool(listed and _is_list(first, listed)),
    }
    kind: Kind = next((kind for kind, is_so in kinds.items() if is_so), "table")
    return Source(place, kind, names, first, user, **more)


def is_pool(row: Row) -> bool:
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


def _is_list(row: Row, name: str) -> bool:
    value = row.get(name)
    if isinstance(value, Mapping):  # lists in place of rows
        return any(isinstance(v, list) and role_of(n) == "content" for n, v in value.items())
    return isinstance(value, list)


def _inner_names(value: object) -> list[str]:
    """Return the names of all fields inside a row, such as those of its documents."""
    if isinstance(value, Mapping):
        return [*map(str, value), *(n for inner in value.values() for n in _inner_names(inner))]
    return _inner_names(value[0]) if isinstance(value, list) and value else []


def _open_parquet(place: str, file: _File, user: Mapping[str, str]) -> Source:
    opened = partial(open_parquet, place, file.head if file.is_whole else None)

    def rows() -> Numbered:
        with opened() as parquet:
            batches = parquet.iter_batches(2**12, use_threads=False)
            yield from enumerate((row for batch in batches for row in batch.to_pylist()), 1)

    def columns(roles: Mapping[str, str]) -> pa.Table:
        with opened() as parquet:
            # A thread of Arrow may close a file after Python has shut down, and abort it.
            threads = parquet.metadata.num_rows > _MANY
            return parquet.read([*dict.fromkeys(roles.values())], use_threads=threads)

    first = [row for _, row in islice(rows(), 1)]
    with opened() as parquet:
        names = parquet.schema_arrow.names
    source = _table(place, user, first or [dict.fromkeys(names)], unit="row", _read=rows)
    return replace(source, names=tuple(names), _columns=columns)


# --- JSON ---------------------------------------------------------------------------------------


def _open_json(
    place: str, file: _File, lines: Sequence[bytes], user: Mapping[str, str]
) -> Source | None:
    """Open JSON lines, or one JSON value; return None if it is neither."""
    objects = [value for value in map(_json, lines) if isinstance(value, dict)]
    is_text = not re.match(rb"\s*(\[\s*([\[{\"]|$)|\{\s*([\"}]|$))", lines[0])
    if len(objects) < 2 and not is_jsonl(place):
        whole = _json(file.read(), "" if objects or is_text else place)
        rows, is_line = _rows_of_value(whole), isinstance(_json(lines[0]), dict)
        if rows is not None and not (is_line and rows == [whole]):
            first = [row for row in rows[:_LOOKED_AT] if isinstance(row, dict)]
            read_items = partial(_objects, place, [*enumerate(rows, 1)])
            return _table(place, user, first, unit="item", _read=read_items)
    if not objects:
        return Source(place, "pools", columns=user) if is_jsonl(place) else None

    def read() -> Numbered:
        return _objects(place, ((n, _json(line, f"{place}:{n}")) for n, line in file.lines()))

    return _table(place, user, objects, _read=read)


def _json(data: bytes, where: str = "") -> Any:
    """Parse JSON; what is none is None, or refused if its place is given."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if where:
            raise InputError(f"{where}: is not valid JSON ({error})") from None
        return None


def _objects(place: str, rows: Iterable[tuple[int, Any]]) -> Numbered:
    for number, row in rows:
        if not isinstance(row, dict):
            raise InputError(f"{place}: row {number} is not a JSON object")
        yield number, row


def _rows_of_value(value: Any) -> list[Any] | None:
    """Return the rows that one JSON value holds: a list, numbers by query and document, a row."""
    if isinstance(value, list):
        return value if value and isinstance(value[0], dict) else None
    if not isinstance(value, dict) or not value:
        return None
    inner, roles = [*value.values()], {*map(role_of, value)}
    are_objects = all(isinstance(part, dict) for part in inner)
    is_by_query = are_objects and all(_is_grade(n) for part in inner for n in part.values())
    if not is_by_query or roles & {"query_id", "query", "doc_id"}:
        return [value]
    return [
        {"query_id": query_id, "doc_id": doc_id, "score": number}
        for query_id, part in value.items()
        for doc_id, number in part.items()
    ]


def _is_grade(value: object) -> bool:
    """Return whether a value is a number, the text of one, or missing."""
    if isinstance(value, str):
        return value.lstrip("+-").replace(".", "", 1).isdigit()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


# --- lines and cells ----------------------------------------------------------------------------


def _names_of_trec(place: str, lines: Sequence[bytes]) -> tuple[str, ...]:
    """Return the columns of lines that are TREC's; none if they may have a header."""
    rows = [line.split() for line in lines]
    width, second = len(rows[0]), rows[0][1:2]
    # A first line with a separator may be a header, another one only a bad line among good ones.
    looked_at = rows[:1] if _separator(lines[0]) else [row for row in rows if len(row) == width]
    is_header = role_of(rows[0][0].decode("utf-8", "replace")) == "query_id"
    is_run = width >= 6 and any(_are_numbers(row[3:5]) for row in looked_at)
    if is_run or (width >= 6 and second == [b"Q0"] and not is_header):
        return TREC_RUN
    if width != 4 or not any(_are_numbers(row[3:]) for row in looked_at):
        return ()
    # Judgments, too, have four columns, but hardly whole numbers as documents and fractions.
    has_ranks = all(row[2].isdigit() for row in looked_at) and second[0].lower() not in (
        b"0",
        b"q0",
    )
    if has_ranks and any(b"." in row[3] for row in looked_at):
        raise InputError(f"{place}: looks like a run of 4 columns; a TREC run has 6")
    return TREC_QRELS


def _open_trec(place: str, file: _File, names: tuple[str, ...], user: Mapping[str, str]) -> Source:
    """Open TREC's qrels or a run, stricter than trec_eval; what follows a run's tag is ignored."""

    def rows() -> Numbered:
        for number, line in file.lines():
            where, parts = f"{place}:{number}", line.split()
            if len(parts) < len(names) or (len(parts) > len(names) and names is TREC_QRELS):
                has = f"{len(parts)} columns; {_PLAIN[names]} has {len(names)}: {' '.join(names)}"
                raise InputError(f"{where}: {has}")
            cells = (decode(where, part) for part in parts)
            yield number, dict(zip(names, cells, strict=False))

    def columns(roles: Mapping[str, str]) -> pa.Table | None:
        tables, is_over = [], False
        for block in file.blocks():
            table = None if is_over else _trec_block(block, names, roles)
            if table is None:
                return None
            tables.append(table)
            is_over = bool(_LAST_BLANK.search(block[-99:]))  # only the last line may be blank
        return pa.concat_tables(tables)

    more: dict[str, Any] = {"separator": " ", "_read": rows, "_columns": columns}
    return Source(place, "table", names, columns=user, **more)


def _trec_block(block: bytes, names: Sequence[str], roles: Mapping[str, str]) -> pa.Table | None:
    """Parse the columns of whole lines by Arrow; return None if any line is irregular."""
    block = block.translate(_BLANKS)
    while b"  " in block:
        block = block.replace(b"  ", b" ")
    block = block.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip(b" ").rstrip(b"\n")
    if b"\n\n" in block or block.startswith(b"\n"):
        return None
    copy = pa.BufferOutputStream()  # memory of Arrow's own, which its threads may release last
    copy.write(block)
    types = {name: ARROW[type_of(role)] for role, name in roles.items()}
    return pa.csv.read_csv(
        pa.BufferReader(copy.getvalue()),
        pa.csv.ReadOptions(column_names=names),
        pa.csv.ParseOptions(delimiter=" ", quote_char=False),
        pa.csv.ConvertOptions(
            column_types=types, include_columns=[*types], null_values=[], strings_can_be_null=False
        ),
    )


def _are_numbers(cells: Sequence[bytes]) -> bool:
    try:
        return bool([*map(float, cells)])
    except ValueError:
        return False


def _separator(line: bytes) -> str:
    """Return the first of the usual separators that a line has outside of quotes, or ""."""
    unquoted = re.sub(rb'"[^"]*"', b"", line)
    return next((s for s in ("\t", ",", ";") if s.encode() in unquoted), "")


def _open_cells(place: str, file: _File, header: bytes, user: Mapping[str, str]) -> Source | None:
    """Open a table of cells under a header; return None if the first line cannot be one."""
    separator = _separator(header)
    if not separator:
        return None
    rows_of = _plain_rows if separator == "\t" else _quoted_rows

    def lines() -> Iterator[tuple[int, list[str]]]:
        return rows_of(place, file, separator)

    names = [cell.strip() for cell in next(lines())[1]]
    while names and not names[-1]:  # which is no column
        names.pop()
    if len({*names} - {""}) < len([name for name in names if name]):
        raise InputError(f"{place}: two columns have the same name ({', '.join(names)})")

    def read() -> Numbered:
        return _rows_of_cells(place, names, islice(lines(), 1, None))

    try:
        first = [row for _, row in islice(read(), 1)]
    except InputError:  # which is said where the rows are read
        first = []
    rows = first or [dict.fromkeys(names)]
    return _table(place, user, rows, _read=read, separator=separator)


def _rows_of_cells(
    place: str, names: Sequence[str], lines: Iterable[tuple[int, list[str]]]
) -> Numbered:
    width, is_guarded = len(names), names[-len(_RATINGS) :] == _RATINGS
    for number, cells in lines:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) < width or any(cells[width:]):
            has = f"has {counted(len(cells), 'column')}, but the header has {width}"
            how = "cells of several lines, or with tabs, take CSV or JSON lines"
            raise InputError(f"{place}:{number}: {has} ({how})")
        plain = map(unguard_formula, cells) if is_guarded else cells
        yield number, {n: cell or None for n, cell in zip(names, plain, strict=False) if n}


def decode(where: str, data: bytes) -> str:
    """Decode a line, or refuse it."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: is not UTF-8 ({format_error(error)})") from None


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
    lines = _decoded(place, file, "")
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)
    start = 1
    try:
        for cells in reader:
            if any(cells):
                yield start, cells
            start = reader.line_num + 1
    except csv.Error as error:
        how = f"in the row of line {start}; within a quoted cell write each quote twice"
        raise UnreadableFile(
            f"{place}:{reader.line_num}: cannot be read as CSV ({error}) {how}"
        ) from None


def _plain_rows(place: str, file: _File, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of lines with tabs; a quote that encloses no whole cell is text."""

    def plain(cell: str) -> str:
        is_quoted = '"' in cell and _QUOTED_CELL.fullmatch(cell)
        return cell[1:-1].replace('""', '"') if is_quoted else cell

    for number, text in enumerate(_decoded(place, file, "\n"), 1):
        cells = text.rstrip("\r\n").split(separator)
        if any(cells):
            yield number, [plain(cell) for cell in cells] if '"' in text else cells
