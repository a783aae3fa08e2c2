"""Texts by id, and folders that hold them: BEIR's, MTEB's and Hugging Face's; ir_datasets' names.

    corpus.jsonl      {"_id", "title", "text"}
    queries.jsonl     {"_id", "text", "metadata"?}
    qrels/test.tsv    query-id, corpus-id and score under a header
    top_ranked.jsonl  {"query-id", "corpus-ids"}: the candidates of each query, where there are any

Each part may be JSON lines, Parquet or a table, one file or a folder of them. Of several splits it
is the one called test.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from fsspec.core import has_magic

from zelo_ray.errors import InputError, OutputError
from zelo_ray.files.make_pools import other_fields, with_title
from zelo_ray.files.pools import Line, is_same_text, write_lines
from zelo_ray.files.rows import (
    BEIR_QRELS,
    CORPUS_NAMES,
    DATASET,
    QUERIES_NAMES,
    Row,
    Source,
    open_source,
    stem,
)
from zelo_ray.files.schema import IDS, role_of, to_id, to_text
from zelo_ray.files.storage import find_shards, list_directory, unpacked_name
from zelo_ray.files.trec import format_numbers
from zelo_ray.records import Document, Pool

Part = Literal["corpus", "queries", "qrels", "top_ranked"]
_ALSO: Mapping[str, tuple[str, ...]] = {"corpus": CORPUS_NAMES, "queries": QUERIES_NAMES}
_ENDINGS = (".tsv", ".jsonl", ".ndjson", ".parquet", ".csv", ".json", ".qrels", ".trec", ".txt")
_RUNS = (".run", ".trec", ".res")


def find_part(folder: str, part: Part) -> list[str]:
    """Find the files of one part of a collection: ``part.jsonl``, or those in ``part/``."""
    root, usual = folder.rstrip("/"), _ALSO.get(part, (part,))
    names = list_directory(root) or []
    named = [name for word in usual for name in names if stem(name) == word]
    if one := [name for name in named if unpacked_name(name).endswith(_ENDINGS)]:
        return [f"{root}/{one[0]}"]
    is_itself = not named and root.rpartition("/")[2] in usual
    place = root if is_itself else f"{root}/{named[0]}" if named else f"{root}/{part}"
    every = (name for name in list_directory(place) or () if name[0] != ".")
    files = [name for name in every if unpacked_name(name).endswith(_ENDINGS)]
    splits = {re.split("[-.]", name)[0] for name in files}
    if not files:
        raise InputError(f"{root}: holds neither {part}.jsonl (.tsv, .parquet ...) nor {part}/")
    if len(splits) > 1 and "test" not in splits:
        raise InputError(f"{place}: no split is called test: name one, {' or '.join(files)}")
    return [f"{place}/{n}" for n in files if len(splits) == 1 or n.startswith("test")]


def read_texts(
    place: str,
    part: Literal["corpus", "queries"],
    wanted: Container[str] | None = None,
    columns: Mapping[str, str] | None = None,
) -> dict[str, Document]:
    """Read the documents or queries of a file or a collection by id; all if none are wanted.

    Tables have an id and a text, and perhaps a title, which stands before the text; lines may be
    ``id<TAB>text``. The metadata of a query are the other fields of its row.
    """
    return index_by_id(iter_texts(place, part, wanted, columns), place)


def iter_texts(
    place: str, part: str, wanted: Container[str] | None, columns: Mapping[str, str] | None
) -> Iterator[Document]:
    """Yield the same one at a time, as they stand there."""
    if place.startswith(DATASET):
        yield from _texts_of_dataset(load_dataset(place), part, wanted)
        return
    user = columns if columns is not None else {}
    if list_directory(place) is not None:
        files = find_part(place, "corpus" if part == "corpus" else "queries")
    else:
        files = find_shards([place]) if has_magic(place) else [place]
    for file in files:
        source = open_source(file, user)
        every: Iterable[Document]
        if source.names and not _is_headless(source):
            every = _texts_of_table(source, part)
        elif source.kind in ("text", "table"):
            every = _texts_of_lines(source)
        else:
            source.refuse("texts with ids")
        yield from (text for text in every if wanted is None or text.id in wanted)


def _is_headless(source: Source) -> bool:
    """Return whether lines begin without a header, as id<TAB>text may: only known names tell."""
    if source.separator == " ":  # texts that look like TREC's lines
        return True
    if not source.separator or unpacked_name(source.place).endswith(".csv"):
        return False
    roles = {*map(role_of, source.names)}
    has_id = bool(roles & {"doc_id", "query_id"}) or not {*IDS}.isdisjoint(source.names)
    has_text = bool(roles & {"content", "query"})
    first_is_id = role_of(source.names[0]) in ("doc_id", "query_id") or source.names[0] in IDS
    is_header = has_id and (has_text or first_is_id or len(source.names) > 2)
    return not (is_header or {*source.columns.values()} & {*source.names})


def _texts_of_table(source: Source, part: str) -> Iterator[Document]:
    own = ("doc_id", "query_id") if part == "corpus" else ("query_id", "doc_id")
    roles = source.roles("title", "query", *own)
    is_plain = "text" in source.names and "content" not in source.columns
    is_beir = is_plain and "_id" in source.names and "query" not in source.columns
    texts = ("content", "query") if part == "corpus" or is_beir else ("query", "content")
    roles |= {"content": "text"} if is_plain else source.roles("content")
    ids = [roles[role] for role in own if role in roles]
    if not {*own} & source.columns.keys():
        ids = [*(name for name in IDS if name in source.names), *ids]
    names = [roles[role] for role in texts if role in roles]
    if part == "queries" and "title" in roles:  # as TREC's topics
        names.append(roles["title"])
    if not ids or not names:
        source.refuse(f"{part} of an id and a text")
    id_name, title_name = ids[0], roles.get("title", "")

    def read(_: int, row: Row) -> Document:
        name = next((n for n in names if row.get(n) is not None), names[0])
        id_, text, title = to_id(row.get(id_name)), to_text(row.get(name)), row.get(title_name)
        if id_ is None:
            raise ValueError(f"has no {id_name}")
        id_ = id_.strip() if source.separator else id_
        if part == "corpus":
            return with_title(id_, to_text(title) or "", text or "")
        return Document(id_, text or "", other_fields(row, {id_name, name, "title"}))

    return source.each(read)


def _texts_of_lines(source: Source) -> Iterator[Document]:
    for number, line in source.texts():
        id_, tab, text = line.partition("\t")
        if not tab:
            raise InputError(f"{source.where(number)}: has no tab; a line is id<TAB>text")
        yield Document(id_, text)


def index_by_id(texts: Iterable[Document], place: str = "") -> dict[str, Document]:
    """Index documents or queries of a place by id; one that comes again must have its text."""
    documents: dict[str, Document] = {}
    for document in texts:
        if documents.setdefault(document.id, document).content != document.content:
            raise InputError(f"{place}: the id {document.id!r} has two different texts")
    return documents


def runs_of_collection(source: Source) -> list[str]:
    """Return the files of a collection that are runs."""
    if source.place.startswith(DATASET):
        return [source.place] if hasattr(load_dataset(source.place), "scoreddocs_iter") else []
    names = [n for n in source.names if stem(n) != "qrels"]
    runs = [n for n in names if stem(n) == "scoreddocs" or unpacked_name(n).endswith(_RUNS)]
    return [f"{source.place.rstrip('/')}/{name}" for name in runs]


def has_part(source: Source, part: Part) -> bool:
    """Return whether a collection has a part."""
    return any(stem(name) in _ALSO.get(part, (part,)) for name in source.names)


def top_ranked(source: Source) -> dict[str, dict[str, dict[str, int]]]:
    """Read the candidates of each query, in their order."""

    def read(_: int, row: Row) -> tuple[str, dict[str, dict[str, int]]]:
        query_id, ids = to_id(row.get("query-id")), row.get("corpus-ids")
        doc_ids = [*map(to_id, ids)] if isinstance(ids, list) else [None]
        if query_id is None or None in doc_ids:
            raise ValueError("needs query-id and a list of corpus-ids")
        return query_id, {str(doc_id): {} for doc_id in doc_ids}

    tables = map(open_source, find_part(source.place, "top_ranked"))
    return dict(chain.from_iterable(table.each(read) for table in tables))


def load_dataset(place: str) -> Any:
    """Load a data set of ``ir_datasets`` by its name, such as ir_datasets:beir/nfcorpus/test."""
    try:
        return import_module("ir_datasets").load(place.removeprefix(DATASET))
    except ImportError:
        raise InputError(f"{place}: needs the extra: pip install 'zelo-ray[ir-datasets]'") from None
    except KeyError:
        raise InputError(
            f"{place}: ir_datasets has no such data set; ir_datasets list names them all"
        ) from None


def _texts_of_dataset(dataset: Any, part: str, wanted: Container[str] | None) -> Iterator[Document]:
    if part == "corpus":
        for doc in dataset.docs_iter():
            if wanted is None or doc.doc_id in wanted:
                yield Document(doc.doc_id, _text(doc, "doc_id"))
        return
    for query in dataset.queries_iter():
        text = _text(query, "query_id")
        names = [n for n in getattr(query, "_fields", ()) if n != "query_id"]
        fields = {n: getattr(query, n) for n in names if getattr(query, n) != text}
        yield Document(query.query_id, text, other_fields(fields, ()))


def _text(record: Any, id_field: str) -> str:
    """Return a record's default text, or else all its texts but its id, line by line."""
    if hasattr(record, "default_text"):
        return str(record.default_text())
    values = (getattr(record, name) for name in record._fields if name != id_field)
    return "\n".join(value for value in values if isinstance(value, str) and value.strip())


