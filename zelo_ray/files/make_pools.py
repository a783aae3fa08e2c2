"""Pools of whatever holds queries and documents: typed rows of one document each, then a pool.

A row has what is known of query_id, query, session_id, doc_id, content, title, score and metadata;
``query.NAME`` is a further field of the query, ``document.NAME`` one of the document.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.pools import LINE_FIELDS, Notes, PoolRow, hash_id
from zelo_ray.files.rows import Row, Source, concat, is_pool, list_column
from zelo_ray.files.schema import (
    IDS,
    convert,
    own_id,
    role_of,
    to_id,
    to_text,
    value_of,
    without_nulls,
)
from zelo_ray.files.tables import category_codes
from zelo_ray.files.wording import text_for_judges
from zelo_ray.names import did_you_mean
from zelo_ray.records import Document

PlacedRow = tuple[str, Row]
"""A typed row, and its place for messages."""
Texts = Mapping[str, Document]
"""Texts by id, for rows that name a query or a document by its id alone."""
_NO_TEXTS: Texts = {}
_DESCRIBED = ("description", "narrative")
"""Rows of one query keep these fields even if --show-query does not name them."""
_POOLED = ("query_id", "query", "doc_id", "content", "title", "metadata", "score", "session_id")
_ABOUT, _SHOW = "query.", "document."
_NO_IDS = "{} have no ids: each gets a hash of its text as id"


class Shown(NamedTuple):
    """Further fields of queries and documents that judges are shown."""

    query: tuple[str, ...] = ()
    document: tuple[str, ...] = ()


def has_visible_text(text: str | None) -> bool:
    """Return whether a judge can be shown a text: it is not blank and has no NUL."""
    return bool(text and text.strip()) and "\0" not in (text or "")


def make_pool(
    rows: Sequence[PlacedRow], notes: Notes, queries: Texts = _NO_TEXTS, corpus: Texts = _NO_TEXTS
) -> Iterator[PoolRow]:
    """Yield the pool of the rows of a query, if it and documents have texts; note what is left out.

    What has no id is called by a hash of its text; a document that comes again must have its text.
    """
    query, by_id = _query_of_rows(rows, queries), dict[str, PoolRow]()
    if not has_visible_text(query["query"]):
        notes.leave_out("queries without a text", query["id"] or rows[0][0])
        return
    if not query["id"]:
        notes.say(_NO_IDS.format("queries"))
        query["id"] = hash_id("q", query["query"])
    for where, row in rows:
        id_, document = row.get("doc_id") or "", _document_of_row(row, corpus)
        if isinstance(document, str):
            place = f"document {id_} in {where}" if id_ and where else id_ or where
            notes.leave_out(document, *([place] if "content" in row or id_ else []))
            continue
        if not id_ and "doc_id" in row:
            raise InputError(f"{where}: has no doc_id")
        if not id_:
            notes.say(_NO_IDS.format("documents"))
            document["id"] = hash_id("d", document["content"])
        same = by_id.setdefault(document["id"], document)
        if same["content"] != document["content"]:
            raise InputError(f"{where}: document {document['id']!r} has another text before")
        if same is not document:
            notes.leave_out("documents that come twice", document["id"])
    if by_id:
        yield {"query": query, "documents": [*by_id.values()]}
    else:
        notes.leave_out("queries without candidates", query["id"])


def _query_of_rows(rows: Sequence[PlacedRow], texts: Texts) -> PoolRow:
    """Build the query of a pool; all of its rows must agree on it."""
    (start, first), about = rows[0], dict[str, str]()
    id_, same = first.get("query_id") or "", (first.get("query"), first.get("session_id"))
    known, named = texts.get(id_), [role for role in first if role.startswith(_ABOUT)]
    for where, row in rows:
        if (row.get("query"), row.get("session_id")) != same:
            raise InputError(f"{where}: query {id_!r} has another text in an earlier row")
        for role in (role for role in named if row.get(role)):
            name, text = role.removeprefix(_ABOUT), row[role]
            if (other := about.setdefault(name, text)) != text:
                two = f"two of {name!r}: {other[:40]!r} and {text[:40]!r}"
                raise InputError(f"{start}: query {id_!r} has {two}: --show-query needs one")
    text = first.get("query")
    query = {"id": id_, "query": known.content if text is None and known else text}
    query |= {"session_id": first["session_id"]} if first.get("session_id") else {}
    return {**query, **(known.metadata if known else {}), **about}


def _document_of_row(row: Row, corpus: Texts) -> PoolRow | str:
    """Make the object of a document, or say why it is left out."""
    id_, content, title = (row.get(role) or "" for role in ("doc_id", "content", "title"))
    fields: dict[str, Any] = row.get("metadata") or {}
    shown = {n.removeprefix(_SHOW): v for n, v in row.items() if n.startswith(_SHOW) and v}
    known = corpus.get(id_) if row.get("content") is None else None
    if known:
        content, title, fields = known.content, "", {**known.metadata, **fields}
    elif corpus and not (content or title):
        return "documents that the corpus lacks"
    if not has_visible_text(content or title):
        return "documents without a text"
    document = with_title(id_, title, content or title)
    made: PoolRow = {"id": id_, "content": document.content}
    if metadata := {**document.metadata, **fields, **shown}:
        made["metadata"] = metadata
    return made if row.get("score") is None else made | {"score": row["score"]}


def with_title(doc_id: str, title: str, text: str) -> Document:
    """Build a document of a title and a text; the title stands before the text, and in metadata."""
    if not title.strip():
        return Document(doc_id, text)
    content = text if text.startswith(title) else f"{title}\n{text}".rstrip("\n")
    return Document(doc_id, content, {"title": title})


def select_fields(row: Row, names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return those of some fields of a row that are not empty, as texts."""
    texts = {name: text_for_judges(row.get(name)) for name in names if name not in LINE_FIELDS}
    return {f"{prefix}{name}": text for name, text in texts.items() if text and "\0" not in text}


