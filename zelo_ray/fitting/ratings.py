"""Fit the ratings of items to comparisons of any origin, by the model of `bradley_terry`."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from zelo_ray.fitting.battles import Floats, Games, Ints, connected_parts
from zelo_ray.fitting.bradley_terry import fit_games


@dataclass(frozen=True, slots=True)
class Unrated:
    """The reason why comparisons determine no scores.

    ``groups`` has the group that each item belongs to; None where groups are not the reason.
    ``is_infinite``: there is no finite maximum likelihood; with a prior there is one.
    """

    message: str
    groups: Ints | None = None
    is_infinite: bool = False


class Comparisons(NamedTuple):
    """Comparisons of one query, in columns of equal length; items are numbers from 0.

    ``won`` and ``lost`` are the weights with which the first did so; a tie is half of both.
    """

    items: int
    first: Ints
    second: Ints
    won: Floats
    lost: Floats


def rate(comparisons: Comparisons, prior_sd: float = 2.5) -> tuple[Floats, Floats] | Unrated:
    """Fit the scores of one query, in logits and centred on 0; return them and standard errors.

    An infinite ``prior_sd`` means maximum likelihood.
    """
    items, first, second, won, lost = comparisons
    low, high = np.minimum(first, second), np.maximum(first, second)
    pairs, place = np.unique(low * items + high, return_inverse=True)
    weights = np.where(first > second, [lost, won], [won, lost])
    i_won, j_won = (np.bincount(place, each, len(pairs)).astype(np.float64) for each in weights)
    some = i_won + j_won > 0
    i, j = np.divmod(pairs[some], items)
    games = Games(np.zeros_like(i), i, j, i_won[some], j_won[some], np.array([items]))
    return _why_unrated(games, prior_sd) or fit_games(games, prior_sd)


def _why_unrated(games: Games, prior_sd: float) -> Unrated | None:
    """Return why scores would mean nothing, or be infinite; None where there is no such reason.

    The maximum likelihood is infinite if some items never lost to, or never won against, any of
    the others (Ford 1957, Am. Math. Monthly 64:28).
    """
    if not len(games.i):
        return Unrated("it has no comparisons")
    items = int(games.sizes[0])
    part = connected_parts(games.i, games.j, items)
    if (parts := len(np.unique(part))) > 1:
        return Unrated(f"its comparisons fall into {parts} parts that never met", part)
    if not np.isinf(prior_sd):
        return None
    won, lost = games.won > 0, games.lost > 0
    winners = np.concatenate([games.i[won], games.j[lost]])
    losers = np.concatenate([games.j[won], games.i[lost]])
    graph = scipy.sparse.coo_array((np.ones(len(winners)), (winners, losers)), (items, items))
    groups, group = scipy.sparse.csgraph.connected_components(graph, connection="strong")
    if groups == 1:
        return None
    message = f"no finite maximum likelihood: wins go one way only between {groups} groups of items"
    return Unrated(message, group, is_infinite=True)
