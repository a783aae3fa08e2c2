"""Rows on recorded judgments of TREC DL 2019, against the grades that people gave.

There are battles of GPT-4o among the passages that people found relevant, and the grades that the
same model gave one passage at a time. The battles of a query are played in the order of a hash,
a pair only while both of its passages have fewer than twice the wanted number a document.
"""

import csv
import hashlib
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.data import published
from benchmarks.lean import figures, fits
from benchmarks.lean.lines import Line, Lines, Size
from zelo_ray.fitting.battles import Battles, Floats, battles_of
from zelo_ray.records import Vote

MODEL = "gpt-4o"
Grades = dict[str, dict[str, int]]


def read_grades(path: Path) -> Grades:
    """Of a file in the form of qrels: grades by query and document, none above 3."""
    grades: Grades = defaultdict(dict)
    for line in path.read_text().splitlines():
        query_id, _, doc_id, grade = line.split()
        grades[query_id][doc_id] = min(3, int(grade))
    return grades


def read_votes(folder: Path) -> list[list[Vote]]:
    """One vote for each recorded battle, by query; one that changed with the order is a tie."""
    votes: dict[str, list[Vote]] = defaultdict(list)
    with (folder / "pairwise_gpt4o.tsv").open() as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            a, b = sorted((row["winner"], row["loser"]))
            won = -1.0 if a == row["winner"] else 1.0
            preference = 0.0 if row["order_consistency"] == "inconsistent_tie" else won
            swapped = _digest(0, row["qid"], a, b)[0] % 2 == 1  # no order is favoured
            votes[row["qid"]].append(Vote(row["qid"], a, b, MODEL, preference, swapped, "", ""))
    return list(votes.values())


def few(votes: list[Vote], battles: float, seed: int) -> list[Vote]:
    """So many battles a document, in the order of a hash, and no document much above the others."""
    fought: dict[str, int] = defaultdict(int)
    pairs: set[tuple[str, str]] = set()
    taken = []
    size = len({doc_id for vote in votes for doc_id in (vote.doc_id_a, vote.doc_id_b)})
    for vote in sorted(votes, key=lambda v: _digest(seed, v.query_id, v.doc_id_a, v.doc_id_b)):
        a, b = vote.doc_id_a, vote.doc_id_b
        pair = (min(a, b), max(a, b))
        if pair in pairs or max(fought[a], fought[b]) >= 2 * battles:
            continue
        pairs.add(pair)
        fought[a] += 1
        fought[b] += 1
        taken.append(vote)
        if len(taken) >= battles * size:
            break
    return taken


def _digest(seed: int, *words: str) -> bytes:
    return hashlib.sha256(":".join([str(seed), *words]).encode()).digest()


class Battlefield:
    """The recorded battles of DL 2019, with all that is known of their passages."""

    def __init__(self) -> None:
        folder = published() / "trec_dl19"
        self.votes = read_votes(folder)
        self.pools = [
            sorted({doc for vote in votes for doc in (vote.doc_id_a, vote.doc_id_b)})
            for votes in self.votes
        ]
        people = read_grades(folder / "qrels.txt")
        alone = read_grades(folder / "judges" / "gpt-4o_umbrela_graded.txt")
        ids = [votes[0].query_id for votes in self.votes]
        self.people = [
            np.array([float(people[query_id].get(doc, 0)) for doc in pool])
            for query_id, pool in zip(ids, self.pools, strict=True)
        ]
        rows = [
            (number, place, 0, alone[query_id][doc])
            for number, (query_id, pool) in enumerate(zip(ids, self.pools, strict=True))
            for place, doc in enumerate(pool)
            if doc in alone[query_id]
        ]
        self.grades = fits.Graded(*np.array(rows, dtype=np.int64).T)

    def battles(self, battles: float | None, seed: int) -> Battles:
        """Some of the battles, or all."""
        chosen = self.votes if battles is None else [few(v, battles, seed) for v in self.votes]
        return battles_of(chosen, self.pools)

    def found(self, means: list[Floats]) -> tuple[Floats, Floats]:
        """Its nDCG@10 and tau (of pairs that people tell apart) against people, by query."""
        both = [
            (
                figures.ndcg(mean[np.newaxis], people[np.newaxis])[0],
                figures.told(mean[np.newaxis], people[np.newaxis])[0],
            )
            for mean, people in zip(means, self.people, strict=True)
        ]
        good, order = np.array(both).T
        return good, order


def dl19(row: str, size: Size) -> Lines:
    """One grade and two battles a document, beside all battles."""
    field = Battlefield()
    every = field.battles(None, 0)
    whole = field.found(fits.believe(every, None, fits.learn(every, None)).means)
    yield Line(row, "all battles", f"{whole[0].mean():.3f}/{whole[1].mean():.3f}")
    told = [_few_battles(field, size.seed + time) for time in range(1 if size.share < 1 else 3)]
    lone = np.mean([each[0] for each in told], axis=0)
    both = np.mean([each[1] for each in told], axis=0)
    yield Line(row, "2 battles a document, no grade", f"{lone[0].mean():.3f}/{lone[1].mean():.3f}")
    yield Line(row, "2 battles and a grade", f"{both[0].mean():.3f}/{both[1].mean():.3f}")
    for name, least, one, other in (
        ("nDCG@10", -0.02, both[0], whole[0]),
        ("tau", -0.015, both[1], whole[1]),
    ):
        change = figures.difference(one, other)
        yield Line(row, f"{name} >= all {least:+.3f}", str(change), change.value >= least)


def _few_battles(
    field: Battlefield, seed: int
) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    votes = field.battles(2, seed)
    without = fits.believe(votes, None, fits.learn(votes, None))
    belief = fits.believe(votes, field.grades, fits.learn(votes, field.grades))
    return field.found(without.means), field.found(belief.means)


ROWS = {"dl19": dl19}