def other_fields(row: Row, own_names: Collection[str], prefix: str = "") -> dict[str, str]:
    """Return a query's fields but for ``own_names``, with those in ``metadata`` (BEIR)."""
    inner = row.get("metadata")
    row = {**inner, **row} if isinstance(inner, Mapping) else row
    return select_fields(row, (n for n in row if n not in {*own_names, "metadata"}), prefix)


def pools_of(sources: Sequence[Source], notes: Notes, show: Shown) -> Iterator[PoolRow]:
    """Yield the pools of sources of one kind that hold texts; what is a pool stays as it is."""
    groups: Iterable[Sequence[PlacedRow]]
    match sources[0].kind:
        case "table":
            groups = _rows_by_query(sources, show)
        case "conversations":
            groups = _rows_by_question(sources, show.query)
        case "mteb":
            groups = chain.from_iterable(
                rows_of_mteb(source, notes, show, f"{number}-" if sources[1:] else "")
                for number, source in enumerate(sources, 1)
            )
        case _:
            for source in sources:
                yield from chain.from_iterable(
                    source.each(partial(_pools_of_list, source, notes, show))
                )
            return
    for rows in groups:
        yield from make_pool(rows, notes)


# --- rows with a list of documents ----------------------------------------------------------------


def _pools_of_list(
    source: Source, notes: Notes, show: Shown, number: int, row: Row
) -> list[PoolRow]:
    if is_pool(row) and not source.columns:
        return [without_nulls(row)]
    return [*make_pool(rows_of_list(source, show, number, row), notes)]


def rows_of_list(source: Source, show: Shown, number: int, row: Row) -> list[PlacedRow]:
    """Return the rows of the documents of a query; one without a document if there is none."""
    columns, where = source.columns, source.where(number)
    query, id_ = value_of(row, "query", columns), None
    fields = select_fields(row, (*_DESCRIBED, *show.query), _ABOUT)
    if isinstance(query, Mapping):
        own = {*IDS, "text", *(n for n in query if role_of(n) in ("query_id", "query"))}
        fields |= other_fields(query, own, _ABOUT)
        id_, inner = _id_of(query, "query_id", {}, row), value_of(query, "query", {})
        query = query.get("text") if inner is None else inner
    id_ = _id_of(row, "query_id", columns, {}) if id_ is None else id_
    session = convert("session_id", row.get("session_id"))
    head = {"query_id": convert("query_id", id_), "query": convert("query", query) or ""}
    head |= {"session_id": session} | fields
    items = row.get(list_column(source.names, columns) or "documents")
    if isinstance(items, Mapping):  # columns in place of rows, as some data sets have them
        lists = {name: value for name, value in items.items() if isinstance(value, list)}
        every = zip(*lists.values(), strict=False)
        items = [dict(zip(lists, cells, strict=False)) for cells in every]
    if not isinstance(items, list | None):
        kind = type(items).__name__
        raise ValueError(f"the documents are a {kind}; write a list of them")  # noqa: TRY004 - one error for a value
    rows = list[PlacedRow]()
    for item in items or ():
        place = f"{where} (fields {', '.join(item)})" if isinstance(item, Mapping) else where
        rows.append((place, head | _listed_document(item, columns, row, show.document)))
    return rows or [(where, head)]


