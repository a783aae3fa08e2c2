"""Measure how often a panel is right at each level of its judges' agreement.

A judge says one of two documents is better, or neither; or it gives a document a grade. The level
of agreement (`LEVELS`) is the share of answers that equal the most frequent one. A judge that says
neither agrees with no order, so a panel of ties is split. People do not count as judges here.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zelo_ray.evaluation.ranking import Bools, Floats, Ints
from zelo_ray.evaluation.significance import FEWEST
from zelo_ray.fitting import clusters
from zelo_ray.fitting.grades import round_grades

LEVELS = ("unanimous", "all but one", "three quarters", "over half", "split")
"""Levels of agreement, from all judges to at most half of them."""
ALL = "all"
VOTES, ORDERS, GRADES = "votes", "orders", "grades"
"""The items that judges agree on: pairs, by votes or by the order of grades; and documents."""


class Consensus(NamedTuple):
    """How often people say what a panel says, where its judges agree so far.

    ``about`` is `VOTES`, `ORDERS` or `GRADES`, on a ``scale`` (empty for pairs); ``level`` one of
    `LEVELS`, or `ALL`; ``share`` that of all items of this level. ``same`` is the share of the
    ``items`` on which people agree, with its interval over queries; ``tied`` are pairs that people
    tie, which are left out.
    """

    about: str
    scale: str
    level: str
    share: float
    same: float
    low: float
    high: float
    items: int
    tied: int
    queries: int


def vote_consensus(said: Floats, people: Floats, query: Ints) -> list[Consensus]:
    """Measure how often people prefer the document that most judges prefer.

    ``said`` is 1, 0 or -1, NaN where a judge said nothing, [judges, pairs]; ``people`` the same
    of people, [pairs]. A pair on which people tie is left out, but counted. Where the judges
    are divided equally, the panel counts as half right.
    """
    up, down, of = (said == 1).sum(0), (said == -1).sum(0), (~np.isnan(said)).sum(0)
    counts = ~np.isnan(people) & (of >= min(2, len(said)))
    place = np.unique(query, return_inverse=True)[1]
    right, level = _right(up, down, people), _level(np.maximum(up, down), of)
    return [*_rows(VOTES, "", _sums(level, place, right, people == 0, counts))]


def grade_consensus(
    grades: NDArray[np.int16],
    human: NDArray[np.int16],
    query: Ints,
    levels: int,
    cuts: Sequence[int],
) -> list[Consensus]:
    """Measure how often people grade, and order two documents of a query, as the panel does.

    ``grades`` are [judges, documents], ``human`` [documents]: -1 where there is none. ``cuts``
    are thresholds from which documents count as relevant, each for a scale of two grades. The
    panel's grade is the median of the judges', and its order of two documents that of most
    judges' grades. Documents that fewer than two judges graded are left out.
    """
    mask = (human >= 0) & ((grades >= 0).sum(axis=0) >= 2)
    if len(grades) < 2 or not mask.any():
        return []
    grades, human = grades[:, mask], human[mask]
    place = np.unique(query[mask], return_inverse=True)[1]
    parts = [_order_sums(grades[:, rows], human[rows]) for rows in _by_query(place)]
    records = [*_rows(ORDERS, "", np.concatenate(parts, axis=2))]
    votes = np.stack([(grades == grade).sum(axis=0) for grade in range(levels)])
    of, all_ = votes.sum(axis=0), np.ones(len(human), dtype=np.bool_)
    reached = 2 * votes.cumsum(axis=0)
    panel = round_grades(((reached >= of).argmax(axis=0) + (reached > of).argmax(axis=0)) / 2)
    for cut in (0, *cuts):
        counts = np.stack([votes[:cut].sum(axis=0), votes[cut:].sum(axis=0)]) if cut else votes
        word, true = (panel >= cut, human >= cut) if cut else (panel, human)
        level = _level(counts.max(axis=0), of)
        sums = _sums(level, place, (word == true) * 1.0, ~all_, all_)
        records += _rows(GRADES, f">={cut}" if cut else f"0-{levels - 1}", sums)
    return records


def _by_query(place: Ints) -> list[Ints]:
    """Return the rows of each query."""
    at = np.argsort(place, kind="stable")
    return np.split(at, np.flatnonzero(np.diff(place[at])) + 1)


def _order_sums(grades: NDArray[np.int16], human: NDArray[np.int16]) -> Floats:
    """Return the sums of the pairs of a query's documents."""
    first, second = np.triu_indices(len(human), 1)
    a, b = grades[:, first], grades[:, second]
    mask = (a >= 0) & (b >= 0)
    up, down, of = (mask & (a > b)).sum(0), (mask & (a < b)).sum(0), mask.sum(0)
    people = np.sign(human[first] - human[second])
    level = _level(np.maximum(up, down), of)
    return _sums(level, 0 * level, _right(up, down, people), people == 0, of >= 2, queries=1)


def _sums(
    level: Ints, query: Ints, right: Floats, tied: Bools, counts: Bools, *, queries: int = 0
) -> Floats:
    """Sum right, decided and tied items: [3, levels, queries]."""
    queries = queries or int(query.max(initial=-1)) + 1
    parts = (np.where(tied, 0.0, right), ~tied, tied)
    cell, shape = level * queries + query, (len(LEVELS), queries)
    size = shape[0] * shape[1]
    return np.stack([np.bincount(cell, counts * p, size).reshape(shape) for p in parts])


def _rows(about: str, scale: str, sums: Floats) -> Iterator[Consensus]:
    """Yield the row of all levels together, then one for each level that occurs."""
    totals = sums.sum(axis=1)
    items, usual = totals[1:].sum(), np.nan
    if totals[1].any():
        usual = clusters.intraclass_correlation(*totals[:2, totals[1] > 0])
    for level, (right, decided, tied) in zip(
        (ALL, *LEVELS), (totals, *sums.swapaxes(0, 1)), strict=True
    ):
        counts, queries = (round(decided.sum()), round(tied.sum())), int((decided > 0).sum())
        if not sum(counts):
            continue
        same = low = high = np.nan
        if queries:
            same, low, high = clusters.share_interval(right, decided, usual)
        if queries < FEWEST:
            low = high = np.nan
        share = float(sum(counts) / items)
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
