"""Remove queries from their own candidates, where queries are documents too, as in ArguAna."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.outcome import Caution, MeasuredRanker
from zelo_ray.errors import InputError
from zelo_ray.files.collections import has_part, index_by_id, read_texts
from zelo_ray.files.pools import LineLimits, is_same_text, read_lines
from zelo_ray.files.rows import open_source
from zelo_ray.files.storage import list_directory


@dataclass(frozen=True, slots=True)
class TextSources:
    """Places where the texts of documents and queries may be found."""

    shards: Callable[[], Sequence[str]]
    """returns the files of the pools, if there are any"""
    corpus: str | None = None
    queries: str | None = None
    truth: str = ""


def remove_own_queries(
    truth: pa.Table, entries: Sequence[MeasuredRanker], texts: TextSources
) -> tuple[pa.Table, list[Caution]]:
    """Remove each query's own document from the truth and from all runs, which are changed.

    A document is the query itself if it has the query's id and text, as in `pools.Line`. If its
    text differs or is unknown, it stays.

    Args:
        truth: query_id, doc_id and relevance.
        entries: the rankers.
        texts: where the texts may be found.

    Returns:
        The truth, and cautions about what was removed or kept.

    Raises:
        InputError: the texts cannot be read.
    """
    query_ids = pc.unique(truth["query_id"])
    tables = [truth, *(entry.run for entry in entries)]
    own_ids = {name for table in tables for name in _own_ids(table, query_ids)}
    if not own_ids:
        return truth, []
    same = _find_same_texts(own_ids, texts)
    for entry in entries:
        entry.run = _without(entry.run, same)
    cautions = [Caution("own_query", queries=len(same), of_queries=len(query_ids))] if same else []
    if others := len(own_ids - same):
        cautions.append(Caution("own_id", queries=others, of_queries=len(query_ids)))
    return _without(truth, same), cautions


def _own_ids(table: pa.Table, query_ids: pa.Array) -> list[str]:
    own_ids = table.filter(pc.equal(table["query_id"], table["doc_id"]))["query_id"]
    ids: list[str] = pc.unique(own_ids.filter(pc.is_in(own_ids, query_ids))).to_pylist()
    return ids


def _without(table: pa.Table, ids: set[str]) -> pa.Table:
    mask = pc.equal(table["query_id"], table["doc_id"])
    return table.filter(
        pc.invert(pc.and_(mask, pc.is_in(table["query_id"], pa.array(sorted(ids), pa.string()))))
    )


def _find_same_texts(wanted: set[str], texts: TextSources) -> set[str]:
    """Return the queries whose text is that of the document of the same id, where known."""
    same, pending_ids = set[str](), set(wanted)
    for line in (line for shard in texts.shards() for line in read_lines(shard, LineLimits())):
        if line.pool is None or (name := line.pool.query_id) not in pending_ids:
            continue
        if line.own_query:
            pending_ids.discard(name)
            same |= {name} if line.own_query == "left out" else set()
    corpus, queries = texts.corpus, texts.queries
    if not (corpus and queries):
        corpus = queries = _collection(texts.truth)
    if pending_ids and corpus and queries:
        query_texts = index_by_id(read_texts(queries, "queries", pending_ids), queries)
        held = index_by_id(read_texts(corpus, "corpus", query_texts), corpus)
        same |= {
            name
            for name, document in held.items()
            if is_same_text(query_texts[name].content, document)
        }
    return same


def _collection(truth: str) -> str | None:
    """Return the folder of the collection that a truth belongs to; None if there is none."""
    place = truth.rstrip("/")
    for _ in range(3 if place else 0):
        try:
            source = open_source(place) if list_directory(place) else None
            if source and has_part(source, "corpus") and has_part(source, "queries"):
                return place
        except InputError:
            return None
        place = place.rpartition("/")[0]
    return None
