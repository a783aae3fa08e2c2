"""Kills of whole runs with SIGKILL, at random, always while calls or batches are on their way.

First the books: a run is killed ten times, then finished; what the servers billed beside what the
run says that it paid (`dollars_in_all`), and that it may have paid besides (`maybe_dollars`).
Then the results: each job is killed five times, then finished. *Repeats* are requests that the
servers answered again: those that were in flight at a kill, and others, of which there should be
none; *flying* is how many calls, or batches, the servers had before them at all kills together, and
how many calls a run may have at once, times the kills: repeats are no more. *Same* says whether its
tables are those of a run that nobody disturbed, byte by byte. The exit status is 1 if one of these
does not hold. Run: python benchmarks/kills.py [--only books "zelo, batch"]
"""

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.helpers import crash
from tests.helpers.builders import set_in_file

SLOWLY = ("--latency", "0.3", "--jitter", "0.5")
MODEL = "pointwise:openai:gpt-6-luna"
ROUNDING, CONCURRENCY = 1e-9, 16


@dataclass(frozen=True)
class Job:
    """What is run, on pools of which size, and which limits its panel has."""

    flags: tuple[str, ...] = ()
    queries: int = 30
    documents: int = 8
    panel: tuple[str, ...] = crash.DEFAULT_JUDGES
    command: str = "annotate"
    enqueued: int = 0
    """tokens that each judge's batches may have at once, if it is done in batches"""

    @property
    def limits(self) -> dict[str, str]:
        if self.enqueued:
            return crash.limits(self.panel, enqueued_tokens=self.enqueued)
        return crash.limits(self.panel, concurrency=CONCURRENCY)

    @property
    def most(self) -> int:
        """Calls in flight that a kill may cost; a batch is found again."""
        return 0 if self.enqueued else CONCURRENCY * len(self.panel)

    @property
    def servers(self) -> tuple[str, ...]:
        return ("--batch-seconds", "3") if self.enqueued else SLOWLY

    def write(self, folder: Path) -> None:
        """Write the pools, and which documents are relevant."""
        pools = folder / "pools.jsonl"
        crash.write_pools(pools, self.queries, self.documents)
        rows = [json.loads(line) for line in pools.read_text().splitlines()]
        (folder / "qrels.txt").write_text(
            "".join(
                f"{row['query']['id']} 0 {each['id']} {int('worth=-' not in each['content'])}\n"
                for row in rows
                for each in row["documents"]
            )
        )

    def on(self, folder: Path, out: Path) -> list[str]:
        """The command."""
        pools = folder / "pools.jsonl"
        if self.command == "annotate":
            return crash.annotating(pools, out, *self.flags)
        files = ("--truth", str(folder / "qrels.txt"), "--pools", str(pools), "--out", str(out))
        return [*crash.COMMAND, self.command, *files, *self.flags]


JOBS = {
    "zelo, online": Job(),
    "zelo, batch": Job(("--mode", "batch", *set_in_file(batch_poll=0.5)), enqueued=30_000),
    "samre": Job(("--protocol", "samre"), queries=50, documents=2),
    "zelo, 4 calls a document": Job(("--calls-per-document", "4"), documents=14),
    "bake-off": Job(
        ("--rerankers", MODEL, "original", "bm25"),
        *(90, 8, (MODEL,), "bakeoff"),
    ),
}
BOOKS = Job(queries=40)


def moments(total: int, kills: int, seed: str) -> list[int]:
    """After how many more answers each kill comes, so that none comes too late."""
    rng = random.Random(seed)
    return [rng.randint(1, total // (kills + 1)) for _ in range(kills)]


def tables(out: Path) -> dict[str, bytes]:
    """The result files, byte by byte; of a bake-off without the times that were measured."""
    files = {
        path.name: path.read_bytes()
        for path in sorted(out.iterdir())
        if path.suffix == ".parquet" or path.name == "annotated.jsonl"
    }
    if files.pop("times.parquet", None):
        means = pq.read_table(out / "means.parquet").to_pylist()
        rows = [row for row in means if not row["measure"].startswith("seconds")]
        files["means.parquet"] = repr(rows).encode()
    return files


def finished(command: Sequence[str], environ: dict[str, str]) -> None:
    status, printed = crash.completed(command, environ)
    if status:
        raise SystemExit(f"exit status {status}:\n{printed}")


def books(kills: int) -> bool:
    """Print what the servers billed and what the run knows of; whether that is all of it."""
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name) / "out"
        BOOKS.write(folder)
        total = BOOKS.queries * len(BOOKS.panel) * BOOKS.documents * (BOOKS.documents - 1) // 2
        command = BOOKS.on(folder, out)
        with crash.fakes(folder, *BOOKS.servers) as urls:
            environ = urls | BOOKS.limits
            done, flying = crash.killed(command, environ, folder, moments(total, kills, "books"))
            finished(command, environ)
            billed = sum(crash.billed(environ).values())
        told = json.loads((out / "run.json").read_text())["summary"]
        paid, maybe = told["dollars_in_all"], told.get("maybe_dollars", 0.0)
        repeats, others = crash.paid_twice(folder, out)
    print("| kills | flying | answered again | billed, $ | paid, $ | maybe, $ | unaccounted, $ |")
    print("|---" * 7 + "|")
    print(
        f"| {done} | {flying}, {BOOKS.most * done} | {repeats}, {others} "
        f"| {billed:.6f} | {paid:.6f} | {maybe:.6f} | {billed - paid - maybe:.6f} |\n",
        flush=True,
    )
    return paid - ROUNDING <= billed <= paid + maybe + ROUNDING


def results(name: str, kills: int) -> bool:
    """Print one job's line; whether its results are the same, and nothing was paid for twice."""
    job = JOBS[name]
    with tempfile.TemporaryDirectory() as path:
        folder, plain = Path(path), Path(path) / "plain"
        plain.mkdir()
        job.write(folder)
        with crash.fakes(plain) as urls:
            finished(job.on(folder, plain / "out"), urls | crash.limits(job.panel))
        total = len(crash.answers(plain))
        command = job.on(folder, folder / "out")
        with crash.fakes(folder, *job.servers) as urls:
            environ, batch = urls | job.limits, bool(job.enqueued)
            planned = moments(total, kills, name)
            done, flying = crash.killed(command, environ, folder, planned, batch=batch)
            finished(command, environ)
        repeats, others = crash.paid_twice(folder, folder / "out")
        expected, found = tables(plain / "out"), tables(folder / "out")
        differ = sorted(each for each in expected | found if expected.get(each) != found.get(each))
    most = job.most * done
    same = f"NO: {', '.join(differ)}" if differ else f"yes, {len(found)} files"
    print(
        f"| {name} | {total:,} | {done} | {flying}, {most} | {repeats}, {others} | {same} |",
        flush=True,
    )
    return not (differ or others) and repeats <= most


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=["books", *JOBS], choices=["books", *JOBS])
    parser.add_argument("--kills", type=int, help="10 for the books and 5 for each job, if not")
    flags = parser.parse_args()
    held, jobs = True, [name for name in flags.only if name != "books"]
    if "books" in flags.only:
        held = books(flags.kills or 10)
    if jobs:
        print("| job | requests | kills | flying | repeats | same |")
        print("|---" * 6 + "|")
    for name in jobs:
        held &= results(name, flags.kills or 5)
        crash.end_left()
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
