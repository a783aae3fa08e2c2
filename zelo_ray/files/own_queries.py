"""Find queries among their own candidates, where queries are documents too, as in ArguAna."""

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.errors import InputError
from zelo_ray.files.collections import has_part, read_texts
from zelo_ray.files.pools import Line, is_same_text
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import list_directory


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
