"""Make pools of rows with one query each, and a list of its documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.errors import InputError
from zelo_ray.formats.columns import IDS, NAMES, value_of
from zelo_ray.formats.input.long import ConversionNotes, Pool, finite_score, id_text
from zelo_ray.formats.interchange.query_fields import DESCRIBED, other_fields, select_fields
from zelo_ray.formats.interchange.texts import has_visible_text, with_title
from zelo_ray.formats.lossy_ids import refuse_lossy_id
from zelo_ray.formats.pools import hash_id
from zelo_ray.formats.probe import is_pool

_OF_QUERY = {*IDS, "text", *NAMES["query_id"], *NAMES["query"], "metadata"}
INSIDE = ("doc_id", "content", "title")
"""The roles of columns that may be fields of the documents of a list."""


def make_wide_pools(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    documents: str,
    columns: Mapping[str, str],
    left: ConversionNotes,
    show: Sequence[str] = (),
    *,
    show_metadata: Sequence[str] = (),
) -> Iterator[Pool]:
    """Yield the pools of such rows, in their order.

    Args:
        rows: where each stands, and the row.
        documents: the column of the documents: texts, or objects of an id and a text.
        columns: by role, the name of a column.
        left: what is left out.
        show: further columns to keep of the query; its description and narrative are kept anyway,
            and so are all fields of a query that is an object.
        show_metadata: further fields to keep of each document, as its metadata.

    Raises:
        InputError: a row has no query, or a document is neither text nor object.
    """
    for place, row in rows:
        if is_pool(row):
            yield _without_nulls(row)
            continue
        query = _query(place, row, columns, show)
        if not has_visible_text(query["query"]):
            left.note_left_out("queries without a text", query["id"] or place)
            continue
        if not query["id"]:
            left.made_up["queries have no ids: each gets a hash of its text as id"] = None
            query["id"] = hash_id("q", query["query"])
        candidates = _documents(place, row.get(documents), columns, left, show_metadata)
        if candidates:
            yield {"query": query, "documents": candidates}
        else:
            left.note_left_out("queries without candidates", query["id"])


def _query(
    place: str, row: Mapping[str, Any], columns: Mapping[str, str], show: Sequence[str]
) -> Pool:
    query, id_column = row.get(columns.get("query", "query")), columns.get("query_id")
    id_ = row.get(id_column) if id_column else row.get("id", row.get("_id"))
    about = select_fields(row, (*DESCRIBED, *show))
    if isinstance(query, Mapping):
        about |= other_fields(query, _OF_QUERY)
        id_ = value_of(query, "query_id", "id") or id_
        query = value_of(query, "query", "query", "text")
    if isinstance(query, list) and all(isinstance(text, str) for text in query):
        query = "\n".join(query)
    if not isinstance(query, str | None):
        raise InputError(f"{place}: the query is a {type(query).__name__}; write text")
    refuse_lossy_id(place, "the query's id", id_)
    session = row.get("session_id")
    fields = {} if id_text(session) is None else {"session_id": id_text(session)}
    return {"id": id_text(id_) or "", "query": query or "", **fields, **about}


def _documents(
    place: str,
    value: Any,
    columns: Mapping[str, str],
    notes: ConversionNotes,
    show_metadata: Sequence[str],
) -> list[Pool]:
    if isinstance(value, Mapping):  # columns in place of rows, as some data sets have them
        value = _transposed(value)
    if (isinstance(value, str) and value) or not isinstance(value, Iterable | None):
        kind = type(value).__name__
        raise InputError(f"{place}: the documents are a {kind}; write a list, even of one document")
    documents: dict[str, Pool] = {}
    for item in value or ():
        document = _document(place, item, columns, notes, show_metadata)
        if document is None:
            has = f" (fields {', '.join(item)})" if isinstance(item, Mapping) else ""
            notes.note_left_out("documents without a text", f"{place}{has}")
            continue
        if not document["id"]:
            notes.made_up["documents have no ids: each gets a hash of its text as id"] = None
            document["id"] = hash_id("d", document["content"])
        same = documents.setdefault(document["id"], document)
        if same is document:
            continue
        if same["content"] != document["content"]:
            raise InputError(
                f"{place}: document {document['id']!r} has a different text in an earlier row"
            )
        notes.note_left_out("documents that come twice in a row", document["id"])
    return [*documents.values()]


def _document(
    place: str,
    item: Any,
    columns: Mapping[str, str],
    notes: ConversionNotes,
    show_metadata: Sequence[str],
) -> Pool | None:
    if isinstance(item, str) or item is None:
        return {"id": "", "content": item} if has_visible_text(item or "") else None
    if not isinstance(item, Mapping):
        kind = type(item).__name__
        raise InputError(f"{place}: a document is a {kind}; write texts, or objects of id and text")
    inner = item.get("doc")
    held = {**_without_doc(item), **inner} if isinstance(inner, Mapping) else item
    id_, content, title = (_field(held, role, columns) for role in INSIDE)
    if not isinstance(content, str) or not has_visible_text(content):
        return None
    refuse_lossy_id(place, "a document's id", id_)
    doc_id = id_text(id_) or ""
    document = with_title(doc_id, title if isinstance(title, str) else "", content)
    fields = held.get("metadata") or {}
    if not isinstance(fields, Mapping):
        kind = type(fields).__name__
        raise InputError(f"{place}: the metadata of a document is a {kind}; write an object")
    shown = select_fields(held, show_metadata)
    metadata = {**document.metadata, **shown, **_without_nulls(fields)}
    entry: Pool = {"id": doc_id, "content": document.content}
    entry |= {"metadata": metadata} if metadata else {}
    score = finite_score(place, held.get("score"), notes)
    return entry if score is None else entry | {"score": score}


def _without_doc(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "doc"}


def _field(held: Mapping[str, Any], role: str, columns: Mapping[str, str]) -> Any:
    """Return a field of a document: the one that the user named, else one that is usual, or id."""
    if columns.get(role, role) in held:
        return held[columns.get(role, role)]
    value = value_of(held, role)
    return held.get("id", held.get("_id")) if value is None and role == "doc_id" else value


def _transposed(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {name: value for name, value in columns.items() if isinstance(value, list)}
    return [dict(zip(lists, cells, strict=False)) for cells in zip(*lists.values(), strict=False)]


def _without_nulls(value: Any) -> Any:
    """Return a row without null fields, which exist only because other rows have them."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
