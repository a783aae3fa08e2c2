"""Whether calibration helps: panels of recorded LLM judges beside human grades.

    python -m benchmarks.panels [--panels 100]

It reads llmjudge2024 and trec_dl19: see tests/golden/SOURCES.md. On recorded grades, the
agreement with humans: Cohen's kappa, quadratic kappa and Krippendorff's ordinal alpha, of panels of
3 (means over panels drawn by chance) and of all, with differences to the rounded mean and their 95%
intervals over resampled queries; the same with human labels as anchor, judged on the other items,
and how often intervals hold human grades. A few minutes of one core.
"""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import published, read_grades
from zelo_ray.evaluation.coefficients import COEFFICIENTS
from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.grades import (
    Ratings,
    calibrate,
    learn_panel,
    mean,
    median,
    round_grades,
)

LEVELS, DRAWS, Z = 4, 1000, 1.959964
HUMAN = "human"


@dataclass(frozen=True)
class Recorded:
    """Grades of items by judges and humans."""

    name: str
    items: list[tuple[str, str]]
    query: Ints
    judges: list[str]
    grades: Ints
    """of shape [items, judges]"""
    human: Ints

    def ratings(self, panel: Iterable[int], labelled: Ints | None = None) -> Ratings:
        """The grades of a panel, and of humans on some items as one more judge."""
        panel = list(panel)
        items = len(self.items)
        unit = np.tile(np.arange(items), len(panel))
        place = np.repeat(np.arange(len(panel)), items)
        grade = self.grades[:, panel].T.ravel()
        names = [self.judges[j] for j in panel]
        if labelled is not None:
            unit, grade = np.append(unit, labelled), np.append(grade, self.human[labelled])
            place = np.append(place, np.full(len(labelled), len(panel)))
            names.append(HUMAN)
        return Ratings(unit, place, grade.astype(np.float64), items, tuple(names))


def load(name: str, judges: list[Path], qrels: Path) -> Recorded:
    human = read_grades(qrels)
    items = sorted((query_id, doc_id) for query_id, docs in human.items() for doc_id in docs)
    tables = [read_grades(path) for path in judges]
    grades = np.array([[table[q][d] for table in tables] for q, d in items])
    _, query = np.unique([query_id for query_id, _ in items], return_inverse=True)
    truth = np.array([human[q][d] for q, d in items])
    return Recorded(name, items, query, [path.stem for path in judges], grades, truth)


# agreement


def confusions(data: Recorded, said: Ints, kept: NDArray[np.bool_] | None = None) -> Floats:
    """How often humans and ``said`` gave which grades, of shape [queries, human, said]."""
    cells = (data.query * LEVELS + data.human) * LEVELS + said
    cells = cells if kept is None else cells[kept]
    size = int(data.query.max() + 1) * LEVELS**2
    return np.bincount(cells, minlength=size).reshape(-1, LEVELS, LEVELS).astype(np.float64)


def coefficients(table: Floats) -> Floats:
    """Kappa, quadratic kappa and ordinal alpha of confusions [..., human, said]: [..., 3]."""
    tables = {"confusion": table, "by_ratings": table + np.swapaxes(table, -1, -2)}
    names = ("kappa", "kappa-quadratic", "alpha-ordinal")
    return np.stack([COEFFICIENTS[name].compute(tables) for name in names], axis=-1)


# the words of a panel


def words(data: Recorded, panel: Iterable[int]) -> dict[str, Ints]:
    ratings = data.ratings(panel)
    return {
        "rounded mean": round_grades(mean(ratings)),
        "median (lower)": np.floor(median(ratings)).astype(np.int64),
        "thurstone": round_grades(calibrate(learn_panel(ratings), ratings)[0]),
    }


def draw_panels(data: Recorded, size: int, count: int) -> list[Ints]:
    rng = np.random.default_rng(0)
    return [np.sort(rng.choice(len(data.judges), size, replace=False)) for _ in range(count)]


