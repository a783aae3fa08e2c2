"""Recognise what a place holds: its form, its columns and its kind, for all who read it.

`probe` alone decides what a file or folder is, by its content; a name counts only for how a file is
packed. Readers take a `FileProbe`, and find in a table the columns of the roles that they need.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Literal

import pyarrow as pa

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.run_record import SAMPLE_RECORD
from zelo_ray.files.storage import is_jsonl, list_directory
from zelo_ray.files.tables import StoredTable, parquet_rows
from zelo_ray.formats.columns import (
    IDS,
    NAMES,
    OF_POOLS,
    columns_in,
    find_list_column,
    has_answer,
    is_called,
)
from zelo_ray.formats.delimited import (
    declared_separator,
    delimited_rows,
    json_array_rows,
    json_line_rows,
    read_header,
    separator_in,
)
from zelo_ray.formats.file_beginning import LONGEST, FileBeginning, read_beginning, read_head
from zelo_ray.formats.nested_json import Rows, object_rows, parse_whole, with_ratings

Form = Literal["folder", "frame", "parquet", "array", "object", "lines", "cells", "text", "broken"]
Kind = Literal[
    "results",  # a directory of annotate
    "labels",  # a directory of label
    "collection",  # a directory of texts and judgments, such as BEIR's
    "folder",  # any other directory
    "pools",  # a query and its documents, as annotate writes them
    "wide",  # a query and a list of its documents, in another form
    "long",  # rows of a query and a document with its text
    "conversations",
    "mteb",
    "run",  # rows of query, document and score
    "trec run",
    "short run",  # a TREC run that lacks columns
    "grades",  # rows of query, document and grade
    "trec qrels",
    "beir qrels",  # without a header
    "votes",  # rows of two items, of which one won
    "topics",
    "table",  # rows of anything else
    "text",
    "dataset",  # of ir_datasets, by its name
    "broken",  # JSON lines of which the first are invalid, or nothing
]
_PARQUET = b"PAR1"
_UNREAD = {
    b"\xff\xfe": "is UTF-16: save it as UTF-8",
    b"\xfe\xff": "is UTF-16: save it as UTF-8",
    b"PK\x03\x04": "is a workbook or a zip archive: save the table as CSV, or unpack it",
    b"BZh": "is packed by bzip2: pack it by gzip or zstd",
    b"\xfd7zX": "is packed by xz: pack it by gzip or zstd",
    b"\x1f\x8b": "is packed by gzip: give it a name that ends in .gz",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: give it a name that ends in .zst",
}
DATASET = "ir_datasets:"
RESULTS = "scores.parquet"
"""The files by which directories of annotate and of label are recognised."""
MTEB_COLUMNS = frozenset({"query", "positive", "negative"})
BEIR_QRELS_COLUMNS = ("query-id", "corpus-id", "score")
CORPUS_NAMES = ("corpus", "docs", "documents", "collection")
QUERIES_NAMES = ("queries", "topics")
_TOPICS = re.compile(rb"\s*(?:<[^>]*>\s*)*?<top>", re.DOTALL | re.IGNORECASE)
_BEGINNING = 2**12
_RUN_COLUMNS, _QRELS_COLUMNS, _BEIR_COLUMNS = 6, 4, 3


def is_dataset_name(place: str) -> bool:
    """Return whether a place is the name of a data set of ``ir_datasets``, not a path."""
    return place.startswith(DATASET)


@dataclass(frozen=True, slots=True)
class FileProbe:
    """The content of a place: the form of its rows, their columns, and its kind."""

    place: str
    form: Form
    kind: Kind
    names: tuple[str, ...] = ()
    """the columns of rows, as far as the first one shows them; of a folder the files"""
    first_row: Mapping[str, Any] | None = None
    line: bytes = b""
    """the first line of a text"""
    table: pa.Table | None = None
    """the rows, if they are in memory"""

    @property
    def summary(self) -> str:
        """Describe the place in a few words, for messages."""
        if not self.names and not _is_text(self.line):
            return "bytes that are not UTF-8"
        of = "files" if self.form == "folder" else "columns"
        what = f"the {of} {', '.join(self.names)}" if self.names else repr(self.words)
        what = what if self.names or self.words else "nothing"
        return what if len(what) <= 120 else f"{what[:120]} ..."

    @property
    def words(self) -> str:
        """Return the first line of a text, shortened."""
        return self.line[:80].decode("utf-8", "replace").strip()

    @property
    def has_rows(self) -> bool:
        """Return whether it has rows with named columns."""
        return bool(self.names) and self.form != "folder"

    @property
    def texts_alone(self) -> bool:
        """Return whether all values of its rows are texts, as under a header."""
        return self.form == "cells"

    @property
    def has_decimal_commas(self) -> bool:
        """Return whether numbers may have a comma before their fraction: semicolons part cells."""
        return self.form == "cells" and read_header(self.place).separator == ";"

    def with_columns(self, user_columns: Mapping[str, str]) -> "FileProbe":
        """Return the probe with the kind that it has if columns are what the user says."""
        if not (self.has_rows and user_columns and self.first_row is not None):
            return self
        return replace(self, kind=_kind_of_rows(self.names, self.first_row, user_columns))

    def rows(self, columns: Sequence[str] | None = None) -> Rows:
        """Yield the place of each row, and the row; of Parquet, with some columns alone.

        Raises:
            InputError: a row cannot be read.
        """
        if self.table is not None:
            rows = enumerate(self.table.to_pylist(), 1)
            return ((f"{self.place}: row {number}", row) for number, row in rows)
        if self.form == "parquet":
            return parquet_rows(self.place, columns)
        if self.form == "cells":
            return delimited_rows(self.place)
        if self.form == "object":
            return object_rows(self.place, parse_whole(self.place))
        reader = json_array_rows if self.form == "array" else json_line_rows
        return with_ratings(reader(self.place))


def probe(place: str) -> FileProbe:
    """Recognise what a file, a folder or a URL holds.

    Raises:
        InputError: it does not exist, or is of a form that cannot be read.
    """
    names = [] if is_dataset_name(place) else list_directory(place)
    if names is not None:
        kind: Kind = "dataset" if is_dataset_name(place) else _kind_of_folder(names)
        return FileProbe(place, "folder", kind, tuple(names))
    head = read_head(place)
    if head == _PARQUET or place.endswith(".parquet"):
        table = StoredTable(place)
        first = table.head(1).to_pylist()
        return _probe_rows(place, "parquet", table.names, first[0] if first else {})
    for mark, reason in _UNREAD.items():
        if head.startswith(mark):
            raise InputError(f"{place}: {reason}")
    beginning = read_beginning(place)
    if beginning.may_be_one_value and (whole := _probe_json(place, beginning.line)):
        return whole
    objects = beginning.objects
    if beginning.start == b"{" or any(isinstance(row.get("query"), dict) for row in objects):
        if not objects:
            return FileProbe(place, "broken", "broken", line=beginning.line)
        first = _typical(objects)
        return _probe_rows(place, "lines", [*first], first)
    if beginning.is_long:
        raise InputError(f"{place}: its first line is longer than {LONGEST:,} bytes")
    return _probe_text(place, beginning)


def short_run_error(source: FileProbe) -> InputError:
    """Build the error for a TREC run that lacks columns."""
    return InputError(
        f"{source.place}: looks like a run of {len(source.line.split())} columns; "
        "a TREC run has 6: query Q0 document rank score tag"
    )


def probe_table(what: str, table: pa.Table) -> FileProbe:
    """Recognise what a table in memory holds, called ``what`` in messages."""
    first = table.slice(0, 1).to_pylist()
    source = _probe_rows(what, "frame", table.column_names, first[0] if first else {})
    return replace(source, table=table)


def refuse_unused_columns(user_columns: Mapping[str, str], places: Iterable[str]) -> None:
    """Refuse a named column that none of several files has.

    Raises:
        OptionError: there is one.
        InputError: a file cannot be read.
    """
    if not user_columns:
        return
    sources = [probe(place) for place in places]
    sources = [source.with_columns(columns_in(source.names, user_columns)) for source in sources]
    rows = [source for source in sources if source.has_rows]
    used = {
        role
        for source in rows
        for role in columns_in([*source.names, *_inner_names(source.first_row)], user_columns)
    }
    if any(source.form == "folder" for source in sources):
        used |= {*OF_POOLS}  # which may be of the texts in it
    for role in user_columns.keys() - used:
        has = "; ".join(f"{source.place} has {', '.join(source.names)}" for source in rows)
        name = f"{user_columns[role]!r} ({role})"
        raise OptionError(f"columns: no file has a column {name}: {has or 'they have none'}")


def _inner_names(value: object) -> list[str]:
    """Return the names of all fields inside a row, such as those of its documents."""
    if isinstance(value, Mapping):
        return [*map(str, value), *(n for inner in value.values() for n in _inner_names(inner))]
    if isinstance(value, list):
        return [name for inner in value[:1] for name in _inner_names(inner)]
    return []


def is_pool(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a pool in the form that `annotate` reads, good or bad."""
    query = row.get("query")
    if not isinstance(query, Mapping):
        return False
    in_form = "query" in query or not {"text", "_id", "qid"} & query.keys()
    return in_form and ("documents" in row or not any(isinstance(v, list) for v in row.values()))


