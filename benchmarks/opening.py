"""One process that opens a ledger and looks into it: a part of `benchmarks.index`.

It runs with the code of whatever checkout is on the path, so it imports nothing of this one.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import psutil

from zelo_ray.engine.ledger import Ledger, sum_spent

ROWS = 75_000  # of a segment of 64 MB
LOOKUPS, BATCH = 20_000, 300


def keys_of(segment: int, rows: int = ROWS) -> bytes:
    """The keys of a segment's replies, 16 bytes each."""
    return np.random.default_rng(segment).bytes(16 * rows)


def measure(folder: str, segments: int) -> None:
    """Open, look, and tell when asked."""
    process = psutil.Process()
    empty = process.memory_full_info()
    begun, used = time.perf_counter(), time.process_time()
    ledger = Ledger(folder)
    found = {"open s": time.perf_counter() - begun, "open CPU s": time.process_time() - used}
    begun = time.process_time()
    ledger.has("00" * 16)
    found["first look ms"] = (time.process_time() - begun) * 1e3
    raw = keys_of(segments // 2)
    keys = [raw[at : at + 16].hex() for at in range(0, len(raw), 16)]
    order = np.random.default_rng(1).permutation(ROWS)[:LOOKUPS]
    there = [keys[i] for i in order]
    absent = [key[::-1] for key in there]
    for name, some, wanted in (("has", there, True), ("has not", absent, False)):
        begun = time.process_time()
        right = all(ledger.has(key) == wanted for key in some)
        found[f"{name} us"] = (time.process_time() - begun) / LOOKUPS * 1e6
        if not right:
            raise RuntimeError(name)
    if hasattr(ledger, "contains"):
        begun = time.process_time()
        right = all(all(ledger.contains(there[i : i + BATCH])) for i in range(0, LOOKUPS, BATCH))
        found["there us"] = (time.process_time() - begun) / LOOKUPS * 1e6
        if not right:
            raise RuntimeError("there")
    print("ready", flush=True)
    sys.stdin.readline()
    memory = process.memory_full_info()
    found["USS MB"] = (memory.uss - empty.uss) / 1e6
    found["RSS MB"] = (memory.rss - empty.rss) / 1e6
    if any(path.stat().st_blocks for path in Path(folder).glob("replies/*.jsonl")):
        for name, some in (("read near", keys[:LOOKUPS]), ("read random", there)):
            for how in ("rows", "read"):
                if hasattr(ledger, how):
                    begun = time.process_time()
                    for i in range(0, LOOKUPS, BATCH):
                        getattr(ledger, how)(some[i : i + BATCH])
                    took = (time.process_time() - begun) / LOOKUPS * 1e6
                    found[f"{name} {how} us"] = took
        begun = time.process_time()
        sum_spent(folder)
        found["spent s"] = time.process_time() - begun
    print(json.dumps(found), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]))
