"""How runs of 25 documents and three free judges grow with their queries.

    python -m benchmarks.scale 100 300 1000 [--executor auto]

Each size is run by the command line: a first run; the same again; again with its votes gone, so
that all is settled anew; and `explain`. Shown are seconds, the memory that all processes held
together (shared pages once), and the sizes of what was written.
"""

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.helpers.crash import bare_environment

DOCUMENTS, JUDGES = 25, ("simulated:a", "simulated:b", "simulated:c")
CALLS = 4 * DOCUMENTS * len(JUDGES)
"""of a query"""
_COMMAND = (sys.executable, "-c", "import sys, zelo_ray.cli; sys.exit(zelo_ray.cli.main())")


@dataclass
class Run:
    """What one size took: times in seconds by the clock, and bytes."""

    seconds: dict[str, float] = field(default_factory=dict)
    laps: dict[str, float] = field(default_factory=dict)
    """of the first run, as its record tells"""
    memory: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)


def measure(queries: int, executor: str, folder: Path) -> Run:
    """A first run; the same again; again with its votes gone, so that all is settled anew."""
    pools, out, run = folder / "pools.jsonl", folder / "out", Run()
    write_pools(pools, queries)
    judged = ("annotate", str(pools), "--out", str(out), "--judges", *JUDGES)
    judged += ("--executor", executor)
    with watched(run, "first"):
        call(*judged)
    laps = json.loads((out / "run.json").read_text())["summary"]["seconds"]
    run.laps = {f"first: {name}": seconds for name, seconds in laps.items()}
    run.sizes["ledger"] = size_of(out / "replies", ".jsonl")
    run.sizes["index"] = size_of(out / "replies") - run.sizes["ledger"]
    run.sizes["report"] = size_of(out, "report.html")
    run.sizes["tables"] = size_of(out, ".parquet")
    with watched(run, "again"):
        call(*judged)
    for gone in (out / "votes.parquet", *(out / "votes").glob("*")):
        gone.unlink(missing_ok=True)
    with watched(run, "settle"):
        call(*judged)
    with watched(run, "explain"):
        call("explain", str(out), "--query", f"q{queries // 2}")
    return run


def call(*words: str) -> None:
    """Run a command to its end, which must be good."""
    done = subprocess.run(
        (*_COMMAND, *words), env=bare_environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])


@contextlib.contextmanager
def watched(run: Run, name: str) -> Iterator[None]:
    """Take the time, and look twice a second at what the processes below this one hold."""
    ended, most = threading.Event(), 0

    def look() -> None:
        nonlocal most
        while not ended.wait(0.5):
            most = max(most, held_by_children())

    looking = threading.Thread(target=look)
    looking.start()
    began = time.monotonic()
    try:
        yield
    finally:
        run.seconds[name] = time.monotonic() - began
        ended.set()
        looking.join()
    run.memory[name] = most


def held_by_children() -> int:
    """Bytes of all processes below this one; of shared pages to each its share."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


def size_of(folder: Path, ending: str = "") -> int:
    return sum(
        each.stat().st_size
        for each in folder.rglob("*")
        if each.is_file() and each.name.endswith(ending)
    )


def write_pools(path: Path, queries: int) -> None:
    """Pools of made-up words; documents of 60 to 160 of them."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(3, 9))) for _ in range(3000)]
    with path.open("w") as file:
        for query in range(queries):
            documents = [
                {
                    "id": f"d{query}-{number}",
                    "content": " ".join(rng.choices(words, k=rng.randint(60, 160))),
                    "metadata": {"grade": rng.randint(0, 3)},
                }
                for number in range(DOCUMENTS)
            ]
            asked = {"id": f"q{query}", "query": " ".join(rng.choices(words, k=8))}
            file.write(json.dumps({"query": asked, "documents": documents}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queries", type=int, nargs="+")
    parser.add_argument("--executor", default="auto", help="auto, local or ray")
    given = parser.parse_args()
    for queries in given.queries:
        with tempfile.TemporaryDirectory() as folder:
            run = measure(queries, given.executor, Path(folder))
        print(f"\n{queries:,} queries, {CALLS * queries:,} answers")
        for name, seconds in (run.seconds | run.laps).items():
            print(f"  {name:24} {seconds:>12,.1f} s")
        for name, size in (run.memory | run.sizes).items():
            print(f"  {name:24} {size / 1e6:>12,.1f} MB", flush=True)


if __name__ == "__main__":
    main()
