"""Runs cut to a depth: what lies there, what of it nobody judged, and the pool of several."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.errors import InputError
from zelo_ray.files.tables import table_of
from zelo_ray.records import Qrel

Candidates = dict[str, dict[str, dict[str, int]]]
"""By query and by document, in order: the rank that each run gave it."""

_PAIR = ["query_id", "doc_id"]
_UNJUDGED = pa.schema(
    [("run", pa.string()), ("query_id", pa.string()), ("doc_id", pa.string()), ("rank", pa.int64())]
)
_K = 60


def sort_run(run: pa.Table) -> pa.Table:
    """Sort a run by query (as they first appear), score and document id (both descending).

    Scores are compared as 32-bit floats and ids by their bytes, as trec_eval does.

    Args:
        run: the columns of `records.Ranked`.

    Returns:
        The same rows, and a column ``rank`` (int64), which starts at 1 in each query.
    """
    queries = category_codes(run["query_id"])
    with np.errstate(over="ignore"):
        scores = run["score"].to_numpy().astype(np.float32)
    keys = pa.table({"query": queries, "score": scores, "doc_id": run["doc_id"]})
    directions = [("query", "ascending"), ("score", "descending"), ("doc_id", "descending")]
    order = pc.sort_indices(keys, directions)
    queries = queries[order.to_numpy()]
    firsts = np.flatnonzero(np.diff(queries, prepend=-1))
    starts = np.repeat(firsts, np.diff(firsts, append=len(queries)))
    return run.take(order).append_column("rank", pa.array(np.arange(len(queries)) - starts + 1))


def top_ranks(run: pa.Table, depth: int) -> pa.Table:
    """Return the first ``depth`` documents of each query, in the order of `in_order`."""
    return sort_run(run).filter(pc.field("rank") <= depth)


def find_unjudged(truth: pa.Table, run_name: str, run: pa.Table, depth: int) -> pa.Table:
    """Return the unjudged documents at the top of a run, for the queries of the truth.

    Args:
        truth: the columns of `records.Qrel`.
        run_name: what the run is called.
        run: the columns of `records.Ranked`.
        depth: how many documents of each query count.

    Returns:
        run, query_id, doc_id and rank (int64), by query and rank.
    """
    is_judged = pc.is_in(run["query_id"], value_set=pc.unique(truth["query_id"]))
    ranked = top_ranks(run.filter(is_judged), depth)
    place = pa.array(np.arange(len(ranked)))
    unjudged = ranked.append_column("place", place).join(
        truth.select(_PAIR), _PAIR, join_type="left anti"
    )
    unjudged = unjudged.sort_by("place")
    names = pa.array([run_name] * len(unjudged), pa.string())
    return pa.table([names, *unjudged.select([*_PAIR, "rank"]).columns], schema=_UNJUDGED)


def pool_candidates(
    runs: Mapping[str, pa.Table], depth: int, judged: pa.Table | None = None
) -> Candidates:
    """Merge the documents of several runs, to a depth, with all judged documents.

    The order tells nothing of the truth and favours no run: by reciprocal rank fusion of all runs
    (Cormack, Clarke and Buettcher 2009, SIGIR; k = 60), and by chance, the same each time, among
    documents that are equal by it, such as those that no run has.
    """
    candidates: Candidates = {}
    for name, run in runs.items():
        ranked = top_ranks(run, depth)
        for query_id, doc_id, rank in columns(ranked, "query_id", "doc_id", "rank"):
            candidates.setdefault(query_id, {}).setdefault(doc_id, {})[name] = rank
    if judged is not None:
        for query_id, doc_id in columns(judged, *_PAIR):
            candidates.setdefault(query_id, {}).setdefault(doc_id, {})
    return {query_id: fuse_ranks(query_id, ranks) for query_id, ranks in candidates.items()}


def fuse_ranks(query_id: str, ranks: Mapping[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Order one query's documents as `pooled` describes."""

    def key(doc_id: str) -> tuple[float, str]:
        chance = hashlib.sha256(f"{query_id}:{doc_id}".encode()).hexdigest()
        return -sum(1 / (_K + rank) for rank in sorted(ranks[doc_id].values())), chance

    return {doc_id: ranks[doc_id] for doc_id in sorted(ranks, key=key)}


def find_repeated_pair(table: pa.Table) -> tuple[str, str] | None:
    """Return a pair of query and document that a table holds more than once, or None."""
    queries, documents = (category_codes(table[name]) for name in _PAIR)
    pairs = queries * (documents.max(initial=0) + 1) + documents
    ordered = np.sort(pairs)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if not twice.size:
        return None
    row = int(np.argmax(pairs == twice[0]))
    return table["query_id"][row].as_py(), table["doc_id"][row].as_py()


def category_codes(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Map each text of a column to a number: 0, 1, 2 ... as they first appear."""
    chunks = column.dictionary_encode().chunks
    return np.concatenate([np.empty(0, np.int64), *(c.indices.to_numpy() for c in chunks)])


def columns(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of some columns."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def make_qrels(source: str, rows: Iterable[tuple[str, str, float, float]]) -> pa.Table:
    """Build qrels from judgments of any source, and check them.

    Args:
        source: where they come from, for messages.
        rows: query_id, doc_id, relevance, and its standard error or NaN.

    Returns:
        The columns of `records.Qrel`.

    Raises:
        InputError: there are none, one is no finite number, or a document is judged twice.
    """
    return check_qrels(source, table_of([Qrel(*row) for row in rows], Qrel))


def check_qrels(source: str, table: pa.Table) -> pa.Table:
    """Check qrels for what `judgments` promises, and return them."""
    if not len(table):
        raise InputError(f"{source}: holds no judged document")
    odd = table.filter(pc.invert(pc.is_finite(table["relevance"])))
    if len(odd):
        query_id, doc_id = odd["query_id"][0], odd["doc_id"][0]
        raise InputError(
            f"{source}: the relevance of document {str(doc_id)!r} for query {str(query_id)!r} is "
            "not a finite number"
        )
    if pair := find_repeated_pair(table):
        raise InputError(f"{source}: document {pair[1]!r} of query {pair[0]!r} is judged twice")
    return table
