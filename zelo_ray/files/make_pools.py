"""Make pools of rows: of one document each, of all documents of a query, or of MTEB's form."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, count
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.pools import LINE_FIELDS, Notes, PoolRow, hash_id
from zelo_ray.files.rows import Row, Source, concat, is_pool, list_column
from zelo_ray.files.schema import IDS, convert, own_id, role_of, to_id, to_text, value_of
from zelo_ray.files.wording import text_for_judges
from zelo_ray.names import did_you_mean
from zelo_ray.records import Document

Candidate = tuple[str, PoolRow | str]
"""The place of a document, and it as an object of an input line, or why it is left out."""
NO_TEXT = "documents without a text"
_DESCRIBED = ("description", "narrative")
"""Fields of TREC topics; rows of one query keep these even if --show-query does not name them."""
_POOLED = ("query_id", "query", "doc_id", "content", "title", "metadata", "score", "session_id")
_ABOUT, _SHOW = "query.", "document."
"""What the roles of columns begin with that hold a field of the query, or of the document."""
_NO_IDS = "{} have no ids: each gets a hash of its text as id"


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


def make_pool(
    where: str, query: PoolRow, documents: Iterable[Candidate], notes: Notes
) -> Iterator[PoolRow]:
    """Yield the pool of a query and its documents, if both have texts; note what is left out.

    What has no id is called by a hash of its text; a document that comes again must have its text.
    """
    if not has_visible_text(query["query"]):
        notes.leave_out("queries without a text", query["id"] or where)
        return
    if not query["id"]:
        notes.say(_NO_IDS.format("queries"))
        query["id"] = hash_id("q", query["query"])
    by_id: dict[str, PoolRow] = {}
    for place, document in documents:
        if isinstance(document, str):
            notes.leave_out(document, place)
            continue
        if not document["id"]:
            notes.say(_NO_IDS.format("documents"))
            document["id"] = hash_id("d", document["content"])
        same = by_id.setdefault(document["id"], document)
        if same["content"] != document["content"]:
            what = f"document {document['id']!r} has another text in an earlier row"
            raise InputError(f"{place}: {what}")
        if same is not document:
            notes.leave_out("documents that come twice", document["id"])
    if by_id:
        yield {"query": query, "documents": [*by_id.values()]}
    else:
        notes.leave_out("queries without candidates", query["id"])


def make_document(
    id_: str, title: str, text: str, fields: Row, score: float | None = None
) -> PoolRow | str:
    """Make the object of a document; a title stands before the text, and among the fields."""
    if not has_visible_text(text):
        return NO_TEXT
    document = with_title(id_, title, text)
    row: PoolRow = {"id": id_, "content": document.content}
    if metadata := {**document.metadata, **fields}:
        row["metadata"] = metadata
    return row if score is None else row | {"score": score}


def with_title(doc_id: str, title: str, text: str) -> Document:
    """Build a document of a title and a text; the title stands before the text, and in metadata."""
    if not title.strip():
        return Document(doc_id, text)
    content = text if text.startswith(title) else f"{title}\n{text}".rstrip("\n")
    return Document(doc_id, content, {"title": title})


def select_fields(row: Row, names: Collection[str]) -> dict[str, str]:
    """Return those of some fields of a row that are not empty, as texts."""
    texts = {name: text_for_judges(row.get(name)) for name in names if name not in LINE_FIELDS}
    return {name: text for name, text in texts.items() if text and "\0" not in text}


def other_fields(row: Row, own_names: Collection[str]) -> dict[str, str]:
    """Return a query's fields but for ``own_names``, with those in ``metadata`` (BEIR)."""
    inner = row.get("metadata")
    row = {**inner, **row} if isinstance(inner, Mapping) else row
    return select_fields(row, [name for name in row if name not in {*own_names, "metadata"}])