def _id_of(row: Row, role: str, columns: Mapping[str, str], pool: Row) -> Any:
    """Return the id of an object: in pools as annotate reads them its ``id`` comes first."""
    own, value = own_id(row), value_of(row, role, columns)
    is_own = value is None or (is_pool(pool) and columns.get(role) not in row)
    return own if own is not None and is_own else value


def _listed_document(
    item: Any, columns: Mapping[str, str], pool: Row, show: Sequence[str]
) -> dict[str, Any]:
    """Return a document of a list; its grade, and whether it is called so, as annotate calls it."""
    if isinstance(item, str | None):
        return {"content": item or ""}
    if not isinstance(item, Mapping):
        raise ValueError("a document is a text, or an object with id and text")  # noqa: TRY004 - one error for a value
    if isinstance(item.get("doc"), Mapping):
        item = {**{name: value for name, value in item.items() if name != "doc"}, **item["doc"]}
    roles = ("title", "content", "score")
    made = {role: convert(role, value_of(item, role, columns)) for role in roles}
    made["content"] = made["content"] or ""
    if id_ := convert("doc_id", _id_of(item, "doc_id", columns, pool)):
        made["doc_id"] = id_
    fields = item.get("metadata") or {}
    if not isinstance(fields, Mapping):
        raise ValueError("the metadata of a document is no object")  # noqa: TRY004 - one error for a value
    made["metadata"] = {**select_fields(item, show), **without_nulls(fields)}
    if (grade := value_of(item, "grade", columns)) is not None:
        made |= {"grade": grade, "is_grade": grade is item.get("grade")}
    return made


# --- rows with one document -----------------------------------------------------------------------


def _rows_by_query(sources: Sequence[Source], show: Shown) -> Iterator[Sequence[PlacedRow]]:
    """Yield the rows of tables with one document in each, by query; one query's at a time."""
    parts = []
    for source in sources:
        shown = {f"{_ABOUT}{n}": n for n in show.query if n in {*source.names} - LINE_FIELDS}
        shown |= {f"{_SHOW}{name}": name for name in show.document if name in source.names}
        parts.append(source.table({**source.roles(*_POOLED), **shown}))
    every = concat(parts)
    if by_id := every.has("query_id"):
        every.require({"query_id": "query_id"})
    keys = category_codes(pc.fill_null(every["query_id" if by_id else "query"], ""))
    order = np.argsort(keys, kind="stable")
    is_in_order = (order[1:] > order[:-1]).all()
    table, start = every.table if is_in_order else every.table.take(order), 0
    for end in (np.flatnonzero(np.diff(keys[order], append=-1)) + 1).tolist():
        rows = table.slice(start, end - start).to_pylist()
        for row in (row for row in rows if row.get("metadata")):
            row["metadata"] = json.loads(row["metadata"])
        yield [*zip(map(every.where, order[start:end].tolist()), rows, strict=True)]
        start = end


def _rows_by_question(
    sources: Iterable[Source], show: Sequence[str]
) -> Iterator[Sequence[PlacedRow]]:
    """Yield the answers of assistants to each question, as rows of one document.

    A row is ``{"session_id", "assistant_id", "conversation": [{"qa_id", "query", "assistant"}]}``.
    Questions are the same where session and qa_id are, and pools then name their session; where no
    session has two assistants, where qa_id and query are. ``show`` names fields of turns to keep.
    """
    every = (each for source in sources for each in source.each(partial(_turns, source, show)))
    turns = [*chain.from_iterable(every)]
    pairs = {(row["session_id"], row["doc_id"]) for _, row in turns}
    shared = len(pairs) > len({session for session, _ in pairs})
    groups = defaultdict[tuple[str, str], list[PlacedRow]](list)
    for where, row in turns:
        groups[row["query_id"], row["session_id" if shared else "query"]].append((where, row))
    number = Counter(qa_id for qa_id, _ in groups)
    for (qa_id, _), group in groups.items():
        session = group[0][1]["session_id"]
        query_id = qa_id if number[qa_id] == 1 else f"{session}:{qa_id}"
        named = {"query_id": query_id, "session_id": session if shared else ""}
        yield [(where, {**row, **named}) for where, row in group]


