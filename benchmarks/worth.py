"""Which way of judging is worth its calls: order of documents and of systems, by calls a document.

    python -m benchmarks.worth [--picture FILE.svg] [--panels 6] [--fit prior|panel]
    python -m benchmarks.worth --compare-fits 10    # the prior of grades less the learned panel

It reads llmjudge2024 and trec_dl19: see tests/golden/SOURCES.md. Three tables:

* documents and systems, by recorded judgments of TREC DL 2019: battles of GPT-4o among the passages
  that people found relevant, and grades of eight judges. A pair was asked in both orders, so a
  battle counts as two calls. In the table of systems all ways share people's word on what is not
  relevant, and 37 runs are ordered by their mean nDCG@10;
* documents, by three recorded graders of LLMJudge on pools of 25, whose grades are turned into
  battles: the better graded document wins, and equal grades tie. Panels are of three good judges,
  of one good and two weak ones, and of three weak ones.

Intervals are 95%, over queries. Ten minutes of one core. The picture takes matplotlib, too.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.data import published
from benchmarks.lean import figures, fits
from benchmarks.lean.designs import cycle_asks, cycle_scores, ring_asks
from benchmarks.lean.recorded import Battlefield, read_grades
from benchmarks.lean.worlds import World
from zelo_ray.evaluation.measures import Truth, evaluate, parse_measures, rank_run
from zelo_ray.evaluation.systems import estimate_taus
from zelo_ray.files.judgments import read_runs
from zelo_ray.fitting.battles import Battles, Floats
from zelo_ray.fitting.games import count_games
from zelo_ray.fitting.grade_worth import fit_with_grades, learn_grade_worth

RESAMPLES = 1000
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


def mean_interval(values: Floats, seed: int = 0) -> str:
    """A mean over queries with its bootstrap interval."""
    drawn = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


# battles and grades of TREC DL 2019


def graded_field(field: Battlefield, folder: Path) -> list[Floats]:
    """The grades of `JUDGES` for the passages of each query, of shape [judges, passages]."""
    tables = [read_grades(folder / "judges" / f"{name}_graded.txt") for name in JUDGES]
    return [
        np.array([[table[query_id].get(doc, 0) for doc in pool] for table in tables], dtype=float)
        for query_id, pool in zip(query_ids(field), field.pools, strict=True)
    ]


def query_ids(field: Battlefield) -> list[str]:
    return [votes[0].query_id for votes in field.votes]


# scores of battles and grades


Scored = tuple[list[Floats], list[Floats]]
"""Scores and their standard errors, by query."""


def by_panel(votes: Battles, marks: fits.Graded | None) -> Scored:
    """Score by the learned panel."""
    belief = fits.believe(votes, marks, fits.learn(votes, marks))
    return belief.means, belief.errors()


def by_prior(votes: Battles, marks: fits.Graded | None) -> Scored:
    """Score by Bradley-Terry with a prior of grades; without grades as zelo does."""
    sizes = np.array([len(ids) for ids in votes.documents])
    starts = np.cumsum(sizes) - sizes
    shares = np.zeros((int(sizes.sum()), len(votes.judges) * 4))
    if marks is not None:
        np.add.at(shares, (starts[marks.query] + marks.document, marks.judge * 4 + marks.grade), 1)
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
    worth = learn_grade_worth(votes, shares, votes.judges)
    found = fit_with_grades(count_games(votes, by_size=worth.by_size), shares, worth)
    scores, errors = (np.split(column, starts[1:]) for column in found[:2])
    return scores, errors


Fit = Callable[[Battles, fits.Graded | None], Scored]
FITS: dict[str, Fit] = {"prior": by_prior, "panel": by_panel}


def recorded_ways(
    field: Battlefield, grades: Sequence[Floats], fit: Fit, seed: int
) -> Iterator[Way]:
    """Ways of judging, from one call a document to all recorded battles."""
    yield Way("1 judge's grade", 1, [said[0] for said in grades])
    yield Way("2 judges' grades, mean", 2, [said[:2].mean(axis=0) for said in grades])
    yield Way("3 judges' grades, mean", 3, [said.mean(axis=0) for said in grades])
    yield Way("3 judges' grades, median", 3, [np.median(said, axis=0) for said in grades])
    for battles in (0.5, 1.0, 2.0, None):
        votes = field.battles(battles, seed)
        asked = 2 * len(votes.query) / sum(map(len, field.pools))
        yield Way("battles", asked, fit(votes, None)[0])
        yield Way("1 grade + battles", 1 + asked, fit(votes, field.grades)[0])
        several = replace(votes, judges=(*votes.judges, *JUDGES[1:]))
        marks = fits.Graded(*_columns(grades))
        yield Way("3 grades + battles", 3 + asked, fit(several, marks)[0])


def _columns(grades: Sequence[Floats]) -> Floats:
    """All grades as rows: query, passage, judge and grade."""
    rows = [
        (number, place, judge, int(said[judge, place]))
        for number, said in enumerate(grades)
        for judge in range(len(said))
        for place in range(said.shape[1])
    ]
    columns: Floats = np.array(rows, dtype=np.int64).T
    return columns


def order_of_documents(scores: Sequence[Floats], people: Sequence[Floats]) -> tuple[Floats, Floats]:
    """nDCG@10 and the share of pairs in people's order, by query; equal scores are half right."""
    found = [
        (
            figures.ndcg(mean[np.newaxis], human[np.newaxis])[0],
            figures.in_order(mean[np.newaxis], human[np.newaxis])[0],
        )
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
        self.by_people = self.measured(field.people)

    def measured(self, labels: Sequence[Floats]) -> Floats:
        """nDCG@10 of each run by labels of what people found relevant: [runs, queries]."""
        gains = {
            (query_id, doc): float(gain)
            for query_id, pool, said in zip(
                query_ids(self.field), self.field.pools, labels, strict=True
            )
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
        """Tau and tau-AP of the runs' means, and pairs told apart rightly and wrongly."""
        theirs = self.measured(labels)
        taus = estimate_taus(self.by_people, theirs)
        cells = [f"{tau.value:.3f} [{tau.low:.3f}, {tau.high:.3f}]" for tau in taus]
        right, wrong = apart(self.by_people, theirs)
        return " | ".join([*cells, str(right), str(wrong)])


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


def show_recorded(folder: Path, fit: Fit) -> dict[str, list[tuple[float, float]]]:
    """Print both tables of DL 2019; return nDCG@10 by way and calls, for the picture."""
    field = Battlefield()
    grades = graded_field(field, folder)
    systems = Systems(field, folder)
    points: dict[str, list[tuple[float, float]]] = {}
    print("| way | calls a document | nDCG@10 | pairs in order | tau | tau-AP | apart | wrongly |")
    print("|---|---:|---|---|---|---|---:|---:|")
    for way in recorded_ways(field, grades, fit, seed=0):
        good, order = order_of_documents(way.scores, field.people)
        cells = [f"{way.calls:.1f}", mean_interval(good), mean_interval(order)]
        print("|", way.name, "|", *(f"{cell} |" for cell in cells), end=" ")
        print(systems.compare(gains_of(way)), "|", flush=True)
        points.setdefault(way.name, []).append((way.calls, float(good.mean())))
    return points


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
        return len(asks) / queries / documents, cycle_scores(world.answer(asks))[0]

    return played


def zelo_by_calls(calls: int, fit: Fit) -> Callable[[World], tuple[float, Floats, Floats]]:
    """As `zelo --calls-per-document` plans it: grades by judges in turn, and rings of battles."""

    def played(world: World) -> tuple[float, Floats, Floats]:
        queries, judges, documents = world.grades.shape
        grades = max(1, min(calls - 1, judges))
        asks = ring_asks(queries, documents, judges, rings=calls - grades, audits=0, seed=0)
        query, judge, place = (axis.ravel() for axis in np.indices(world.grades.shape))
        asked = (judge - query - place) % judges < grades
        columns = (query, place, judge, world.grades.ravel())
        marks = fits.Graded(*(column[asked] for column in columns))
        scores, errors = map(np.stack, fit(world.answer(asks), marks))
        return grades + len(asks) / queries / documents, scores, errors

    return played


def played_ways(fit: Fit) -> dict[str, Callable[[World], tuple[Any, ...]]]:
    return {
        "graded: 1 judge in turn": lambda world: (1.0, _in_turn(world)),
        "graded: mean of 3": lambda world: (3.0, world.grades.mean(axis=1)),
        "graded: median of 3": lambda world: (3.0, np.median(world.grades, axis=1)),
        **{f"zelo --calls-per-document {n}": zelo_by_calls(n, fit) for n in (2, 3, 4, 5, 6)},
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

    def drawn(*kinds: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [
            tuple(
                str(name)
                for kind, size in kinds_of(kinds)
                for name in rng.choice(kind, size, replace=False)
            )
            for _ in range(count)
        ]

    def kinds_of(kinds: Sequence[tuple[str, ...]]) -> list[tuple[tuple[str, ...], int]]:
        return [(kind, 3 if len(kinds) == 1 else 1 + place) for place, kind in enumerate(kinds)]

    return {"good": drawn(GOOD), "one good, two weak": drawn(GOOD, WEAK), "weak": drawn(WEAK)}


def show_played(folder: Path, panels: int, fit: Fit) -> None:
    """Print the table of panels of three, by how good they are."""
    kinds = panels_of(panels)
    print(f"\n| {panels} panels of three each | calls | {' | '.join(kinds)} |")
    print("|---|---:|" + "---|" * len(kinds), flush=True)
    found: dict[str, list[str]] = {}
    calls: dict[str, float] = {}
    for drawn in kinds.values():
        worlds = [world_of(folder, panel, 25, seed) for seed, panel in enumerate(drawn)]
        for name, way in played_ways(fit).items():
            good, order = [], []
            for world in worlds:
                calls[name], scores, *_ = way(world)
                good.append(figures.ndcg(scores, world.truth).mean())
                order.append(figures.in_order(scores, world.truth).mean())
            found.setdefault(name, []).append(f"{np.mean(good):.3f}/{np.mean(order):.3f}")
    for name, cells in found.items():
        print(f"| {name} | {calls[name]:.1f} | {' | '.join(cells)} |")


# the prior of grades beside the learned panel


def compare_fits(folder: Path, draws: int) -> None:
    """Print by how much the prior is better, with 95% intervals over queries."""
    print("| battles or grades of | nDCG@10 | pairs in order |\n|---|---|---|", flush=True)
    field = Battlefield()
    marks = fits.Graded(*_columns(graded_field(field, folder / "trec_dl19")))
    for battles in (0.5, 1.0, 2.0):
        apart = []
        for seed in range(draws):
            votes = field.battles(battles, seed)
            several = replace(votes, judges=(*votes.judges, *JUDGES[1:]))
            new, old = (
                order_of_documents(fit(several, marks)[0], field.people)
                for fit in (by_prior, by_panel)
            )
            apart.append(np.array(new) - np.array(old))
        _show_apart(f"DL 2019, {battles} battles a document", np.mean(apart, axis=0))
    for calls in (3, 4, 5):
        six = []
        for kind, panels in panels_of(2).items():
            for number, panel in enumerate(panels):
                worlds = [
                    world_of(folder / "llmjudge2024", panel, 25, draws * number + seed)
                    for seed in range(draws)
                ]
                six.append(np.mean([_apart(world, calls) for world in worlds], axis=0))
                _show_apart(f"LLMJudge, {kind} {number}, {calls} calls", six[-1])
        _show_apart(f"LLMJudge, all six, {calls} calls", np.mean(six, axis=0))


def _apart(world: World, calls: int) -> Floats:
    """Return by how much the prior is better by nDCG@10 and pairs: [2, queries]."""
    new, old = (zelo_by_calls(calls, fit)(world)[1] for fit in (by_prior, by_panel))
    measured = [
        measure(new, world.truth) - measure(old, world.truth)
        for measure in (figures.ndcg, figures.in_order)
    ]
    apart: Floats = np.array(measured).reshape(2, 4, -1).mean(axis=1)
    return apart


def _show_apart(name: str, apart: Floats) -> None:
    wide = 1.96 * apart.std(axis=1, ddof=1) / apart.shape[1] ** 0.5
    cells = [
        f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"
        for mean, half in zip(apart.mean(axis=1), wide, strict=True)
    ]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def draw(points: dict[str, list[tuple[float, float]]], place: Path) -> None:
    """Draw quality against calls, by way."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only for the picture

    figure, axes = plt.subplots(figsize=(7, 4.2))
    for name, line in points.items():
        across, up = zip(*sorted(line), strict=True)
        axes.plot(across, up, marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes.set_xlabel("calls a document (a battle in both orders is two)")
    axes.set_ylabel("nDCG@10 by people's grades")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--panels", type=int, default=6)
    parser.add_argument("--fit", choices=FITS, default="prior")
    parser.add_argument("--compare-fits", type=int, metavar="DRAWS")
    flags = parser.parse_args()
    if flags.compare_fits:
        compare_fits(published(), flags.compare_fits)
        return
    fit = FITS[flags.fit]
    points = show_recorded(published() / "trec_dl19", fit)
    if flags.picture:
        draw(points, flags.picture)
    if flags.panels:
        show_played(published() / "llmjudge2024", flags.panels, fit)


if __name__ == "__main__":
    main()
