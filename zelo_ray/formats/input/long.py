"""Make pools of rows with one document each, gathered in Arrow columns."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.wording import counted
from zelo_ray.formats.input.row_places import RowPlaces
from zelo_ray.formats.interchange.pooling import category_codes
from zelo_ray.formats.interchange.query_fields import merge_fields, select_fields
from zelo_ray.formats.interchange.texts import has_visible_text, with_title
from zelo_ray.formats.lossy_ids import refuse_lossy_id
from zelo_ray.formats.pools import LINE_FIELDS, hash_id
from zelo_ray.formats.typed_columns import is_missing, parse_number
from zelo_ray.records import Document

Pool = dict[str, Any]
_ROWS = 2**16
_IDS = ("query_id", "doc_id", "session_id")
_STRIPPED = (*_IDS, "query")
_SHOWN = 3
_ABOUT = "query."
"""What the roles of columns begin with that hold a field of the query."""
_OF_DOCUMENT = "document."
"""What the roles of columns begin with that hold a field of the document."""


@dataclass(slots=True)
class ConversionNotes:
    """Notes on what was left out and what was made up, as pools are made."""

    ids: dict[str, list[str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    made_up: dict[str, None] = field(default_factory=dict)

    def note_left_out(self, what: str, id_: str) -> None:
        """Note something that is left out; keep the ids of the first few."""
        self.counts[what] = self.counts.get(what, 0) + 1
        if len(ids := self.ids.setdefault(what, [])) < _SHOWN:
            ids.append(id_)

    def to_lines(self) -> list[str]:
        """Return all notes in words."""
        lines = []
        for what, number in self.counts.items():
            more = " ..." if number > _SHOWN else ""
            lines.append(f"left out {what}: {number:,} ({', '.join(self.ids[what])}{more})")
        return [*self.made_up, *lines]


@dataclass(frozen=True, slots=True)
class TextsById:
    """Texts for rows that name a query or a document by its id alone.

    What is known of a query beside its text is its metadata.
    """

    queries: Mapping[str, Document] | None = None
    corpus: Mapping[str, Document] | None = None


def query_field_columns(names: Iterable[str]) -> dict[str, str]:
    """Map roles to the columns with further fields of the query, for `gather_columns`."""
    return {f"{_ABOUT}{name}": name for name in names if name not in LINE_FIELDS}


def document_field_columns(names: Iterable[str]) -> dict[str, str]:
    """Map roles to the columns with further fields of the document, for `gather_columns`."""
    return {f"{_OF_DOCUMENT}{name}": name for name in names}


def gather_columns(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    columns: Mapping[str, str],
    places: RowPlaces,
    notes: ConversionNotes,
    *,
    are_cells: bool = False,
    has_commas: bool = False,
) -> pa.Table:
    """Gather the wanted columns of rows by role: ids and texts as text, metadata as JSON.

    The column ``place`` has the number of each row's place.

    Args:
        rows: where each stands, and the row.
        columns: by role, the name of its column.
        places: learns where the rows stand.
        notes: what is left out.
        are_cells: whether they are cells, around whose ids and queries blanks do not count.
        has_commas: whether numbers may have a comma before their fraction.

    Raises:
        InputError: an id or a text is of another type.
    """
    kinds = {role: pa.float64() if role == "score" else pa.large_string() for role in columns}
    schema = pa.schema({**kinds, "place": pa.int64()})
    held: dict[str, list[Any]] = {role: [] for role in schema.names}
    batches = []
    for number, (place, row) in enumerate(rows, 1):
        held["place"].append(places.to_number(place))
        for role, name in columns.items():
            value = row.get(name)
            if are_cells and role in _STRIPPED and isinstance(value, str):
                value = value.strip() or None
            if role == "score":
                value = finite_score(place, value, notes, has_commas=has_commas)
            held[role].append(None if value is None else _cell(place, role, name, value))
        if number % _ROWS == 0:
            batches.append(pa.record_batch(held, schema=schema))
            held = {role: [] for role in schema.names}
    batches.append(pa.record_batch(held, schema=schema))
    return pa.Table.from_batches(batches)


def make_long_pools(
    table: pa.Table,
    places: RowPlaces,
    left: ConversionNotes,
    texts: TextsById | None = None,
) -> Iterator[Pool]:
    """Yield the pools of `gather_columns`, in the order in which queries first appear.

    A query without an id is called by a hash of its text, and a document by one of its own text.
    Rows of one query need not stand together. What has no text is left out.

    Raises:
        InputError: a row has no id, or an id has two texts.
    """
    texts = texts or TextsById()
    by_text = "query_id" not in table.column_names
    name = "query" if by_text else "query_id"
    if not by_text and table["query_id"].null_count:
        lacking = table.filter(table["query_id"].is_null())
        raise InputError(f"{places.to_text(lacking['place'][0].as_py())}: has no query_id")
    if by_text:
        left.made_up["queries have no ids: each gets a hash of its text as id"] = None
    if "doc_id" not in table.column_names:
        left.made_up["documents have no ids: each gets a hash of its text as id"] = None
    keys = category_codes(pc.fill_null(table[name], ""))
    if (np.diff(keys) < 0).any():
        order = np.argsort(keys, kind="stable")
        table, keys = table.take(order), keys[order]
    ends = [*np.flatnonzero(np.diff(keys)) + 1, len(keys)] if len(keys) else []
    start = 0
    for end in map(int, ends):
        pool = _pool(table.slice(start, end - start).to_pylist(), places, left, texts)
        start = end
        if pool is not None:
            yield pool


def _pool(
    rows: list[dict[str, Any]],
    places: RowPlaces,
    notes: ConversionNotes,
    texts: TextsById,
) -> Pool | None:
    query = _query(rows, places, texts)
    if not has_visible_text(query["query"] or ""):
        name = rows[0].get("query_id") or places.to_text(rows[0]["place"])
        notes.note_left_out("queries without a text", name)
        return None
    documents: dict[str, Pool] = {}
    for row in rows:
        document = _document(row, places, texts)
        if document is None:
            where, doc_id = places.to_text(row["place"]), row.get("doc_id")
            notes.note_left_out(
                "documents without a text", f"document {doc_id} in {where}" if doc_id else where
            )
            continue
        same = documents.setdefault(document["id"], document)
        if same is not document:
            if same["content"] != document["content"]:
                raise InputError(
                    f"{places.to_text(row['place'])}: document {document['id']!r} of query "
                    f"{query['id']!r} has a different text in an earlier row"
                )
            notes.note_left_out("rows that repeat a document", document["id"])
    if not documents:
        notes.note_left_out("queries without candidates", query["id"])
        return None
    return {"query": query, "documents": [*documents.values()]}


def _query(rows: list[dict[str, Any]], places: RowPlaces, texts: TextsById) -> Pool:
    """Build the query of a pool; all of its rows must agree on it."""
    first_query: Pool | None = None
    record = texts.queries.get(rows[0].get("query_id") or "") if texts.queries else None
    for row in rows:
        text = row.get("query")
        if text is None and record is not None:
            text = record.content
        query = {"id": row.get("query_id") or hash_id("q", text or ""), "query": text}
        if row.get("session_id") is not None:
            query["session_id"] = row["session_id"]
        first_query = first_query or query
        if first_query != query:
            raise InputError(
                f"{places.to_text(row['place'])}: query {query['id']!r} has a different text in an "
                "earlier row"
            )
    assert first_query is not None  # noqa: S101 - there is no pool without a row
    names = {role: role.removeprefix(_ABOUT) for role in rows[0] if role.startswith(_ABOUT)}
    fields = [{name: row[role] for role, name in names.items() if row[role]} for row in rows]
    merged = merge_fields(places.to_text(rows[0]["place"]), first_query["id"], fields)
    about = {**(record.metadata if record else {}), **merged}
    return {**first_query, **about}


def _document(row: Mapping[str, Any], places: RowPlaces, texts: TextsById) -> Pool | None:
    """Build a document in the form of an input line; None if it has no text."""
    content, doc_id = row.get("content"), row.get("doc_id")
    record = texts.corpus.get(doc_id) if texts.corpus is not None and doc_id else None
    if content is None and record is not None:
        document = record
    else:
        document = with_title(doc_id or "", row.get("title") or "", content or "")
    if not has_visible_text(document.content):
        return None
    if doc_id == "" or (doc_id is None and "doc_id" in row):
        raise InputError(f"{places.to_text(row['place'])}: has no doc_id")
    shown = {
        role.removeprefix(_OF_DOCUMENT): value
        for role, value in row.items()
        if role.startswith(_OF_DOCUMENT) and value
    }
    metadata = {**document.metadata, **json.loads(row.get("metadata") or "{}"), **shown}
    entry: Pool = {"id": doc_id or hash_id("d", document.content), "content": document.content}
    entry |= {"metadata": metadata} if metadata else {}
    return entry | ({"score": row["score"]} if row.get("score") is not None else {})


def note_single_documents(pools: Iterable[Pool], left: ConversionNotes) -> Iterator[Pool]:
    """Yield pools unchanged; at the end add a note if some have a single document."""
    every = single = 0
    for pool in pools:
        documents = pool.get("documents")  # of any kind, where a line is bad
        every, single = every + 1, single + (isinstance(documents, list) and len(documents) == 1)
        yield pool
    if single:
        has = "has" if single == 1 else "have"
        note = f"{single:,} of {counted(every, 'query', 'queries')} {has} one document, and nothing"
        left.made_up[f"{note} to compare"] = None


def describe_counts(queries: int, documents: int) -> str:
    """Return both numbers in words, such as ``50 queries, 5,000 documents``."""
    return f"{counted(queries, 'query', 'queries')}, {counted(documents, 'document')}"


def id_text(value: Any) -> str | None:
    """Return an id as text; None for a value that cannot be an id."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():  # a whole number beside a missing one
        return str(int(value))
    return str(value) if isinstance(value, str | int) else None


