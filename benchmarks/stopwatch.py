"""The seconds of a hosted reranker's calls as a bake-off tells them, beside its server's stopwatch.

    python -m benchmarks.stopwatch

The server takes some time on purpose, and measures how long it took. One call is in flight, so that
nothing queues. Shown are medians over queries. Half a minute.
"""

import random
import statistics
import subprocess
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from tests.fakes.rerank import Rerankers, worth
from tests.helpers import crash
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.records import Pool

DELAY, POOLS, DOCUMENTS = 0.2, 20, 15
WORDS = ("looked", "matter", "nobody", "time", "with", "long", "very", "into", "that")


def make_pools(folder: Path) -> dict[str, Pool]:
    """Write pools whose documents tell their worth, and grades by it; return them by query id."""
    rng = random.Random(1)
    crash.write_pools(
        folder / "pools.jsonl", POOLS, DOCUMENTS, lambda _: f" {' '.join(rng.choices(WORDS, k=60))}"
    )
    lines = read_lines(str(folder / "pools.jsonl"), LineLimits())
    pools = {line.pool.query_id: line.pool for line in lines if line.pool}
    rows = [
        f"{query_id} 0 {document.id} {min(3, max(0, round(worth(document.content))))}\n"
        for query_id, pool in pools.items()
        for document in pool.documents
    ]
    (folder / "truth.qrels").write_text("".join(rows))
    return pools


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, Rerankers() as server:
        folder = Path(temporary)
        pools = make_pools(folder)
        server.delay = DELAY
        config = {
            "truth": str(folder / "truth.qrels"),
            "pools": str(folder / "pools.jsonl"),
            "out": str(folder / "out"),
            "rerankers": ["hosted=cohere:rerank-v5.0-pro"],
            "prices": {"hosted": {"search": 2.0}},
            "limits": {"hosted": {"rpm": 100_000, "concurrency": 1}},
        }
        (folder / "contest.yaml").write_text(yaml.safe_dump(config))
        environ = crash.bare_environment()
        environ |= {"CO_API_KEY": server.key, "CO_API_URL": server.url + "/cohere"}
        command = [*crash.COMMAND, "bakeoff", "--config", str(folder / "contest.yaml")]
        subprocess.run(command, check=True, env=environ, cwd=folder)
        rows = pq.read_table(folder / "out" / "times.parquet").to_pylist()
        ours = {row["query_id"]: row["seconds"] for row in rows}
        names = {pool.query: query_id for query_id, pool in pools.items()}
        outside = {names[entry["body"]["query"]]: entry["seconds"] for entry in server.journal}
    told = statistics.median(ours.values())
    measured = statistics.median(outside[query_id] for query_id in ours)
    print("| queries | bake-off, s | stopwatch, s | ratio |\n|---:|---:|---:|---:|")
    print(f"| {len(ours)} | {told:.5f} | {measured:.5f} | {told / measured:.3f} |")


if __name__ == "__main__":
    main()
