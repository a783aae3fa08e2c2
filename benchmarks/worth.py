"""Which way of judging is worth its calls: order of documents and of systems, by calls a document.

    python -m benchmarks.worth [--panels 6]

It reads llmjudge2024 and trec_dl19: see tests/golden/SOURCES.md. Two tables:

* documents and systems, by recorded judgments of TREC DL 2019: battles of GPT-4o among the passages
  that people found relevant, and grades of three judges. A pair was asked in both orders, so a
  battle counts as two calls. In the table of systems all ways share people's word on what is not
  relevant, and 37 runs are ordered by their mean nDCG@10;
* documents, by three recorded graders of LLMJudge on pools of 25, whose grades are turned into
  battles: the better graded document wins, and equal grades tie. Panels are of three good judges,
  of one good and two weak ones, and of three weak ones.

Intervals are 95%, over queries. Ten minutes of one core.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import figures
from benchmarks.data import few, published, read_battles, read_grades
from benchmarks.figures import mean_interval
from benchmarks.simulated import World, cycle_asks, ring_asks, zelo_scores
from zelo_ray.evaluation.measures import Truth, evaluate, parse_measures, rank_run
from zelo_ray.evaluation.systems import estimate_tau
from zelo_ray.files.judgments import read_runs
from zelo_ray.fitting.battles import Battles, Floats, battles_of, count_games
from zelo_ray.fitting.grade_worth import GRADES, fit_with_grades, learn_grade_worth

JUDGES = ("gpt-4o_umbrela", "gpt-4_umbrela", "llama3.3-70b_4prompts")
"""Graders of DL 2019 of three models; the first has the battles, too."""
GOOD = ("Olz-gpt4o", "h2oloo-fewself", "willia-umbrela1", "prophet-setting1", "RMITIR-llama70B")
WEAK = ("TREMA-questions", "TREMA-rubric0", "TREMA-other", "prophet-setting4", "h2oloo-zeroshot2")
"""Graders of LLMJudge, by the order of documents that their grades give."""


@dataclass(frozen=True, slots=True)
class Way:
    """What one way of judging came to: scores by query, at so many calls a document."""

    name: str
    calls: float
    scores: list[Floats]


# battles and grades of TREC DL 2019


class Battlefield:
    """The recorded battles of DL 2019, with the grades of people and of `JUDGES`."""

    def __init__(self) -> None:
        folder = published() / "trec_dl19"
        self.votes = read_battles()
        self.pools = {
            query_id: sorted({doc for vote in votes for doc in (vote.doc_id_a, vote.doc_id_b)})
            for query_id, votes in self.votes.items()
        }
        tables = [read_grades(folder / "judges" / f"{name}_graded.txt") for name in JUDGES]
        self.people = self._grades([read_grades(folder / "qrels.txt")])
        self.grades = self._grades(tables)
        """by query, of shape [judges, passages]"""

    def _grades(self, tables: Sequence[Any]) -> list[Floats]:
        return [
            np.array([[table[query_id].get(doc, 0) for doc in pool] for table in tables], float)
            for query_id, pool in self.pools.items()
        ]

    def battles(self, battles: float | None, seed: int) -> Battles:
        """Some of the battles, or all."""
        votes = self.votes.values()
        chosen = [*votes] if battles is None else [few(each, battles, seed) for each in votes]
        return battles_of(chosen, [*self.pools.values()])


def fit(votes: Battles, grades: Sequence[Floats] | None) -> tuple[list[Floats], list[Floats]]:
    """Scores and errors by query, as `zelo` has them with grades or without.

    Grades are of shape [judges, documents] by query; NaN where a judge gave none.
    """
    sizes = np.array([len(ids) for ids in votes.documents])
    judges = 0 if grades is None else len(grades[0])
    said = np.zeros((0, sizes.sum())) if grades is None else np.concatenate(grades, axis=1)
    marks = (said[..., np.newaxis] == np.arange(GRADES)).transpose(1, 0, 2).astype(np.float64)
    marks = marks.reshape(int(sizes.sum()), judges * GRADES)
    marks /= np.maximum(marks.sum(axis=1, keepdims=True), 1)
    worth = learn_grade_worth(votes, marks, [f"judge {n}" for n in range(judges)])
    found = fit_with_grades(count_games(votes, by_size=worth.by_size), marks, worth)
    scores, errors = (np.split(column, np.cumsum(sizes)[:-1]) for column in found[:2])
    return scores, errors


def recorded_ways(field: Battlefield, seed: int) -> Iterator[Way]:
    """Ways of judging, from one call a document to all recorded battles."""
    grades = field.grades
    yield Way("1 judge's grade", 1, [said[0] for said in grades])
    yield Way("2 judges' grades, mean", 2, [said[:2].mean(axis=0) for said in grades])
    yield Way("3 judges' grades, mean", 3, [said.mean(axis=0) for said in grades])
    for battles in (0.5, 1.0, 2.0, None):
        votes = field.battles(battles, seed)
        asked = 2 * len(votes.query) / sum(map(len, field.pools.values()))
        yield Way("battles", asked, fit(votes, None)[0])
        yield Way("1 grade + battles", 1 + asked, fit(votes, [said[:1] for said in grades])[0])
        yield Way("3 grades + battles", 3 + asked, fit(votes, grades)[0])


def order_of_documents(scores: Sequence[Floats], people: Sequence[Floats]) -> tuple[Floats, Floats]:
    """nDCG@10 and the share of pairs in people's order, by query; equal scores are half right."""
    found = [
        [measure(mean[np.newaxis], human)[0] for measure in (figures.ndcg, figures.in_order)]
        for mean, human in zip(scores, people, strict=True)
    ]
    good, order = np.array(found).T
    return good, order