def is_wide(first: Mapping[str, Any], name: str | None) -> bool:
    """Return whether a row has all documents of a query in one column."""
    value = first.get(name) if name else None
    return isinstance(value, list) or (isinstance(value, Mapping) and has_text_lists(value))


def has_text_lists(columns: Mapping[str, Any]) -> bool:
    """Return whether an object has lists in place of rows, one of them of texts."""
    return any(isinstance(v, list) and is_called(name, "content") for name, v in columns.items())


def is_number(cell: bytes | str) -> bool:
    """Return whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_text(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def first_name_part(name: str) -> str:
    """Return the first part of a file's name, in lower case."""
    return name.split(".", maxsplit=1)[0].lower()


def _kind_of_folder(names: Sequence[str]) -> Kind:
    if SAMPLE_RECORD in names:
        return "labels"
    if RESULTS in names:
        return "results"
    stems = {first_name_part(name) for name in names}
    has_texts = not (stems.isdisjoint(CORPUS_NAMES) or stems.isdisjoint(QUERIES_NAMES))
    return "collection" if has_texts or "qrels" in stems else "folder"


def _probe_rows(
    place: str, form: Form, names: Sequence[str], first: Mapping[str, Any], line: bytes = b""
) -> FileProbe:
    if form in ("array", "lines"):
        first = next((row for _, row in with_ratings(iter([(place, dict(first))]))), first)
        names = [*first]
    return FileProbe(place, form, _kind_of_rows(names, first, {}), tuple(names), first, line)


