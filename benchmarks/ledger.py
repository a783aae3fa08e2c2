"""The index of a ledger: seconds to make, open and ask it, by the code of two checkouts.

    python -m benchmarks.ledger [--replies 1000000] [--before CHECKOUT]

A ledger of made-up replies in segments of 64 MB is opened without an index, which is made then, and
with one; and once more as on Ray, where each node makes an index of its own. Each is a process of
its own, and all times are of the processor.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zelo_ray.engine.ledger import Ledger, sum_paid
from zelo_ray.engine.ledger.segments import ENDING, reply_to_line
from zelo_ray.records import Reply

ROWS = 75_000  # of a segment
LOOKUPS, BATCH = 20_000, 300


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--replies", type=int, default=1_000_000)
    given.add_argument("--before", default="")
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_ledger(Path(folder, "replies"), options.replies)
        for checkout in filter(None, (options.before, str(Path(__file__).parents[1]))):
            Path(folder, "replies/_index.sqlite").unlink(missing_ok=True)
            for what in ("no index", "again"):
                show(f"{checkout}: {what}", folder, PYTHONPATH=checkout)
        Path(folder, "replies/_index.sqlite").unlink()
        for what in ("a new node of Ray", "again there"):
            show(what, folder, RAY_ADDRESS="nowhere:1", TMPDIR=folder)


def write_ledger(folder: Path, replies: int) -> None:
    folder.mkdir()
    usual = Reply.without_call("", "", "ok", text="x" * 400)._replace(model="m", run_id="run")
    for begin in range(0, replies, ROWS):
        with (folder / f"run-{begin:09}{ENDING}").open("wb") as file:
            for number in range(begin, min(begin + ROWS, replies)):
                row = usual._replace(key=key(number), judge=f"simulated:judge-{number % 3}")
                file.write(reply_to_line(row._replace(dollars=0.0001)))


def key(number: int) -> str:
    """The key of a made-up request; neighbours lie far apart."""
    return f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:032x}"


def show(what: str, folder: str, **environ: str) -> None:
    command = [sys.executable, __file__, folder]
    done = subprocess.run(command, env=os.environ | environ, stdout=subprocess.PIPE, check=True)
    figures = json.loads(done.stdout).items()
    print(f"{what}: " + ", ".join(f"{name} {value:.3f}" for name, value in figures), flush=True)


def measure(folder: str) -> dict[str, float]:
    found = dict[str, float]()

    def clock(name: str, work: Callable[[], Any], times: float = 1.0) -> Any:
        begun = time.process_time()
        result = work()
        found[name] = (time.process_time() - begun) * times
        return result

    ledger = clock("open s", lambda: Ledger(folder))
    keys = [key(number) for number in range(LOOKUPS)]
    parts = [keys[at : at + BATCH] for at in range(0, LOOKUPS, BATCH)]
    each = 1e6 / LOOKUPS
    clock("find us", lambda: [ledger.contains(part) for part in parts], each)
    clock("find one us", lambda: [ledger.has(one) for one in keys], each)
    clock("read us", lambda: [ledger.read(part) for part in parts], each)
    clock("paid s", lambda: sum_paid(folder))
    return found


if __name__ == "__main__":
    if sys.argv[1:2] and not sys.argv[1].startswith("-"):
        print(json.dumps(measure(sys.argv[1])))
    else:
        main()
