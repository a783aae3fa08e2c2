"""Contests of many rankers: how long the statistics take, how often they cry wolf, what they tell.

    OPENBLAS_NUM_THREADS=2 python -m benchmarks.significance [--only speed|level|few]

Speed: contests of 10 to 100 rankers by 3 measures on 1,000 queries, all of which all answered, or
all but 2% each. Level: of contests of 40 equal rankers (780 tests), how many hold any false alarm
after Holm's correction; then how many of the pairs of unequal rankers are told apart. Few: of 10
tests of 5 equal rankers by Success@1 and RR on few queries, how many have p <= .05, and how many
contests hold a false alarm after Holm's correction.
"""

import argparse
import resource
import time

import numpy as np

from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import compare_pairs, evaluate_rankers

ARMS, QUERIES, MEASURES = (10, 20, 40, 100), 1000, ("nDCG@10", "AP", "RR")
CONTESTS, MANY, SIZES = 200, 40, (25, 100)
OPTIONS = {"confidence": 0.95}
FEW, TRIES = (5, 8, 10, 25, 43), 2000


def metrics(
    rng: np.random.Generator, rankers: int, queries: int, apart: float = 0.0, lost: float = 0.0
) -> Floats:
    """Metrics from 0 to 1 of rankers that agree on what is hard; means differ by ``apart``."""
    hard, own = rng.normal(0.5, 0.3, queries), rng.normal(0, 0.15, (rankers, queries))
    values = np.clip(hard + own + apart * rng.normal(size=(rankers, 1)), 0, 1)
    return np.where(rng.random(values.shape) < lost, np.nan, values)


def print_speed() -> None:
    print("| rankers | queries lost by each | comparisons | seconds | told apart | peak MB |")
    print("|---:|---:|---:|---:|---:|---:|")
    for rankers in ARMS:
        for lost in (0.0, 0.02):
            rng = np.random.default_rng(0)
            values = {name: metrics(rng, rankers, QUERIES, 0.01) for name in MEASURES}
            answered = rng.random((rankers, QUERIES)) >= lost
            names = [f"ranker {n}" for n in range(rankers)]
            began = time.monotonic()
            _, found = evaluate_rankers(values, answered, names, **OPTIONS)
            seconds = time.monotonic() - began
            told = sum(one.p_holm < 0.05 for one in found)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            cells = (
                f"{rankers} | {lost:.0%} | {len(found):,} | {seconds:.1f} | {told:,} | {peak:,.0f}"
            )
            print(f"| {cells} |", flush=True)


def told(queries: int, number: int, apart: float) -> int:
    """How many pairs one contest tells apart."""
    rng = np.random.default_rng([queries, number])
    values = {"m": metrics(rng, MANY, queries, apart)}
    found = compare_pairs(values, [str(n) for n in range(MANY)], **OPTIONS)
    return sum(one.p_holm < 0.05 for one in found)


def print_level() -> None:
    print("| queries | contests with a false alarm | pairs told apart, of 780 |")
    print("|---:|---:|---:|")
    for queries in SIZES:
        alarms = [told(queries, number, 0.0) > 0 for number in range(CONTESTS)]
        power = [told(queries, number, 0.03) for number in range(CONTESTS // 10)]
        print(f"| {queries} | {np.mean(alarms):.3f} | {np.mean(power):.1f} |", flush=True)


def equal_rankers(rng: np.random.Generator, queries: int) -> dict[str, Floats]:
    """Metrics of five rankers that are equally good, and agree a little on what is hard."""
    hard = rng.beta(2, 3, queries)
    ranks = rng.geometric(hard, (5, queries))
    return {"Success@1": (ranks == 1).astype(float), "RR": 1 / ranks}


def print_few() -> None:
    print("| measure | queries | p <= .05 | any after Holm |")
    print("|---|---:|---:|---:|")
    for queries in FEW:
        rng = np.random.default_rng(queries)
        contests = [equal_rankers(rng, queries) for _ in range(TRIES)]
        for measure in contests[0]:
            found = [
                compare_pairs({measure: one[measure]}, [*"abcde"], **OPTIONS) for one in contests
            ]
            alone = np.mean([row.p <= 0.05 for rows in found for row in rows])
            together = np.mean([min(row.p_holm for row in rows) <= 0.05 for rows in found])
            print(f"| {measure} | {queries} | {alone:.3f} | {together:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("speed", "level", "few"))
    only = parser.parse_args().only
    for name, show in (("speed", print_speed), ("level", print_level), ("few", print_few)):
        if only in (None, name):
            show()


if __name__ == "__main__":
    main()
