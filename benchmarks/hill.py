"""How often the best answer wins king of the hill, by judge and starting order, beside zELO.

Answers' worths are N(0, 1); judges are simulated (noise 1, and shared_noise 1.5, since real ones
err together) and see the worths times a slope. Columns: who judges; how many answers; how often a
judge is right on a random pair; then how often the best answer won where it is king first, where it
challenges last, where the worst is king first, and in a random order; and how often zELO ranks it
first on the same number of calls, which go to the first battles of its random cycles. Of several
tournaments (in random orders, or of judges each for themselves) the answer that wins most of them
counts; of equals, the one with the best score. zELO's order takes two cycles of battles first.
Runs in memory, without Ray. Run: python -m benchmarks.hill [--queries N]
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

from tests.builders import Shelf
from zelo_ray.fitting.pairs import count_pairs
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, Rounds, best_of, zelo
from zelo_ray.protocols.best_of import BestOfOptions
from zelo_ray.providers import Provider, Settings, build_panel, load_provider
from zelo_ray.records import CrownedScore, Document, Judge, Pool, Vote

ANSWERS = (3, 6, 10)
SLOPES = (1.0, 2.0, 5.0)
COURTS: dict[str, tuple[int, dict[str, Any]]] = {
    "1 judge": (1, {}),
    "1 judge, 3 random orders": (1, {"repeats": 3, "order": "random"}),
    "1 judge, zELO's order": (1, {"order": "zelo", "cycles": 2}),
    "3 judges, each": (3, {}),
    "3 judges, panel": (3, {"decide": "panel"}),
}
"""How many judges, and options."""

Worths = list[float]
ORDERS: dict[str, Callable[[Worths], Worths]] = {
    "best first": lambda worths: sorted(worths, key=lambda worth: worth != max(worths)),
    "best last": lambda worths: sorted(worths, key=lambda worth: worth == max(worths)),
    "worst first": lambda worths: sorted(worths, key=lambda worth: worth != min(worths)),
    "random": list,
}
"""Answers come in a random order; the others move one of them."""


def options_of(**fields: Any) -> AnnotateOptions:
    return BestOfOptions(inputs=("-",), out="-", **fields)


def panel_of(judges: int, slope: float) -> tuple[Judge, ...]:
    names = [f"simulated:{letter}" for letter in "abc"[:judges]]
    traits = {"truth": "worth", "shared_noise": 1.5, "slope": slope}
    return build_panel(names, dict.fromkeys(names, traits), {})


def pool_of(number: int, worths: Worths, ids: Mapping[float, str]) -> Pool:
    """Answers in this order; ids say nothing of the worth, as equal scores are ranked by them."""
    documents = (Document(ids[w], f"answer {w} to {number}", {"worth": w}) for w in worths)
    return Pool(f"q{number}", f"question {number}?", tuple(documents))


async def judged(rounds: Rounds, provider: Provider) -> Sequence[Any]:
    """Every judgment on a pool, as a run would have them."""
    shelf, progress = Shelf(), Progress(rounds)
    while (step := progress.step(shelf)).missing:
        for request in step.missing:
            shelf.put(request, (await provider.send(request)).text)
    return step.judgments


def crowned(told: Sequence[Any], options: AnnotateOptions) -> str:
    """Whom the tournaments of a query name together."""
    (fit,) = best_of.fit([told], options)
    scores = [score for score in fit.scores if isinstance(score, CrownedScore)]
    return max(scores, key=lambda score: (score.crowned, -score.rank)).doc_id


def battles(pool: Pool, panel: Sequence[Judge], calls: int) -> Rounds:
    """As many cycles of zELO as so many calls take, and repeats where all pairs are asked."""
    documents, pairs = len(pool.documents), calls // len(panel)
    most = min(pairs, documents * (documents - 1) // 2)
    cycles = next(cycles for cycles in count(1) if count_pairs(documents, cycles) >= most)
    repeats = -(-pairs // count_pairs(documents, cycles))
    return zelo.rounds(pool, panel, options_of(cycles=cycles, repeats=repeats))


def right(vote: Vote, worths: Mapping[str, float]) -> bool:
    """Whether a vote is for the worthier."""
    return (vote.preference > 0) == (worths[vote.doc_id_b] > worths[vote.doc_id_a])


async def row(court: str, answers: int, slope: float, queries: int) -> list[float | None]:
    """The columns of one row from the third on, as shares; None where an order is drawn anyway."""
    judges, chosen = COURTS[court]
    panel, options = panel_of(judges, slope), options_of(protocol="best-of", **chosen)
    orders = {"random": ORDERS["random"]} if "order" in chosen else ORDERS
    provider = load_provider("simulated").connect(Settings())
    won, votes = Counter[str](), list[bool]()
    for number in range(queries):
        rng = Random(f"{answers}:{number}")
        worths = [rng.gauss(0, 1) for _ in range(answers)]
        ids = {worth: f"d{place}" for place, worth in enumerate(worths)}
        best = ids[max(worths)]
        for name, order in orders.items():
            pool = pool_of(number, order(worths), ids)
            told = await judged(best_of.rounds(pool, panel, options), provider)
            won[name] += crowned(told, options) == best
        pool = pool_of(number, worths, ids)
        calls = sum(best_of.count(pool, panel, options).values())
        told = (await judged(battles(pool, panel, calls), provider))[:calls]
        (fit,) = zelo.fit([told], options)
        won["zELO"] += fit.scores[0].doc_id == best
        votes += [right(vote, {name: worth for worth, name in ids.items()}) for vote in told]
    shares = [won[name] / queries if name in won else None for name in (*ORDERS, "zELO")]
    return [sum(votes) / len(votes), *shares]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=150)
    flags = parser.parse_args()
    print("| judges | answers | right |", " | ".join(ORDERS), "| zELO |")
    print("|---|" + "---:|" * (len(ORDERS) + 3))
    for court in COURTS:
        for answers in ANSWERS:
            for slope in SLOPES:
                shares = asyncio.run(row(court, answers, slope, flags.queries))
                cells = " | ".join("" if share is None else f"{share:.0%}" for share in shares)
                print(f"| {court} | {answers} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
