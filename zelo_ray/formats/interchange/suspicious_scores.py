"""Find runs whose scores are suspicious: many equal ones, or distances instead of scores."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.files.wording import counted
from zelo_ray.formats.interchange.pooling import category_codes

Doubted = Literal["equal_scores", "reversed_ranks"]
SHARE = 0.2
"""The share of pairs, or of queries, that raises a doubt: single ties do not."""
_LONG = 4
"""The number of documents of a query whose ranks are hardly reversed by chance (1 in 24)."""
_SURE = 0.9
"""The share of queries that raises a doubt if all of them have fewer documents."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason why the scores of a run may not mean what they seem to."""

    code: Doubted
    queries: int
    """queries in which all scores down to the depth are equal, or the ranks reverse the scores"""
    of_queries: int
    """the queries that were checked"""
    pairs: int = 0
    """pairs of documents of one query, down to the depth, whose scores are equal"""
    of_pairs: int = 0


def find_doubts(run: pa.Table, depth: int | None, *, ties: bool = True) -> list[Doubt]:
    """Return the doubts about the scores and ranks of a run.

    Args:
        run: query_id, doc_id, score, and perhaps the ranks that it came with (``rank``).
        depth: how many documents of a query count; all if None.
        ties: whether equal scores are doubtful before all scores of a query are equal.
    """
    query, scores = category_codes(run["query_id"]), run["score"].to_numpy().astype(np.float32)
    equal = _equal(query, scores, depth)
    flat = equal.queries >= SHARE * max(equal.of_queries, 1)
    doubts = [equal] if flat or (ties and equal.pairs >= SHARE * max(equal.of_pairs, 1)) else []
    if "rank" in run.column_names:
        ranks = pc.fill_null(run["rank"], np.nan).to_numpy()
        doubts += _reversed(query, scores, ranks)
    return doubts


def describe_doubts(
    runs: Mapping[str, pa.Table], depth: int | None, *, ties: bool = False
) -> list[str]:
    """Return the doubts about runs to a depth in words; arguments as in `find_doubts`."""
    notes = []
    for name, run in runs.items():
        for doubt in find_doubts(run, depth, ties=ties):
            of = f"in {doubt.queries:,} of {counted(doubt.of_queries, 'query', 'queries')}"
            if doubt.code == "reversed_ranks":
                notes.append(
                    f"the ranks of {name} are the reverse of its scores {of}: are these "
                    "distances? Documents are taken by score, the highest first"
                )
            elif doubt.queries >= SHARE * doubt.of_queries:
                notes.append(
                    f"the first scores of {name} are all equal {of}: document ids decide their "
                    "order"
                )
            else:
                share = doubt.pairs / doubt.of_pairs
                notes.append(
                    f"{share:.0%} of the pairs among the first documents of {name} have equal "
                    "scores: document ids decide their order"
                )
    return notes


def _equal(query: NDArray[np.int64], scores: NDArray[np.float32], depth: int | None) -> Doubt:
    order = np.lexsort((-scores, query))
    query, scores = query[order], scores[order]
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    sizes = np.diff(starts, append=len(query))
    if depth is not None:
        within = np.arange(len(query)) - np.repeat(starts, sizes) < depth
        query, scores, sizes = query[within], scores[within], np.minimum(sizes, depth)
    begins = np.diff(query, prepend=-1).astype(bool) | (np.diff(scores, prepend=np.nan) != 0)
    groups = np.diff(np.flatnonzero(begins), append=len(query))
    of_query = query[begins]
    alone = np.bincount(of_query, minlength=len(sizes)) == 1
    several = sizes > 1
    return Doubt(
        "equal_scores",
        queries=int((alone & several).sum()),
        of_queries=int(several.sum()),
        pairs=int((groups * (groups - 1) // 2).sum()),
        of_pairs=int((sizes * (sizes - 1) // 2).sum()),
    )


def _reversed(
    query: NDArray[np.int64], scores: NDArray[np.float32], ranks: NDArray[np.float64]
) -> list[Doubt]:
    is_finite = np.isfinite(ranks)
    order = np.lexsort((ranks[is_finite], query[is_finite]))
    query, scores = query[is_finite][order], scores[is_finite][order]
    same = query[1:] == query[:-1]
    queries = int(query.max(initial=-1)) + 1
    up, down = (
        np.bincount(query[1:][same & turn], minlength=queries) > 0
        for turn in (scores[1:] > scores[:-1], scores[1:] < scores[:-1])
    )
    sizes = np.bincount(query, minlength=queries)
    long = sizes >= _LONG
    counts = (long if long.any() else sizes > 1) & (up | down)
    turned, of_queries = int((counts & up & ~down).sum()), int(counts.sum())
    share = SHARE if long.any() else _SURE
    doubtful = turned and turned >= share * of_queries
    return [Doubt("reversed_ranks", turned, of_queries)] if doubtful else []
