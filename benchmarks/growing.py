"""Pools that change between two runs into one directory: what is asked anew, and what it comes to.

Three simulated judges of the walk-through on sizing judge pools by `zelo`, four rings; then the
pools change and are judged again, with the votes of the first run fitted along. *Asked* are pairs a
query; *error* is the root mean square of score - slope x grade, both centred, of the new documents
and of the others, beside that of a first run on the same pools; *seconds* are of processor, for
planning, finding earlier votes and fitting, without the answers.
Run: python -m benchmarks.growing [--queries 40]
"""

import argparse
import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from benchmarks.sizing import make_pool, panel_of
from tests.builders import Shelf, lines_of
from zelo_ray.engine.earlier import Earlier, keep_the_rest, put_aside
from zelo_ray.engine.settle import settle
from zelo_ray.engine.write_results import write_results
from zelo_ray.protocols import advance, load, zelo
from zelo_ray.protocols.zelo import ZeloOptions
from zelo_ray.providers import Settings, load_provider
from zelo_ray.records import Document, Pool, Score

PANEL = panel_of(3, {"shared_noise": 1.5})
Change = Callable[[Pool], Pool]


def first(documents: int) -> Change:
    return lambda pool: replace(pool, documents=pool.documents[:documents])


def shuffled(pool: Pool) -> Pool:
    documents = Random(pool.query_id).sample(pool.documents, len(pool.documents))
    return replace(pool, documents=tuple(documents))


def replaced(pool: Pool) -> Pool:
    old, *rest = pool.documents
    return replace(pool, documents=(Document(old.id, "another text", old.metadata), *rest))


CHANGES: dict[str, tuple[int, Change, Change]] = {
    "25 and one more": (26, first(25), first(26)),
    "25 and two more": (27, first(25), first(27)),
    "100 and ten more": (110, first(100), first(110)),
    "25, shuffled": (25, first(25), shuffled),
    "25, one replaced": (25, first(25), replaced),
}
"""How many documents pools are drawn with, and what two runs see of them."""


@dataclass(frozen=True)
class Judged:
    """A run: requests, seconds of processor besides answering, and scores by query and document."""

    asked: int
    seconds: float
    scores: dict[tuple[str, str], Score]


def judge(pools: list[Pool], out: str, shelf: Shelf) -> Judged:
    """One run into a directory; ``shelf`` is its ledger."""
    options = ZeloOptions(inputs=("-",), out=out)
    provider = load_provider("simulated").connect(Settings())
    start = process_time()
    steps = [advance(zelo.rounds(pool, PANEL, options), shelf) for pool in pools]
    seconds = process_time() - start
    missing = [request for step in steps for request in step.missing]

    async def answer() -> None:
        for request in missing:
            found = await provider.send(request)
            shelf.put(request, found.text, found.status)

    asyncio.run(answer())
    start = process_time()
    put_aside(options)
    earlier = Earlier(out, load("zelo"))
    block = settle(lines_of(pools), PANEL, options, shelf, earlier=earlier)
    write_results([block], options)
    keep_the_rest(options)
    seconds += process_time() - start
    rows = [Score(**row) for scores in block["scores"].to_pylist() for row in scores]
    return Judged(len(missing), seconds, {(one.query_id, one.doc_id): one for one in rows})


def error(pools: list[Pool], found: Judged, only: set[tuple[str, str]]) -> float:
    """Of some documents; NaN for none."""
    off = []
    for pool in pools:
        grades = {d.id: float(d.metadata["grade"]) for d in pool.documents}
        middle = np.mean(list(grades.values()))
        for doc_id, grade in grades.items():
            if (pool.query_id, doc_id) in only:
                off.append(found.scores[pool.query_id, doc_id].score - (grade - middle))
    return float(np.sqrt(np.mean(np.square(off)))) if off else float("nan")


def measure(name: str, queries: int) -> str:
    documents, before, after = CHANGES[name]
    pools = [make_pool(number, documents) for number in range(queries)]
    old, new = [before(pool) for pool in pools], [after(pool) for pool in pools]
    with TemporaryDirectory() as out, TemporaryDirectory() as other:
        shelf = Shelf()
        judge(old, out, shelf)
        grown, fresh = judge(new, out, shelf), judge(new, other, Shelf())
    seen = {(pool.query_id, d.id, d.content) for pool in old for d in pool.documents}
    every = {(pool.query_id, d.id): d.content for pool in new for d in pool.documents}
    added = {key for key, text in every.items() if (*key, text) not in seen}
    errors = [
        error(new, run, which) for which in (added, every.keys() - added) for run in (grown, fresh)
    ]
    told = " | ".join(f"{each:.2f}" for each in errors).replace("nan", "-")
    pairs = (run.asked / len(PANEL) / queries for run in (grown, fresh))
    asked = " | ".join(f"{each:.1f}" for each in pairs)
    return f"| {name} | {asked} | {told} | {grown.seconds:.1f}, {fresh.seconds:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=40)
    flags = parser.parse_args()
    print("| change | asked | first run | of new | first run | of others | first run | seconds |")
    print("|---|" + "---:|" * 7)
    for name in CHANGES:
        print(measure(name, flags.queries), flush=True)


if __name__ == "__main__":
    main()
