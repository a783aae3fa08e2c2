"""The gate: how often it is wrong, and how often it lets pass what is as good, by queries.

    OPENBLAS_NUM_THREADS=2 python -m benchmarks.gate

Differences are drawn from pairs of TREC DL 2019's official runs (nDCG@10 of 43 topics, centred and
blurred a little), seen from either side, and shifted to a true difference. For margins of .01 and
.02: at a true loss of the margin, how often the gate passes (to be .05 at most); between equals,
how often it says worse or better (.05 at most, each) and how often it passes; and where the
candidate is better or worse. Close pairs are those whose differences spread by less than .1 from
topic to topic. A figure has a standard error of .003 where
it is .05. About a minute.
"""

from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.coverage import read_topics
from benchmarks.data import published
from zelo_ray.evaluation.gate import decide_gate
from zelo_ray.evaluation.ranking import Floats

QUERIES, MARGINS, TRIES, BLUR, CLOSE = (25, 50, 100, 200, 400), (0.01, 0.02), 4000, 0.02, 0.1
OPTIONS = {"measure": "nDCG@10", "confidence": 0.95}


def pairs(folder: Path) -> dict[str, list[Floats]]:
    """Centred differences of pairs of runs, of which some are close to each other."""
    runs = read_topics(folder / "official_ndcg_cut_10.csv")
    apart = [runs[a] - runs[b] for a, b in combinations(range(len(runs)), 2)]
    centred = [side * (row - row.mean()) for row in apart if row.std() > 0 for side in (1, -1)]
    return {
        "close": [row for row in centred if row.std() < CLOSE],
        "all": centred,
    }


def verdicts(population: list[Floats], queries: int, truth: float, margin: float) -> list[str]:
    """What the gate says of candidates whose true difference is known."""
    rng = np.random.default_rng(queries)
    rows = [population[n] for n in rng.integers(0, len(population), TRIES)]
    drawn = np.stack([rng.choice(row, queries) for row in rows])
    values = np.concatenate([np.zeros((1, queries)), drawn + rng.normal(truth, BLUR, drawn.shape)])
    rankers = [str(n) for n in range(len(values))]
    answered = np.ones(values.shape, dtype=bool)
    return [
        one.verdict for one in decide_gate(values, answered, rankers, "0", margin=margin, **OPTIONS)
    ]


def share(found: list[str], *verdict: str) -> str:
    return f"{np.mean([each in verdict for each in found]):.3f}"


def main() -> None:
    populations = pairs(published() / "trec_dl19")
    print(
        "| pairs | margin | n | passes at a loss of the margin | equal: worse | equal: better "
        "| equal: passes | better by the margin: passes | by .03: better | worse by .03: worse |"
    )
    print("|---|---:|---:|" + "---:|" * 7)
    for name, population in populations.items():
        for margin in MARGINS:
            for queries in QUERIES:
                truths = (-margin, 0.0, margin, 0.03, -0.03)
                lost, equal, more, up, down = (
                    verdicts(population, queries, truth, margin) for truth in truths
                )
                cells = (
                    *(share(lost, "better", "not worse"), share(equal, "worse")),
                    *(share(equal, "better"), share(equal, "better", "not worse")),
                    *(share(more, "better", "not worse"), share(up, "better")),
                    share(down, "worse"),
                )
                print(f"| {name} | {margin} | {queries} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
