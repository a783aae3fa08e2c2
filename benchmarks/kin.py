"""What the guard against kin keeps from being called sure, with recorded judges as rerankers.

    python -m benchmarks.kin [--panels 56]

It reads trec_dl19: see tests/golden/SOURCES.md. Each recorded judge is a ranker: its grades
order the judged documents of a query, equal ones at random. The truth is each judge in turn, and
then the median of three of the graded ones. Wrong is a difference by nDCG@10 that is called sure
and has the other sign by NIST's grades. About 3 minutes of one core.
"""

import argparse
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data import published
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.commands.bakeoff.families import Guard, find_families
from zelo_ray.commands.bakeoff.measure import measure
from zelo_ray.engine.refit import InseparableError
from zelo_ray.evaluation.measures import Truth
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import significance_of
from zelo_ray.records import Comparison

OPTIONS = BakeoffOptions(truth="-", out="-", measures=("nDCG@10",), label_draws=0)
Pair = tuple[str, str]


class Recorded:
    """Grades of the same documents by people and by judges."""

    def __init__(self, folder: Path) -> None:
        people = _read(folder / "qrels.txt")
        self.items = sorted(people)
        self.people = np.array([people[item] for item in self.items])
        told = {path.stem: _read(path) for path in sorted((folder / "judges").glob("*.txt"))}
        self.grades = {
            name: np.array([own.get(item, 0.0) for item in self.items])
            for name, own in told.items()
        }

    def table(self, values: Floats, name: str) -> pa.Table:
        query, doc = (list(column) for column in zip(*self.items, strict=True))
        return pa.table({"query_id": query, "doc_id": doc, name: np.asarray(values, float)})

    def labels(self, judges: Iterable[str]) -> pa.Table:
        return self.table(np.median([self.grades[name] for name in judges], axis=0), "relevance")


class Panel:
    """Some of the judges, as the guard asks for them."""

    def __init__(self, data: Recorded, judges: Sequence[str]) -> None:
        self.data, self.judges = data, tuple(judges)

    def labels_without(self, judges: Collection[str], truth: pa.Table) -> pa.Table:
        del truth
        rest = [name for name in self.judges if name not in judges]
        if not rest:
            raise InseparableError("no judge of the truth is left")
        return self.data.labels(rest)


def _read(path: Path) -> dict[Pair, float]:
    rows = (line.split() for line in path.read_text().splitlines())
    return {(row[0], row[2]): float(row[3]) for row in rows}


def people_of(data: Recorded, rankers: dict[str, pa.Table]) -> dict[Pair, float]:
    """By two rankers, the difference that people see."""
    found = measure(Truth(data.table(data.people, "relevance")), rankers, OPTIONS).comparisons
    sure = sum(significance_of(one).is_significant for one in found)
    print(f"{len(found)} pairs of {len(rankers)} rankers; people tell {sure} apart.\n")
    return {(one.run_a, one.run_b): one.difference for one in found}


def counts(rows: Iterable[Comparison], people: dict[Pair, float]) -> tuple[int, int]:
    """How many are called sure, and how many of these are wrong."""
    sure = [one for one in rows if significance_of(one).is_significant]
    wrong = [one for one in sure if one.difference * people[one.run_a, one.run_b] <= 0]
    return len(sure), len(wrong)


def row(
    data: Recorded, rankers: dict[str, pa.Table], judges: Sequence[str], people: dict[Pair, float]
) -> Floats:
    """Sure and wrong: without the guard, with it, and without it of pairs that have no kin."""
    measured = measure(Truth(data.labels(judges)), rankers, OPTIONS)
    families = find_families(judges, {name: name for name in rankers}, {})
    related = {name for name in rankers if families.judges_like(name)}
    apart = [one for one in measured.comparisons if not {one.run_a, one.run_b} & related]
    guard = Guard(measured, families, Panel(data, judges), OPTIONS)
    found = (measured.comparisons, [*map(guard.check, measured.comparisons)], apart)
    return np.array([count for rows in found for count in counts(rows, people)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=56, help="panels of three, of 56")
    flags = parser.parse_args()
    data = Recorded(published() / "trec_dl19")
    rng = np.random.default_rng(0)
    rankers = {
        name: data.table(grades + 0.5 * rng.random(len(grades)), "score")
        for name, grades in data.grades.items()
    }
    singles = [[name] for name in data.grades]
    graded = [name for name in data.grades if name.endswith("_graded")]
    panels = [list(panel) for panel in combinations(graded, 3)][: flags.panels]
    parts = {"one judge": singles, "three graded judges": panels}
    people = people_of(data, rankers)
    print("| truth | sure | wrong | guarded: sure | wrong | no kin: sure | wrong |")
    print("|---|" + "---:|" * 6)
    for title, truths in parts.items():
        total = np.zeros(6)
        for judges in truths:
            own = row(data, rankers, judges, people)
            total += own
            if title != "three graded judges":
                print(
                    f"| {', '.join(judges)} | " + " | ".join(f"{n:.0f}" for n in own) + " |",
                    flush=True,
                )
        cells = " | ".join(f"**{n:.0f}**" for n in total)
        print(f"| **{title}: {len(truths)} truths** | {cells} |", flush=True)


if __name__ == "__main__":
    main()