def agreement(data: Recorded, panels: list[Ints]) -> None:
    """Print means over panels, and differences to the mean."""
    tables: dict[str, list[Floats]] = {}
    for panel in panels:
        each = {j: confusions(data, data.grades[:, j]) for j in panel}
        for name, said in words(data, panel).items():
            tables.setdefault(name, []).append(confusions(data, said))
        best = max(each, key=lambda j: float(coefficients(each[j].sum(0))[1]))
        tables.setdefault("best judge, as humans tell", []).append(each[best])
        tables.setdefault("mean judge", []).append(np.stack([*each.values()]))
    print_differences(tables, "rounded mean")


def print_differences(tables: dict[str, list[Floats]], beside: str) -> None:
    """Each table is of shape [..., queries, human, said]; what comes first is averaged."""
    queries = tables[beside][0].shape[-3]
    rng = np.random.default_rng(1)
    draws = rng.multinomial(queries, np.full(queries, 1 / queries), DRAWS).astype(np.float64)
    draws = np.vstack([np.ones(queries), draws])
    values = {}
    for name, each in tables.items():
        found = [coefficients(np.einsum("dq,...qhs->d...hs", draws, table)) for table in each]
        values[name] = np.mean([f.reshape(len(draws), -1, 3).mean(1) for f in found], axis=0)
    print("| | kappa | quadratic kappa | ordinal alpha | " + "difference | " * 3)
    print("|---|" + "---:|" * 6)
    for name, value in values.items():
        cells = [f"{v:.3f}" for v in value[0]]
        apart = value - values[beside]
        for k in range(3):
            low, high = np.quantile(apart[1:, k], (0.025, 0.975))
            cells.append("" if name == beside else f"{apart[0, k]:+.3f} [{low:+.3f}, {high:+.3f}]")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def anchored(data: Recorded, panels: list[Ints], seeds: int) -> None:
    """With human labels on some items; judged on the others, the same for all rows of a table."""
    for labels in (50, 200):
        tables: dict[str, list[Floats]] = {}
        held: list[tuple[float, ...]] = []
        for seed in range(seeds):
            labelled = np.random.default_rng(seed).permutation(len(data.items))[:labels]
            kept = np.ones(len(data.items), bool)
            kept[labelled] = False
            panel = panels[seed % len(panels)]
            found = words(data, panel)
            both = data.ratings(panel, labelled)
            grade, sd, _ = calibrate(learn_panel(both, HUMAN), both)
            found["thurstone, anchored"] = round_grades(grade)
            for name, said in found.items():
                tables.setdefault(name, []).append(confusions(data, said, kept))
            held.append(intervals_hold(data, (grade, sd), kept))
        print(f"\n{data.name}: {labels} human labels, panels of {len(panels[0])}, {seeds} draws\n")
        print_differences(tables, "rounded mean")
        wide, mean = np.mean(held, axis=0)
        print(
            f"\n95% intervals of the anchored grade that hold the human's: {wide:.3f}; "
            f"mean anchored grade less the humans' mean: {mean:+.3f}"
        )


def intervals_hold(
    data: Recorded, found: tuple[Floats, Floats], kept: NDArray[np.bool_]
) -> tuple[float, float]:
    """Share of grades within 1.96 sd, and half a grade for rounding; and the bias of the mean."""
    grade, sd = found
    apart = (grade - data.human)[kept]
    within = np.abs(apart) < Z * sd[kept] + 0.5
    return float(within.mean()), float(apart.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=40, help="panels of 3 drawn")
    flags = parser.parse_args()
    first, second = published() / "llmjudge2024", published() / "trec_dl19"
    recorded = [
        load(
            "LLMJudge 2024",
            sorted((first / "submissions").glob("*.txt")),
            first / "llmjudge_test_qrel_idx.txt",
        ),
        load("DL 2019", sorted((second / "judges").glob("*_graded.txt")), second / "qrels.txt"),
    ]
    few = {data.name: draw_panels(data, 3, flags.panels) for data in recorded}
    for data in recorded:
        for panels in (few[data.name], [np.arange(len(data.judges))]):
            print(f"\n{data.name}: {len(panels)} panel(s) of {len(panels[0])}\n")
            agreement(data, panels)
        anchored(data, few[data.name], seeds=20)
        anchored(data, [np.arange(len(data.judges))], seeds=4)


if __name__ == "__main__":
    main()