def write_collection(url: str, pools: Sequence[Pool], qrels: pa.Table) -> None:
    """Write a collection of BEIR's form: the documents of the pools, their order, the judgments."""
    root = url.rstrip("/")
    documents = index_by_id(chain.from_iterable(pool.documents for pool in pools), url)
    for name in ("query_id", "doc_id"):
        odd = qrels[name].filter(pc.match_substring_regex(qrels[name], r'[\t\r\n"]|^$'))
        if len(odd):
            raise OutputError(f"{url}: the {name} {odd[0].as_py()!r} cannot stand in a TSV file")
    scores = format_numbers(url, qrels["relevance"])
    cells = pc.binary_join_element_wise(qrels["query_id"], qrels["doc_id"], scores, "\t")
    lines = ["\t".join(BEIR_QRELS), *cells.to_pylist()]
    write_lines(f"{root}/qrels/test.tsv", map(str.encode, lines))
    for name, rows in {
        "corpus": map(_corpus_row, documents.values()),
        "queries": (
            {"_id": pool.query_id, "text": pool.query}
            | ({"metadata": dict(pool.about)} if pool.about else {})
            for pool in pools
        ),
        "top_ranked": (
            {"query-id": pool.query_id, "corpus-ids": [d.id for d in pool.documents]}
            for pool in pools
        ),
    }.items():
        write_lines(f"{root}/{name}.jsonl", map(orjson.dumps, rows))


