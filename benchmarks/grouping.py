"""What the fit would cost behind Ray Data's groupby, beside the fit of pools that stayed whole.

Both start from stored votes in one Ray session, in turn, and fit the same scores.
Run: python -m benchmarks.grouping
"""

import argparse
import json
import os
import random
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
import pyarrow as pa
import pyarrow.parquet as pq
import ray
import ray.data

from zelo_ray.fitting.bradley_terry import score_votes
from zelo_ray.fitting.pairs import ring_pairs
from zelo_ray.formats.tables import schema_of
from zelo_ray.records import Vote


def make_votes(query: int, documents: int, rng: random.Random) -> list[dict[str, Any]]:
    ids = [f"d{i}" for i in range(documents)]
    return [
        {
            "query_id": f"q{query}",
            "doc_id_a": a,
            "doc_id_b": b,
            "judge": judge,
            "preference": rng.uniform(-1, 1),
            "swapped": False,
            "reasoning": "",
            "key": "",
        }
        for a, b, *_ in ring_pairs(0, f"{rng.random()}", ids, 4)
        for judge in ("x", "y", "z")
    ]


def fit_group(group: pa.Table) -> pa.Table:
    fits = score_votes([[Vote(**row) for row in group.to_pylist()]])
    return pa.table({"score": [s.score for fit in fits for s in fit.scores]})


def fit_whole(block: pa.Table) -> pa.Table:
    fits = score_votes([[Vote(**v) for v in votes] for votes in block["votes"].to_pylist()])
    return pa.table({"score": [s.score for fit in fits for s in fit.scores]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=1000)
    flags = parser.parse_args()
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        pools = [make_votes(q, 12, rng) for q in range(flags.queries)]
        struct = pa.struct(list(schema_of(Vote)))
        pq.write_table(
            pa.Table.from_pylist([v for votes in pools for v in votes], schema_of(Vote)),
            Path(name) / "votes.parquet",
        )
        pq.write_table(
            pa.table({"votes": pa.array(pools, pa.list_(struct))}), Path(name) / "pools.parquet"
        )
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        seconds: dict[str, list[float]] = {"groupby": [], "whole": []}
        for _ in range(3):
            began = time.monotonic()
            grouped: Any = ray.data.read_parquet(f"{name}/votes.parquet")
            grouped = grouped.groupby("query_id", num_partitions=4).map_groups(
                fit_group, batch_format="pyarrow"
            )
            rows = grouped.materialize().count()
            seconds["groupby"].append(time.monotonic() - began)
            began = time.monotonic()
            whole: Any = ray.data.read_parquet(f"{name}/pools.parquet")
            whole = whole.map_batches(fit_whole, batch_format="pyarrow", batch_size=64)
            assert whole.materialize().count() == rows
            seconds["whole"].append(time.monotonic() - began)
        ray.shutdown()
    print(f"{flags.queries} queries, {rows} scores; seconds of three rounds: {json.dumps(seconds)}")
    print(f"ratio of the fastest: {min(seconds['groupby']) / min(seconds['whole']):.1f}")


if __name__ == "__main__":
    main()