def without_nulls(value: Any) -> Any:
    """Return a row without null fields, which exist only because other rows have them."""
    if isinstance(value, Mapping):
        return {n: without_nulls(part) for n, part in value.items() if part is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def pools_of_lists(source: Source, notes: Notes, show: Shown) -> Iterator[PoolRow]:
    """Yield the pools of rows with a list of documents: texts, or objects of an id and a text."""
    columns = source.columns
    listed = list_column(source.names, columns) or "documents"

    def read(number: int, row: Row) -> list[PoolRow]:
        if is_pool(row) and not columns:
            return [without_nulls(row)]
        where, query = source.where(number), _query_of_list(row, columns, show.query)
        documents = _listed_documents(where, row.get(listed), columns, show.document)
        return [*make_pool(where, query, documents, notes)]

    return chain.from_iterable(source.each(read))


def _query_of_list(row: Row, columns: Mapping[str, str], show: Sequence[str]) -> PoolRow:
    about, text = select_fields(row, (*_DESCRIBED, *show)), value_of(row, "query", columns)
    ids = [value_of(row, "query_id", columns), own_id(row)]
    if isinstance(text, Mapping):
        own = {*IDS, "text", *(n for n in text if role_of(n) in ("query_id", "query"))}
        about |= other_fields(text, own)
        ids = [value_of(text, "query_id", {}), own_id(text), *ids]
        inner = value_of(text, "query", {})
        text = text.get("text") if inner is None else inner
    id_ = convert("query_id", next((value for value in ids if value is not None), None))
    session = convert("session_id", row.get("session_id"))
    query = {"id": id_ or "", "query": convert("query", text) or ""}
    return {**query, **({"session_id": session} if session else {}), **about}


def _listed_documents(
    where: str, items: Any, columns: Mapping[str, str], show: Sequence[str]
) -> Iterator[Candidate]:
    if isinstance(items, Mapping):  # columns in place of rows, as some data sets have them
        lists = {name: value for name, value in items.items() if isinstance(value, list)}
        every = zip(*lists.values(), strict=False)
        items = [dict(zip(lists, cells, strict=False)) for cells in every]
    if not isinstance(items, list | None):
        kind = type(items).__name__
        raise ValueError(f"the documents are a {kind}; write a list of them")  # noqa: TRY004 - one error for a value
    for item in items or ():
        document = _listed_document(item, columns, show)
        fields = f" (fields {', '.join(item)})" if isinstance(item, Mapping) else ""
        yield where + fields if document is NO_TEXT else where, document


def _listed_document(item: Any, columns: Mapping[str, str], show: Sequence[str]) -> PoolRow | str:
    if isinstance(item, str | None):
        return make_document("", "", item or "", {})
    if not isinstance(item, Mapping):
        what = f"a document is a {type(item).__name__}"
        raise ValueError(f"{what}; write texts, or objects with id and text")  # noqa: TRY004 - one error for a value
    if isinstance(item.get("doc"), Mapping):
        item = {**{name: value for name, value in item.items() if name != "doc"}, **item["doc"]}
    roles = ("doc_id", "title", "content", "score")
    id_, title, text, score = (convert(role, value_of(item, role, columns)) for role in roles)
    fields = item.get("metadata") or {}
    if not isinstance(fields, Mapping):
        what = "the metadata of a document is"
        raise ValueError(f"{what} a {type(fields).__name__}, no object")  # noqa: TRY004 - one error for a value
    fields = {**select_fields(item, show), **without_nulls(fields)}
    return make_document(id_ or "", title or "", text or "", fields, score)


def pools_of_rows(
    sources: Sequence[Source], notes: Notes, show: Shown, texts: Texts
) -> Iterator[PoolRow]:
    """Yield the pools of tables with one document in a row, as queries first appear.

    Rows of one query need not stand together.
    """
    parts = []
    for source in sources:
        names = {*source.names} - LINE_FIELDS
        about = {f"{_ABOUT}{name}": name for name in show.query if name in names}
        shown = {f"{_SHOW}{name}": name for name in show.document if name in source.names}
        parts.append(source.table({**source.roles(*_POOLED), **about, **shown}))
    every = concat(parts)
    name = "query_id" if every.has("query_id") else "query"
    if name == "query_id":
        every.require({name: name})
    keys = category_codes(pc.fill_null(every[name], ""))
    order = np.argsort(keys, kind="stable")
    table = every.table.take(order) if (order[1:] < order[:-1]).any() else every.table
    start = 0
    for end in (np.flatnonzero(np.diff(keys[order], append=-1)) + 1).tolist():
        places = map(every.where, order[start:end].tolist())
        rows = [*zip(places, table.slice(start, end - start).to_pylist(), strict=True)]
        start = end
        query = _query_of_rows(rows, texts)
        yield from make_pool(rows[0][0], query, _documents_of_rows(rows, texts), notes)


def _query_of_rows(rows: Sequence[tuple[str, Row]], texts: Texts) -> PoolRow:
    """Build the query of a pool; all of its rows must agree on it."""
    id_ = rows[0][1].get("query_id") or ""
    known = texts.queries.get(id_)
    first: PoolRow = {}
    for where, row in rows:
        text = known.content if row.get("query") is None and known else row.get("query")
        query = {"id": id_, "query": text}
        query |= {"session_id": row["session_id"]} if row.get("session_id") else {}
        first = first or query
        if first != query:
            raise InputError(f"{where}: query {id_!r} has another text in an earlier row")
    about = dict[str, str]()
    named = [role for role in rows[0][1] if role.startswith(_ABOUT)]
    for role, text in ((role, row[role]) for role in named for _, row in rows if row[role]):
        name = role.removeprefix(_ABOUT)
        if (same := about.setdefault(name, text)) != text:
            two = f"query {id_!r} has two of {name!r}: {same[:40]!r} and {text[:40]!r}"
            how = "--show-query takes what is the same in all rows of a query"
            raise InputError(f"{rows[0][0]}: {two}; {how}")
    return {**first, **(known.metadata if known else {}), **about}


def _documents_of_rows(rows: Sequence[tuple[str, Row]], texts: Texts) -> Iterator[Candidate]:
    show = {role: role.removeprefix(_SHOW) for role in rows[0][1] if role.startswith(_SHOW)}
    for where, row in rows:
        content, id_, title = row.get("content"), row.get("doc_id") or "", row.get("title") or ""
        fields = {name: row[role] for role, name in show.items() if row[role]}
        if metadata := row.get("metadata"):
            fields = {**json.loads(metadata), **fields}
        if content is None and (known := texts.corpus.get(id_)):
            content, title, fields = known.content, "", {**known.metadata, **fields}
        document = make_document(id_, title, content or title, fields, row.get("score"))
        if document is NO_TEXT:
            yield f"document {id_} in {where}" if id_ else where, document
            continue
        if not id_ and "doc_id" in row:
            raise InputError(f"{where}: has no doc_id")
        yield where, document


def category_codes(column: pa.ChunkedArray) -> Any:
    """Map each text of a column to a number: 0, 1, 2 ... as they first appear, [rows] int64."""
    chunks = column.dictionary_encode().chunks
    return np.concatenate([np.empty(0, np.int64), *(c.indices.to_numpy() for c in chunks)])


def pools_of_conversations(
    sources: Iterable[Source], notes: Notes, show: Sequence[str] = ()
) -> Iterator[PoolRow]:
    """Yield a pool for each question; its documents are the assistants' answers.

    A row is ``{"session_id", "assistant_id", "conversation": [{"qa_id", "query", "assistant"}]}``.
    Questions are the same where session and qa_id are, and pools then name their session; where no
    session has two assistants, where qa_id and query are. ``show`` names fields of turns to keep.
    """
    conversations = (
        each for source in sources for each in source.each(partial(_turns, source, show))
    )
    turns = [*chain.from_iterable(conversations)]
    pairs = {(row["session_id"], row["doc_id"]) for _, row in turns}
    shared = len(pairs) > len({session for session, _ in pairs})
    groups = defaultdict[tuple[str, str], list[tuple[str, Row]]](list)
    for where, row in turns:
        groups[row["query_id"], row["session_id" if shared else "query"]].append((where, row))
    number = Counter(qa_id for qa_id, _ in groups)
    for (qa_id, _), group in groups.items():
        session = group[0][1]["session_id"]
        query_id = qa_id if number[qa_id] == 1 else f"{session}:{qa_id}"
        named = {"query_id": query_id, "session_id": session if shared else ""}
        rows = [(where, {**row, **named}) for where, row in group]
        query, documents = _query_of_rows(rows, Texts()), _documents_of_rows(rows, Texts())
        yield from make_pool(rows[0][0], query, documents, notes)


def _turns(source: Source, show: Sequence[str], number: int, row: Row) -> list[tuple[str, Row]]:
    """Return the turns of a conversation as rows of one document."""
    assistant, conversation = to_id(row.get("assistant_id")), row.get("conversation")
    if assistant is None or not isinstance(conversation, list):
        raise ValueError("needs assistant_id, and a conversation of qa_id and query")
    ids = {"session_id": to_id(row.get("session_id")) or "", "doc_id": assistant}
    turns: list[tuple[str, Row]] = []
    for turn in conversation:
        qa_id = to_id(turn.get("qa_id")) if isinstance(turn, Mapping) else None
        if qa_id is None or not isinstance(turn.get("query"), str):
            raise ValueError("a turn of its conversation has no qa_id or no query")
        texts = {"query": turn["query"], "content": turn.get("assistant")}
        texts["content"] = texts["content"] if isinstance(texts["content"], str) else ""
        fields = select_fields(turn, show)
        shown = {f"{_ABOUT}{name}": fields.get(name) for name in show}
        turns.append((source.where(number), {**ids, "query_id": qa_id, **texts, **shown}))
    return turns


def pools_of_mteb(source: Source, notes: Notes, show: Shown, prefix: str = "") -> Iterator[PoolRow]:
    """Yield pools of rows of a query (or texts that word it), positive and negative texts.

    The query of a row is called ``query1`` and so on, its documents ``query1-00001``, with a grade
    of 1 or 0. Their order is drawn by chance, the same each time, so that neither place nor id
    tells which are the positive ones.
    """
    ids = (f"{prefix}query{number}" for number in count(1))

    def read(_: int, row: Row) -> list[PoolRow]:
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
        about = select_fields(row, (*_DESCRIBED, *show.query))
        documents = (
            (query_id, {"id": f"{query_id}-{at:05}", "content": text, "grade": grade})
            for at, (text, grade) in enumerate(visible, 1)
        )
        pool = {"id": query_id, "query": to_text(query), **about}
        return [*make_pool(query_id, pool, documents, notes)]

    return chain.from_iterable(source.each(read))


class ShownFields:
    """The fields that queries and documents have, where judges are to be shown some."""

    def __init__(self, show: Shown) -> None:
        self.show = show
        self._names: dict[str, dict[str, None]] = {"query": {}, "document": {}}

    def add(self, about: Row, documents: Iterable[Document] = ()) -> None:
        """Note the fields of a query, and of its documents."""
        if self.show.query:
            self._names["query"] |= _names_with_text(about)
        for document in documents if self.show.document else ():
            fields = {name: str(value) for name, value in document.metadata.items()}
            self._names["document"] |= _names_with_text(fields)

    def check(self, source: str) -> None:
        """Refuse a field that no query, or no document, has."""
        for what, flag in {"query": "query", "document": "metadata"}.items():
            names = self._names[what]
            lacking = [n for n in getattr(self.show, what) if names and n not in names]
            if lacking:
                fields = [name for name in names if name not in {"", *LINE_FIELDS}]
                has = f"fields are {', '.join(fields)}" if fields else "they have none"
                near = did_you_mean(lacking[0], fields)
                lacks = f"no {what} has the field {lacking[0]!r} of --show-{flag}"
                raise OptionError(f"{source}: {lacks}; {has}{near}")


def _names_with_text(fields: Row) -> dict[str, None]:
    return {"": None} | {name: None for name, value in fields.items() if text_for_judges(value)}
