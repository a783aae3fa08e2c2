"""Make pools of rows: of one document each, of all documents of a query, or of MTEB's form."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.pools import LINE_FIELDS, PoolRow, document_row, few, hash_id
from zelo_ray.files.rows import Source, concat, is_pool, list_column
from zelo_ray.files.schema import IDS, own_id, role_of, to_id, to_number, to_text, value_of
from zelo_ray.files.wording import counted, text_for_judges
from zelo_ray.names import did_you_mean
from zelo_ray.records import Document

_DESCRIBED = ("description", "narrative")
"""Fields of TREC topics; rows of one query keep these even if --show-query does not name them."""
_POOLED = ("query_id", "query", "doc_id", "content", "title", "metadata", "score", "session_id")
_ABOUT, _SHOW = "query.", "document."
"""What the roles of columns begin with that hold a field of the query, or of the document."""
_NO_IDS = {
    "query": "queries have no ids: each gets a hash of its text as id",
    "document": "documents have no ids: each gets a hash of its text as id",
}


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
        self._ids.setdefault(what, {}).update(dict.fromkeys(ids))

    def lines(self) -> list[str]:
        """Return all notes in words."""
        counts = [
            f"left out {what}: {len(ids):,} ({few(ids)})" for what, ids in self._ids.items() if ids
        ]
        return [*self.said, *counts]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts for rows that name a query or a document by its id alone, by id."""

    queries: Mapping[str, Document] = field(default_factory=dict)
    corpus: Mapping[str, Document] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shown:
    """Further fields of queries and documents that judges are shown."""

    query: tuple[str, ...] = ()
    document: tuple[str, ...] = ()


def has_visible_text(text: str | None) -> bool:
    """Return whether a judge can be shown a text: it is not blank and has no NUL."""
    return bool(text and text.strip()) and "\0" not in (text or "")


def make_document(
    where: str, item: Any, columns: Mapping[str, str], show: Sequence[str] = ()
) -> PoolRow | None:
    """Make a document of a text, or of an object with an id and a text; None if it has no text."""
    if isinstance(item, str | None):
        return {"id": "", "content": item} if has_visible_text(item) else None
    if not isinstance(item, Mapping):
        kind = type(item).__name__
        raise InputError(
            f"{where}: a document is a {kind}; write texts, or objects with id and text"
        )
    if isinstance(item.get("doc"), Mapping):
        item = {**{name: value for name, value in item.items() if name != "doc"}, **item["doc"]}
    try:
        doc_id = to_id(value_of(item, "doc_id", columns)) or ""
        content = to_text(value_of(item, "content", columns))
        title = to_text(value_of(item, "title", columns)) or ""
    except ValueError as error:
        raise InputError(f"{where}: a document: {error}") from None
    try:
        score = to_number(value_of(item, "score", columns))
    except ValueError as error:
        raise InputError(f"{where}: the score of document {doc_id!r} {error}") from None
    if content is None or not has_visible_text(content):
        return None
    fields = item.get("metadata") or {}
    if not isinstance(fields, Mapping):
        raise InputError(
            f"{where}: the metadata of a document is a {type(fields).__name__}, no object"
        )
    document = with_title(doc_id, title, content)
    shown = select_fields(item, show)
    metadata = {**document.metadata, **shown, **without_nulls(fields)}
    row = document_row(Document(doc_id, document.content, metadata))
    return row if score is None else row | {"score": score}


def with_title(doc_id: str, title: str, text: str) -> Document:
    """Build a document of a title and a text; the title stands before the text, and in metadata."""
    if not title.strip():
        return Document(doc_id, text)
    content = text if text.startswith(title) else f"{title}\n{text}".rstrip("\n")
    return Document(doc_id, content, {"title": title})


def select_fields(row: Mapping[str, Any], names: Collection[str]) -> dict[str, str]:
    """Return those of some fields of a row that are not empty, as texts."""
    texts = {name: text_for_judges(row.get(name)) for name in names if name not in LINE_FIELDS}
    return {name: text for name, text in texts.items() if text and "\0" not in text}


