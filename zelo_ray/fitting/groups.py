"""Draw groups of documents for a judge to order: each document is in one group of every round.

In each round the documents stand in an order that a hash draws, which is cut into groups of nearly
equal size. So every document is shown equally often, and two documents meet in different rounds by
chance. The first two rounds connect all documents, since scores need that; so further rounds add to
those of a smaller plan, and change none.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

_TRIES = 20
"""Draws of the second round, before it is the first with its cuts moved, which always connects."""

Group = tuple[str, ...]
"""IDs of documents, ascending."""


def draw_groups(
    seed: int, query_id: str, doc_ids: Iterable[str], size: int, rounds: int
) -> list[list[Group]]:
    """Return the groups of each round.

    Where all documents fit into one group, that is the only round.

    Args:
        seed: of the job.
        query_id: the query.
        doc_ids: its documents, all different; their order means nothing.
        size: most documents of a group, from 3 on: then no group has fewer than 2.
        rounds: how often each document is shown; with less than 2 several groups stay unconnected.
    """
    return [list(groups) for groups in _draw(seed, query_id, tuple(sorted(doc_ids)), size, rounds)]


def count_groups(documents: int, size: int, rounds: int) -> int:
    """Count the groups of all rounds that `draw_groups` returns."""
    if documents < 2:
        return 0
    return 1 if documents <= size else rounds * -(-documents // size)


@lru_cache(maxsize=64)  # a job counts a pool for each judge, and then plans it
def _draw(
    seed: int, query_id: str, doc_ids: tuple[str, ...], size: int, rounds: int
) -> tuple[tuple[Group, ...], ...]:
    if len(doc_ids) < 2:
        return ()
    if len(doc_ids) <= size:
        return ((doc_ids,),)
    orders = [_order(f"{seed}:{query_id}:{number}", doc_ids) for number in range(rounds)]
    drawn = [_cut(order, size) for order in orders]
    for attempt in range(1, _TRIES):
        if rounds < 2 or _connected(drawn[:2]):
            return tuple(drawn)
        drawn[1] = _cut(_order(f"{seed}:{query_id}:1:{attempt}", doc_ids), size)
    half = len(drawn[0][0]) // 2
    drawn[1] = _cut([*orders[0][half:], *orders[0][:half]], size)
    return tuple(drawn)


def _order(prefix: str, doc_ids: Sequence[str]) -> list[str]:
    """Order documents by a hash of each."""
    return sorted(
        doc_ids, key=lambda doc_id: (blake2b(f"{prefix}:{doc_id}".encode()).digest(), doc_id)
    )


def _cut(order: Sequence[str], size: int) -> tuple[Group, ...]:
    """Cut an order into as few groups as can be, whose sizes differ by one at most."""
    number = -(-len(order) // size)
    ends = [len(order) * (place + 1) // number for place in range(number)]
    starts = [0, *ends[:-1]]
    return tuple(tuple(sorted(order[start:end])) for start, end in zip(starts, ends, strict=True))


def _connected(rounds: Sequence[Sequence[Group]]) -> bool:
    """Return whether the groups link all documents."""
    groups = [set(group) for groups in rounds for group in groups]
    linked, unlinked = groups[0], groups[1:]
    while touching := [group for group in unlinked if group & linked]:
        linked = linked.union(*touching)
        unlinked = [group for group in unlinked if not group <= linked]
    return not unlinked
