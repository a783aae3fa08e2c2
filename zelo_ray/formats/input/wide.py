"""Make pools of rows with one query each, and a list of its documents."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from zelo_ray.errors import InputError
from zelo_ray.formats.input.columns import NAMES
from zelo_ray.formats.input.long import ConversionNotes, Pool, hash_id, id_text
from zelo_ray.formats.interchange.query_fields import DESCRIBED, other_fields, select_fields
from zelo_ray.formats.interchange.roles import normalize_name
from zelo_ray.formats.interchange.texts import has_visible_text, with_title
from zelo_ray.formats.lossy_ids import refuse_lossy_id

_OWN = {"query": ("query", "text"), "query_id": ("id", "_id")}
_OF_QUERY = {name for names in _OWN.values() for name in names} | {
    *NAMES["query_id"],
    *NAMES["query"],
    "metadata",
}
_IDS_WITHIN = (*NAMES["doc_id"], "id", "_id")


def is_wide(first: Mapping[str, Any], name: str | None) -> bool:
    """Return whether a row has all documents of a query in one column."""
    value = first.get(name) if name else None
    return isinstance(value, list) or (isinstance(value, Mapping) and _texts_in(value) is not None)


def is_pool(row: Mapping[str, Any]) -> bool:
    """Return whether a row is a pool in the form that `annotate` reads, good or bad."""
    query = row.get("query")
    if not isinstance(query, Mapping):
        return False
    in_form = "query" in query or not {"text", "_id", "qid"} & query.keys()
    return in_form and ("documents" in row or not any(isinstance(v, list) for v in row.values()))


def make_wide_pools(
    rows: Iterable[tuple[str, Mapping[str, Any]]],
    documents: str,
    columns: Mapping[str, str],
    left: ConversionNotes,
    show: Sequence[str] = (),
) -> Iterator[Pool]:
    """Yield the pools of such rows, in their order.

    Args:
        rows: where each stands, and the row.
        documents: the column of the documents: texts, or objects of an id and a text.
        columns: by role, the name of a column.
        left: what is left out.
        show: further columns to keep of the query; its description and narrative are kept anyway,
            and so are all fields of a query that is an object.

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
        candidates = _documents(place, row.get(documents), left)
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
        id_ = _value(query, (*_OWN["query_id"], *NAMES["query_id"])) or id_
        query = _value(query, (*_OWN["query"], *NAMES["query"]))
    if isinstance(query, list) and all(isinstance(text, str) for text in query):
        query = "\n".join(query)
    if not isinstance(query, str | None):
        raise InputError(f"{place}: the query is a {type(query).__name__}; write text")
    refuse_lossy_id(place, "the query's id", id_)
    session = row.get("session_id")
    fields = {} if id_text(session) is None else {"session_id": id_text(session)}
    return {"id": id_text(id_) or "", "query": query or "", **fields, **about}


def _documents(place: str, value: Any, notes: ConversionNotes) -> list[Pool]:
    if isinstance(value, Mapping):  # columns in place of rows, as some data sets have them
        value = _transposed(value)
    if (isinstance(value, str) and value) or not isinstance(value, Iterable | None):
        kind = type(value).__name__
        raise InputError(f"{place}: the documents are a {kind}; write a list, even of one document")
    documents: dict[str, Pool] = {}
    for item in value or ():
        document = _document(place, item)
        if document is None:
            notes.note_left_out("documents without a text", place)
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


def _document(place: str, item: Any) -> Pool | None:
    if isinstance(item, str) or item is None:
        return {"id": "", "content": item} if has_visible_text(item or "") else None
    if not isinstance(item, Mapping):
        kind = type(item).__name__
        raise InputError(f"{place}: a document is a {kind}; write texts, or objects of id and text")
    inner = item.get("doc")
    held = {**item, **inner} if isinstance(inner, Mapping) else item
    content, title = _value(held, NAMES["content"]), _value(held, NAMES["title"])
    if not isinstance(content, str) or not has_visible_text(content):
        return None
    id_ = _value(held, _IDS_WITHIN)
    refuse_lossy_id(place, "a document's id", id_)
    doc_id = id_text(id_) or ""
    document = with_title(doc_id, title if isinstance(title, str) else "", content)
    fields = held.get("metadata") or {}
    if not isinstance(fields, Mapping):
        kind = type(fields).__name__
        raise InputError(f"{place}: the metadata of a document is a {kind}; write an object")
    metadata = {**document.metadata, **_without_nulls(fields)}
    entry: Pool = {"id": doc_id, "content": document.content}
    entry |= {"metadata": metadata} if metadata else {}
    score = held.get("score")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    return entry | ({"score": score} if is_number else {})


def _value(held: Mapping[str, Any], usual: Iterable[str]) -> Any:
    """Return the value under the first of some usual names that is present, or None."""
    values = {normalize_name(name): value for name, value in held.items() if value is not None}
    return next((values[name] for name in usual if name in values), None)


def _texts_in(columns: Mapping[str, Any]) -> str | None:
    lists = [name for name, value in columns.items() if isinstance(value, list)]
    return next((name for name in lists if normalize_name(name) in NAMES["content"]), None)


def _transposed(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    lists = {name: value for name, value in columns.items() if isinstance(value, list)}
    return [dict(zip(lists, cells, strict=False)) for cells in zip(*lists.values(), strict=False)]


def _without_nulls(value: Any) -> Any:
    """Return a row without null fields, which exist only because other rows have them."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(field) for name, field in value.items() if field is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