def _cell(place: str, role: str, name: str, value: Any) -> Any:
    if role == "score":
        return value
    if role.startswith((_ABOUT, _OF_DOCUMENT)):
        return select_fields({name: value}, (name,)).get(name)
    if role == "metadata":
        return _metadata(value)
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN
        return None
    if role in _IDS:
        refuse_lossy_id(place, name, value)
    text = id_text(value) if role in _IDS else value
    if role not in _IDS and isinstance(value, list) and all(isinstance(e, str) for e in value):
        text = "\n".join(value)
    if not isinstance(text, str):
        kind = type(value).__name__
        wanted = "text or whole numbers" if role in _IDS else "text"
        raise InputError(f"{place}: {name} is a {kind}; write {wanted}")
    return text.encode("utf-8", "replace").decode()  # Arrow holds no half of a character


def finite_score(
    place: str, value: Any, notes: ConversionNotes, *, has_commas: bool = False
) -> float | None:
    """Return the score of a document as a finite number, or None; note what is none."""
    if is_missing(value):
        return None
    number: float | None = None
    if isinstance(value, str):
        number = parse_number(f"{place}: score", value, has_commas=has_commas)
    elif isinstance(value, Real | Decimal) and not isinstance(value, bool):
        number = float(value)
    if number is not None and np.isfinite(number):
        return number
    notes.note_left_out("scores that are not numbers", place)
    return None


def _metadata(value: Any) -> str | None:
    if not isinstance(value, Mapping):
        return None
    fields = {
        name: cell
        for name, cell in value.items()
        if cell is not None and cell == cell  # noqa: PLR0124 - NaN
    }
    return json.dumps(fields, ensure_ascii=False, default=str)
