"""The protocols over two answers on 300 pairs of MT-Bench, online and in batches, killed once each.

The judges know the majority of the people who compared the two answers, with noise; their servers
are fakes on loopback. Each run is killed (SIGKILL to all its processes) after a random share of its
calls, and then resumed. *Same* says whether judgments and scores are those of a plain loop that
asks the same judge without any server, ledger or Ray. *Calls* are of one judge for one pool, least
and most; *batches* of one judge, most. *Twice* is what was sent again: in flight at the kill, and
else. *Sweeps* and *ask* (seconds, also for each sweep) are of the resumed run, *wall* is of both.
*Replay* is how often a reply is read when all is judged anew, and the time for each.
Run: python -m benchmarks.debates FOLDER [--pairs 300] [--judges J ...]
FOLDER holds MT-Bench: question.jsonl and model_answer/ of FastChat, human.jsonl of
lmsys/mt_bench_human_judgments.
"""

import argparse
import json
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq

from tests import crash
from tests.builders import Shelf
from tests.fakes import knowing, mtbench
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.write_results import write_results
from zelo_ray.formats.interchange.texts import pool_line
from zelo_ray.formats.pools import LineLimits, parse_line
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, advance, find_protocol, load_protocol
from zelo_ray.providers import build_panel
from zelo_ray.records import Judge, Pool, response_schema

NOISE = 0.7
ALL = "best-of, 6 answers"
JOBS: dict[str, dict[str, Any]] = {
    "best-of": {},
    ALL: {},
    f"{ALL}, one panel": {"decide": "panel"},
    "samre": {},
    "baseline-strong, 2 rounds": {"rounds": 2},
    "baseline-weak": {},
}
MODES = ("online", "batch")
TRIES = 3
"""Ray does not always start on a machine that is busy with other things."""
GRACE = 0.5
"""Seconds around a kill in which a call counts as in flight."""


class Counted(Shelf):
    """Replies in memory; counts how many are read."""

    reads = 0

    def read(self, keys: Sequence[str]) -> list[Any]:
        self.reads += len(keys)
        return super().read(keys)


def answered(pools: Sequence[Pool], panel: Sequence[Judge], options: AnnotateOptions) -> Counted:
    """Every reply, from the judge itself."""
    shelf, judge = Counted(), partial(knowing.judge, noise=NOISE)
    for pool in pools:
        progress = Progress(find_protocol(options.protocol).rounds(pool, panel, options))
        while missing := progress.step(shelf).missing:
            for request in missing:
                schema = response_schema(request.response_model) or {}
                said = judge(request.system, request.user, schema, request.judge.model)
                shelf.put(request, said if isinstance(said, str) else json.dumps(said))
    return shelf


def replayed(
    pools: Sequence[Pool], panel: Sequence[Judge], options: AnnotateOptions, shelf: Counted
) -> str:
    """How often a reply is read when all is judged anew, and the microseconds for each."""
    shelf.reads, began = 0, time.perf_counter()
    for pool in pools:
        advance(find_protocol(options.protocol).rounds(pool, panel, options), shelf)
    seconds = time.perf_counter() - began
    replies = len(shelf.replies)
    return f"{shelf.reads / replies:.2f}, {1e6 * seconds / replies:.0f} µs"


def tables(out: Path, protocol: str) -> list[list[dict[str, Any]]]:
    """The judgments and scores of a run."""
    names = [*find_protocol(protocol).tables, "scores"]
    return [pq.read_table(out / f"{name}.parquet").to_pylist() for name in names]


def killed_and_resumed(
    folder: Path, judges: Sequence[str], mode: str, flags: Sequence[str], moment: int
) -> tuple[list[tuple[float, float]], dict[str, Any]]:
    """Run once until so many calls are answered, and again to the end."""
    noisy = ("--judge-options", json.dumps({"noise": NOISE}))
    kills = []
    flags = ("--judges", *judges, "--mode", mode, *flags)
    with crash.fakes(folder, *noisy, judges=judges) as environ:
        command = (folder / "pools.jsonl", folder / "out", environ, *flags)
        run = crash.annotate(*command)
        while run.poll() is None and lines_in(folder / "journal.jsonl") < moment:
            time.sleep(0.05)
        if run.poll() is None:
            kills.append(crash.kill_tree(run))
        for _ in range(TRIES):
            status, printed = crash.finish(crash.annotate(*command), timeout=900)
            if status == 0:
                break
    assert status == 0, printed
    return kills, json.loads((folder / "out" / "run.json").read_text())


