"""What simulated panels make of a known truth, by documents, cycles and the ways in which they err.

Runs the pairwise protocol and its fit in memory, without Ray; grades are drawn as data/qrels.txt
has them. Columns: requests a query; the mean standard error that the fit tells; the root mean
square of score - slope x grade, both centred; how many truths lie within 1.96 standard errors; how
many pairs of different grades are in the right order; nDCG@10 with linear gain.
Needs ir-measures. Run: python -m benchmarks.sizing [--documents-a-row N]
"""

import argparse
import asyncio
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import ir_measures
import numpy as np
from ir_measures import nDCG

from tests.helpers.builders import Shelf
from zelo_ray.fitting.pairs import count_pairs
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import advance, zelo
from zelo_ray.protocols.zelo import ZeloOptions
from zelo_ray.providers import Provider, Refused, Settings, build_panel, load_provider
from zelo_ray.records import Document, Judge, Pool, Score, Vote

Traits = Mapping[str, Any]

QRELS = Path(__file__).parents[1] / "data" / "qrels.txt"
_TOGETHER = {"shared_noise": 1.5}
PANELS: dict[str, tuple[int, Traits]] = {
    "typical: three judges, shared_noise 1.5": (3, _TOGETHER),
    "one of them": (1, _TOGETHER),
    "three, shared_noise 0": (3, {}),
    "one of them, shared_noise 0": (1, {}),
    "typical, position_bias 1": (3, {**_TOGETHER, "position_bias": 1.0}),
    "typical, position_bias 2": (3, {**_TOGETHER, "position_bias": 2.0}),
    "typical, refusals 0.2": (3, {**_TOGETHER, "refusals": 0.2}),
    "typical, slope 2": (3, {**_TOGETHER, "slope": 2.0}),
    "typical, slope 0: they know nothing": (3, {**_TOGETHER, "slope": 0.0}),
    "typical, and documents misjudged alike": (3, {**_TOGETHER, "truth": "seen"}),
}
"""How many judges, and the options of each. With shared_noise 1.5 three judges weigh as much as two
that err on their own: their votes on equal documents correlate by 0.29."""
ROWS = [
    *(("typical: three judges, shared_noise 1.5", 10, cycles) for cycles in (2, 4, 8)),
    *(("typical: three judges, shared_noise 1.5", 25, cycles) for cycles in (2, 4, 8, 12)),
    *(("typical: three judges, shared_noise 1.5", 100, cycles) for cycles in (2, 4, 8, 16, 32)),
    *((name, 25, 4) for name in list(PANELS)[1:]),
    *((name, 25, 12) for name in ("one of them", "typical, and documents misjudged alike")),
]
"""Panel, documents and cycles; 8 cycles of 10 documents are all pairs, and so are 12 of 25."""
MISJUDGED = 0.7  # standard deviation, in grades, of what all see wrongly in a document


def panel_of(judges: int, traits: Traits) -> tuple[Judge, ...]:
    names = [f"simulated:{letter}" for letter in "abc"[:judges]]
    return build_panel(names, dict.fromkeys(names, traits), {})


def make_pool(number: int, documents: int) -> Pool:
    """A query whose documents carry grades, and what judges that misjudge them see instead."""
    rng = Random(f"{documents}:{number}")
    known = [int(line.split()[3]) for line in QRELS.read_text().splitlines()]
    grades = rng.choices(known, k=documents)
    candidates = (
        Document(f"d{i}", f"text {i} for {number}", {"grade": grade, "seen": grade + error})
        for i, grade in enumerate(grades)
        for error in [rng.gauss(0, MISJUDGED)]
    )
    return Pool(f"q{number}", f"question {number} of {documents}?", tuple(candidates))


async def judge(
    pool: Pool, panel: tuple[Judge, ...], options: AnnotateOptions, provider: Provider
) -> tuple[Vote, ...]:
    """Every vote of a panel on a pool, as a run would have them."""
    shelf = Shelf()
    while (step := advance(zelo.rounds(pool, panel, options), shelf)).missing:
        for request in step.missing:
            try:
                answer = await provider.send(request)
            except Refused as refusal:
                raise SystemExit(str(refusal)) from None
            shelf.put(request, answer.text, answer.status)
    return step.judgments


def figures(pool: Pool, scores: tuple[Score, ...], slope: float) -> list[float]:
    """The columns of one query from std_error on; the true error is squared."""
    grades = {d.id: int(d.metadata["grade"]) for d in pool.documents}
    found = {score.doc_id: score.score for score in scores}
    errors = np.array([score.std_error for score in scores])
    truth = np.array([slope * grades[score.doc_id] for score in scores])
    off = np.array(list(found.values())) - (truth - truth.mean())
    right = [
        (found[a] > found[b]) == (grades[a] > grades[b])
        for a, b in combinations(found, 2)
        if grades[a] != grades[b]
    ]
    ndcg = ir_measures.calc_aggregate([nDCG @ 10], {"q": grades}, {"q": found})[nDCG @ 10]
    covered = np.abs(off) < 1.96 * errors
    return [errors.mean(), (off**2).mean(), covered.mean(), float(np.mean(right)), ndcg]


def measure(name: str, documents: int, cycles: int, queries: int) -> str:
    judges, traits = PANELS[name]
    panel = panel_of(judges, traits)
    options = ZeloOptions(inputs=("-",), out="-", cycles=cycles)
    provider = load_provider("simulated").connect(Settings())
    pools = [make_pool(number, documents) for number in range(queries)]

    async def run() -> list[tuple[Vote, ...]]:
        return [await judge(pool, panel, options, provider) for pool in pools]

    fits = zelo.fit(asyncio.run(run()), options)
    slope = traits.get("slope", 1.0)
    rows = [
        figures(pool, fit.scores, slope)
        for pool, fit in zip(pools, fits, strict=True)
        if fit.scores
    ]
    std_error, square, covered, right, ndcg = np.mean(rows, axis=0)
    asked = count_pairs(documents, cycles) * judges
    return (
        f"| {name} | {documents} | {cycles} | {asked:,} | {std_error:.2f} | {square**0.5:.2f} "
        f"| {covered:.0%} | {right:.0%} | {ndcg:.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents-a-row", type=int, default=2500)
    flags = parser.parse_args()
    columns = "documents | cycles | requests | std_error | true error | held | in order | nDCG@10"
    print(f"| panel | {columns} |")
    print("|---|" + "---:|" * 8)
    for name, documents, cycles in ROWS:
        queries = flags.documents_a_row // documents
        print(measure(name, documents, cycles, queries), flush=True)


if __name__ == "__main__":
    main()
