"""What it costs to read the input: validated, as each pass does, and beside it only parsed.

Run: python -m benchmarks.reading [--pools 2000] [--documents 100] [--words 200]
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from zelo_ray.formats.pools import LineLimits, open_unpacked, read_lines
from zelo_ray.records import Document, Pool


def write_pools(path: Path, pools: int, documents: int, words: int) -> None:
    """Pools of documents of random words."""
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(5000)]
    with path.open("wb") as file:
        for number in range(pools):
            texts = [" ".join(rng.choices(vocabulary, k=words)) for _ in range(documents)]
            held = [{"id": f"d{at}", "content": text} for at, text in enumerate(texts)]
            query = {"id": f"q{number}", "query": "what is it"}
            file.write(orjson.dumps({"query": query, "documents": held}) + b"\n")


def validated(path: str) -> int:
    """As every pass reads."""
    return sum(line.pool is not None for line in read_lines(path, LineLimits()))


def trusted(path: str) -> int:
    """As a pass could read what an earlier one has validated."""
    count = 0
    with open_unpacked(path) as stream:
        for raw in stream:
            line = orjson.loads(raw)
            held = [
                Document(d["id"], d["content"], d.get("metadata") or {}) for d in line["documents"]
            ]
            count += bool(Pool(line["query"]["id"], line["query"]["query"], tuple(held)).documents)
    return count


def seconds(read: Callable[[str], int], path: str) -> float:
    """Seconds of processor time."""
    start = time.process_time()
    read(path)
    return time.process_time() - start


def main() -> None:
    """Read a file both ways, three times in turn; tell the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("pools", 2000), ("documents", 100), ("words", 200)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pools.jsonl"
        write_pools(path, options.pools, options.documents, options.words)
        size = path.stat().st_size / 1e6
        for read in (validated, trusted):
            best = min(seconds(read, str(path)) for _ in range(3))
            print(f"{read.__name__}: {best:.1f} s, {size / best:.0f} MB a second")


if __name__ == "__main__":
    main()
