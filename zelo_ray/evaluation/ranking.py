"""Rank runs against a truth: who judged what, and what stands where, as padded matrices."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

BLOCK_CELLS = 2**17  # documents of the queries in one block: a megabyte, which stays in cache
MISSING = 2**31  # the level of a judged document that the run lacks: below all others, tied


class Truth:
    """Qrels whose rows can be found by query and document.

    ``query_ids`` are in the order of their first appearance. Of each row there are ``query``, a
    place in them; ``doc_ids``, an Arrow array; ``relevance``; and ``std_error``, NaN if unknown.
    """

    def __init__(self, qrels: pa.Table) -> None:
        """Encode a table with the columns of `records.Qrel`; it may lack standard errors.

        Raises:
            InputError: a pair occurs twice, or a relevance is not finite.
        """
        queries, self.doc_ids = ids = _ids_of(qrels)
        self.relevance = _numbers(qrels, "relevance")
        self.std_error = np.full(len(self.relevance), np.nan)
        if "std_error" in qrels.column_names:
            self.std_error = _numbers(qrels, "std_error")
        encoded, documents = queries.dictionary_encode(), self.doc_ids.dictionary_encode()
        self.query_ids: list[str] = encoded.dictionary.to_pylist()
        self.query: Ints = encoded.indices.to_numpy().astype(np.int64)
        self._documents = documents.dictionary
        keys = self.query * max(1, len(self._documents)) + documents.indices.to_numpy()
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]
        repeated = self._order[1:][np.diff(self._sorted) == 0]
        _refuse(repeated, ids, "is judged twice")
        _refuse(np.flatnonzero(~np.isfinite(self.relevance)), ids, "has no finite relevance")

    @cached_property
    def kind(self) -> Literal["scores", "grades", "binary"]:
        """Return the kind: scores have negative fractions, or go below -2, TREC's lowest grade."""
        below = self.relevance[self.relevance < 0]
        if (below != np.floor(below)).any() or (below < -2).any():
            return "scores"
        is_integer = (self.relevance == np.floor(self.relevance)).all()
        return "binary" if is_integer and self.relevance.max(initial=0) <= 1 else "grades"

    def labels(self, query: int) -> dict[str, float]:
        """Return the relevance of the judged documents of a query, for the query's place."""
        rows = np.flatnonzero(self.query == query)
        names = self.doc_ids.take(pa.array(rows)).to_pylist()
        return dict(zip(names, self.relevance[rows].tolist(), strict=True))

    def find_rows(self, query: Ints, codes: Ints, doc_ids: pa.Array) -> Ints:
        """Return the rows of queries and documents (places in ``doc_ids``); -1 if unjudged."""
        if not len(self._sorted):
            return np.full(len(query), -1, np.int64)
        numbers = pc.index_in(doc_ids, value_set=self._documents).fill_null(-1)
        documents = numbers.to_numpy(zero_copy_only=False)[codes]
        keys = query * max(1, len(self._documents)) + documents
        at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where((self._sorted[at] == keys) & (documents >= 0), self._order[at], -1)


@dataclass(frozen=True, slots=True)
class Block:
    """Some queries of a truth and a run: matrices of rows of the truth, where -1 is none.

    ``queries`` are their places in the truth, and ``retrieved`` how many documents the run has.
    ``rows`` has the document at each rank, ``judged`` all judged ones in the order of their levels,
    and ``level`` the first rank, from 0, of those that are tied with each of them.
    """

    queries: Ints
    retrieved: Ints
    rows: Ints
    judged: Ints
    level: Ints


