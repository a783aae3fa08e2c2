"""Rank a run against a truth, as padded matrices that measures can work on in parallel."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.evaluation.measures.columns import Ints, read_numbers, read_texts
from zelo_ray.evaluation.measures.lists import Block, tie_bounds
from zelo_ray.evaluation.measures.truth import Truth

BLOCK_CELLS = 2**17
"""Documents of the queries in one block: a megabyte a matrix, so that the work stays in cache."""


@dataclass(frozen=True)
class Ranking:
    """The documents of a run in their order, for each query of a truth."""

    truth: Truth
    blocks: tuple[Block, ...]
    counts: Ints
    """How many documents the run has, for each query of the truth."""
    rows: Ints
    """The truth's row of each ranked document, query after query; -1 where it is not judged."""
    doc_ids: Any
    """Its id, at `positions`."""
    positions: Ints

    @cached_property
    def answered(self) -> NDArray[np.bool_]:
        """Return for each query of the truth whether the run has it."""
        return self.counts > 0

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """Return the queries of the truth that the run lacks."""
        return tuple(self.truth.query_ids[i] for i in np.flatnonzero(~self.answered))

    def documents(self, query: int) -> list[str]:
        """Return the IDs of a query's documents, best first, for the query's place."""
        start = int(self.counts[:query].sum())
        ids: list[str] = self.ids(np.arange(start, start + self.counts[query])).to_pylist()
        return ids

    def unjudged(self, depth: int) -> list[tuple[str, str, int]]:
        """Return query, document and rank, from 1, of unjudged documents up to a depth."""
        ranks = self.places
        unjudged = np.flatnonzero((self.rows < 0) & (ranks < depth))
        queries = np.repeat(np.arange(len(self.counts)), self.counts)[unjudged]
        names = (self.truth.query_ids[query] for query in queries)
        ids = self.ids(unjudged).to_pylist()
        return list(zip(names, ids, (ranks[unjudged] + 1).tolist(), strict=True))

    @cached_property
    def places(self) -> Ints:
        """Return the place of each ranked document among those of its query, from 0."""
        return _places(self.counts)

    def ids(self, at: Ints) -> Any:
        """Return the IDs of some ranked documents, as an Arrow array."""
        return self.doc_ids.take(pa.array(self.positions[at]))


def _places(counts: Ints) -> Ints:
    """Return the place of each document among those of its query."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def rank_run(truth: Truth, run: pa.Table) -> Ranking:
    """Order the documents of a run by score; equal ones by doc_id, descending, as trec_eval does.

    Args:
        truth: the judgments that the run is measured against.
        run: the columns of `records.Ranked`, rows in any order.

    Raises:
        InputError: a column is missing, a pair occurs twice, or a score is not finite.
    """
    query_ids, doc_ids = (read_texts(run, name, InputError) for name in ("query_id", "doc_id"))
    scores = read_numbers(run, "score", InputError)
    strange = np.flatnonzero(~np.isfinite(scores))
    if strange.size:
        pair = _name(query_ids, doc_ids, int(strange[0]))
        raise InputError(f"{pair} has the score {scores[strange[0]]}")
    query = truth.queries_of(query_ids)
    entries = np.flatnonzero(query >= 0)
    documents = doc_ids.dictionary_encode()
    codes = documents.indices.to_numpy()
    twice = _first_twice(query[entries] * max(1, len(documents.dictionary)) + codes[entries])
    if twice is not None:
        raise InputError(f"{_name(query_ids, doc_ids, int(entries[twice]))} is ranked twice")
    keys = _keys(query[entries], scores[entries])
    order = _order(keys, doc_ids, entries)
    positions = entries[order]
    keys, query, codes = keys[order], query[positions], codes[positions]
    rows = truth.rows_of(query, codes, documents.dictionary)
    counts = np.bincount(query, minlength=len(truth.query_ids))
    tied = len(keys) > 1 and bool((keys[1:] == keys[:-1]).any())
    first = tie_bounds(keys)[0] if tied else None
    blocks = tuple(_blocks(truth, rows, counts, first))
    return Ranking(
        truth=truth,
        blocks=blocks,
        counts=counts,
        rows=rows,
        doc_ids=doc_ids,
        positions=positions,
    )


def _name(query_ids: Any, doc_ids: Any, row: int) -> str:
    return f"document {doc_ids[row].as_py()!r} of query {query_ids[row].as_py()!r}"


def _first_twice(pairs: Ints) -> int | None:
    """Return the place of a pair that occurs twice; None if there is none."""
    ordered = np.sort(pairs)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    return int(np.flatnonzero(pairs == ordered[again[0]])[1]) if again.size else None


def _keys(query: Ints, scores: NDArray[np.float64]) -> Ints:
    """Return numbers that sort by query, then by 32-bit score, descending.

    The bits of a float, as an integer, order like it; those of a negative one, backwards.
    """
    limit = np.finfo(np.float32).max
    bits = (np.clip(scores, -limit, limit).astype(np.float32) + np.float32(0)).view(np.int32)
    ascending = np.where(bits < 0, bits ^ np.int32(2**31 - 1), bits)
    return (query << 32) + (2**31 - 1 - ascending.astype(np.int64))


def _order(keys: Ints, doc_ids: Any, rows: Ints) -> Ints:
    """Return the order of the keys, with equal ones by the doc_ids of these rows, descending.

    UTF-8 sorts alike by bytes, as trec_eval's strcmp does, and by characters.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    same = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
    if tied.size:
        names = doc_ids.take(pa.array(rows[order[tied]]))
        ranks = pc.rank(names, sort_keys="descending", tiebreaker="dense").to_numpy()
        order[tied] = order[tied[np.lexsort((ranks, ordered[tied]))]]
    return order


