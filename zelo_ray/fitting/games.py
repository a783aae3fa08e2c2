"""Turn votes into games: one result for each pair, shared by its judges; and check they connect."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Battles, Bools, Floats, Ints
from zelo_ray.reasons import Unscored, UnscoredReason

_SHARES = 2.0**24
"""Parts of a game that a vote is rounded to."""


@dataclass(frozen=True, slots=True)
class Games:
    """Games between documents, as columns in the order of queries.

    ``i`` and ``j`` are places in a query's documents, ``won`` and ``lost`` the weights with which
    i beat j and lost to it, and ``sizes`` has the number of documents by query.
    """

    query: Ints
    i: Ints
    j: Ints
    won: Floats
    lost: Floats
    sizes: Ints

    @property
    def starts(self) -> Ints:
        """Return by query the place of its first document among all documents."""
        starts: Ints = np.cumsum(self.sizes) - self.sizes
        return starts


def count_games(battles: Battles, *, by_size: bool = False) -> Games:
    """Count votes: a pair is one game, shared equally by the judges that answered on it.

    Only the sign of a vote counts, 0 is half a win for each, and several votes of one judge on a
    pair are averaged. A query's numbers depend, bit for bit, on its own votes only.

    Args:
        battles: the votes.
        by_size: whether a vote shares its game by the size of its preference instead.

    Raises:
        ValueError: a preference is not in [-1, 1].
    """
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    if not len(battles.query):
        nothing = np.zeros(0, dtype=np.int64)
        return Games(nothing, nothing, nothing, np.zeros(0), np.zeros(0), sizes)
    size, judges = int(sizes.max()), len(battles.judges)
    low, high = np.minimum(battles.a, battles.b), np.maximum(battles.a, battles.b)
    pair = (battles.query * size + low) * size + high
    key = pair * judges + battles.judge
    order = np.argsort(key)
    won_by_b = _won_by_b(battles, by_size=by_size)
    words = np.where(battles.a == low, 1 - won_by_b, won_by_b)[order]
    # Sums of halves, and of shares as they are rounded, are exact, so the order of a judge's votes
    # cannot matter; that of the judges is the order of their names.
    sums, counts, firsts = _sums(key[order], words)
    shared, voters, starts = _sums(pair[order][firsts], sums / counts)
    cells, j = np.divmod(pair[order][firsts][starts], size)
    query, i = np.divmod(cells, size)
    won = shared / voters
    return Games(query, i, j, won, 1 - won, sizes)


def why_unscored(
    battles: Battles, games: Games, linked: Bools | None = None
) -> dict[int, Unscored]:
    """Return why scores would mean nothing, by the number of each query where they would.

    ``linked`` marks documents that something else than games links with each other: [documents].
    """
    sizes, starts = games.sizes, np.concatenate([[0], np.cumsum(games.sizes)])
    total = int(starts[-1])
    x, y = starts[games.query] + games.i, starts[games.query] + games.j
    owner, idle = np.repeat(np.arange(len(sizes)), sizes), _idle(games, len(sizes))
    if linked is not None:
        (more,) = np.nonzero(linked)
        queries, first = np.unique(owner[more], return_index=True)
        x = np.concatenate([x, more])
        y = np.concatenate([y, more[first][np.searchsorted(queries, owner[more])]])
        idle[queries] = False
    part = connected_parts(x, y, total)
    apart = np.unique(owner[part != part[starts[owner]]])
    no_votes = Unscored.because(UnscoredReason.NO_VOTES)
    reasons = {int(query): no_votes for query in np.flatnonzero(idle)}
    for query in apart.tolist():
        if query not in reasons:
            labels = part[starts[query] : starts[query + 1]]
            reasons[query] = disconnected_reason(battles.documents[query], labels)
    return reasons


def connected_parts(x: Ints, y: Ints, items: int) -> Ints:
    """Return by item the first of the items that links from ``x`` to ``y`` connect it with.

    In numpy, since `scipy.sparse.csgraph` takes a third of a second to import.
    """
    part = np.arange(items)
    while True:
        near, lower = np.concatenate([part[x], part[y]]), part.copy()
        np.minimum.at(lower, near, np.concatenate([part[y], part[x]]))
        lower = lower[lower]
        if np.array_equal(lower, part):
            return part
        part = lower


def _idle(games: Games, queries: int) -> Bools:
    idle: Bools = np.bincount(games.query, minlength=queries) == 0
    return idle


def _won_by_b(battles: Battles, *, by_size: bool) -> Floats:
    odd = np.flatnonzero(~(np.abs(battles.preference) <= 1))
    if odd.size:
        raise ValueError(f"a preference lies in [-1, 1], not {battles.preference[odd[0]]}")
    if by_size:
        return np.round((battles.preference + 1) / 2 * _SHARES) / _SHARES
    return (np.sign(battles.preference) + 1) / 2


def _sums(keys: Ints, values: Floats) -> tuple[Floats, Ints, Ints]:
    """Return the sum, the length and the start of each run of equal keys."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return np.add.reduceat(values, starts), np.diff(starts, append=len(keys)), starts


def disconnected_reason(doc_ids: Sequence[str], labels: Ints) -> Unscored:
    """Return the reason for documents that fall into parts; ``labels`` are the parts' numbers."""
    parts: dict[int, list[str]] = defaultdict(list)
    for doc_id, label in zip(doc_ids, labels.tolist(), strict=True):
        parts[label].append(doc_id)
    names = "; ".join(_first([", ".join(_first(part)) for part in parts.values()]))
    return Unscored.because(UnscoredReason.DISCONNECTED, parts=len(parts), names=names)


def _first(names: list[str]) -> list[str]:
    return names if len(names) <= 4 else [*names[:3], "…"]
