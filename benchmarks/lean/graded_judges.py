"""A row on recorded graded judges of TREC DL 2023, whose grades are turned into battles.

Shown documents i and j, judge m prefers i by (grade_mi - grade_mj) / 3, whichever stands first. So
battles hold no error of their own, only what the judge gets wrong about a document, and are ties
where its grades are equal. Dense is every judge on every pair.
"""

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from benchmarks.data import published
from benchmarks.lean import figures, fits
from benchmarks.lean.designs import asks_of, ring_asks
from benchmarks.lean.lines import Line, Lines, Size
from benchmarks.lean.recorded import Grades, read_grades
from benchmarks.lean.worlds import World
from zelo_ray.fitting.battles import Floats

PANELS = (
    ("Olz-gpt4o", "RMITIR-llama70B", "TREMA-CoT"),
    ("h2oloo-zeroshot1", "RMITIR-llama38b", "NISTRetrieval-instruct0"),
)
"""Judges of different models or vendors, by the names of their submissions."""
DOCUMENTS, SAMPLES, RINGS = 96, 4, 6
"""96 because one query has no more; each query is taken so often, with documents drawn anew."""


def read_panels() -> tuple[Grades, list[list[Grades]]]:
    """Grades of people, and of each judge of each panel."""
    folder = published() / "llmjudge2024"
    panels = [[read_grades(folder / "submissions" / f"{n}.txt") for n in names] for names in PANELS]
    return read_grades(folder / "llmjudge_test_qrel_idx.txt"), panels


def world_of(people: Grades, panel: list[Grades], rng: np.random.Generator) -> World:
    """Its truth is the grade that people gave."""
    truth, grades = [], []
    for query_id in sorted(people) * SAMPLES:
        pool = rng.choice(sorted(people[query_id]), DOCUMENTS, replace=False)
        truth.append([people[query_id][doc] for doc in pool])
        grades.append([[judge[query_id].get(doc, 0) for doc in pool] for judge in panel])
    said = np.array(grades)
    says = (said[..., np.newaxis] - said[..., np.newaxis, :]) / 3
    known = np.array(truth, dtype=np.float64)
    return World(known, says, said, np.zeros_like(known))


def dl23(row: str, size: Size) -> Lines:
    """Six calls a document beside every judge on every pair; sizes beside signs."""
    people, panels = read_panels()
    for names, panel in zip(PANELS, panels, strict=True):
        world = world_of(people, panel, np.random.default_rng(size.seed))
        yield Line(row, "panel", ", ".join(names))
        yield from _panel(row, world, size)


def _panel(row: str, world: World, size: Size) -> Iterator[Line]:
    queries, judges, documents = world.grades.shape
    asks = ring_asks(queries, documents, judges, rings=RINGS, audits=0.0, seed=size.seed)
    votes = world.answer(asks)
    model = fits.learn(votes, None)
    gated = _quality(fits.believe(votes, None, model).scores, world)
    flat = fits.signs(votes)
    signed = _quality(fits.believe(flat, None, fits.learn(flat, None)).scores, world)
    dense = _quality(_dense(world, model), world)
    calls = len(asks) / queries / documents
    yield Line(row, "dense", _said(dense))
    yield Line(row, f"{RINGS} rings", f"{_said(gated)} at {calls:.2f}; {fits.described(model)}")
    yield Line(row, f"{RINGS} rings, signs", _said(signed))
    change = figures.difference(gated[0], dense[0])
    yield Line(row, "nDCG@10 >= dense -0.03", str(change), change.value >= -0.03)
    change = figures.difference(gated[0], signed[0])
    yield Line(row, "nDCG@10 >= signs -0.01", str(change), change.value >= -0.01)


def _dense(world: World, model: fits.Model) -> Floats:
    """One query at a time: every pair before every judge is many votes."""
    queries, judges, documents = world.grades.shape
    pairs = list(combinations(range(documents), 2))
    asks = asks_of([(0, *pair, judge) for pair in pairs for judge in range(judges)])
    scores = []
    for query in range(queries):
        own = (world.truth, world.says, world.grades, world.alike)
        only = World(*(column[[query]] for column in own))
        scores.append(fits.believe(only.answer(asks), None, model).scores[0])
    return np.stack(scores)


def _quality(scores: Floats, world: World) -> tuple[Floats, Floats]:
    return figures.ndcg(scores, world.truth), figures.told(scores, world.truth)


def _said(quality: tuple[Floats, Floats]) -> str:
    return "/".join(f"{each.mean():.3f}" for each in quality)


ROWS = {"dl23": dl23}