def _blocks(truth: Truth, rows: Ints, counts: Ints, first: Ints | None) -> Iterator[Block]:
    """Group queries of similar lengths, so that there is little padding.

    Args:
        truth: the truth.
        rows: the truth's row of each ranked document, in order; -1 where it is not judged.
        counts: how many documents the run has for each query.
        first: first place of the documents tied with each; None where nothing is tied.
    """
    starts = np.cumsum(counts) - counts
    places = _places(counts)
    # The judged documents of each query in the order of the run, and then those that it lacks.
    place = np.full(len(truth.query), -1)
    place[rows[rows >= 0]] = places[rows >= 0]
    judged = np.argsort((truth.query << 32) + np.where(place < 0, 2**31, place), kind="stable")
    widths = np.bincount(truth.query, minlength=len(counts))
    truth_starts = np.cumsum(widths) - widths
    for queries in _alike(counts, widths):
        depth, width = int(counts[queries].max(initial=1)), int(widths[queries].max())
        cells = _Cells(starts[queries], counts[queries], depth)
        of_truth = _Cells(truth_starts[queries], widths[queries], width)
        first_rank = None
        if first is not None:
            ranks = np.arange(depth)
            of_block = cells.of(first) - starts[queries, np.newaxis]
            first_rank = np.where(cells.inside, of_block, ranks)
            if (first_rank == ranks).all():
                first_rank = None
        yield Block(
            queries=queries,
            retrieved=counts[queries],
            rows=cells.of(rows),
            judged=of_truth.of(judged),
            place=of_truth.of(place[judged]),
            first=first_rank,
        )


def _alike(counts: Ints, widths: Ints) -> Iterator[Ints]:
    """Group queries with ranked and judged counts within the same powers of two."""
    kind = np.ceil(np.log2(np.maximum(counts, 1))) * 64 + np.ceil(np.log2(widths))
    order = np.lexsort((widths, counts, kind))
    for queries in np.split(order, np.flatnonzero(np.diff(kind[order])) + 1):
        if queries.size:
            cells = len(queries) * int(counts[queries].max() + widths[queries].max())
            yield from np.array_split(queries, -(-cells // BLOCK_CELLS))


class _Cells:
    """The positions of some queries' entries in flat arrays, as a padded matrix."""

    def __init__(self, starts: Ints, counts: Ints, width: int) -> None:
        columns = np.arange(width)
        self.inside = columns < counts[:, np.newaxis]
        self.at = np.where(self.inside, starts[:, np.newaxis] + columns, 0)

    def of(self, flat: Ints) -> Ints:
        """Return the entries of one array; -1 is padding."""
        return np.where(self.inside, flat[self.at], -1) if flat.size else self.at * 0 - 1
