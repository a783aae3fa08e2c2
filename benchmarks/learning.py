"""What it takes to learn the judges of a large run, and to fit its scores: seconds and memory.

Votes and grades of three made-up judges, one grade and two rings a document, are written as a run
writes them. Then the judges are learned from the two tables, as between the two passes of a run,
and all pools are fitted, 32 at a time.
Run: python -m benchmarks.learning [--queries 10000] [--documents 25]
"""

import argparse
import resource
import time
from collections.abc import Iterator
from tempfile import TemporaryDirectory

import numpy as np

from zelo_ray.engine.learning import learn_judges
from zelo_ray.fitting.pairs import ring_pairs
from zelo_ray.formats.results import ResultsWriter
from zelo_ray.formats.tables import schema_of, table_of
from zelo_ray.protocols import lean
from zelo_ray.protocols.lean_plan import LeanOptions
from zelo_ray.records import Grade, Vote

JUDGES = [f"vendor:judge-{letter}" for letter in "abc"]
POOLS_AT_ONCE = 32


def judged(number: int, documents: int) -> tuple[list[Vote], list[Grade]]:
    """What three judges of different skill say of a query."""
    rng, query_id = np.random.default_rng(number), f"q{number:06}"
    names = [f"{query_id}-d{place:03}" for place in range(documents)]
    worth = dict(zip(names, rng.normal(0, 1.7, documents), strict=True))
    votes = []
    for pair in ring_pairs(0, query_id, names, 2):
        judge, gap = pair.turn % 3, worth[pair.b] - worth[pair.a] + rng.normal(0, 1.2)
        said = float(np.round(np.tanh((gap + rng.logistic(0, 0.3 + 0.2 * judge)) / 2), 1))
        told = "B answers the question in full, and A only in part."
        ids = (query_id, pair.a, pair.b, JUDGES[judge])
        votes.append(Vote(*ids, said, bool(rng.random() < 0.5), told, "0" * 32))
    seen = rng.normal(0, 0.8, documents)
    grades = [
        Grade(query_id, name, JUDGES[place % 3], int(grade), (), (), "why", "0" * 32)
        for place, name in enumerate(names)
        for grade in [np.searchsorted([-1.0, 0.5, 1.8], worth[name] + seen[place])]
    ]
    return votes, grades


def blocks(queries: int, documents: int) -> Iterator[list[tuple[list[Vote], list[Grade]]]]:
    """All queries, as many at once as a run fits together."""
    for first in range(0, queries, POOLS_AT_ONCE):
        last = min(first + POOLS_AT_ONCE, queries)
        yield [judged(number, documents) for number in range(first, last)]


def main() -> None:
    """Print one line for each step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=25)
    flags = parser.parse_args()
    with TemporaryDirectory() as out:
        tables = {"votes": schema_of(Vote), "grades": schema_of(Grade)}
        with ResultsWriter(out, tables) as results:
            for block in blocks(flags.queries, flags.documents):
                results.add("votes", table_of([v for votes, _ in block for v in votes], Vote))
                results.add("grades", table_of([g for _, own in block for g in own], Grade))
        before = peak()
        options = LeanOptions(inputs=("-",), out=out, protocol="lean")
        start = time.process_time()
        learned = learn_judges(options, None)
        learning = time.process_time() - start
        print(f"learn: {learning:.1f} s of processor, peak memory {before:.0f} -> {peak():.0f} MB")
        print(*learned.notes, sep="\n")
        spent, scored = 0.0, 0
        for block in blocks(flags.queries, flags.documents):
            start = time.process_time()
            fits = lean.fit([[*votes, *grades] for votes, grades in block], options, learned)
            spent += time.process_time() - start
            scored += sum(len(fit.scores) for fit in fits)
        rate = flags.queries / spent
        print(
            f"fit: {spent:.1f} s of processor for {scored:,} scores, {rate:,.0f} queries a second"
        )
        print(f"peak memory {peak():.0f} MB")


def peak() -> float:
    """The most memory that this process has held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
