"""Attacks on the cap: what `annotate --max-usd` spends by the servers' own books.

Each row is a run of the command line against fakes on loopback, in a process of their own, that
answer at lengths, count tokens and break as nobody expects. *Ratio* is spent to cap: above 1 the
cap did not hold, and the exit status of this script is 1, but for the last row, whose servers do
not obey the limit of output: there the cap may be passed by what was in flight. *Rounds* is the
longest chain of batches of which each was created after the one before it had ended.
Run: python benchmarks/caps.py [--rows 2 15]
"""

import argparse
import json
import random
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.helpers import crash
from tests.helpers.builders import set_in_file

QUERIES, DOCUMENTS = 40, 8
BATCH = ("--mode", "batch", *set_in_file(batch_poll=0.5))
BATCH_SECONDS = ("--batch-seconds", "2")
GROWING = ("--output", "20", "--output-later", "2000", "--output-turn", "90")
BY_KIND = {  # tokens of an answer by a field that it has; "": it has none
    "samre": {"": 20, "relevance": 1500},
    "zelo": {"preference": 20, "grade": 1500},
}
FAULTS = (
    *("500:rate=0.06", "429:rate=0.04,retry_after=0.1"),
    *("malformed_billed:rate=0.05", "timeout_billed:rate=0.05"),
)
ENGLISH = "The matter with it is that nobody has looked into it for long enough to tell us why. "
CHINESE = "这件事的问题在于没有人花足够长的时间去研究它,所以没有人能告诉我们为什么。"
ONE = crash.DEFAULT_JUDGES[:1]


@dataclass(frozen=True)
class Attack:
    """A run, the servers it meets, and its cap: dollars, or `times` what it costs without one."""

    name: str
    mode: str
    cap: float = 0.0
    servers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    judges: tuple[str, ...] = crash.DEFAULT_JUDGES
    limit: int = 0
    """of the output, in tokens, if not the usual one"""
    text: Callable[[int], str] = lambda _: ""
    queries: int = QUERIES
    documents: int = DOCUMENTS
    kills: int = 0
    times: float = 0.0
    may_pass: bool = False

    @property
    def variables(self) -> dict[str, str]:
        """What the panel's limits are."""
        said = {judge: {"max_output_tokens": self.limit} for judge in self.judges if self.limit}
        return crash.limits(self.judges) | {"TEST_OPTION_JUDGE_OPTIONS": json.dumps(said)}


def by_kind(protocol: str) -> tuple[str, ...]:
    return ("--output-of", json.dumps(BY_KIND[protocol]))


def english(_: int) -> str:
    """A text of some 1,200 bytes."""
    return "\n" + 14 * ENGLISH


def dearer(query: int) -> str:
    """The same of later queries in a script whose every byte is a token."""
    return english(query) if query < QUERIES // 2 else "\n" + 11 * CHINESE


