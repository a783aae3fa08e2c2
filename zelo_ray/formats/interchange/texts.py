"""The texts of documents and queries, and pools made of them."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import orjson
from fsspec.core import has_magic

from zelo_ray.errors import InputError
from zelo_ray.files.storage import (
    decode_line,
    find_shards,
    is_jsonl,
    list_directory,
    open_for_writing,
    read_placed_lines,
    unpacked_name,
)
from zelo_ray.files.wording import counted, is_utf8, not_utf8_message
from zelo_ray.formats.columns import IDS, NAMES, is_called, normalize_name, value_of
from zelo_ray.formats.interchange.pooling import Candidates
from zelo_ray.formats.interchange.query_fields import other_fields, read_topics
from zelo_ray.formats.lossy_ids import refuse_lossy_id
from zelo_ray.formats.own_query import OwnQueries, left_out_field
from zelo_ray.formats.probe import FileProbe, probe
from zelo_ray.records import Document, Pool

_IDS: Mapping[str, str] = {"corpus": "doc_id", "queries": "query_id"}
_TEXTS: Mapping[str, tuple[str, ...]] = {
    "corpus": ("text", "contents", *NAMES["content"], *NAMES["query"]),
    "queries": ("text", "contents", "content", *NAMES["query"], *NAMES["content"]),
}
"""By part, what a text is called, the most telling first."""
_ENDINGS = (".tsv", ".jsonl", ".ndjson", ".parquet", ".csv", ".json")
_ALSO: Mapping[str, tuple[str, ...]] = {
    "corpus": ("docs", "documents", "collection"),
    "queries": ("topics",),
}
"""Other names of the parts of a collection."""
_LINE = 2
"""The cells of a line without a header: an id and a text."""
_UNNAMED: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FilledPools:
    """Pools, and notes on what was left out of them."""

    pools: list[Pool]
    notes: list[str]
    own_queries: frozenset[str] = frozenset()
    """queries that were left out of their own candidates"""


def read_texts(
    url: str,
    part: str,
    wanted: Container[str] | None = None,
    columns: Mapping[str, str] = _UNNAMED,
) -> Iterator[Document]:
    """Yield documents or queries, one at a time.

    Args:
        url: JSON lines or Parquet with an id (``_id``, ``id``, ``docid`` ...), a text (``text``,
            ``contents``, ``content``, ``query``) and perhaps a title; a table with such a head;
            lines ``id<TAB>text``; TREC topics; or a directory that holds such files by the name of
            ``part``.
        part: ``corpus`` or ``queries``.
        wanted: the ids to give; all if None.
        columns: columns with names of their own, by ``id``, ``text`` and ``title``.

    Yields:
        A title stands before the text, on a line of its own (unless the text begins with it), and
        in the metadata. That of a query are the other fields of its row.

    Raises:
        InputError: a line has no id or no text.
    """
    made = _query if part == "queries" else _document
    for file in _files(url, part):
        source = probe(file)
        if _is_table(source, part, columns.values()):
            for place, row in source.rows():
                doc_id = _id(place, row, part, columns.get("id", ""))
                doc_id = doc_id.strip() if source.texts_alone else doc_id
                if wanted is None or doc_id in wanted:
                    yield made(place, doc_id, row, columns)
        elif source.kind == "topics":
            yield from (t for t in read_topics(file) if wanted is None or t.id in wanted)
        else:
            for place, line in read_placed_lines(file):
                id_, tab, text = decode_line(place, line).partition("\t")
                if not tab:
                    raise InputError(f"{place}: has no tab; a line is id<TAB>text")
                if wanted is None or id_ in wanted:
                    yield Document(id_, text)


def columns_in(url: str, part: str, columns: Collection[str]) -> list[str]:
    """Return the columns of such texts, as far as the first row of the first file shows them."""
    sources = map(probe, _files(url, part)[:1])
    return [name for s in sources if _is_table(s, part, columns) for name in s.names]


def _is_table(source: FileProbe, part: str, columns: Iterable[str] = ()) -> bool:
    """Return whether a file has columns with names, rather than lines of ``id<TAB>text``.

    A header of two words may be a line of an id and a text: only known names tell. That of the id
    does where it stands first or has two neighbours, whatever the text is called.
    """
    if source.form == "broken":
        return is_jsonl(source.place)
    if source.form != "cells" or unpacked_name(source.place).endswith(".csv"):
        return source.has_rows
    has_id = any(_is_id(name, part) for name in source.names)
    has_text = any(
        normalize_name(name) in map(normalize_name, _TEXTS[part]) for name in source.names
    )
    has_head = has_text or len(source.names) > _LINE or _is_id(source.names[0], part)
    return (has_id and has_head) or not {*source.names}.isdisjoint(columns)


def _is_id(name: str, part: str) -> bool:
    return name in IDS or any(is_called(name, role) for role in (_IDS[part], *_IDS.values()))


def find_parts(url: str, part: str, split: str = "test") -> list[str]:
    """Find the files of one part of a collection: ``part.jsonl``, or those in ``part/``.

    A corpus may be called docs, documents or collection, and queries topics.

    Raises:
        InputError: there is none, or several splits and none of this name.
    """
    usual, url = (part, *_ALSO.get(part, ())), url.rstrip("/")
    stems = {name.split(".")[0] for name in list_directory(url) or ()}
    if stems.isdisjoint(usual) and (itself := url.rpartition("/"))[2] in usual:
        return _parts(itself[0] or ".", itself[2], split)
    return _parts(url, next((name for name in usual if name in stems), part), split)


def _files(url: str, part: str) -> list[str]:
    """Return the files of texts at a place: a file, the parts of a folder, or a glob's matches."""
    if list_directory(url) is not None:
        return find_parts(url, part)
    return find_shards([url]) if has_magic(url) else [url]


