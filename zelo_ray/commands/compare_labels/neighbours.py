"""Compare neighbours on leaderboards by effect sizes, which do not depend on the measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal

import numpy as np

from zelo_ray.evaluation.significance import TIE, Floats
from zelo_ray.records import Comparison

SURE = 0.05
"""Two runs with a smaller p (Holm, over all pairs of a leaderboard) differ significantly."""

Board = Literal["old", "new", "both"]
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Sibling:
    """Two neighbours on a leaderboard: A is directly above B on the named board.

    If they are neighbours on both, A is above by the new labels. ``old`` and ``new`` are the
    differences of the means on the queries that both runs answered (negative if A is above only
    because of other queries). ``*_d`` are the same in standard deviations of the differences over
    queries (Cohen's d for paired samples), ``*_p`` the p-values of the paired t-test after
    Holm's correction over all pairs of the board; ``*_apart``: it is below .05.
    """

    run_a: str
    run_b: str
    board: Board
    old: float
    old_d: float
    old_p: float
    old_apart: bool
    new: float
    new_d: float
    new_p: float
    new_apart: bool
    queries: int


def find_siblings(
    orders: Sequence[Sequence[str]],
    values: Sequence[Mapping[str, Floats]],
    compared: Sequence[Mapping[Pair, Comparison]],
) -> tuple[Sibling, ...]:
    """Return all neighbours on two leaderboards: of the new one from its top, then of the old.

    Args:
        orders: the runs by the old and by the new labels, best first.
        values: by the old and the new labels, metrics of each run, [queries]; NaN: not answered.
        compared: by the old and the new labels, every two runs, in one of their two orders.
    """
    return tuple(
        _sibling(pair, board, values, compared) for pair, board in _neighbours(*orders).items()
    )


def cohens_d(differences: Floats) -> float:
    """Return Cohen's d of paired differences: their mean in units of their standard deviation.

    This is d_z of Lakens (2013, Front. Psychol. 4:863), with n - 1. It is 0 if all are 0, infinite
    if all are equal and not 0.

    Args:
        differences: [queries]; NaN is left out.

    Returns:
        NaN with fewer than two differences.
    """
    gaps = differences[~np.isnan(differences)]
    if len(gaps) < 2:
        return float("nan")
    mean, spread = float(gaps.mean()), float(gaps.std(ddof=1))
    if abs(mean) <= TIE:
        return 0.0
    return mean / spread if spread > TIE else float(np.copysign(np.inf, mean))


def median_size(values: Mapping[str, Floats]) -> float:
    """Return the median absolute Cohen's d over all pairs of runs; NaN if there are none."""
    sizes = [abs(cohens_d(a - b)) for a, b in combinations(values.values(), 2)]
    effects = [size for size in sizes if not np.isnan(size)]
    return float(np.median(effects)) if effects else float("nan")


def _neighbours(old: Sequence[str], new: Sequence[str]) -> dict[Pair, Board]:
    on_old = {frozenset(pair): pair for pair in pairwise(old)}
    boards: dict[Pair, Board] = {
        pair: "both" if on_old.pop(frozenset(pair), None) else "new" for pair in pairwise(new)
    }
    return boards | dict.fromkeys(on_old.values(), "old")


def _sibling(
    pair: Pair,
    board: Board,
    values: Sequence[Mapping[str, Floats]],
    compared: Sequence[Mapping[Pair, Comparison]],
) -> Sibling:
    a, b = pair
    sign = 1 if pair in compared[0] else -1
    old, new = (side[pair if sign > 0 else (b, a)] for side in compared)
    old_d, new_d = (cohens_d(side[a] - side[b]) for side in values)
    return Sibling(
        run_a=a,
        run_b=b,
        board=board,
        old=sign * old.difference,
        old_d=old_d,
        old_p=old.p_holm,
        old_apart=old.p_holm < SURE,
        new=sign * new.difference,
        new_d=new_d,
        new_p=new.p_holm,
        new_apart=new.p_holm < SURE,
        queries=old.queries,
    )