def other_fields(row: Mapping[str, Any], own_names: Collection[str]) -> dict[str, str]:
    """Return a query's fields but for ``own_names``, with those in ``metadata`` (BEIR)."""
    inner = row.get("metadata")
    row = {**inner, **row} if isinstance(inner, Mapping) else row
    return select_fields(row, [name for name in row if name not in {*own_names, "metadata"}])


def without_nulls(value: Any) -> Any:
    """Return a row without null fields, which exist only because other rows have them."""
    if isinstance(value, Mapping):
        return {n: without_nulls(part) for n, part in value.items() if part is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


# --- all documents of a query in a row ----------------------------------------------------------


def pools_of_lists(source: Source, notes: Notes, show: Shown) -> Iterator[PoolRow]:
    """Yield the pools of rows with a list of documents: texts, or objects of an id and a text."""
    columns = source.columns
    listed = list_column(source.names, columns) or "documents"
    for number, row in source.rows():
        where = source.where(number)
        if is_pool(row) and not columns:
            yield without_nulls(row)
            continue
        query = _query_of_list(where, row, columns, show.query)
        if not has_visible_text(query["query"]):
            notes.leave_out("queries without a text", query["id"] or where)
            continue
        if not query["id"]:
            notes.say(_NO_IDS["query"])
            query["id"] = hash_id("q", query["query"])
        documents = _listed_documents(where, row.get(listed), columns, notes, show.document)
        if documents:
            yield {"query": query, "documents": documents}
        else:
            notes.leave_out("queries without candidates", query["id"])


def _query_of_list(
    where: str, row: Mapping[str, Any], columns: Mapping[str, str], show: Sequence[str]
) -> PoolRow:
    about, text = select_fields(row, (*_DESCRIBED, *show)), value_of(row, "query", columns)
    id_ = value_of(row, "query_id", columns)
    id_ = own_id(row) if id_ is None else id_
    if isinstance(text, Mapping):
        own = {*IDS, "text", *(n for n in text if role_of(n) in ("query_id", "query"))}
        about |= other_fields(text, own)
        inner = (value_of(text, "query_id", {}), own_id(text))
        id_ = next((v for v in inner if v is not None), id_)
        text = (
            text.get("text") if value_of(text, "query", {}) is None else value_of(text, "query", {})
        )
    try:
        query = {"id": to_id(id_) or "", "query": to_text(text) or ""}
        session = to_id(row.get("session_id"))
    except ValueError as error:
        raise InputError(f"{where}: the query: {error}") from None
    return {**query, **({"session_id": session} if session else {}), **about}


def _listed_documents(
    where: str, items: Any, columns: Mapping[str, str], notes: Notes, show: Sequence[str]
) -> list[PoolRow]:
    if isinstance(items, Mapping):  # columns in place of rows, as some data sets have them
        lists = {name: value for name, value in items.items() if isinstance(value, list)}
        items = [
            dict(zip(lists, cells, strict=False)) for cells in zip(*lists.values(), strict=False)
        ]
    if not isinstance(items, list | None):
        kind = type(items).__name__
        raise InputError(f"{where}: the documents are a {kind}; write a list, even of one document")
    documents: dict[str, PoolRow] = {}
    for item in items or ():
        document = make_document(where, item, columns, show)
        if document is None:
            has = f" (fields {', '.join(item)})" if isinstance(item, Mapping) else ""
            notes.leave_out("documents without a text", f"{where}{has}")
            continue
        add_document(where, documents, document, notes)
    return [*documents.values()]


def add_document(
    where: str, documents: dict[str, PoolRow], document: PoolRow, notes: Notes
) -> None:
    """Add a document to those of a query; one that comes again must have the same text."""
    if not document["id"]:
        notes.say(_NO_IDS["document"])
        document["id"] = hash_id("d", document["content"])
    same = documents.setdefault(document["id"], document)
    if same["content"] != document["content"]:
        raise InputError(f"{where}: document {document['id']!r} has another text in an earlier row")
    if same is not document:
        notes.leave_out("documents that come twice", document["id"])


# --- a document in a row ------------------------------------------------------------------------


def pools_of_rows(
    sources: Sequence[Source], notes: Notes, show: Shown, texts: Texts
) -> Iterator[PoolRow]:
    """Yield the pools of tables with one document in a row, as queries first appear.

    Rows of one query need not stand together. A query without an id is called by a hash of its
    text, and a document by one of its own. What has no text is left out.
    """
    parts = []
    for source in sources:
        about = {
            f"{_ABOUT}{n}": n for n in show.query if n in source.names and n not in LINE_FIELDS
        }
        shown = {f"{_SHOW}{name}": name for name in show.document if name in source.names}
        parts.append(source.table({**source.roles(*_POOLED), **about, **shown}))
    table, where = concat(parts)
    name = "query_id" if "query_id" in table.column_names else "query"
    if name == "query":
        notes.say(_NO_IDS["query"])
    elif table[name].null_count:
        raise InputError(f"{where(pc.index(table[name].is_null(), True).as_py())}: has no query_id")
    keys = category_codes(pc.fill_null(table[name], ""))
    order = np.argsort(keys, kind="stable")
    ends = np.flatnonzero(np.diff(keys[order], append=-1)) + 1
    ordered = table.take(order) if (order[1:] < order[:-1]).any() else table
    start = 0
    for end in ends.tolist():
        rows, at = ordered.slice(start, end - start).to_pylist(), order[start:end].tolist()
        start = end
        places = [where(row) for row in at[:1]]
        query = _query_of_rows(rows, where, at, texts)
        if not has_visible_text(query["query"]):
            notes.leave_out("queries without a text", rows[0].get("query_id") or places[0])
            continue
        documents: dict[str, PoolRow] = {}
        for number, row in zip(at, rows, strict=True):
            document = _document_of_row(row, texts)
            if document is None:
                place, doc_id = where(number), row.get("doc_id")
                notes.leave_out(
                    "documents without a text", f"document {doc_id} in {place}" if doc_id else place
                )
                continue
            if not document["id"] and "doc_id" in row:
                raise InputError(f"{where(number)}: has no doc_id")
            add_document(where(number), documents, document, notes)
        if documents:
            yield {"query": query, "documents": [*documents.values()]}
        else:
            notes.leave_out("queries without candidates", query["id"])


def _query_of_rows(
    rows: Sequence[dict[str, Any]], where: Any, at: Sequence[int], texts: Texts
) -> PoolRow:
    """Build the query of a pool; all of its rows must agree on it."""
    known = texts.queries.get(rows[0].get("query_id") or "")
    first: PoolRow = {}
    for number, row in zip(at, rows, strict=True):
        text = known.content if row.get("query") is None and known else row.get("query")
        query = {"id": row.get("query_id") or hash_id("q", text or ""), "query": text}
        query |= {"session_id": row["session_id"]} if row.get("session_id") else {}
        first = first or query
        if first != query:
            raise InputError(
                f"{where(number)}: query {query['id']!r} has another text in an earlier row"
            )
    names = [role for role in rows[0] if role.startswith(_ABOUT)]
    fields = [{name[len(_ABOUT) :]: row[name] for name in names if row[name]} for row in rows]
    about = merge_fields(where(at[0]), first["id"], fields)
    return {**first, **(known.metadata if known else {}), **about}


def merge_fields(where: str, query_id: str, rows: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Merge the fields that several rows have of one query; all must agree on them."""
    texts = dict[str, str]()
    for row in rows:
        for name, text in row.items():
            if texts.setdefault(name, text) != text:
                raise InputError(
                    f"{where}: query {query_id!r} has two of {name!r}: {texts[name][:40]!r} and "
                    f"{text[:40]!r}; --show-query takes what is the same in all rows of a query"
                )
    return texts


def _document_of_row(row: Mapping[str, Any], texts: Texts) -> PoolRow | None:
    content, doc_id = row.get("content"), row.get("doc_id") or ""
    known = texts.corpus.get(doc_id) if content is None else None
    document = known or with_title(doc_id, row.get("title") or "", content or "")
    if not has_visible_text(document.content):
        return None
    shown = {r[len(_SHOW) :]: value for r, value in row.items() if r.startswith(_SHOW) and value}
    metadata = {**document.metadata, **json.loads(row.get("metadata") or "{}"), **shown}
    entry = document_row(Document(doc_id, document.content, metadata))
    return entry if row.get("score") is None else entry | {"score": row["score"]}


def category_codes(column: pa.ChunkedArray) -> Any:
    """Map each text of a column to a number: 0, 1, 2 ... as they first appear, [rows] int64."""
    chunks = column.dictionary_encode().chunks
    return np.concatenate([np.empty(0, np.int64), *(c.indices.to_numpy() for c in chunks)])


# --- MTEB's rows --------------------------------------------------------------------------------


def pools_of_mteb(source: Source, notes: Notes, show: Shown, prefix: str = "") -> Iterator[PoolRow]:
    """Yield pools of rows of a query (or texts that word it), positive and negative texts.

    The query of a row is called ``query1`` and so on, its documents ``query1-00001``, with a grade
    of 1 or 0. Their order is drawn by chance, the same each time, so that neither place nor id
    tells which are the positive ones.
    """
    for row_number, (number, row) in enumerate(source.rows(), 1):
        query_id, where = f"{prefix}query{row_number}", source.where(number)
        query = row.get("query")
        if not isinstance(query, str | list) or not all(
            isinstance(row.get(n), list) and all(isinstance(t, str) for t in row[n])
            for n in ("positive", "negative")
        ):
            raise InputError(f"{where}: needs a query, and lists of positive and of negative texts")
        graded = [(text, 1.0) for text in row["positive"]] + [
            (text, 0.0) for text in row["negative"]
        ]
        visible = [pair for pair in graded if has_visible_text(pair[0])]
        if not has_visible_text(to_text(query)):
            notes.leave_out("rows with an empty query", query_id)
            continue
        if len(visible) < len(graded):
            notes.leave_out("empty documents of rows", query_id)
        Random(f"0:{query_id}").shuffle(visible)
        about = select_fields(row, (*_DESCRIBED, *show.query))
        yield {
            "query": {"id": query_id, "query": to_text(query), **about},
            "documents": [
                {"id": f"{query_id}-{i:05}", "content": text, "grade": grade}
                for i, (text, grade) in enumerate(visible, 1)
            ],
        }


# --- fields that judges are shown ---------------------------------------------------------------


class ShownFields:
    """Counts the queries and documents that have each of the fields that judges are shown."""

    def __init__(self, show: Shown) -> None:
        self.show = show
        self._count: dict[str, int] = {"query": 0, "document": 0}
        self._having: dict[str, dict[str, int]] = {"query": {}, "document": {}}

    def count(self, about: Mapping[str, Any], documents: Collection[Document] = ()) -> None:
        """Count the fields of a query, and of its documents."""
        if self.show.query:
            self._add("query", about)
        if self.show.document:
            for document in documents:
                self._add("document", {n: str(value) for n, value in document.metadata.items()})

    def _add(self, what: str, fields: Mapping[str, Any]) -> None:
        self._count[what] += 1
        having = self._having[what]
        for name, value in fields.items():
            if text_for_judges(value):
                having[name] = having.get(name, 0) + 1

    def check(self, source: str) -> list[str]:
        """Refuse a field that no query, or no document, has; say which only some have."""
        notes = []
        for what, plural in (("query", "queries"), ("document", "documents")):
            having, every, option = self._having[what], self._count[what], f"--show-{_FLAGS[what]}"
            for name in getattr(self.show, what) if every else ():
                fields = [each for each in having if each not in LINE_FIELDS]
                if name not in having:
                    has = (
                        f"fields are {', '.join(fields)}"
                        if fields
                        else "they have none but their text"
                    )
                    raise OptionError(
                        f"{source}: no {what} has the field {name!r} of {option}; {has}"
                        f"{did_you_mean(name, fields)}"
                    )
                if having[name] < every:
                    have = counted(every, f"{what} has", f"{plural} have")
                    notes.append(f"{having[name]:,} of {have} the field {name!r} of {option}")
        return notes


_FLAGS = {"query": "query", "document": "metadata"}
