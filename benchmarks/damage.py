"""What damage to a ledger costs: calls that are made again, and nothing else.

    python -m benchmarks.damage [DAMAGES] [SEED]

A ledger is filled with the answers of simulated judges, harmed in one place (a segment, or a table
of its index), filled again, and settled. Each row is a kind of harm: how often it was done; lines
that were set aside, and requests asked again, on average; how often a reply was taken for what it
is not (`accepted wrongly`), anything was raised (`tracebacks`), or the tables that were settled
differ in a byte from those of the ledger that nobody harmed (`outputs unequal`). The last three are
to be 0. A last line that is cut short is what a kill leaves, and is passed over without being
counted as set aside. 2,000 damages take some five minutes of a processor.
"""

import asyncio
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.ledger import Ledger, index_upkeep, read_rows, update_index, writing
from zelo_ray.engine.online import OnlineClient
from zelo_ray.engine.write_results import write_results
from zelo_ray.formats.pools import LineLimits, parse_line
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols.zelo import ZeloOptions
from zelo_ray.providers import panel_of
from zelo_ray.records import Judge, Reply

DAMAGES, SEED = 2000, 0
QUERIES, DOCUMENTS = 3, 6
TABLES = ("annotated.jsonl", "scores.parquet", "votes.parquet", "failures.parquet")
SEGMENT_BYTES = 6000  # so that a small ledger has several
COLUMNS = ("lines set aside", "asked again", "accepted wrongly", "tracebacks", "outputs unequal")
"""What is told of each kind of harm; the first two as means."""

Harm = Callable[[bytes, random.Random], bytes]


def flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def change(data: bytes, rng: random.Random) -> bytes:
    at, size = rng.randrange(len(data)), rng.randint(1, 64)
    return data[:at] + rng.randbytes(min(size, len(data) - at)) + data[at + size :]


def cut(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.randint(1, 200) :]


def cut_the_end(data: bytes, rng: random.Random) -> bytes:
    return data[: -rng.randint(1, len(data))]


def insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice([b"\n", b"\r", b"\0" * 512, rng.randbytes(40)]) + data[at:]


def lose_a_newline(data: bytes, rng: random.Random) -> bytes:
    places = [i for i, byte in enumerate(data) if byte == ord("\n")]
    if not places:  # as in a small table of the index
        return data
    at = rng.choice(places)
    return data[:at] + data[at + 1 :]


