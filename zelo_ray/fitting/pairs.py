"""Choose what to ask: pairs on random rings over the documents of a query, or groups of them.

On each ring the documents stand in an order of their own and neighbours meet, so a ring is a random
Hamiltonian cycle. A union of them is connected and spreads like a random graph, so that two or
three battles link any two documents. A document's place comes from a hash of its id, so the order
of the documents in a pool does not matter, adding a document costs little more than its own
battles, and removing one changes at most one pair of each ring.

Groups are cut from an order that a hash draws anew for each round, so every document is shown
equally often, and two documents meet in different rounds by chance. The first two rounds connect
all documents, since scores need that; so further rounds add to a smaller plan, and change nothing.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import combinations
from typing import NamedTuple

_RINGS = 8  # rings whose places one hash of 64 bytes gives
_BYTES = 8
_TRIES = 20
"""Draws of the second round, before it is the first with its cuts moved, which always connects."""

Group = tuple[str, ...]
"""IDs of documents, ascending."""


class Pair(NamedTuple):
    """Two documents to compare, in ascending order of ids, whichever a judge sees first."""

    a: str
    b: str
    turn: int
    """where judges take turns, the place of the judge, modulo the size of the panel; successive
    pairs of one document on the rings have successive judges"""


def ring_pairs(seed: int, query_id: str, doc_ids: Iterable[str], cycles: int) -> list[Pair]:
    """Return the pairs of ``cycles`` rings, or every pair once if there are too few documents.

    On each ring a document meets the next one that it has not met, so it has a battle with as many
    that follow it as there are rings, and with about as many that precede it.
    """
    return list(_ring_pairs(seed, query_id, tuple(sorted(doc_ids)), cycles))


def first_turn(seed: int, query_id: str, doc_id: str) -> int:
    """Return the turn (see `Pair`) of a document's pair on the first ring."""
    return _hash(f"{seed}:{query_id}:{doc_id}:turn")


def count_pairs(documents: int, cycles: int) -> int:
    """Count the pairs that `ring_pairs` returns."""
    return min(documents * cycles, documents * (documents - 1) // 2)


@lru_cache(maxsize=64)  # a job counts a pool for each judge, and then plans it
def _ring_pairs(seed: int, query_id: str, doc_ids: tuple[str, ...], cycles: int) -> list[Pair]:
    prefix = f"{seed}:{query_id}"
    if 2 * cycles >= len(doc_ids) - 1:
        return [_pair(prefix, *two) for two in combinations(doc_ids, 2)]
    opponents: dict[str, set[str]] = {doc_id: set() for doc_id in doc_ids}
    pairs = list[Pair]()

    def add(a: str, b: str, turn: int) -> None:
        opponents[a].add(b)
        opponents[b].add(a)
        pairs.append(Pair(min(a, b), max(a, b), turn))

    first = {doc_id: first_turn(seed, query_id, doc_id) for doc_id in doc_ids}
    for ring, order in enumerate(_rings(prefix, doc_ids, cycles)):
        for place, doc in enumerate(order):
            following = (order[(place + step) % len(order)] for step in range(1, len(order)))
            partner = next((doc_id for doc_id in following if doc_id not in opponents[doc]), None)
            if partner is not None:  # the document has not met all
                add(doc, partner, first[doc] + ring)
    if len(pairs) < count_pairs(len(doc_ids), cycles):  # where some had met all others
        candidates = [
            _pair(prefix, a, b) for a, b in combinations(doc_ids, 2) if b not in opponents[a]
        ]
        lacking = count_pairs(len(doc_ids), cycles) - len(pairs)
        pairs += sorted(candidates, key=lambda pair: (pair.turn >> 11, pair.a, pair.b))[:lacking]
    return pairs


def _rings(query_id: str, doc_ids: Sequence[str], cycles: int) -> list[list[str]]:
    """Order the documents on each ring."""
    blocks = range(-(-cycles // _RINGS))
    places = {
        doc_id: b"".join(blake2b(f"{query_id}:{doc_id}:{n}".encode()).digest() for n in blocks)
        for doc_id in doc_ids
    }
    at = range(0, cycles * _BYTES, _BYTES)
    return [sorted(doc_ids, key=lambda d: (places[d][start : start + _BYTES], d)) for start in at]


def _pair(query_id: str, a: str, b: str) -> Pair:
    """Return a pair that is on no ring, whose turn a hash gives."""
    return Pair(a, b, _hash(f"{query_id}:{a}:{b}"))


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=_BYTES).digest())


def draw_groups(
    seed: int, query_id: str, doc_ids: Iterable[str], size: int, rounds: int
) -> list[list[Group]]:
    """Return the groups of each round; where all documents fit into one, that is the only round.

    ``size`` is the most documents of a group, from 3 on: then no group has fewer than 2.
    """
    return [list(groups) for groups in _draw(seed, query_id, tuple(sorted(doc_ids)), size, rounds)]


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