@dataclass(frozen=True)
class Ranking:
    """The documents of a run in their order, for each query of a truth.

    ``counts`` are how many documents the run has, [queries of the truth], and ``rows`` the truth's
    row of each ranked document, query after query; -1 if unjudged. ``doc_ids`` are of the whole
    run; those ranked stand at ``positions``.
    """

    truth: Truth
    blocks: tuple[Block, ...]
    counts: Ints
    rows: Ints
    doc_ids: Any
    positions: Ints

    @cached_property
    def answered(self) -> Bools:
        """Return for each query of the truth whether the run has it."""
        return self.counts > 0

    @cached_property
    def places(self) -> Ints:
        """Return the place of each ranked document among those of its query, from 0."""
        starts = np.cumsum(self.counts) - self.counts
        return np.arange(self.counts.sum()) - np.repeat(starts, self.counts)

    @cached_property
    def queries(self) -> Ints:
        """Return the place in the truth of each ranked document's query."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def ids(self, at: Ints) -> Any:
        """Return the ids of some ranked documents, as an Arrow array."""
        return self.doc_ids.take(pa.array(self.positions[at]))

    def documents(self, query: int) -> list[str]:
        """Return the ids of a query's documents, best first, for the query's place."""
        ids: list[str] = self.ids(np.flatnonzero(self.queries == query)).to_pylist()
        return ids

    def unjudged(self, depth: int) -> list[tuple[str, str, int]]:
        """Return query, document and rank, from 1, of unjudged documents up to a depth."""
        at = np.flatnonzero((self.rows < 0) & (self.places < depth))
        names = [self.truth.query_ids[query] for query in self.queries[at]]
        return [*zip(names, self.ids(at).to_pylist(), (self.places[at] + 1).tolist(), strict=True)]


def rank_run(truth: Truth, run: pa.Table) -> Ranking:
    """Order the documents of a run by score; equal ones by doc_id, descending, as trec_eval does.

    ``run`` has the columns of `records.Ranked`, rows in any order.

    Raises:
        InputError: a pair occurs twice, or a score is not finite.
    """
    query_ids, doc_ids = ids = _ids_of(run)
    scores = _numbers(run, "score")
    _refuse(np.flatnonzero(~np.isfinite(scores)), ids, "has no finite score")
    numbers = pc.index_in(query_ids, value_set=pa.array(truth.query_ids, query_ids.type))
    places = np.asarray(numbers.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    entries = np.flatnonzero(places >= 0)
    query, documents = places[entries], doc_ids.dictionary_encode()
    codes = documents.indices.to_numpy()[entries].astype(np.int64)
    keys = query * max(1, len(documents.dictionary)) + codes
    by_key = np.argsort(keys, kind="stable")
    repeated = by_key[1:][np.diff(keys[by_key]) == 0]
    _refuse(entries[repeated], ids, "is ranked twice")
    limit = np.finfo(np.float32).max
    singles = np.clip(scores[entries], -limit, limit).astype(np.float32)
    order = np.lexsort((-singles, query))
    ties = np.zeros(len(order), np.bool_)  # with the one before
    ties[1:] = (np.diff(query[order]) == 0) & (np.diff(singles[order]) == 0)
    if ties.any():  # UTF-8 sorts alike by bytes, as trec_eval's strcmp does, and by characters
        tied = np.flatnonzero(ties | np.append(ties[1:], False))
        names = doc_ids.take(pa.array(entries[order[tied]]))
        ranks = pc.rank(names, sort_keys="descending", tiebreaker="dense").to_numpy()
        order[tied] = order[tied[np.lexsort((ranks, np.cumsum(~ties)[tied]))]]
    query, codes = query[order], codes[order]
    rows = truth.find_rows(query, codes, documents.dictionary)
    counts = np.bincount(query, minlength=len(truth.query_ids))
    level = np.maximum.accumulate(np.where(ties, 0, np.arange(len(order))))
    level -= np.repeat(np.cumsum(counts) - counts, counts)
    blocks = tuple(_blocks(truth, rows, counts, level))
    return Ranking(truth, blocks, counts, rows, doc_ids, entries[order])


def _blocks(truth: Truth, rows: Ints, counts: Ints, level: Ints) -> Iterator[Block]:
    """Group queries whose lists have lengths within the same powers of two, to pad little."""
    levels = np.full(len(truth.query), MISSING)
    levels[rows[rows >= 0]] = level[rows >= 0]
    judged = np.lexsort((levels, truth.query))
    widths = np.bincount(truth.query, minlength=len(counts))
    kind = np.ceil(np.log2(np.maximum(counts, 1))) * 64 + np.ceil(np.log2(widths))
    order = np.lexsort((widths, counts, kind))
    for alike in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1):
        cells = int((counts[alike] + widths[alike]).max(initial=0)) * len(alike)
        for queries in np.array_split(alike, -(-cells // BLOCK_CELLS)) if cells else ():
            yield Block(
                queries=queries,
                retrieved=counts[queries],
                rows=_pad(rows, counts, queries),
                judged=_pad(judged, widths, queries),
                level=_pad(levels[judged], widths, queries),
            )


def _pad(flat: Ints, counts: Ints, queries: Ints) -> Ints:
    """Return the entries of some queries as a matrix, padded with -1."""
    columns = np.arange(counts[queries].max(initial=1))
    inside = columns < counts[queries, np.newaxis]
    starts = (np.cumsum(counts) - counts)[queries, np.newaxis]
    padded = np.full(inside.shape, -1, np.int64)
    padded[inside] = flat[(starts + columns)[inside]]
    return padded


def count_cells(shape: tuple[int, ...], *places: Ints, weights: Floats | None = None) -> Any:
    """Count rows by their places along each axis of a table of this shape."""
    cells = np.ravel_multi_index(places, shape)
    return np.bincount(cells, weights, prod(shape)).reshape(shape)


def encode_texts(column: pa.ChunkedArray) -> tuple[list[str], Ints]:
    """Return the texts of a column as they first appear, and each row's place among them."""
    encoded = column.combine_chunks().dictionary_encode()
    places = encoded.indices.to_numpy(zero_copy_only=False)
    return encoded.dictionary.to_pylist(), places.astype(np.int64)


def rank_texts(column: pa.ChunkedArray) -> Ints:
    """Return each row's place among the sorted texts of a column, from 0."""
    ranks = pc.rank(column.combine_chunks(), tiebreaker="dense")
    return np.asarray(ranks.to_numpy(), np.int64) - 1


def _ids_of(table: pa.Table) -> list[Any]:
    """Return query and document ids, with long offsets: they can take more than 2 GB together."""
    columns = (table[name].cast(pa.large_string()) for name in ("query_id", "doc_id"))
    return [column.combine_chunks() for column in columns]


def _numbers(table: pa.Table, name: str) -> Floats:
    return np.asarray(table[name].to_numpy(), np.float64)


def _refuse(rows: Ints, ids: Sequence[Any], why: str) -> None:
    for row in rows.tolist():
        query_id, doc_id = (column[row].as_py() for column in ids)
        raise InputError(f"document {doc_id!r} of query {query_id!r} {why}")
