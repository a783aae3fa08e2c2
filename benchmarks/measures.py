"""Metrics a second and memory beside ranx and pytrec_eval, on one large run.

One metric is one measure of one query. Every contestant has a process of its own and reads the
same Parquet files. "native" is the time from columns in memory to what it computes on (dicts for
pytrec_eval, its own typed lists for ranx, a `Ranking` here); "measure" is the rest. Imports and
ranx's compilation, which is warmed up on ten queries, are in neither. Memory is the most that the
process held from its start.
Run: python -m benchmarks.measures [--queries 50000] [--documents 100] [--judged 20]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zelo_ray.evaluation.measures import Truth, evaluate, parse_measures, rank_run

Dicts = dict[str, dict[str, Any]]
MEASURES = {
    "nDCG@10": ("ndcg_cut_10", "ndcg@10"),
    "nDCG": ("ndcg", "ndcg"),
    "AP": ("map", "map"),
    "RR": ("recip_rank", "mrr"),
    "P@10": ("P_10", "precision@10"),
    "R@20": ("recall_20", "recall@20"),
}
"""As they are called here, by trec_eval and by ranx."""


def write_contest(folder: Path, queries: int, documents: int, judged: int) -> None:
    """A run in random order, and qrels of which half are documents of the run."""
    rng = np.random.default_rng(0)
    names = np.array([f"D{i:07}" for i in range(200_000)])
    query_ids = np.array([f"q{i}" for i in range(queries)])
    starts = rng.integers(0, len(names), queries)[:, np.newaxis]
    held = (starts + np.arange(documents)) % len(names)
    half = judged // 2
    known = np.hstack([held[:, :half], (starts - 1 - np.arange(judged - half)) % len(names)])
    # Distinct as 32-bit floats within a query: ranx breaks ties in another way.
    scores = rng.permuted(np.tile(np.arange(documents) / 8.0, (queries, 1)), axis=1)
    shuffled = rng.permutation(queries * documents)
    run = {
        "query_id": np.repeat(query_ids, documents)[shuffled],
        "doc_id": names[held.ravel()][shuffled],
        "score": scores.ravel()[shuffled],
    }
    qrels = {
        "query_id": np.repeat(query_ids, judged),
        "doc_id": names[known.ravel()],
        "relevance": rng.integers(0, 4, queries * judged).astype(np.float64),
    }
    pq.write_table(pa.table(run), folder / "run.parquet")
    pq.write_table(pa.table(qrels), folder / "qrels.parquet")


def dicts_of(table: pa.Table, kind: Callable[[float], Any]) -> Dicts:
    """Columns as the dicts of dicts that peers are fed with."""
    found: Dicts = {}
    for query_id, doc_id, value in zip(*(c.to_pylist() for c in table.columns), strict=True):
        found.setdefault(query_id, {})[doc_id] = kind(value)
    return found


def zelo_ray(qrels: pa.Table, run: pa.Table, *, ties: Any = "trec") -> tuple[float, Any]:
    """Ours. Returns when it was ready to measure, and the means."""
    ranking = rank_run(Truth(qrels), run, ties=ties)
    ready = perf_counter()
    return ready, evaluate(parse_measures(MEASURES), ranking).mean(axis=1)


def expected(qrels: pa.Table, run: pa.Table) -> tuple[float, Any]:
    """Ours over a run with ties, all of whose orders count."""
    coarse = pa.array(np.floor(run["score"].to_numpy()))
    return zelo_ray(qrels, run.set_column(2, "score", coarse), ties="expected")


def pytrec_eval(qrels: pa.Table, run: pa.Table) -> tuple[float, Any]:
    peer = import_module("pytrec_eval")
    evaluator = peer.RelevanceEvaluator(
        dicts_of(qrels, int), {name for name, _ in MEASURES.values()}
    )
    scores = dicts_of(run, float)
    ready = perf_counter()
    found = evaluator.evaluate(scores)
    return ready, [np.mean([q[name] for q in found.values()]) for name, _ in MEASURES.values()]


def ranx(qrels: pa.Table, run: pa.Table) -> tuple[float, Any]:
    peer = import_module("ranx")
    truth, scores = peer.Qrels(dicts_of(qrels, int)), peer.Run(dicts_of(run, float))
    ready = perf_counter()
    names = [name for _, name in MEASURES.values()]
    found: Mapping[str, float] = peer.evaluate(truth, scores, names)
    return ready, [found[name] for name in names]


CONTESTANTS: dict[str, Callable[[pa.Table, pa.Table], tuple[float, Any]]] = {
    "zelo_ray": zelo_ray,
    "zelo_ray, expected over ties": expected,
    "pytrec_eval": pytrec_eval,
    "ranx": ranx,
}


def contend(name: str, folder: Path) -> None:
    """Measure as one contestant, in a process of its own, and print what it took."""
    qrels, run = (pq.read_table(folder / f"{kind}.parquet") for kind in ("qrels", "run"))
    few = pa.array([f"q{i}" for i in range(10)])
    CONTESTANTS[name](*(t.filter(pc.is_in(t["query_id"], few)) for t in (qrels, run)))
    began = perf_counter()
    ready, means = CONTESTANTS[name](qrels, run)
    ended = perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps([ready - began, ended - ready, peak, [float(mean) for mean in means]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--judged", type=int, default=20)
    parser.add_argument("--contend", nargs=2, help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.contend:
        contend(flags.contend[0], Path(flags.contend[1]))
        return
    metrics = flags.queries * len(MEASURES)
    print(
        f"{flags.queries:,} queries of {flags.documents} documents, {flags.judged} of them judged; "
        f"{', '.join(MEASURES)}\n"
    )
    print("| | native | measure | metrics/s, measure | metrics/s, both | peak memory |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        write_contest(Path(folder), flags.queries, flags.documents, flags.judged)
        means = {}
        for name in CONTESTANTS:
            command = [sys.executable, "-m", "benchmarks.measures", "--contend", name, folder]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            native, measure, peak, means[name] = json.loads(printed.splitlines()[-1])
            print(
                f"| {name} | {native:.2f} s | {measure:.2f} s | {metrics / measure:,.0f} "
                f"| {metrics / (native + measure):,.0f} | {peak / 2**30:.2f} GiB |",
                flush=True,
            )
    for name in ("pytrec_eval", "ranx"):
        np.testing.assert_allclose(means[name], means["zelo_ray"], atol=1e-9)
    print("\nAll means equal.")


if __name__ == "__main__":
    main()
