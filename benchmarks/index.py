"""The index of a ledger: seconds to build and open it, bytes, memory, and lookups a second.

    python -m benchmarks.index [--millions 1 10 30] [--before CHECKOUT]

The first size, up to two million, is a real ledger of made-up replies, which is also opened without
an index, and by the code of an earlier checkout. The larger ones are made up as a writer leaves
them: the tables of segments of 75,000 replies with random keys, beside empty files of the segments'
sizes; no reply can be read there. `build` is `keep_index`, which makes one table of them.
Everything is measured in a process of its own: after opening, and 20,000 lookups each of keys that
are there and that are not. Lookups, reads and `spent` are in processor time. USS is what that
process alone holds, of four the mean; the mapped tables are in RSS.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import psutil

from benchmarks.opening import ROWS, keys_of
from zelo_ray.engine.ledger import update_index
from zelo_ray.engine.ledger.listing import stamp_of
from zelo_ray.engine.ledger.segments import ENDING, reply_to_line
from zelo_ray.engine.ledger.table import COLUMNS, FINAL, LENGTH_BITS, ReplyTable, in_order
from zelo_ray.engine.ledger.table_file import write_table
from zelo_ray.engine.ledger.totals import Covered, Total
from zelo_ray.records import Reply

LENGTH = 850  # bytes of a made-up line


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--millions", type=float, nargs="+", default=[1, 10, 30])
    given.add_argument("--before", default="")
    options = given.parse_args()
    for number, millions in enumerate(options.millions):
        with tempfile.TemporaryDirectory() as folder:
            segments = round(millions * 1e6 / ROWS)
            print(f"{segments * ROWS:,} replies in {segments} segments", flush=True)
            if number == 0 and millions <= 2:
                real(folder, segments)
                told("without an index", folder, segments)
                if options.before:
                    told("as before", folder, segments, before=options.before)
            else:
                made_up(folder, segments)
            build(folder, segments)
            told("one process", folder, segments)
            told("four at once", folder, segments, at_once=4)


def real(folder: str, segments: int) -> None:
    """Write segments of replies."""
    place = Path(folder) / "replies"
    place.mkdir()
    begun = time.perf_counter()
    for number in range(segments):
        keys = keys_of(number).hex()
        with (place / f"run-{number:04}{ENDING}").open("wb") as file:
            for row in range(ROWS):
                reply = Reply(
                    key=keys[32 * row : 32 * row + 32],
                    judge=f"simulated:judge-{row % 3}",
                    status="ok",
                    text="x" * 400,
                    reason="",
                    model="simulated",
                    input_tokens=2000,
                    output_tokens=100,
                    cached_tokens=0,
                    cache_write_tokens=0,
                    thinking_tokens=0,
                    dollars=0.0001,
                    attempts=1,
                    received_at="2026-11-01T00:00:00.000+00:00",
                    run_id="run",
                )
                file.write(reply_to_line(reply))
    size = sum(path.stat().st_size for path in place.iterdir())
    print(f"  written: {size / 1e9:.2f} GB in {time.perf_counter() - begun:.0f} s", flush=True)


def made_up(folder: str, segments: int) -> None:
    """Write what a writer leaves, without the replies."""
    fs, place = fsspec.filesystem("file"), Path(folder).resolve() / "replies"
    place.mkdir()
    payers = [("run", f"simulated:judge-{number}") for number in range(3)]
    for number in range(segments):
        path = place / f"run-{number:04}{ENDING}"
        with path.open("wb") as file:
            file.truncate(ROWS * LENGTH)
        found = np.frombuffer(keys_of(number), [("h", "V6"), ("rest", ">u2"), ("prefix", ">u8")])
        columns = {
            "prefix": found["prefix"],
            "rest": found["rest"],
            "offset": np.arange(ROWS) * LENGTH,
            "size": np.full(ROWS, LENGTH | FINAL << LENGTH_BITS),
            "segment": np.zeros(ROWS),
            "payer": np.arange(ROWS) % 3,
            "cut": np.zeros(ROWS),
        }
        columns = {name: column.astype(COLUMNS[name]) for name, column in columns.items()}
        totals = {payer: Total(ROWS // 3, [ROWS / 3 * 0.0001], 0, 0.0001) for payer in payers}
        stamp = stamp_of(fs.info(str(path)))
        covered = Covered(path.name, ROWS * LENGTH, stamp, [], totals)
        table = ReplyTable.of([in_order(columns)], [covered], payers)
        write_table(fs, str(place / "_index"), [(table, np.ones(1, bool))])


def build(folder: str, segments: int) -> None:

    begun = time.perf_counter()
    update_index(folder)
    took = time.perf_counter() - begun
    tables = [path.stat().st_size for path in Path(folder).glob("replies/_index/*")]
    each = sum(tables) / (segments * ROWS)
    peak = psutil.Process().memory_info().rss / 1e6
    print(f"  build: {took:.1f} s, {len(tables)} table, {each:.2f} B a reply, {peak:.0f} MB RSS")


def told(what: str, folder: str, segments: int, at_once: int = 1, before: str = "") -> None:
    """Measure in processes of their own."""
    environ = os.environ | ({"PYTHONPATH": before} if before else {})
    script = str(Path(__file__).with_name("opening.py"))
    command = [sys.executable, script, folder, str(segments)]
    each = [
        subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(at_once)
    ]
    for process in each:
        process.stdout.readline()  # it has opened and looked
    found: list[dict[str, Any]] = []
    for process in each:
        process.stdin.write("\n")
        process.stdin.flush()
        found.append(json.loads(process.stdout.readline()))
    for process in each:
        process.communicate("\n")
    means = {name: sum(one[name] for one in found) / at_once for name in found[0]}
    print(f"  {what}: " + ", ".join(f"{name} {value:,.1f}" for name, value in means.items()))


if __name__ == "__main__":
    main()