def lines_in(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def calls(pools: Sequence[Pool], panel: Sequence[Judge], options: AnnotateOptions) -> Counter[Any]:
    """How many replies in the ledger there are of each judge about each pool."""
    ledger = Ledger(options.out)
    judges = {row.key: row.judge for row in read_rows(options.out) if row.final}
    counts = Counter[Any]()
    for pool in pools:
        rounds = find_protocol(options.protocol).rounds(pool, panel, options)
        counts.update((pool.query_id, judges[key]) for key in advance(rounds, ledger).keys)
    assert counts.total() == len(judges)
    return counts


def sent_again(folder: Path, times: int, kills: Sequence[tuple[float, float]]) -> tuple[int, int]:
    """How many questions were put more often than ``times``: in flight at a kill, and others."""
    put = defaultdict[Any, list[bool]](list)
    for entry in crash.journal(folder):
        if entry["endpoint"] in ("answer", "line"):
            here = any(
                entry["arrived"] <= ended + GRACE and began <= entry["finished"] + GRACE
                for began, ended in kills
            )
            put[entry["sha"]].append(here)
    excused = others = 0
    for flying in put.values():
        more = max(0, len(flying) - times)
        excused += min(more, sum(flying))
        others += more - min(more, sum(flying))
    return excused, others


def measured(name: str, mode: str, pools: Sequence[Pool], judges: Sequence[str]) -> str:
    """One line of the table."""
    protocol, fields = name.partition(",")[0], JOBS[name]
    with tempfile.TemporaryDirectory() as folder:
        lines = [pool_line(pool) for pool in pools]
        path, out = Path(folder) / "pools.jsonl", Path(folder) / "out"
        path.write_bytes(b"\n".join(lines) + b"\n")
        job = {"inputs": (str(path),), "protocol": protocol, "judges": tuple(judges), **fields}
        options = load_protocol(job["protocol"]).options(out=str(out), **job)
        apart = load_protocol(job["protocol"]).options(out=str(Path(folder) / "apart"), **job)
        panel = build_panel(judges, {})
        shelf = answered(pools, panel, options)
        parsed = [parse_line("in", i, line, LineLimits()) for i, line in enumerate(lines, 1)]
        write_results([build_results(parsed, panel, apart, shelf)], apart)
        flags = [f for key, value in fields.items() for f in (f"--{key}", str(value))]
        flags += ["--protocol", protocol, "--batch-poll", "0.5"]
        total = len(shelf.replies)
        moment = Random(f"{name} {mode}").randint(total // 10, total * 9 // 10)
        began = time.monotonic()
        kills, record = killed_and_resumed(Path(folder), judges, mode, flags, moment)
        wall = time.monotonic() - began
        same = tables(out, protocol) == tables(Path(apart.out), protocol)
        each = calls(pools, panel, options).values()
        times = fields.get("rounds", 1)
        excused, others = sent_again(Path(folder), times, kills)
        parts = Counter(part.judge for part in Parts(str(out)) if part.batch)
    summary = record["summary"]
    ask, sweeps = summary["seconds"]["ask"], summary["sweeps"]
    killed = f"after {moment:,}" if kills else "not killed"
    return (
        f"| {name} | {mode} | {len(pools)} | {total:,} | {killed} | {'yes' if same else 'NO'} "
        f"| {min(each)} to {max(each)} | {max(parts.values(), default=0)} | {excused}, {others} "
        f"| {sweeps} | {ask:.0f} ({ask / sweeps:.1f}) | {wall:.0f} "
        f"| {replayed(pools, panel, options, shelf)} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--judges", nargs="+", default=list(crash.DEFAULT_JUDGES))
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=list(JOBS))
    flags = parser.parse_args()
    pairs = mtbench.pairs(flags.folder, flags.pairs)
    all_answers = mtbench.pools(flags.folder, flags.pairs // 5, without=set())
    print(
        "| protocol | mode | pools | calls | killed | same | calls a pool and judge | batches "
        "| twice | sweeps | ask, s (a sweep) | wall, s | replay: reads, time a reply |"
    )
    print("|---" * 13 + "|")
    for name in flags.jobs:
        for mode in MODES:
            pools = all_answers if name.startswith(ALL) else pairs
            print(measured(name, mode, pools, flags.judges), flush=True)


if __name__ == "__main__":
    main()