GROWS, ONE_BYTE = "90 answers of 20 tokens, then 2,000", "a token a byte"
DEARLY = ("--bytes-per-token", "1")
FAULTY = tuple(flag for fault in FAULTS for flag in ("--fault", fault))
ATTACKS = (
    Attack(GROWS, "online", 1.0, GROWING),
    Attack(GROWS, "batch", 0.05, GROWING, judges=ONE),
    Attack(
        *("samre: short speeches, long scores", "batch", 0.05, by_kind("samre")),
        *(("--protocol", "samre"), ONE),
        queries=160,
        documents=2,
    ),
    Attack(
        *("4 calls a document: short votes, long grades", "batch", 0.05, by_kind("zelo")),
        *(("--calls-per-document", "4"), ONE),
    ),
    Attack(ONE_BYTE, "online", 0.3, DEARLY, text=english),
    Attack(ONE_BYTE, "batch", 0.05, DEARLY, (), ONE, 100, english),
    Attack(
        *("English, then a dearer script", "batch", 0.05, ("--tokens-by-text",)),
        *((), ONE, 100, dearer),
    ),
    Attack("three actors for each provider", "online", 1.0, GROWING, ("--actors", "3")),
    Attack("two kills, then finished", "online", 1.0, GROWING, kills=2),
    Attack("two kills, then finished", "batch", 0.05, GROWING, judges=ONE, kills=2),
    Attack(
        "faults: 20% of calls", "online", 0.4, (*FAULTY, "--output", "200"), set_in_file(timeout=2)
    ),
    Attack("lognormal lengths", "batch", 0.3, ("--output", "300", "--output-sd", "1")),
    Attack("a cap of 1.5 times the bill", "batch", times=1.5),
    Attack("a cap of 3 times the bill", "batch", times=3.0),
    Attack(
        *("servers that ignore limits: 8,000 tokens", "online", 1.0),
        ("--output", "8000", "--ignore-limits"),
        may_pass=True,
    ),
)


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what the servers say of it."""

    status: int
    planned: str
    spent: float
    answered: int
    batches: list[tuple[float, float]]
    """When each was created, and when its last answer came."""


def run(attack: Attack, folder: Path, cap: float) -> Outcome:
    pools, out = folder / "pools.jsonl", folder / "out"
    crash.write_pools(pools, attack.queries, attack.documents, attack.text)
    flags = [*attack.flags, "--judges", *attack.judges]
    flags += BATCH if attack.mode == "batch" else ()
    flags += ["--max-usd", f"{cap:.6f}"] if cap else []
    command = crash.annotating(pools, out, *flags)
    latency = "0.3" if attack.kills else "0.05"
    servers = (
        *attack.servers,
        *(BATCH_SECONDS if attack.mode == "batch" else ("--latency", latency)),
    )
    with crash.fakes(folder, *servers) as urls:
        environ = urls | attack.variables
        if attack.kills:
            batch, rng = attack.mode == "batch", random.Random(attack.name)
            moments = [0 if batch else rng.randint(20, 200) for _ in range(attack.kills)]
            crash.killed(command, environ, folder, moments, batch=batch)
        status, printed = crash.completed(command, environ)
        spent = sum(crash.billed(environ).values())
    if status not in (0, 3):
        print(printed, file=sys.stderr)
    planned = re.search(r"documents: (.*?) requests", printed)
    answered = {entry["sha"] for entry in crash.answers(folder)}
    return Outcome(
        *(status, planned[1] if planned else "?", spent, len(answered)), batches_in(folder)
    )


def batches_in(folder: Path) -> list[tuple[float, float]]:
    created, ended = dict[str, float](), dict[str, float]()
    for entry in crash.journal(folder):
        if entry["endpoint"] == "create" and entry["status"] == 200:
            created[entry["batch"]] = entry["arrived"]
        elif entry["endpoint"] == "line":
            ended[entry["batch"]] = entry["finished"]
    return sorted((created[batch], ended[batch]) for batch in ended)


def rounds(batches: list[tuple[float, float]]) -> int:
    """The longest chain: it goes on with whichever batch ends first of those that may follow."""
    chain, free = 0, 0.0
    while following := [ended for created, ended in batches if created > free]:
        chain, free = chain + 1, min(following)
    return chain


@cache
def bill() -> float:
    """What the plain run costs in batches without a cap."""
    with tempfile.TemporaryDirectory() as folder:
        return run(Attack("", "batch"), Path(folder), 0.0).spent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=range(1, len(ATTACKS) + 1))
    held = True
    print("| | attack | mode | cap, $ | spent, $ | ratio | exit | rounds | batches | answered |")
    print("|---" * 10 + "|")
    for number in parser.parse_args().rows:
        attack = ATTACKS[number - 1]
        cap = attack.cap or attack.times * bill()
        with tempfile.TemporaryDirectory() as folder:
            found = run(attack, Path(folder), cap)
        crash.end_left()
        held &= attack.may_pass or found.spent <= cap
        chain = f"{rounds(found.batches)} | {len(found.batches)}" if found.batches else "- | -"
        print(
            f"| {number} | {attack.name} | {attack.mode} | {cap:.4f} | {found.spent:.4f} "
            f"| {found.spent / cap:.2f} | {found.status} | {chain} "
            f"| {found.answered:,} of {found.planned} |",
            flush=True,
        )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
