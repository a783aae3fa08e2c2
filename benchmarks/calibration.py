"""How often intervals of Brier score and ECE hold the true value, and what chance alone gives.

    python -m benchmarks.calibration

Scores are drawn from Beta(1, 2), and a document is relevant with the chance that a row names. Each
figure is of 1,000 bake-offs of so many queries with so many documents each: the true ECE, the mean
of the measured ones, how many 95% intervals of ECE and of the Brier score hold the true value, and
how many ECE lie below "ECE by chance", which is to be .95 where scores hold. About a minute.
"""

from collections.abc import Callable

import numpy as np

from zelo_ray.evaluation.resampling import Floats
from zelo_ray.evaluation.score_calibration import BINS, measure_reliability

BAKE_OFFS, MANY = 1000, 4_000_000
SIZES = ((20, 10), (43, 20), (200, 20))
CHANCES: dict[str, Callable[[Floats], Floats]] = {
    "the score": lambda p: p,
    "a little more": lambda p: p + 0.1 * p * (1 - p),
    "0.6 of it": lambda p: 0.6 * p,
}


def true_values(
    chance: Callable[[Floats], Floats], rng: np.random.Generator
) -> tuple[float, float]:
    """Return the ECE and the Brier score of endlessly many documents."""
    scores = rng.beta(1, 2, MANY)
    relevant = chance(scores)
    bins = np.minimum((scores * BINS).astype(int), BINS - 1)
    apart = np.abs(np.bincount(bins, scores - relevant, BINS)).sum() / MANY
    brier = (relevant * (1 - scores) ** 2 + (1 - relevant) * scores**2).mean()
    return float(apart), float(brier)


def main() -> None:
    """Print one row for each kind of scores and size."""
    rng = np.random.default_rng(0)
    heads = ("ECE", "mean", "holds", "Brier", "chance")
    print(f"{'relevant with':15}{'queries':>8}" + "".join(f"{head:>7}" for head in heads))
    for name, chance in CHANCES.items():
        ece, brier = true_values(chance, rng)
        for queries, documents in SIZES:
            query = np.repeat(np.arange(queries), documents)
            rows = []
            for seed in range(BAKE_OFFS):
                scores = rng.beta(1, 2, len(query))
                relevant = rng.random(len(query)) < chance(scores)
                found = measure_reliability(
                    scores, relevant, query, resamples=300, confidence=0.95, seed=seed
                )
                rows.append(
                    (
                        found.ece.value,
                        found.ece.low <= ece <= found.ece.high,
                        found.brier.low <= brier <= found.brier.high,
                        found.ece.value < found.ece_by_chance,
                    )
                )
            mean, holds, of_brier, below = np.mean(rows, axis=0)
            print(
                f"{name:15}{queries:4} x {documents:2}{ece:7.3f}{mean:7.3f}{holds:7.2f}"
                f"{of_brier:7.2f}{below:7.2f}"
            )


if __name__ == "__main__":
    main()