def _kind_of_rows(
    names: Sequence[str], first: Mapping[str, Any], user_columns: Mapping[str, str]
) -> Kind:
    """Return the kind of rows by their columns, and by what the user says of these."""
    roles = {
        role for role in NAMES if any(is_called(name, role) for name in names)
    } | user_columns.keys()
    has_document = "doc_id" in roles or not {*IDS}.isdisjoint(names)
    is_pair = has_document and not {"query_id", "query"}.isdisjoint(roles)
    plain = {"content", "documents"}.isdisjoint(user_columns)  # else they are rows of texts
    by_id = plain and is_pair and "query_id" in roles
    checks: Sequence[tuple[Kind, bool]] = (
        ("pools", plain and is_pool(first)),
        ("conversations", isinstance(first.get("conversation"), list)),
        ("mteb", plain and {*names} >= MTEB_COLUMNS),
        ("grades", plain and {*BEIR_QRELS_COLUMNS} <= {*names}),
        ("wide", is_wide(first, find_list_column(names, user_columns))),
        ("long", "content" in roles),
        ("votes", has_answer(names, user_columns)),
        ("run", by_id and ("score" in roles or ("rank" in roles and "grade" not in roles))),
        ("grades", by_id and "grade" in roles),
        ("long", is_pair),
    )
    return next((kind for kind, is_so in checks if is_so), "table")


