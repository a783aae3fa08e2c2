"""When `zelo-ray fit --control length` helps, and when it takes away what is true.

Queries of 15 documents whose lengths spread by one doubling (sd). Judges vote by the truth and by a
bias for length; the truth itself may go with length. Columns: the bias, in logits for each
doubling; what a doubling is truly worth; the mean of the coefficient, of the error that is told,
and the standard deviation of the coefficient over the runs; how often the 95% interval held bias
plus relation; Pearson's correlation with the truth within queries, of plain scores and of
length-controlled ones.
Run: python -m benchmarks.length_control [--runs N]
"""

import argparse

import numpy as np

from zelo_ray.fitting.covariate import fit_with_covariate
from zelo_ray.fitting.outcomes import Games, OutcomeModel
from zelo_ray.fitting.pairs import ring_pairs
from zelo_ray.fitting.ratings import rate

QUERIES, DOCUMENTS, CYCLES, PRIOR_SD = 30, 15, 4, 2.5
SPREAD = 1.5  # standard deviation of what is true beside length, in logits
ROWS = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5), (-0.5, 0.5)]
"""Bias and true relation, in logits for each doubling of length."""


def make_query(
    rng: np.random.Generator, seed: int, number: int, bias: float, relation: float
) -> tuple[Games, np.ndarray, np.ndarray]:
    """The games of a query, their covariate, and the truth of its documents."""
    lengths = rng.normal(0, 1, DOCUMENTS)
    truth = rng.normal(0, SPREAD, DOCUMENTS) + relation * lengths
    names = [f"{n:02}" for n in range(DOCUMENTS)]
    pairs = ring_pairs(seed, f"q{number}", names, CYCLES)
    first = np.array([int(pair.a) for pair in pairs])
    second = np.array([int(pair.b) for pair in pairs])
    apart = lengths[first] - lengths[second]
    logits = truth[first] - truth[second] + bias * apart + rng.logistic(size=len(pairs))
    won = (logits > 0).astype(float)
    games = Games(items=DOCUMENTS, first=first, second=second, won=won, lost=1 - won, tied=0 * won)
    return games, apart, truth


def correlation(scores: np.ndarray, truth: np.ndarray) -> float:
    return float(np.corrcoef(scores, truth)[0, 1])


def measure(bias: float, relation: float, runs: int) -> str:
    found, errors, plain, controlled = [], [], [], []
    for seed in range(runs):
        rng = np.random.default_rng([seed, 7])
        made = [make_query(rng, seed, number, bias, relation) for number in range(QUERIES)]
        games, apart, truths = zip(*made, strict=True)
        fitted = fit_with_covariate(games, apart, PRIOR_SD)
        found.append(fitted.coefficient)
        errors.append(fitted.std_error)
        for query, scores, truth in zip(games, fitted.scores, truths, strict=True):
            plain.append(correlation(rate(query, OutcomeModel(prior_sd=PRIOR_SD)).scores, truth))
            controlled.append(correlation(scores, truth))
    values, told = np.array(found), np.array(errors)
    held = np.abs(values - bias - relation) < 1.96 * told
    return (
        f"| {bias:g} | {relation:g} | {values.mean():+.3f} | {told.mean():.3f} | "
        f"{values.std():.3f} | {held.mean():.2f} | {np.mean(plain):.3f} | "
        f"{np.mean(controlled):.3f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=60)
    flags = parser.parse_args()
    columns = "bias | relation | coefficient | error told | sd | held | plain | length-controlled"
    print(f"| {columns} |")
    print("|" + "---:|" * 8)
    for row in ROWS:
        print(measure(*row, flags.runs), flush=True)


if __name__ == "__main__":
    main()
