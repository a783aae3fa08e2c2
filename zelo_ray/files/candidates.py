"""Candidates of queries: runs cut to a depth, several fused, with texts, and what is unjudged."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.files.make_pools import make_pool
from zelo_ray.files.pools import Notes, PoolRow
from zelo_ray.files.tables import category_codes, iter_rows
from zelo_ray.files.wording import counted
from zelo_ray.records import Document

Doubt = Literal["equal_scores", "reversed_ranks"]
Candidates = dict[str, dict[str, dict[str, int]]]
"""By query and by document, in order: the rank that each run gave it."""
_PAIR = ["query_id", "doc_id"]
_K = 60
_HASHED = re.compile("q-[0-9a-f]{12}")
_SAYS: Mapping[Doubt, str] = {
    "equal_scores": "the first scores of {} are all equal in {}: document ids decide the order",
    "reversed_ranks": "the ranks of {} are the reverse of its scores in {}: are these distances? "
    "Documents are taken by score, the highest first",
}
_SHARE = 0.2
"""The share of queries whose scores raise a doubt."""
_LONG = 4
"""The number of documents of a query whose ranks are hardly reversed by chance (1 in 24)."""


def sort_run(run: pa.Table) -> pa.Table:
    """Sort a run by query (as they first appear), score and document id (both descending).

    Scores are compared as 32-bit floats and ids by their bytes, as trec_eval does. A column
    ``rank`` (int64) starts at 1 in each query.
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
    run = run.drop_columns(["rank"]) if "rank" in run.column_names else run
    return run.take(order).append_column("rank", pa.array(np.arange(len(queries)) - starts + 1))


def top_ranks(run: pa.Table, depth: int) -> pa.Table:
    """Return the first ``depth`` documents of each query, in the order of `sort_run`."""
    return sort_run(run).filter(pc.field("rank") <= depth)


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
        for query_id, doc_id, rank in iter_rows(top_ranks(run, depth), *_PAIR, "rank"):
            candidates.setdefault(query_id, {}).setdefault(doc_id, {})[name] = rank
    for query_id, doc_id in iter_rows(judged, *_PAIR) if judged is not None else ():
        candidates.setdefault(query_id, {}).setdefault(doc_id, {})
    return {query_id: fuse_ranks(query_id, ranks) for query_id, ranks in candidates.items()}


def fuse_ranks(query_id: str, ranks: Mapping[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Order one query's documents as `pool_candidates` describes."""

    def key(doc_id: str) -> tuple[float, str]:
        chance = hashlib.sha256(f"{query_id}:{doc_id}".encode()).hexdigest()
        return -sum(1 / (_K + rank) for rank in sorted(ranks[doc_id].values())), chance

    return {doc_id: ranks[doc_id] for doc_id in sorted(ranks, key=key)}


def fill_candidates(
    candidates: Candidates,
    queries: Mapping[str, Document],
    corpus: Mapping[str, Document],
    notes: Notes,
) -> Iterator[PoolRow]:
    """Yield pools of candidates, in their order; each keeps its ranks in its metadata."""
    for query_id, documents in candidates.items():
        rows = [
            ("", {"query_id": query_id, "doc_id": d, "metadata": {"ranks": ranks} if ranks else {}})
            for d, ranks in documents.items()
        ]
        yield from make_pool(rows, notes, queries, corpus)


def explain_mismatch(what: str, ids: Iterable[str], other: str, others: Iterable[str]) -> str:
    """Show one id of each of two files that share none, the most alike, as ASCII."""
    first, second = (sorted({*each} or {"(nothing)"}) for each in (ids, others))
    by_form = {_plain(id_): id_ for id_ in reversed(second)}
    one = next((id_ for id_ in first if _plain(id_) in by_form), first[0])
    two = by_form.get(_plain(one)) or min(by_form.values())
    says = f"{what} has {one!a}, {other} has {two!a}"
    if _HASHED.fullmatch(one) or _HASHED.fullmatch(two):
        return f"{says}: an id such as q-... is a hash of a query's text; give both files query_id"
    return says


def _plain(id_: str) -> str:
    """Return an id without all that nearly equal ids may differ in."""
    id_ = "".join(unicodedata.normalize("NFC", id_).casefold().split())
    return id_.removesuffix(".0").lstrip("0") or "0"


def find_doubts(run: pa.Table, depth: int | None) -> dict[Doubt, tuple[int, int]]:
    """Return doubts about a run: in how many queries, and of how many.

    ``equal_scores``: all scores down to the depth are equal, so that document ids decide the order;
    ``reversed_ranks``: the ranks that the run came with are the reverse of its scores, as those of
    distances are. Neither counts in under a fifth of the queries.
    """
    queries, scores = category_codes(run["query_id"]), run["score"].to_numpy().astype(np.float32)
    order = np.lexsort((-scores, queries))
    groups = np.split(order, np.flatnonzero(np.diff(queries[order])) + 1) if len(order) else []
    several = [scores[rows[:depth]] for rows in groups if len(rows[:depth]) > 1]
    flat = sum(bool((values == values[0]).all()) for values in several)
    doubts: dict[Doubt, tuple[int, int]] = {"equal_scores": (flat, len(several))}
    if "rank" in run.column_names:
        ranks = pc.fill_null(run["rank"], np.nan).to_numpy()
        long = [rows for rows in groups if len(rows) >= _LONG and np.isfinite(ranks[rows]).all()]
        by_rank = [np.diff(scores[rows[np.argsort(ranks[rows], kind="stable")]]) for rows in long]
        turned = sum(bool((steps >= 0).all() and (steps > 0).any()) for steps in by_rank)
        doubts["reversed_ranks"] = turned, len(long)
    return {code: (n, of) for code, (n, of) in doubts.items() if n and n >= _SHARE * of}


def describe_doubts(runs: Mapping[str, pa.Table], depth: int | None) -> list[str]:
    """Return the doubts about runs in words."""
    return [
        _SAYS[code].format(name, f"{some:,} of {counted(every, 'query', 'queries')}")
        for name, run in runs.items()
        for code, (some, every) in find_doubts(run, depth).items()
    ]
