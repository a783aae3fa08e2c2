"""Attacks on the cap: what `annotate --max-usd` spends by the servers' own books.

Each row is a run of the command line against fakes on loopback, in a process of their own, that
answer at lengths and count tokens as nobody expects. *Ratio* is spent to cap: above 1 the cap did
not hold, and the exit status of this script is 1. Run: python benchmarks/caps.py [--rows 2 5]
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import crash
from tests.builders import set_in_file

QUERIES, DOCUMENTS = 40, 8
BATCH = ("--mode", "batch", *set_in_file(batch_poll=0.5))
BATCH_SECONDS = ("--batch-seconds", "2")
GROWING = ("--output", "20", "--output-later", "2000", "--output-turn", "90")
BY_KIND = {  # tokens of an answer by a field that it has; "": it has none
    "samre": {"": 20, "relevance": 1500},
    "zelo": {"preference": 20, "grade": 1500},
}
ENGLISH = "The matter with it is that nobody has looked into it for long enough to tell us why. "
ONE = crash.DEFAULT_JUDGES[:1]


@dataclass(frozen=True)
class Attack:
    """A run, the servers it meets, and its cap in dollars."""

    name: str
    mode: str
    cap: float
    servers: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    judges: tuple[str, ...] = crash.DEFAULT_JUDGES
    limit: int = 0
    """of the output, in tokens, if not the usual one"""
    text: Callable[[int], str] = lambda _: ""
    queries: int = QUERIES
    documents: int = DOCUMENTS

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


GROWS, ONE_BYTE = "90 answers of 20 tokens, then 2,000", "a token a byte"
DEARLY = ("--bytes-per-token", "1")
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
)


@dataclass(frozen=True)
class Outcome:
    """How a run ended, and what the servers say of it."""

    status: int
    planned: str
    spent: float
    answered: int


def run(attack: Attack, folder: Path) -> Outcome:
    pools, out = folder / "pools.jsonl", folder / "out"
    crash.write_pools(pools, attack.queries, attack.documents, attack.text)
    flags = [*attack.flags, "--judges", *attack.judges]
    flags += BATCH if attack.mode == "batch" else ()
    flags += ["--max-usd", f"{attack.cap:.6f}"]
    command = crash.annotating(pools, out, *flags)
    pace = BATCH_SECONDS if attack.mode == "batch" else ("--latency", "0.05")
    with crash.fakes(folder, *attack.servers, *pace) as urls:
        environ = urls | attack.variables
        status, printed = crash.completed(command, environ)
        spent = sum(crash.billed(environ).values())
    if status not in (0, 3):
        print(printed, file=sys.stderr)
    planned = re.search(r"documents: (.*?) requests", printed)
    answered = {entry["sha"] for entry in crash.answers(folder)}
    return Outcome(status, planned[1] if planned else "?", spent, len(answered))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=range(1, len(ATTACKS) + 1))
    held = True
    print("| | attack | mode | cap, $ | spent, $ | ratio | exit | answered |")
    print("|---" * 8 + "|")
    for number in parser.parse_args().rows:
        attack = ATTACKS[number - 1]
        with tempfile.TemporaryDirectory() as folder:
            found = run(attack, Path(folder))
        crash.end_left()
        held &= found.spent <= attack.cap
        print(
            f"| {number} | {attack.name} | {attack.mode} | {attack.cap:.4f} | {found.spent:.4f} "
            f"| {found.spent / attack.cap:.2f} | {found.status} "
            f"| {found.answered:,} of {found.planned} |",
            flush=True,
        )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