class Systems:
    """The runs of a year, and their order by people."""

    def __init__(self, field: Battlefield, folder: Path) -> None:
        self.runs = [*read_runs(map(str, sorted((folder / "runs_top10").glob("*")))).values()]
        self.people = read_grades(folder / "qrels.txt")
        self.field = field
        self.by_people = self.measured([said[0] for said in field.people])

    def measured(self, labels: Sequence[Floats]) -> Floats:
        """nDCG@10 of each run by labels of what people found relevant: [runs, queries]."""
        gains = {
            (query_id, doc): float(gain)
            for (query_id, pool), said in zip(self.field.pools.items(), labels, strict=True)
            for doc, gain in zip(pool, said, strict=True)
        }
        pairs = [(query, doc) for query, docs in self.people.items() for doc in docs]
        truth = Truth(
            pa.table(
                {
                    "query_id": [query for query, _ in pairs],
                    "doc_id": [doc for _, doc in pairs],
                    "relevance": [gains.get(pair, 0.0) for pair in pairs],
                    "std_error": np.full(len(pairs), np.nan),
                }
            )
        )
        measures = parse_measures(["nDCG@10"])
        values = [evaluate(measures, rank_run(truth, run))[0] for run in self.runs]
        return np.nan_to_num(np.array(values))

    def compare(self, labels: Sequence[Floats]) -> str:
        """Tau of the runs' means, and pairs told apart rightly and wrongly."""
        theirs = self.measured(labels)
        tau = estimate_tau(self.by_people, theirs)
        right, wrong = apart(self.by_people, theirs)
        return f"{tau.value:.3f} [{tau.low:.3f}, {tau.high:.3f}] | {right} | {wrong}"


def apart(people: Floats, panel: Floats) -> tuple[int, int]:
    """Pairs of runs that the panel tells apart (t of 1.96) as people order them, or otherwise."""
    right = wrong = 0
    for one, other in combinations(range(len(people)), 2):
        gaps = panel[one] - panel[other]
        t = gaps.mean() / max(gaps.std(ddof=1) / len(gaps) ** 0.5, 1e-12)
        if abs(t) > 1.96:
            same = np.sign(t) == np.sign((people[one] - people[other]).mean())
            right, wrong = right + same, wrong + (not same)
    return right, wrong


def gains_of(way: Way) -> list[Floats]:
    """Labels that nDCG can use: grades, and of scores of battles the chance to beat others."""
    graded = "battles" not in way.name
    return [scores if graded else 1 / (1 + np.exp(-scores)) for scores in way.scores]


def show_recorded(folder: Path) -> None:
    """Print both tables of DL 2019."""
    field = Battlefield()
    systems = Systems(field, folder)
    print("| way | calls a document | nDCG@10 | pairs in order | tau | apart | wrongly |")
    print("|---|---:|---|---|---|---:|---:|")
    for way in recorded_ways(field, seed=0):
        good, order = order_of_documents(way.scores, field.people)
        cells = [f"{way.calls:.1f}", mean_interval(good), mean_interval(order)]
        print("|", way.name, "|", *(f"{cell} |" for cell in cells), end=" ")
        print(systems.compare(gains_of(way)), "|", flush=True)


# battles made of recorded grades