def _typical(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a typical row: a pool, or of another kind if that is more common."""
    if pools := [row for row in objects if is_pool(row)]:
        rows = [row for row in objects if not is_pool(row)]
        wide = [row for row in rows if is_wide(row, find_list_column([*row], {}))]
        return wide[0] if len(wide) > len(pools) else pools[0]
    return next((row for row in objects if isinstance(row.get("query"), dict)), objects[0])


def _probe_json(place: str, line: bytes) -> FileProbe | None:
    """Look at one array or object over several lines; return None if it is no JSON."""
    value = parse_whole(place)
    if isinstance(value, dict):
        row = next((row for _, row in object_rows(place, value)), value)
        return _probe_rows(place, "object", [*row], row)
    if isinstance(value, list):
        rows = [item for item in value if isinstance(item, dict)]
        first = next((row for row in rows if row.get("ratings") != []), rows[0] if rows else None)
        if first is None:
            form: Literal["broken", "text"] = "broken" if is_jsonl(place) else "text"
            return FileProbe(place, form, form, line=line)
        return _probe_rows(place, "array", [*first], first)
    if line.strip() == b"[":
        next(json_array_rows(place))  # which says where it breaks off
    return None


def _probe_text(place: str, opening: FileBeginning) -> FileProbe:
    """Recognise lines of text: TREC's and BEIR's files, or cells under a header."""
    declared = bool(declared_separator(opening.line)) and len(opening.lines) > 1
    line = opening.lines[1] if declared else opening.line
    if line.lstrip().lower().startswith((b"<!doctype html", b"<html")):
        raise InputError(f"{place}: is a web page: name a file with its texts")
    if kind := _kind_of_lines(place, opening):
        return FileProbe(place, "broken" if kind == "broken" else "text", kind, line=line)
    if names := read_header(place).names:
        return _probe_rows(place, "cells", names, _first_cells(place), line)
    return FileProbe(place, "text", "text", line=line)


def _kind_of_lines(place: str, opening: FileBeginning) -> Kind | None:
    """Return the kind of lines without a header; None if they may have one."""
    line, rows = opening.line, [row.split() for row in opening.lines]
    if not line.strip():
        return "broken"
    if _TOPICS.match(b"\n".join(opening.lines)[:_BEGINNING]):
        return "topics"
    # A first line with a separator may be a header, another one only a bad line among good ones.
    looked_at = rows[:1] if separator_in(line) else [r for r in rows if len(r) == len(rows[0])]
    if kind := _trec_kind(looked_at):
        return kind
    parted = line.rstrip().split(b"\t")
    if len(parted) == _BEIR_COLUMNS and is_number(parted[2]):  # which may have no head
        return "beir qrels"
    return "broken" if is_jsonl(place) else None


def _trec_kind(rows: Sequence[Sequence[bytes]]) -> Kind | None:
    """Return which of TREC's files lines without a header are of, by most of them."""
    width = len(rows[0])
    if width >= _RUN_COLUMNS and any(is_number(row[3]) and is_number(row[4]) for row in rows):
        return "trec run"
    if _is_short_run(rows):
        return "short run"
    return "trec qrels" if width == _QRELS_COLUMNS and any(is_number(r[3]) for r in rows) else None


def _is_short_run(rows: Sequence[Sequence[bytes]]) -> bool:
    """Return whether lines are a run that lacks columns, such as query document rank score.

    Judgments have four columns, too: query, a column of the same everywhere, document, grade.
    """
    widths = {len(row) for row in rows}
    if widths == {_RUN_COLUMNS - 1}:
        return all(is_number(row[3]) and is_number(row[4]) for row in rows)
    if widths != {_QRELS_COLUMNS} or not all(
        row[2].isdigit() and is_number(row[3]) for row in rows
    ):
        return False
    if not any(b"." in row[3] for row in rows) or rows[0][1].lower() in (b"0", b"q0"):
        return False
    pairs = [(a, b) for a, b in pairwise(rows) if a[0] == b[0]]
    return int(rows[0][2]) <= 1 and all(
        a[1] != b[1] and int(b[2]) == int(a[2]) + 1 and float(b[3]) <= float(a[3]) for a, b in pairs
    )


def _first_cells(place: str) -> Mapping[str, Any]:
    """Return the first row under a head; an empty one if it cannot be read, an error for later."""
    try:
        return next((row for _, row in islice(delimited_rows(place), 1)), {})
    except InputError:
        return {}
