"""Fit the ratings of items to comparisons of any origin, by the model of `bradley_terry`."""

from dataclasses import dataclass, field
from enum import Enum, auto

import numpy as np
import scipy

from zelo_ray.fitting.battles import Floats, Ints
from zelo_ray.fitting.bradley_terry import fit_stack
from zelo_ray.fitting.likelihood import GameStack


class UnratedReason(Enum):
    """Reasons why comparisons determine no scores."""

    NO_COMPARISONS = auto()
    DISCONNECTED = auto()
    """the items fall into groups that were never compared"""
    INFINITE = auto()
    """there is no finite maximum likelihood; with a prior there is one"""


@dataclass(frozen=True, slots=True, eq=False)
class Unrated:
    """The reason why there are no scores.

    Attributes:
        code: the reason, for code to branch on.
        message: the same as one line for people.
        groups: the group that each item belongs to; None where groups are not the reason.
    """

    code: UnratedReason
    message: str
    groups: Ints | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Games:
    """Comparisons of one query, in columns of equal length; items are numbers from 0."""

    items: int
    first: Ints
    second: Ints
    won: Floats
    """weight with which the first won"""
    lost: Floats
    tied: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedRatings:
    """Scores of the items that comparisons determine, or the reason why there are none."""

    scores: Floats = field(default_factory=lambda: np.empty(0))
    std_errors: Floats = field(default_factory=lambda: np.empty(0))
    reason: Unrated | None = None


def rate(games: Games, prior_sd: float = 2.5) -> FittedRatings:
    """Fit the scores of one query; a tie is half a win for each.

    Args:
        games: its comparisons, each between two items.
        prior_sd: standard deviation of the prior of a score, in logits; infinite for maximum
            likelihood.

    Returns:
        Scores, centred on 0, and standard errors in logits, of shape [items]; or the reason why
        there are none: the comparisons do not link the items, or the likelihood has no finite
        maximum.

    Raises:
        ValueError: a weight is negative or not finite, or the prior makes no sense.
        ArithmeticError: the maximum was not reached.
    """
    stack = _sum_by_pair(games)
    if reason := _why_unrated(stack, prior_sd):
        return FittedRatings(reason=reason)
    scores, errors = fit_stack(stack, prior_sd)
    return FittedRatings(scores=scores[0], std_errors=errors[0])


def _sum_by_pair(games: Games) -> GameStack:
    won, lost = games.won + games.tied / 2, games.lost + games.tied / 2
    for weights in (won, lost):
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("weights of comparisons must be finite and not negative")
    low, high = np.minimum(games.first, games.second), np.maximum(games.first, games.second)
    pairs, place = np.unique(low * games.items + high, return_inverse=True)
    turned = games.first > games.second
    weights = np.where(turned, [lost, won], [won, lost])
    i_won, j_won = (np.bincount(place, each, len(pairs)).astype(np.float64) for each in weights)
    some = i_won + j_won > 0
    i, j = np.divmod(pairs[some], games.items)
    return GameStack(1, games.items, np.zeros_like(i), i, j, i_won[some], j_won[some])


def _why_unrated(stack: GameStack, prior_sd: float) -> Unrated | None:
    """Return why scores would mean nothing, or be infinite; None where there is no such reason.

    There is no finite maximum likelihood if some items never lost to, or never won against, any of
    the others (Ford 1957, Am. Math. Monthly 64:28).
    """
    if not len(stack.i):
        return Unrated(UnratedReason.NO_COMPARISONS, "it has no comparisons")
    parts, part = _components(stack.i, stack.j, stack.documents)
    if parts > 1:
        message = f"its comparisons fall into {parts} parts that never met"
        return Unrated(UnratedReason.DISCONNECTED, message, part)
    won, lost = stack.won > 0, stack.lost > 0
    winners = np.concatenate([stack.i[won], stack.j[lost]])
    losers = np.concatenate([stack.j[won], stack.i[lost]])
    groups, group = _components(winners, losers, stack.documents, is_directed=True)
    if np.isinf(prior_sd) and groups > 1:
        message = (
            f"no finite maximum likelihood: wins go one way only between {groups} groups of items"
        )
        return Unrated(UnratedReason.INFINITE, message, group)
    return None


def _components(x: Ints, y: Ints, items: int, *, is_directed: bool = False) -> tuple[int, Ints]:
    graph = scipy.sparse.coo_array((np.ones(len(x)), (x, y)), (items, items))
    count, part = scipy.sparse.csgraph.connected_components(
        graph, directed=is_directed, connection="strong"
    )
    return int(count), part