def _parts(url: str, part: str, split: str) -> list[str]:
    """Find the files of a part by its exact name.

    Raises:
        InputError: there is none, or several splits and none of this name.
    """
    root, entries = url.rstrip("/"), list_directory(url.rstrip("/")) or ()
    for ending in _ENDINGS:
        if matches := [name for name in entries if unpacked_name(name) == f"{part}{ending}"]:
            return [f"{root}/{matches[0]}"]
    inside = list_directory(f"{root}/{part}") or []
    shown = [name for name in inside if not name.startswith(".")]
    if odd := next((name for name in shown if not is_utf8(name)), ""):
        raise InputError(not_utf8_message(f"{root}/{part}/{odd}"))
    once = dict[str, str]()  # by its first part: a file in two forms is read in one
    for ending in _ENDINGS:
        for name in (name for name in shown if unpacked_name(name).endswith(ending)):
            once.setdefault(name.split(".")[0], name)
    files = sorted(once.values())
    splits = {name.split(".")[0].split("-")[0] for name in files}
    if len(splits) > 1 and split not in splits:
        raise InputError(
            f"{root}/{part}: has no split {split}; name one file there ({', '.join(files)})"
        )
    if files:
        return [f"{root}/{part}/{n}" for n in files if len(splits) == 1 or n.startswith(split)]
    names = ", ".join(f"{part}{ending}" for ending in _ENDINGS)
    raise InputError(f"{root}: holds none of {names}, {part}/")


def make_filled_pools(
    candidates: Candidates, queries: Mapping[str, Document], texts: Iterable[Document]
) -> FilledPools:
    """Make pools of candidates, in their order.

    A document keeps the ranks that runs gave it in its metadata. The query itself (see
    `OwnQueries`) is left out, and noted. What has no text (or one that no
    judge could be shown: blank, or with a NUL in it) is left out, and noted.

    Args:
        candidates: by query and document, in order.
        queries: by id, as `read_texts` gives them.
        texts: the documents; those that no query wants are passed over.
    """
    wanted = {doc_id for ranks in candidates.values() for doc_id in ranks}
    corpus = index_by_id(document for document in texts if document.id in wanted)
    shown = {doc_id for doc_id, document in corpus.items() if has_visible_text(document.content)}
    pools, own_queries = [], OwnQueries()
    for query_id, ranks in candidates.items():
        query = queries.get(query_id)
        if query and has_visible_text(query.content):
            documents = (
                _ranked(corpus[d], ranks[d])
                for d in ranks
                if d in shown
                and not own_queries.check_candidate(query_id, query.content, corpus[d])
            )
            pool = Pool(query_id, query.content, tuple(documents), about=query.metadata)
            pools.append(pool)
    query_ids = {pool.query_id for pool in pools}
    wanted = {doc_id for query_id in query_ids for doc_id in candidates[query_id]}
    lines = [
        describe_left_out("queries without a text", [q for q in candidates if q not in query_ids]),
        describe_left_out(
            "documents that the corpus lacks", sorted(wanted - corpus.keys()), len(wanted)
        ),
        describe_left_out("documents with an empty text", sorted(wanted & corpus.keys() - shown)),
    ]
    notes = [*own_queries.notes(), *(line for line in lines if line)]
    return FilledPools(pools, notes, frozenset(own_queries.same))


def index_by_id(texts: Iterable[Document]) -> dict[str, Document]:
    """Index documents or queries by id; of two that differ in metadata alone, keep the first.

    Raises:
        InputError: two of one id have different texts.
    """
    documents: dict[str, Document] = {}
    for document in texts:
        if documents.setdefault(document.id, document).content != document.content:
            raise InputError(f"the id {document.id!r} has two different texts: drop one of them")
    return documents


def write_lines(url: str, of: Iterable[bytes]) -> int:
    """Write lines; return how many."""
    written = 0
    with open_for_writing(url) as file:
        for line in of:
            file.write(line + b"\n")
            written += 1
    return written


def pool_line(pool: Pool, own_fields: Collection[str] = ()) -> bytes:
    """Return a pool as an input line, with its session if it is a turn of one.

    Args:
        pool: to write.
        own_fields: the queries that were left out of their own candidates.
    """
    session = {"session_id": pool.session_id} if pool.session_id else {}
    documents = [document_row(document) for document in pool.documents]
    left_out = left_out_field(pool.query_id, own_fields)
    return orjson.dumps({**session, "query": query_row(pool), "documents": documents, **left_out})