def world_of(folder: Path, panel: Sequence[str], documents: int, seed: int) -> World:
    """Pools of a query's documents, drawn four times, with the panel's grades as battles."""
    people = read_grades(folder / "llmjudge_test_qrel_idx.txt")
    judges = [read_grades(folder / "submissions" / f"{name}.txt") for name in panel]
    rng = np.random.default_rng(seed)
    truth, grades = [], []
    for query_id in sorted(people) * 4:
        pool = rng.choice(sorted(people[query_id]), documents, replace=False)
        truth.append([float(people[query_id][doc]) for doc in pool])
        grades.append([[judge[query_id].get(doc, 0) for doc in pool] for judge in judges])
    said = np.array(grades)
    says = (said[..., np.newaxis] - said[..., np.newaxis, :]) / 3
    known = np.array(truth)
    return World(known, says, said, np.zeros_like(known))


def zelo(cycles: int) -> Callable[[World], tuple[float, Floats]]:
    def played(world: World) -> tuple[float, Floats]:
        queries, judges, documents = world.grades.shape
        asks = cycle_asks(queries, documents, cycles, judges, seed=0)
        return len(asks) / queries / documents, zelo_scores(world.answer(asks))

    return played


def zelo_by_calls(calls: int) -> Callable[[World], tuple[float, Floats, Floats]]:
    """As `zelo --calls-per-document` plans it: grades by judges in turn, and rings of battles."""

    def played(world: World) -> tuple[float, Floats, Floats]:
        queries, judges, documents = world.grades.shape
        grades = max(1, min(calls - 1, judges))
        asks = ring_asks(queries, documents, judges, calls - grades, seed=0)
        query, judge, place = np.indices(world.grades.shape)
        asked = (judge - query - place) % judges < grades
        scores, errors = fit(world.answer(asks), [*np.where(asked, world.grades, np.nan)])
        return grades + len(asks) / queries / documents, np.stack(scores), np.stack(errors)

    return played


PLAYED: dict[str, Callable[[World], tuple[Any, ...]]] = {
    "graded: 1 judge in turn": lambda world: (1.0, _in_turn(world)),
    "graded: mean of 3": lambda world: (3.0, world.grades.mean(axis=1)),
    **{f"zelo --calls-per-document {n}": zelo_by_calls(n) for n in (2, 3, 4, 5, 6)},
    **{f"zelo, {3 * cycles} calls": zelo(cycles) for cycles in (1, 2, 4)},
}


def _in_turn(world: World) -> Floats:
    queries, judges, documents = world.grades.shape
    query, place = np.indices((queries, documents))
    scores: Floats = world.grades[query, (query + place) % judges, place].astype(float)
    return scores


def panels_of(count: int) -> dict[str, list[tuple[str, ...]]]:
    """So many panels of each kind, drawn by chance."""
    rng = np.random.default_rng(0)

    def drawn(*kinds: tuple[tuple[str, ...], int]) -> list[tuple[str, ...]]:
        return [
            tuple(str(n) for kind, size in kinds for n in rng.choice(kind, size, replace=False))
            for _ in range(count)
        ]

    good, mixed, weak = drawn((GOOD, 3)), drawn((GOOD, 1), (WEAK, 2)), drawn((WEAK, 3))
    return {"good": good, "one good, two weak": mixed, "weak": weak}


def show_played(folder: Path, panels: int) -> None:
    """Print the table of panels of three, by how good they are."""
    kinds = panels_of(panels)
    print(f"\n| {panels} panels of three each | calls | {' | '.join(kinds)} |")
    print("|---|---:|" + "---|" * len(kinds), flush=True)
    found: dict[str, list[str]] = {}
    calls: dict[str, float] = {}
    for drawn in kinds.values():
        worlds = [world_of(folder, panel, 25, seed) for seed, panel in enumerate(drawn)]
        for name, way in PLAYED.items():
            good, order = [], []
            for world in worlds:
                calls[name], scores, *_ = way(world)
                good.append(figures.ndcg(scores, world.truth).mean())
                order.append(figures.in_order(scores, world.truth).mean())
            found.setdefault(name, []).append(f"{np.mean(good):.3f}/{np.mean(order):.3f}")
    for name, cells in found.items():
        print(f"| {name} | {calls[name]:.1f} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=6)
    panels = parser.parse_args().panels
    show_recorded(published() / "trec_dl19")
    if panels:
        show_played(published() / "llmjudge2024", panels)


if __name__ == "__main__":
    main()