def _corpus_row(document: Document) -> dict[str, str]:
    title = document.metadata.get("title")
    title = title if isinstance(title, str) else ""
    text = document.content.removeprefix(f"{title}\n") if title else document.content
    return {"_id": document.id, "title": title, "text": text}


# --- queries that are documents too, as in ArguAna ------------------------------------------------


def find_own_queries(
    tables: Iterable[pa.Table],
    query_ids: Sequence[str],
    lines: Iterable[Line],
    collection: tuple[str, str] | None,
) -> tuple[set[str], set[str]]:
    """Return the queries that are documents of their own, by id and text, and by id alone."""
    own_ids, known = set[str](), pa.array(query_ids, pa.string())
    for table in tables:
        found = table.filter(pc.equal(table["query_id"], table["doc_id"]))["query_id"]
        own_ids |= {*found.filter(pc.is_in(found, known)).to_pylist()}
    same, pending = set[str](), set(own_ids)
    for line in lines if own_ids else ():
        if line.pool and line.own_query and line.pool.query_id in pending:
            pending.discard(line.pool.query_id)
            same |= {line.pool.query_id} if line.own_query == "left out" else set()
    if pending and collection:
        corpus, queries = collection
        texts = read_texts(queries, "queries", pending)
        documents = read_texts(corpus, "corpus", texts)
        same |= {n for n, each in documents.items() if is_same_text(texts[n].content, each)}
    return same, own_ids - same


def without_own_queries(table: pa.Table, ids: set[str]) -> pa.Table:
    """Return a table without the documents that are these queries."""
    own = pc.equal(table["query_id"], table["doc_id"])
    chosen = pc.is_in(table["query_id"], pa.array(sorted(ids), pa.string()))
    return table.filter(pc.invert(pc.and_(own, chosen)))


def find_collection(truth: str) -> tuple[str, str] | None:
    """Return the folder of the collection that a truth is or lies in, twice; None without one."""
    place = truth.rstrip("/")
    for _ in range(3):
        try:
            source = open_source(place) if place and list_directory(place) else None
        except InputError:
            return None
        if source and has_part(source, "corpus") and has_part(source, "queries"):
            return place, place
        place = place.rpartition("/")[0]
    return None
