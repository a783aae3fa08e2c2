"""How often the corrected means of `annotate --protocol graded --human` hold the truth.

    python -m benchmarks.shares [--draws 1000]

It reads llmjudge2024 and trec_dl19: see tests/golden/SOURCES.md. A run is a sample of a set's
queries, with replacement, and the median of a panel of three; the truth is what people say of all
documents of the set. People label documents at random, whole queries drawn at random, or the top
four of each query by the panel. For each: how often 95% intervals of the mean grade and of the
shares hold the truth, with queries as the sample and, for comparison, with documents that count as
independent; how wide they are; and how often the labels are refused as not drawn at random. In the
simulated set the panel errs the same way on all documents of a query, by half a grade on average.
With 1,000 draws a figure has a standard error of .007. About 12 minutes of one core.
"""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from benchmarks.data import published
from benchmarks.panels import Recorded, load
from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.corrected import correct_means
from zelo_ray.fitting.grades import Ratings, median

TOP, DRAWN = 4, "random documents"
DESIGNS = {
    DRAWN: (50, 200, 500),
    "whole queries": (5, 10, 20),
    f"top {TOP} a query": (TOP,),
}


@dataclass(frozen=True)
class Labelled:
    """Documents with a panel's grade and a human one, by query."""

    name: str
    panel: list[Floats]
    human: list[Floats]

    @property
    def truth(self) -> Floats:
        """The mean grade, and the shares of grades 1, 2 and 3 or higher."""
        human = np.concatenate(self.human)
        return np.array([human.mean(), *((human >= grade).mean() for grade in (1, 2, 3))])

    def run(self, rng: np.random.Generator) -> tuple[Floats, Floats, Ints]:
        """A sample of queries: panel's and human grades, and numbers of queries, [units]."""
        chosen = rng.integers(0, len(self.panel), len(self.panel))
        panel, human = ([each[i] for i in chosen] for each in (self.panel, self.human))
        query = np.repeat(np.arange(len(chosen)), [len(each) for each in panel])
        return np.concatenate(panel), np.concatenate(human), query


def simulated(rng: np.random.Generator, queries: int = 60, documents: int = 40) -> Labelled:
    """Queries that are easy or hard, and a panel that is mild or harsh by query."""
    panel, human = [], []
    for _ in range(queries):
        latent = rng.normal(0, 0.6) + rng.normal(size=documents) - 0.4
        human.append(np.digitize(latent, [0, 0.7, 1.4]).astype(np.float64))
        seen = latent + rng.normal(0.2, 0.5) + rng.normal(0, 0.4, documents)
        panel.append(np.digitize(seen, [0, 0.7, 1.4]).astype(np.float64))
    return Labelled("simulated", panel, human)


def recorded(data: Recorded, panel: Iterable[int]) -> Labelled:
    ratings: Ratings = data.ratings(panel)
    said = np.floor(median(ratings))
    parts = [data.query == number for number in range(int(data.query.max()) + 1)]
    return Labelled(
        data.name, [said[p] for p in parts], [data.human[p].astype(np.float64) for p in parts]
    )


def ask(
    design: str, many: int, run: tuple[Floats, Floats, Ints], rng: np.random.Generator
) -> Floats:
    """The human grades of documents that are labelled; NaN of the others."""
    panel, human, query = run
    if design == DRAWN:
        asked = np.isin(np.arange(len(human)), rng.permutation(len(human))[:many])
    elif design == "whole queries":
        asked = np.isin(query, rng.permutation(int(query.max()) + 1)[:many])
    else:
        order = np.lexsort((rng.random(len(panel)), -panel, query))
        place = np.empty(len(order), np.int64)
        starts = np.searchsorted(query, query)
        place[order] = np.arange(len(order))
        asked = place - starts < many
    return np.where(asked, human, np.nan)


def measure(data: Labelled, design: str, many: int, draws: int) -> None:
    """Print coverage of the mean grade and of the shares."""
    rng = np.random.default_rng(1)
    held, width, refused = np.zeros(4), 0.0, 0
    for _ in range(draws):
        panel, human, query = data.run(rng)
        seen = ask(design, many, (panel, human, query), rng)
        drawn = np.full(len(human), many / len(human)) if design == DRAWN else None
        rows, _ = correct_means(panel, seen, query, drawn, frame=len(human))
        low, high = np.array([(row.low, row.high) for row in rows]).T
        refused += bool(np.isnan(low[0]))
        held += (low <= data.truth) & (data.truth <= high)
        width += high[0] - low[0]
    cells = [f"{refused / draws:.3f}"]
    if not refused:
        grade, *others = held / draws
        cells += [f"{grade:.3f}", ", ".join(f"{each:.3f}" for each in others)]
        cells += [f"{width / draws:.2f}"]
    print(f"| {data.name} | {many} {design} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1000)
    flags = parser.parse_args()
    first, second = published() / "llmjudge2024", published() / "trec_dl19"
    judges = [*sorted((first / "submissions").glob("*.txt"))]
    llmjudge = load("LLMJudge 2024", judges, first / "llmjudge_test_qrel_idx.txt")
    graded = sorted((second / "judges").glob("*_graded.txt"))
    dl19 = load("DL 2019", graded, second / "qrels.txt")
    sets = [simulated(np.random.default_rng(0))]
    for data in (llmjudge, dl19):
        panel = np.random.default_rng(0).choice(len(data.judges), 3, replace=False)
        sets.append(recorded(data, panel))
    heads = ["refused", "mean grade", "shares >=1, >=2, >=3", "width"]
    print(f"| set | labels | {' | '.join(heads)} |")
    print("|---|---|" + "---:|" * len(heads))
    for each in sets:
        for design, sizes in DESIGNS.items():
            for many in sizes:
                measure(each, design, many, flags.draws)


if __name__ == "__main__":
    main()
