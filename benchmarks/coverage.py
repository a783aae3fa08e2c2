"""How often intervals hold the true value, and tests cry wolf, on contests with a known truth.

    OPENBLAS_NUM_THREADS=2 python -m benchmarks.coverage [--scores]

Each row is a population of queries and a contest of two rankers on a sample of n of them: how many
95% intervals hold the true mean of the first, and the true difference; how many tests at .05 tell
equal rankers apart, or refuse the true difference where there is one; and how often P(A is better)
lies beyond .05 and .95 where there is none, which is to be .10. Last, how often any of the 30
tests of 5 equal rankers by 3 measures does so, as they are and after Holm's correction.

The last population is made of official_ndcg_cut_10.csv of TREC DL 2019: pairs
of the 37 runs on the 43 topics, blurred a little (tests/golden/SOURCES.md says where it is from).
With 4,000 contests a figure has a standard error of .003. About 2 minutes.

With --scores, of simulated judges: the root mean square error of the scores of
`zelo --calls-per-document` in logits, and how many true scores lie within 1.96 `std_error` and
within 1.96 `truth_error`, where it is known how far judges err together. These judges' votes have
sizes that mean something, so scores are drawn to 0 more than they need be: stretched to the scale
of the truth, more intervals hold.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.special import betaincinv, ndtr

from benchmarks.data import published
from benchmarks.figures import centred, rmse
from benchmarks.simulated import REGIMES, World, draw_world
from benchmarks.worth import zelo_by_calls
from zelo_ray.evaluation.ranking import Floats
from zelo_ray.evaluation.significance import StudentTest, holm, mean_metrics, paired_test

SIZES = (25, 43, 200)
CONTESTS, FAMILIES, QUERIES = 4000, 2000, 200_000
PAIRS = 20  # of runs
BLUR = 0.05  # standard deviation of what is added to a topic's metric

Margin = tuple[float, float, float, float]
MARGINS: dict[str, Margin] = {
    "middling: 3% are 0, 5% are 1": (0.03, 0.05, 2.5, 1.6),
    "easy: 5% are 0, 35% are 1": (0.05, 0.35, 4.0, 1.0),
    "sparse: 50% are 0, 10% are 1": (0.50, 0.10, 1.5, 2.0),
    "skewed: 10% are 0, 2% are 1": (0.10, 0.02, 0.6, 2.0),
}
"""Shares of 0 and of 1, and the beta distribution of what lies between."""
SHARED = 0.64  # of the variance of a ranker, before its margin: how hard the query is


def give(margin: Margin, normal: Floats) -> Floats:
    """Turn standard normal numbers into metrics, in the same order."""
    zeros, ones, *shape = margin
    rank = ndtr(normal)
    between = betaincinv(*shape, np.clip((rank - zeros) / (1 - zeros - ones), 0, 1))
    return np.where(rank < zeros, 0.0, np.where(rank > 1 - ones, 1.0, between))


def rankers(count: int, rng: np.random.Generator) -> Floats:
    """Standard normal numbers of shape [count, queries], by which rankers agree on what is hard."""
    hard, own = rng.normal(size=QUERIES), rng.normal(size=(count, QUERIES))
    return np.sqrt(SHARED) * hard + np.sqrt(1 - SHARED) * own


def populations(folder: Path) -> Iterable[tuple[str, list[Floats]]]:
    """Names, and what contests are drawn from by turns: metrics of shape [2, queries]."""
    rng = np.random.default_rng(0)
    for name, margin in MARGINS.items():
        yield name, [give(margin, rankers(2, rng))]
    first = give(MARGINS["middling: 3% are 0, 5% are 1"], rng.normal(size=QUERIES))
    yield "middling, and all or nothing", [np.stack([first, rng.random(QUERIES) < first])]
    if (path := folder / "official_ndcg_cut_10.csv").exists():
        runs = read_topics(path)
        pairs = [runs[rng.choice(len(runs), 2, replace=False)] for _ in range(PAIRS)]
        yield "TREC DL 2019, nDCG@10", [blurred(pair, rng) for pair in pairs]
    else:
        print(f"{path} is missing: its population is left out")


def read_topics(path: Path) -> Floats:
    """Metrics of shape [runs, topics]."""
    runs = defaultdict(dict)
    with path.open() as lines:
        for row in csv.DictReader(lines):
            if row["topic"] != "all":
                runs[row["runid"]][row["topic"]] = float(row["ndcg_cut_10"])
    topics = sorted(next(iter(runs.values())))
    return np.array([[run[topic] for topic in topics] for run in runs.values()])


def blurred(pair: Floats, rng: np.random.Generator) -> Floats:
    found = pair[:, rng.integers(0, pair.shape[1], QUERIES // PAIRS)]
    return np.clip(found + rng.normal(0, BLUR, found.shape), 0, 1)


def held(found: StudentTest, truth: float) -> Floats:
    """Which rows have an interval that holds the true mean."""
    return (found.low <= truth) & (truth <= found.high)


def figures(turns: list[Floats], queries: int) -> Floats:
    """The columns of one row."""
    rng = np.random.default_rng(queries)
    found = []
    for population in turns:
        size = (CONTESTS // len(turns), queries)
        sample = population[:, rng.integers(0, population.shape[1], size)]
        truth = population.mean(axis=1)
        apart, true_difference = sample[0] - sample[1], truth[0] - truth[1]
        test = paired_test(apart - true_difference, 0.95)
        beyond = (test.chance_above < 0.05) | (test.chance_above > 0.95)
        means, differences = mean_metrics(sample[0], 0.95), paired_test(apart, 0.95)
        inside = [held(means, truth[0]), held(differences, true_difference)]
        found.append([*inside, test.p <= 0.05, beyond])
    return np.concatenate(found, axis=1).mean(axis=1)


def families(queries: int) -> tuple[float, float]:
    """How often a contest of equal rankers holds a false alarm: without correction, and with it."""
    rng = np.random.default_rng(queries)
    normal = rankers(5, rng)
    sample = normal[:, rng.integers(0, QUERIES, (FAMILIES, queries))]
    measures = [give(margin, sample) for margin in list(MARGINS.values())[:3]]
    pairs = [*combinations(range(5), 2)]
    gaps = [values[a] - values[b] for values in measures for a, b in pairs]
    p = np.stack([paired_test(gap, 0.95).p for gap in gaps], axis=1)
    corrected = np.apply_along_axis(holm, 1, p)
    return (p <= 0.05).any(axis=1).mean(), (corrected <= 0.05).any(axis=1).mean()


def print_table(columns: str, rows: Iterable[tuple[str, Callable[[int], Iterable[float]]]]) -> None:
    print(f"| population | n | {columns} |\n|---|" + "---:|" * (columns.count("|") + 2))
    for name, measure in rows:
        for queries in SIZES:
            cells = " | ".join(f"{figure:.3f}" for figure in measure(queries))
            print(f"| {name} | {queries} | {cells} |", flush=True)


WORLDS = {
    "mid": REGIMES["mid"],
    "err together": replace(REGIMES["mid"], shared_document=0.6),
    "hard": REGIMES["hard"],
}
"""Simulated judges, who get a document wrong together by .25, .6 and .4 logits."""


def print_scores() -> None:
    print("| judges | calls a document | error | std_error holds | truth_error holds | stretched |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, regime in WORLDS.items():
        world = draw_world(regime, 300, 25, np.random.default_rng(0))
        for calls in (4, 6, 8):
            cells = score_figures(world, calls, regime.shared_document)
            print(f"| {name} | {calls} | {' | '.join(f'{x:.3f}' for x in cells)} |", flush=True)


def score_figures(world: World, calls: int, shared: float) -> tuple[float, ...]:
    """Return the error of scores, and how many truths lie within 1.96 of their errors.

    A truth is in logits as it was drawn; last, in so many as make the scores its expectation.
    """
    _, scores, errors = zelo_by_calls(calls)(world)
    truth = centred(world.truth)
    unit = (scores * scores).sum() / (scores * centred(world.truth + world.alike)).sum()
    kept = shared * np.sqrt(1 - 1 / scores.shape[1])
    cases = ((1.0, 0.0), (1.0, kept), (unit, unit * kept))
    inside = [np.abs(scores - x * truth) <= 1.96 * np.hypot(errors, wide) for x, wide in cases]
    return rmse(scores, world.truth), *(held.mean() for held in inside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", action="store_true")
    if parser.parse_args().scores:
        print_scores()
        return
    folder = published() / "trec_dl19"
    print_table(
        "mean held | difference held | false alarms | P beyond .05 and .95",
        (
            (name, lambda queries, turns=turns: figures(turns, queries))
            for name, turns in populations(folder)
        ),
    )
    print()
    print_table("any false alarm | after Holm", [("5 equal rankers, 3 measures", families)])


if __name__ == "__main__":
    main()