def swap(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    rng.shuffle(lines)
    return b"".join(lines)


def repeat(data: bytes, rng: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"".join(lines)


def lose_the_file(data: bytes, rng: random.Random) -> bytes:  # noqa: ARG001
    return b""


HARMS: dict[str, Harm] = {
    "a bit flipped": flip,
    "up to 64 bytes changed": change,
    "up to 200 bytes cut out": cut,
    "the end cut off": cut_the_end,
    "bytes inserted": insert,
    "a newline lost": lose_a_newline,
    "lines shuffled": swap,
    "a line repeated": repeat,
    "a segment lost": lose_the_file,
}


class Job:
    """A small job, over whatever directory."""

    def __init__(self) -> None:
        self.options = ZeloOptions(
            inputs=("in.jsonl",),
            out="out",
            cycles=2,
            judges=("simulated:one", "simulated:two"),
            judge_options={
                "simulated:one": {"refusals": 0.05, "truncated": 0.05},
                "simulated:two": {"invalid": 0.1},
            },
            limits={name: {"concurrency": 4} for name in ("simulated:one", "simulated:two")},
        )
        self.panel: Sequence[Judge] = panel_of(self.options, {})
        self.lines = [parse_line("in.jsonl", n, _line(n), LineLimits()) for n in range(QUERIES)]

    def fill(self, out: Path, run_id: str) -> int:
        """Ask for what the ledger lacks; how many requests that were."""
        return asyncio.run(self._fill(self.options.model_copy(update={"out": str(out)}), run_id))

    async def _fill(self, options: AnnotateOptions, run_id: str) -> int:
        ledger = Ledger(options.ledger_dir, run_id, ("failed",))
        asker = OnlineClient(
            *(options, self.panel, self.panel), ledger=ledger, environ={}, run_id=run_id
        )
        try:
            await asyncio.gather(*(asker.ask_about(line.pool) for line in self.lines if line.pool))
        finally:
            await asker.aclose()
            ledger.close()
        if asker.stopped or asker.disabled:
            raise RuntimeError(asker.stopped or str(asker.disabled))
        return sum(tally.answered for tally in asker.tallies.values())

    def settle(self, out: Path) -> dict[str, bytes]:
        """The files of results."""
        options = self.options.model_copy(update={"out": str(out)})
        blocks = [build_results(self.lines, self.panel, options, Ledger(options.ledger_dir))]
        write_results(blocks, options)
        return {name: (out / name).read_bytes() for name in TABLES}

    def keys(self, out: Path) -> list[str]:
        """What the requests' replies are found by."""
        return [row.key for row in read_rows(str(out)) if row.final]


def _line(number: int) -> bytes:
    documents = [
        {"id": f"d{i}", "content": f"text {i} of {number}", "metadata": {"grade": i % 4}}
        for i in range(DOCUMENTS)
    ]
    query = {"id": f"q{number}", "query": f"question {number}?"}
    return orjson.dumps({"query": query, "documents": documents})


def harmed(whole: Path, folder: Path, harm: Harm, rng: random.Random) -> Path:
    """A copy of a ledger, one file of which is harmed: a segment, or a table of its index."""
    out = Path(tempfile.mkdtemp(dir=folder))
    shutil.copytree(whole / "replies", out / "replies")
    files = sorted(path for path in (out / "replies").rglob("*") if path.is_file())
    segment = rng.choice(files)
    segment.write_bytes(harm(segment.read_bytes(), rng))
    if rng.random() < 0.5:
        update_index(str(out))
    return out


def told(job: Job, out: Path, truth: dict[str, Reply], results: dict[str, bytes]) -> Counter[str]:
    """What becomes of a harmed ledger."""
    found = Counter[str]()
    ledger = Ledger(str(out))
    found["lines set aside"] = len(ledger.damaged)
    held = [key for key in truth if ledger.has(key)]
    wrong = len(ledger) != len(held)  # a key that nobody asked for
    found["accepted wrongly"] = wrong or ledger.read(held) != [truth[key] for key in held]
    found["asked again"] = job.fill(out, "again")
    found["outputs unequal"] = job.settle(out) != results
    return found


def main() -> None:
    damages = int(sys.argv[1]) if len(sys.argv) > 1 else DAMAGES
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else SEED)
    writing._LOCAL_BYTES, index_upkeep._LEAST_BYTES, index_upkeep._SMALL = SEGMENT_BYTES, 1, 1
    job, summed, times = Job(), dict[str, Counter[str]](), Counter[str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = folder / "whole"
        job.fill(whole, "first")
        results, keys = job.settle(whole), job.keys(whole)
        truth = dict(zip(keys, Ledger(str(whole)).read(keys), strict=True))
        segments = len(list((whole / "replies").glob("*.jsonl")))
        print(f"{len(truth)} replies in {segments} segments, harmed {damages:,} times\n")
        for number in range(damages):
            kind = list(HARMS)[number % len(HARMS)]
            out = harmed(whole, folder, HARMS[kind], rng)
            times[kind] += 1
            try:
                found = told(job, out, truth, results)
            except Exception:  # noqa: BLE001 - whatever it is, it is counted and shown
                traceback.print_exc()
                found = Counter({"tracebacks": 1})
            summed.setdefault(kind, Counter()).update(found)
            shutil.rmtree(out)
    _print(summed, times)


def _print(summed: dict[str, Counter[str]], times: Counter[str]) -> None:
    print(f"{'':26}{'times':>6}" + "".join(f"{column:>18}" for column in COLUMNS))
    every = Counter[str]()
    for kind, found in summed.items():
        every.update(found)
        _row(kind, found, times[kind])
    _row("all", every, times.total())


def _row(kind: str, found: Counter[str], times: int) -> None:
    means = [f"{found[column] / times:.2f}" for column in COLUMNS[:2]]
    counts = [f"{found[column]:,}" for column in COLUMNS[2:]]
    print(f"{kind:26}{times:>6,}" + "".join(f"{cell:>18}" for cell in means + counts))


if __name__ == "__main__":
    main()