def pool_row(pool: Pool, own_queries: Collection[str] = ()) -> dict[str, Any]:
    """Return a pool as an object of an input line, with its session in its query."""
    session = {"session_id": pool.session_id} if pool.session_id else {}
    documents = [document_row(document) for document in pool.documents]
    left_out = left_out_field(pool.query_id, own_queries)
    return {"query": {**query_row(pool), **session}, "documents": documents, **left_out}


def query_row(pool: Pool) -> dict[str, Any]:
    """Return a pool's query as an object of an input line, without its session."""
    fields = {"id": pool.query_id, "query": pool.query}
    return {**fields, **pool.about, **fields}


def document_row(document: Document) -> dict[str, Any]:
    """Return a document as an object of an input line."""
    row: dict[str, Any] = {"id": document.id, "content": document.content}
    return row | ({"metadata": dict(document.metadata)} if document.metadata else {})


def with_title(doc_id: str, title: str, text: str) -> Document:
    """Build a document from a title and a text, as `read_texts` does."""
    if not title.strip():
        return Document(doc_id, text)
    content = text if text.startswith(title) else f"{title}\n{text}".rstrip("\n")
    return Document(doc_id, content, {"title": title})


def without_title(document: Document) -> tuple[str, str]:
    """Split a document into the title and the text that `with_title` joined."""
    title = document.metadata.get("title")
    if not isinstance(title, str):
        return "", document.content
    return title, document.content.removeprefix(f"{title}\n")


def _ranked(document: Document, ranks: dict[str, int]) -> Document:
    metadata = {**document.metadata, "ranks": ranks} if ranks else document.metadata
    return Document(document.id, document.content, metadata)


def has_visible_text(text: str) -> bool:
    """Return whether a judge can be shown a text: it is not blank and has no NUL."""
    return bool(text.strip()) and "\0" not in text


def describe_left_out(what: str, ids: list[str], of: int = 0) -> str:
    """Describe what was left out, and of how many documents; return "" if nothing was."""
    shown = ", ".join(ids[:3]) + (" ..." if len(ids) > 3 else "")
    more = f" of {counted(of, 'document')}" if of else ""
    return f"left out {what}: {len(ids):,}{more} ({shown})" if ids else ""


def _id(place: str, row: Mapping[str, Any], part: str, column: str) -> str:
    value = row.get(column) if column else None
    value = next((row[name] for name in IDS if name in row), None) if value is None else value
    for role in (_IDS[part], *_IDS.values()):
        value = value_of(row, role) if value is None else value
    refuse_lossy_id(place, "the id", value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str | int):
        header = ", ".join(row)
        raise InputError(
            f"{place}: has no id ({', '.join((*IDS, _IDS[part]))} ...); it has {header}: name it, "
            "such as --columns doc_id=NAME, or query_id=NAME of queries"
        )
    return str(value)


def _document(
    place: str, doc_id: str, row: Mapping[str, Any], columns: Mapping[str, str]
) -> Document:
    return _make(place, doc_id, row, columns, "corpus")


def _make(
    place: str, doc_id: str, row: Mapping[str, Any], columns: Mapping[str, str], part: str
) -> Document:
    """Build a document or a query of a row; a text that is null is empty."""
    name = _text_column(row, columns.get("text", ""), part)
    text = row[name] if name else None
    if isinstance(text, list) and all(isinstance(part, str) for part in text):
        text = "\n".join(text)
    text = "" if text is None and name else text
    title = (row[columns["title"]] if columns.get("title") in row else value_of(row, "title")) or ""
    if not isinstance(text, str) or not isinstance(title, str):
        raise InputError(
            f"{place}: has no text ({', '.join(dict.fromkeys(_TEXTS[part]))}); it has "
            f"{', '.join(row)}: name it, such as --columns content=NAME, or query=NAME of queries"
        )
    return with_title(doc_id, title, text)


def _text_column(row: Mapping[str, Any], named: str, part: str) -> str:
    """Return the column of the text: the first usual one that is not null, or else one that is."""
    by_name = {normalize_name(name): name for name in reversed([*row])}
    usual = [by_name[n] for n in map(normalize_name, _TEXTS[part]) if n in by_name]
    names = [name for name in (named, *usual) if name in row]
    return next((name for name in names if row[name] is not None), names[0] if names else "")


def _query(place: str, query_id: str, row: Mapping[str, Any], named: Mapping[str, str]) -> Document:
    """Build a query with the other fields of its row; its text may be in ``title``, as in TREC."""
    text = _text_column(row, named.get("text", ""), "queries")
    if not text or row[text] is None:
        text = "title" if row.get("title") is not None else text
    left_out = {text, "title", "metadata", named.get("id", "")}
    left_out |= {name for name in row if _is_id(name, "queries") and str(row[name]) == query_id}
    content = _make(place, query_id, row, {**named, "text": text}, "queries").content
    return Document(query_id, content, other_fields(row, left_out))
