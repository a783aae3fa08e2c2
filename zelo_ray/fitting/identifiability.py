"""Check that comparisons determine scores at all, before a model is fitted to them."""

from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array, vstack
from scipy.sparse.csgraph import connected_components

from zelo_ray.fitting.outcomes import Ints, PairSheet

_ROUNDING = 1e-7
_INFINITE = "no finite maximum likelihood"


class UnratedReason(Enum):
    """Reasons why comparisons determine no scores."""

    NO_COMPARISONS = auto()
    DISCONNECTED = auto()
    """the items fall into groups that were never compared"""
    ONE_ORDER = auto()
    """the same item always comes first, so order and quality cannot be separated"""
    INFINITE = auto()
    """there is no finite maximum likelihood; with a prior or Firth's correction there is one"""


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


def why_unrated(sheet: PairSheet) -> Unrated | None:
    """Return why scores would mean nothing, or be infinite; None where there is no such reason."""
    if not len(sheet.first):
        return Unrated(UnratedReason.NO_COMPARISONS, "it has no comparisons")
    shape = (sheet.items, sheet.items)
    graph = coo_array((np.ones(len(sheet.first)), (sheet.first, sheet.second)), shape)
    parts, part = connected_components(graph, directed=False)
    if parts > 1:
        message = f"its comparisons fall into {parts} parts that never met"
        return Unrated(UnratedReason.DISCONNECTED, message, part)
    if sheet.model.prior_sd is not None:
        return None
    plain = replace(sheet, model=replace(sheet.model, firth=False))
    _, _, information = plain.evaluate(np.zeros(sheet.size))
    if np.linalg.matrix_rank(information) < sheet.size:
        message = "who stands first is always the same, and may be better or only first"
        return Unrated(UnratedReason.ONE_ORDER, message)
    return None if sheet.model.firth else _why_infinite(sheet)


def _why_infinite(sheet: PairSheet) -> Unrated | None:
    """Return why there is no finite maximum likelihood.

    Without h and c there is none if some items never lost to, or never won against, any of the
    others (Ford 1957, Am. Math. Monthly 64:28); with them, if parameters can move so that no
    outcome that was seen becomes less likely (Albert & Anderson 1984, Biometrika 71:1).
    """
    tied = sheet.counts[:, 2:].sum(axis=1) > 0
    won, lost = (sheet.counts[:, k] > 0 for k in (0, 1))
    winners = np.concatenate([sheet.first[won | tied], sheet.second[lost | tied]])
    losers = np.concatenate([sheet.second[won | tied], sheet.first[lost | tied]])
    wins = coo_array((np.ones(len(winners)), (winners, losers)), (sheet.items, sheet.items))
    groups, group = connected_components(wins, connection="strong")
    if groups > 1:
        message = f"{_INFINITE}: wins go one way only between {groups} groups of items"
        return Unrated(UnratedReason.INFINITE, message, group)
    if sheet.has_ties and not tied.any():
        message = f"{_INFINITE}: Davidson's model needs ties, and there are none"
        return Unrated(UnratedReason.INFINITE, message)
    if sheet.size > sheet.items and _separated(sheet):
        message = f"{_INFINITE}: ties or standing first decide too much"
        return Unrated(UnratedReason.INFINITE, message)
    return None


def _separated(sheet: PairSheet) -> bool:
    """Return whether parameters can move without making any observed outcome less likely."""
    blocks = []
    for outcome, alternative in np.ndindex(len(sheet.d), len(sheet.d)):
        (at,) = np.nonzero(sheet.counts[:, outcome] > 0)
        if outcome != alternative and at.size:
            blocks.append(_gains(sheet, at, outcome, alternative))
    gains = vstack(blocks, format="csr")
    # The largest sum of gains, of which none is below 0, in a box: it is 0, or at an edge of it.
    solution = linprog(
        -gains.sum(axis=0), A_ub=-gains, b_ub=np.zeros(gains.shape[0]), bounds=(-1, 1)
    )
    return bool(-solution.fun > _ROUNDING)


def _gains(sheet: PairSheet, at: Ints, observed: int, alternative: int) -> csr_array:
    """Build, by pair, what each parameter adds to an observed outcome over another."""
    x, c = sheet.d[observed] - sheet.d[alternative], sheet.t[observed] - sheet.t[alternative]
    cells = [(sheet.first[at], x), (sheet.second[at], -x)]
    cells += [(np.full(at.size, sheet.items), x)] if sheet.model.order else []
    cells += [(np.full(at.size, sheet.size - 1), c)] if sheet.has_ties else []
    columns = np.concatenate([column for column, _ in cells])
    values = np.concatenate([np.full(at.size, value) for _, value in cells])
    rows = np.tile(np.arange(at.size), len(cells))
    return csr_array((values, (rows, columns)), shape=(at.size, sheet.size))
