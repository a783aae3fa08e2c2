"""Runs and a truth without the queries themselves, where queries are documents, as in ArguAna."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.commands.bakeoff.outcome import Caution, Entry
from zelo_ray.errors import InputError
from zelo_ray.formats.input.collection import collection_at
from zelo_ray.formats.interchange.texts import by_id, read_texts
from zelo_ray.formats.own_query import is_same_text, left_out_of
from zelo_ray.formats.pools import Limits, read_lines


@dataclass(frozen=True, slots=True)
class Texts:
    """Places where the texts of documents and queries may be found."""

    shards: Callable[[], Sequence[str]]
    """gives the files of the pools, if there are any"""
    corpus: str | None = None
    queries: str | None = None
    truth: str = ""


def without_own_queries(
    truth: pa.Table, entries: Sequence[Entry], texts: Texts
) -> tuple[pa.Table, list[Caution]]:
    """Leave the query itself out of the truth and of all runs, which are changed.

    A document is the query itself where it has its id and its text, as `OwnQueries` has it. One
    whose text is another, or is not known, stays.

    Args:
        truth: query_id, doc_id and relevance.
        entries: the arms.
        texts: where they may be.

    Returns:
        The truth, and what was met.

    Raises:
        InputError: texts that are there cannot be read.
    """
    known = pc.unique(truth["query_id"])
    tables = [truth, *(entry.run for entry in entries)]
    met = {name for table in tables for name in _own_ids(table, known)}
    if not met:
        return truth, []
    same = _same(met, texts)
    for entry in entries:
        entry.run = _without(entry.run, same)
    own = [Caution("own_query", queries=len(same), of_queries=len(known))] if same else []
    if others := len(met - same):
        own.append(Caution("own_id", queries=others, of_queries=len(known)))
    return _without(truth, same), own


def _own_ids(table: pa.Table, known: pa.Array) -> list[str]:
    own = table.filter(pc.equal(table["query_id"], table["doc_id"]))["query_id"]
    ids: list[str] = pc.unique(own.filter(pc.is_in(own, known))).to_pylist()
    return ids


def _without(table: pa.Table, ids: set[str]) -> pa.Table:
    own = pc.equal(table["query_id"], table["doc_id"])
    return table.filter(
        pc.invert(pc.and_(own, pc.is_in(table["query_id"], pa.array(sorted(ids), pa.string()))))
    )


def _same(wanted: set[str], texts: Texts) -> set[str]:
    """Return the queries that are the document of the same id, as far as texts are known."""
    same, left = set[str](), set(wanted)
    for line in (line for shard in texts.shards() for line in read_lines(shard, Limits())):
        if line.pool is None or (name := line.pool.query_id) not in left:
            continue
        own = [each for each in line.pool.documents if each.id == name]
        if own or name in left_out_of(line.raw):
            left.discard(name)
            same |= {name} if not own or is_same_text(line.pool.query, own[0]) else set()
    corpus, queries = texts.corpus, texts.queries
    if not (corpus and queries):
        corpus = queries = _collection(texts.truth)
    if left and corpus and queries:
        asked = by_id(read_texts(queries, "queries", left))
        held = by_id(read_texts(corpus, "corpus", asked))
        same |= {name for name, each in held.items() if is_same_text(asked[name].content, each)}
    return same


def _collection(truth: str) -> str | None:
    """Return the folder of the collection that a truth belongs to; None if there is none."""
    place = truth.rstrip("/")
    for _ in range(3):
        try:
            if place and (found := collection_at(place)):
                return found.url
        except InputError:
            return None
        place = place.rpartition("/")[0]
    return None
