"""Votes and grades in a fixed order, stacked by the size of their pools."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from zelo_ray.fitting.battles import Battles, Bools, Floats, Ints
from zelo_ray.fitting.panel.arrays import sum_cells
from zelo_ray.fitting.panel.model import TIE, Habits, PanelModel
from zelo_ray.records import Grade

CHUNK_CELLS = 2**16
"""Cells of the matrices that are solved together: half a megabyte, so that they stay in cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """Grades of the documents of `Battles`, as columns of equal length."""

    query: Ints
    document: Ints
    """its place in ``battles.documents[query]``"""
    judge: Ints
    """its place in ``battles.judges``; -1 for a judge that is not among them"""
    grade: Ints
    """0 to 3"""


def grades_of(battles: Battles, query_grades: Sequence[Sequence[Grade]]) -> Grades:
    """Build the columns of the grades of each query of some battles.

    Args:
        battles: which hold the graded documents; see ``also`` of `battles_of`.
        query_grades: the grades of each query, in the same order.

    Raises:
        KeyError: a document is not of its query.
    """
    judges = {name: place for place, name in enumerate(battles.judges)}
    rows = [
        (query, place[grade.doc_id], judges.get(grade.judge, -1), grade.grade)
        for query, (ids, grades) in enumerate(zip(battles.documents, query_grades, strict=True))
        if grades
        for place in [{doc_id: place for place, doc_id in enumerate(ids)}]
        for grade in grades
    ]
    query, document, judge, grade = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Grades(query=query, document=document, judge=judge, grade=grade)


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteStack:
    """Queries with pools of one size, their votes, and the prior of their documents.

    The columns of votes are of equal length; ``i`` < ``j`` are places of documents.
    """

    places: Ints
    """the queries: [queries]"""
    prior: Floats
    """mean of each document's s by its grades, 0 without: [queries, documents]"""
    precision: Floats
    """of the prior: [queries, documents]"""
    graded: Ints
    """number of grades: [queries, documents]"""
    query: Ints
    """the vote's query, by its place in ``places``; not decreasing"""
    i: Ints
    j: Ints
    judge: Ints
    order: Floats
    """1 if i was shown first, else -1"""
    level: Ints
    """in favour of i"""
    weight: Floats

    def select(self, rows: Bools) -> "VoteStack":
        """Return the stack with some of the queries."""
        mask = rows[self.query]
        number = np.cumsum(rows) - 1
        return VoteStack(
            places=self.places[rows],
            prior=self.prior[rows],
            precision=self.precision[rows],
            graded=self.graded[rows],
            query=number[self.query[mask]],
            i=self.i[mask],
            j=self.j[mask],
            judge=self.judge[mask],
            order=self.order[mask],
            level=self.level[mask],
            weight=self.weight[mask],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteColumns:
    """All votes, sorted by size of pool, query, pair, judge and order of presentation."""

    queries: Ints
    """those with documents, by size of pool"""
    sizes: Ints
    """of their pools"""
    documents: Ints
    """number of documents before each query of ``battles``; one more than queries, for the end"""
    query: Ints
    """place in ``queries``; not decreasing"""
    i: Ints
    j: Ints
    judge: Ints
    order: Floats
    favour: Floats
    """the preference, in favour of i"""
    together: Ints
    """number of votes on the pair"""


def build_columns(battles: Battles, only: Ints | None = None) -> VoteColumns:
    """Build the columns of the votes of all queries, or of some.

    Raises:
        ValueError: a preference lies outside [-1, 1], or a document meets itself.
    """
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    selection = np.flatnonzero(sizes) if only is None else np.unique(only[sizes[only] > 0])
    queries = selection[np.argsort(sizes[selection], kind="stable")]
    place = np.full(len(sizes), -1)
    place[queries] = np.arange(len(queries))
    rows = np.flatnonzero(place[battles.query] >= 0)
    query, a, b = place[battles.query[rows]], battles.a[rows], battles.b[rows]
    preference = battles.preference[rows]
    if (a == b).any():
        raise ValueError("a document cannot meet itself")
    if not (np.abs(preference) <= 1).all():
        wrong = preference[~(np.abs(preference) <= 1)][0]
        raise ValueError(f"a preference lies in [-1, 1], not {wrong}")
    first = a < b
    i, j = np.where(first, a, b), np.where(first, b, a)
    favour = np.where(first, -preference, preference)
    order = np.where(first ^ battles.swapped[rows], 1, -1)
    width = int(sizes.max(initial=1))
    pair = (query * width + i) * width + j
    fine = (pair * max(1, len(battles.judges)) + battles.judge[rows]) * 2 + (order > 0)
    ranked = np.lexsort((favour, fine))
    starts = np.flatnonzero(np.diff(pair[ranked], prepend=-1))
    counts = np.diff(starts, append=len(ranked))
    return VoteColumns(
        queries=queries,
        sizes=sizes[queries],
        documents=np.concatenate([[0], np.cumsum(sizes)]),
        query=query[ranked],
        i=i[ranked],
        j=j[ranked],
        judge=battles.judge[rows][ranked],
        order=order[ranked].astype(np.float64),
        favour=favour[ranked],
        together=np.repeat(counts, counts),
    )


def vote_levels(votes: VoteColumns, habits: Sequence[Habits]) -> Ints:
    """Compute the signed level of each vote: [votes]."""
    size = np.abs(votes.favour)
    level = np.ones(len(size), dtype=np.int64)
    for judge, habit in enumerate(habits):
        if habit.cuts:
            rows = votes.judge == judge
            level[rows] += np.searchsorted(habit.cuts, size[rows], side="right")
    return np.where(size <= TIE, 0, level) * np.sign(votes.favour).astype(np.int64)


def build_stacks(
    votes: VoteColumns, grades: Grades | None, model: PanelModel, cells: int = CHUNK_CELLS
) -> Iterator[VoteStack]:
    """Yield stacks of queries whose pools have one size."""
    level = vote_levels(votes, model.habits)
    weight = 1 / (1 + (votes.together - 1) * model.rho)
    prior, precision, graded = compute_prior(votes, grades, model)
    edges = np.flatnonzero(np.diff(votes.sizes, prepend=0, append=0))
    for start, stop in pairwise(edges):
        size = int(votes.sizes[start])
        step = max(1, cells // size**2)
        for low in range(start, stop, step):
            high = min(low + step, stop)
            rows = slice(*np.searchsorted(votes.query, np.array([low, high])))
            places = votes.queries[low:high]
            documents = votes.documents[places][:, np.newaxis] + np.arange(size)
            yield VoteStack(
                places=places,
                prior=prior[documents],
                precision=precision[documents],
                graded=graded[documents],
                query=votes.query[rows] - low,
                i=votes.i[rows],
                j=votes.j[rows],
                judge=votes.judge[rows],
                order=votes.order[rows],
                level=level[rows],
                weight=weight[rows],
            )


def compute_prior(
    votes: VoteColumns, grades: Grades | None, model: PanelModel
) -> tuple[Floats, Floats, Ints]:
    """Return mean and precision of s before votes, and the number of grades: [all documents]."""
    documents = int(votes.documents[-1])
    if grades is None or not len(grades.grade):
        return np.zeros(documents), np.ones(documents), np.zeros(documents, dtype=np.int64)
    if not ((grades.grade >= 0) & (grades.grade <= 3)).all():
        raise ValueError("a grade is 0, 1, 2 or 3")
    usual = model.for_judges(("",)).habits[0]
    means = np.array([habit.grade_means for habit in (*model.habits, usual)])  # -1 is the last
    document = votes.documents[grades.query] + grades.document
    # Sorted, so that the order of the input does not change the last bits.
    kind = (grades.judge % len(means)) * 4 + grades.grade
    ranked = np.lexsort((kind, document))
    total = sum_cells(document[ranked], means.ravel()[kind[ranked]], documents)
    graded = np.bincount(document, minlength=documents)
    mean = total / np.maximum(graded, 1)
    return mean, np.where(graded, model.grade_sd**-2, 1.0), graded
