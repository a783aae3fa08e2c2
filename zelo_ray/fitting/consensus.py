"""Measure how often a panel is right at each level of its judges' agreement.

A judge says one of two documents is better, or neither; or it gives a document a grade. The level
of agreement (`LEVELS`) is the share of answers that equal the most frequent one. A judge that says
neither agrees with no order, so a panel of ties is split. People do not count as judges here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zelo_ray.fitting import clusters
from zelo_ray.fitting.grades import Floats, Ints, round_grades
from zelo_ray.records import Consensus

LEVELS = ("unanimous", "all but one", "three quarters", "over half", "split")
"""Levels of agreement, from all judges to at most half of them."""
ALL = "all"
VOTES, ORDERS, GRADES = "votes", "orders", "grades"
"""The items that judges agree on: pairs, by votes or by the order of grades; and documents."""
FEWEST = 5
"""With fewer queries no interval is given."""

_CELLS = 2**24  # grades of pairs that are compared together

Bools = NDArray[np.bool_]


def vote_consensus(said: Floats, people: Floats, query: Ints) -> list[Consensus]:
    """Measure how often people prefer the document that most judges prefer.

    A pair on which people tie is left out, but counted. Where the judges are divided equally, the
    panel counts as half right.

    Args:
        said: 1, 0 or -1, NaN where a judge said nothing, [judges, pairs].
        people: the same of people, [pairs].
        query: number of each pair's query, [pairs].
    """
    tally = _Tally(len(np.unique(query)))
    up, down, of = (said == 1).sum(0), (said == -1).sum(0), (~np.isnan(said)).sum(0)
    mask = ~np.isnan(people) & (of >= min(2, len(said)))
    place = np.unique(query, return_inverse=True)[1]
    right = _right(up, down, people)
    tally.add(_level(np.maximum(up, down), of), place, right, people == 0, mask * 1.0)
    return [*tally.rows(VOTES, "")]


def grade_consensus(
    grades: NDArray[np.int16],
    human: NDArray[np.int16],
    query: Ints,
    levels: int,
    cuts: Sequence[int],
) -> list[Consensus]:
    """Measure how often people grade, and order two documents of a query, as the panel does.

    The panel's grade is the median of the judges', of two middle ones their mean as `round_grades`
    rounds it; and its order of two documents that of
    most judges' grades. Documents that fewer than two judges graded are left out, and a panel of
    one judge gets no rows.

    Args:
        grades: -1 where a judge gave none, [judges, documents].
        human: -1 where there is none, [documents].
        query: number of each document's query, [documents].
        levels: number of grades.
        cuts: thresholds from which documents count as relevant, each for a scale of two grades.
    """
    if len(grades) < 2:
        return []
    mask = (human >= 0) & ((grades >= 0).sum(axis=0) >= 2)
    grades, human = grades[:, mask], human[mask]
    place = np.unique(query[mask], return_inverse=True)[1]
    queries = len(np.unique(place))
    orders = _Tally(queries)
    at = np.argsort(place, kind="stable")
    for rows in np.split(at, np.flatnonzero(np.diff(place[at])) + 1):
        if rows.size:
            _order(orders, int(place[rows[0]]), grades[:, rows], human[rows])
    records = [*orders.rows(ORDERS, "")]
    votes = np.stack([(grades == grade).sum(axis=0) for grade in range(levels)])
    of, none = votes.sum(axis=0), np.zeros(len(human), dtype=bool)
    reached = 2 * votes.cumsum(axis=0)
    panel = round_grades(((reached >= of).argmax(axis=0) + (reached > of).argmax(axis=0)) / 2)
    for cut in (0, *cuts):
        tally = _Tally(queries)
        counts = np.stack([votes[:cut].sum(axis=0), votes[cut:].sum(axis=0)]) if cut else votes
        word, true = (panel >= cut, human >= cut) if cut else (panel, human)
        level = _level(counts.max(axis=0), of)
        tally.add(level, place, (word == true) * 1.0, none, np.ones(len(human)))
        records += tally.rows(GRADES, f">={cut}" if cut else f"0-{levels - 1}")
    return records


@dataclass(slots=True)
class _Tally:
    """Sums of items by level of agreement and query."""

    queries: int
    sums: Floats = field(init=False)
    """weights of right, of decided and of tied items, [3, levels, queries]"""

    def __post_init__(self) -> None:
        self.sums = np.zeros((3, len(LEVELS), self.queries))

    def add(self, level: Ints, query: Ints, right: Floats, tied: Bools, weight: Floats) -> None:
        """Count items, each as often as its weight."""
        cell, shape = level * self.queries + query, self.sums.shape[1:]
        for row, part in enumerate((np.where(tied, 0.0, right), ~tied, tied)):
            self.sums[row] += np.bincount(cell, weight * part, len(LEVELS) * self.queries).reshape(
                shape
            )

    def rows(self, about: str, scale: str) -> Iterator[Consensus]:
        """Yield the row of all levels together, then one for each level that occurs."""
        totals = self.sums.sum(axis=1)
        items = totals[1:].sum()
        usual = (
            clusters.intraclass_correlation(*totals[:2, totals[1] > 0])
            if totals[1].any()
            else np.nan
        )
        levels = zip(LEVELS, self.sums.swapaxes(0, 1), strict=True)
        for level, (right, decided, tied) in ((ALL, totals), *levels):
            if not decided.any() and not tied.any():
                continue
            queries = int((decided > 0).sum())
            same, low, high = np.nan, np.nan, np.nan
            if queries:
                same, low, high = clusters.share_interval(right, decided, usual)
            if queries < FEWEST:
                low = high = np.nan
            share = float((decided.sum() + tied.sum()) / items)
            counts = round(decided.sum()), round(tied.sum())
            yield Consensus(about, scale, level, share, same, low, high, *counts, queries)


def _level(highest: Ints, of: Ints) -> Ints:
    """Return the index in `LEVELS` where ``highest`` of ``of`` judges say the same."""
    split = 2 * highest <= of
    cases = [(highest == of) & (of > 0), split, highest == of - 1, 4 * highest >= 3 * of]
    return np.select(cases, [0, 4, 1, 2], 3)


def _right(up: Ints, down: Ints, people: Floats | Ints) -> Floats:
    """Return 1 where the majority of judges agrees with people, 0 where not, 0.5 for a split."""
    right: Floats = np.where(up == down, 0.5, np.sign(up - down) == people)
    return right


def _order(tally: _Tally, query: int, grades: NDArray[np.int16], human: NDArray[np.int16]) -> None:
    """Add the pairs of a query's documents to a tally; equally graded documents count together."""
    kinds, counts = np.unique(np.vstack([human, grades]), axis=1, return_counts=True)
    step = max(1, _CELLS // kinds.size)
    for start in range(0, kinds.shape[1], step):
        first, second = kinds[:, start : start + step, np.newaxis], kinds[:, np.newaxis]
        mask = (first[1:] >= 0) & (second[1:] >= 0)
        up, down = (
            (mask & (first[1:] > second[1:])).sum(0),
            (mask & (first[1:] < second[1:])).sum(0),
        )
        people = np.sign(first[0] - second[0])
        # Pairs occur in both orders: those with people's better one first count, ties half each.
        weight = counts[start : start + step, np.newaxis] * counts.astype(np.float64)
        at = np.arange(weight.shape[0])
        weight[at, start + at] -= counts[start + at]
        weight *= np.where(people > 0, 1.0, np.where(people == 0, 0.5, 0.0))
        of = mask.sum(0)
        weight[of < 2] = 0
        level, people = _level(np.maximum(up, down), of).ravel(), people.ravel()
        right = _right(up.ravel(), down.ravel(), people)
        times = weight.ravel().astype(np.float64)
        tally.add(level, np.full(len(level), query), right, people == 0, times)