def _turns(source: Source, show: Sequence[str], number: int, row: Row) -> list[PlacedRow]:
    assistant, conversation = to_id(row.get("assistant_id")), row.get("conversation")
    if assistant is None or not isinstance(conversation, list):
        raise ValueError("needs assistant_id, and a conversation of qa_id and query")
    head = {"session_id": to_id(row.get("session_id")) or "", "doc_id": assistant}
    turns: list[PlacedRow] = []
    for turn in conversation:
        qa_id = to_id(turn.get("qa_id")) if isinstance(turn, Mapping) else None
        if qa_id is None or not isinstance(turn.get("query"), str):
            raise ValueError("a turn of its conversation has no qa_id or no query")
        content = turn.get("assistant") if isinstance(turn.get("assistant"), str) else ""
        texts = {"query_id": qa_id, "query": turn["query"], "content": content}
        shown = dict.fromkeys(f"{_ABOUT}{name}" for name in show)
        shown |= select_fields(turn, show, _ABOUT)
        turns.append((source.where(number), head | texts | shown))
    return turns


def rows_of_mteb(
    source: Source, notes: Notes, show: Shown, prefix: str = ""
) -> Iterator[list[PlacedRow]]:
    """Yield the rows of each query of MTEB, which has positive and negative texts, with grades.

    The query of a row is called ``query1`` and so on, its documents ``query1-00001``, with a grade
    of 1 or 0. Their order is drawn by chance, the same each time, so that neither place nor id
    tells which are the positive ones.
    """
    ids = (f"{prefix}query{number}" for number in count(1))

    def read(_: int, row: Row) -> list[PlacedRow]:
        query_id, query = next(ids), row.get("query")
        lists = [row.get("positive"), row.get("negative")]
        are_texts = all(isinstance(e, list) and all(isinstance(t, str) for t in e) for e in lists)
        if not (isinstance(query, str | list) and are_texts):
            raise ValueError("needs a query, and lists of positive and of negative texts")
        graded = [(t, g) for texts, g in zip(lists, (1.0, 0.0), strict=True) for t in texts or ()]
        visible = [pair for pair in graded if has_visible_text(pair[0])]
        if len(visible) < len(graded):
            notes.leave_out("empty documents of rows", query_id)
        Random(f"0:{query_id}").shuffle(visible)
        head = {"query_id": query_id, "query": to_text(query)}
        head |= select_fields(row, (*_DESCRIBED, *show.query), _ABOUT)
        documents = (
            {"doc_id": f"{query_id}-{at:05}", "content": text, "grade": grade}
            for at, (text, grade) in enumerate(visible, 1)
        )
        return [(query_id, head | document) for document in documents] or [(query_id, head)]

    return source.each(read)


# --- fields that are shown ------------------------------------------------------------------------


class ShownFields:
    """The fields that queries and documents have, where judges are to be shown some."""

    def __init__(self, query: Sequence[str] = (), document: Sequence[str] = ()) -> None:
        self._wanted = {"query": query, "metadata": document}
        self._seen: dict[str, set[str]] = {}  # by what has them, once there is one

    def add(self, about: Row, documents: Iterable[Document] = ()) -> None:
        """Note the fields of a query, and of its documents."""
        if self._wanted["query"]:
            names = {name for name, value in about.items() if text_for_judges(value)}
            self._seen.setdefault("query", set()).update(names)
        for document in documents if self._wanted["metadata"] else ():
            names = {name for name, value in document.metadata.items() if str(value).strip()}
            self._seen.setdefault("metadata", set()).update(names)

    def check(self, source: str) -> None:
        """Refuse a field that no query, or no document, has."""
        for what, seen in self._seen.items():
            for name in (name for name in self._wanted[what] if name not in seen):
                fields = sorted(seen - LINE_FIELDS)
                has = f"fields are {', '.join(fields) or 'none'}{did_you_mean(name, fields)}"
                lacks = f"no {what} has the field {name!r} of --show-{what}"
                raise OptionError(f"{source}: {lacks}; {has}")
