"""Which pairs to ask: random cycles over the documents of a query, no pair twice.

A union of random Hamiltonian cycles is connected, gives every document the same number of battles,
and spreads like a random graph, so that two or three battles link any two documents.
"""

from collections.abc import Sequence
from itertools import combinations
from random import Random


def sample_pairs(doc_ids: Sequence[str], cycles: int, rng: Random) -> list[tuple[str, str]]:
    """Draw random Hamiltonian cycles over the documents that share no pair.

    Where the documents are too few for so many cycles, every pair is asked once.

    Args:
        doc_ids: the documents of one query, all different.
        cycles: how many cycles; each gives every document two battles.
        rng: the only source of chance.

    Returns:
        Pairs without order of presentation: the document that stands first in `doc_ids` is first.
    """
    documents = len(doc_ids)
    if count_pairs(documents, cycles) == documents * (documents - 1) // 2:
        return list(combinations(doc_ids, 2))
    # Palmer's repair needs every document to be free to meet half of the others, up to the last
    # cycle. Beyond that a graph is so dense that any choice of cycles spreads well.
    draw = _free_cycles if 4 * cycles <= documents + 2 else _zigzag_cycles
    return [
        (doc_ids[min(i, j)], doc_ids[max(i, j)])
        for cycle in draw(documents, cycles, rng)
        for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
    ]


def count_pairs(documents: int, cycles: int) -> int:
    """How many pairs `sample_pairs` returns."""
    return min(documents * cycles, documents * (documents - 1) // 2)


def _free_cycles(documents: int, cycles: int, rng: Random) -> list[list[int]]:
    """Uniform random cycles, each repaired where it repeats a pair of those before it."""
    met: list[set[int]] = [{i} for i in range(documents)]
    drawn = []
    for _ in range(cycles):
        cycle = _repair(rng.sample(range(documents), documents), met, rng)
        for i, j in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            met[i].add(j)
            met[j].add(i)
        drawn.append(cycle)
    return drawn


def _repair(cycle: list[int], met: list[set[int]], rng: Random) -> list[int]:
    """Remove pairs that have met (Palmer 1997, Computers & Mathematics with Applications 34:113).

    Turn the cycle until the bad pair is its last and first document; then reversing a beginning
    trades that pair and one other for two new ones. While each document may still meet half of the
    others, some reversal brings two good ones (Ore 1960), so each repair leaves fewer bad pairs.
    """
    size = len(cycle)
    while bad := [i for i in range(size) if cycle[i] in met[cycle[i - 1]]]:
        cycle = cycle[bad[0] :] + cycle[: bad[0]]
        start = rng.randrange(size)
        end = next(
            j
            for j in (*range(start, size), *range(start))
            if cycle[j] not in met[cycle[0]] and cycle[j - 1] not in met[cycle[-1]]
        )
        cycle[:end] = cycle[:end][::-1]
    return cycle


def _zigzag_cycles(documents: int, cycles: int, rng: Random) -> list[list[int]]:
    """Some of Walecki's (K - 1) // 2 disjoint cycles (Alspach 2008, Bulletin ICA 52:7), relabelled.

    One document stands apart; the others lie on a ring, and each cycle zigzags over it from
    another place: 0, 1, -1, 2, -2 and so on.
    """
    ring = documents - 1
    *names, apart = rng.sample(range(documents), documents)
    zigzag = [(k + 1) // 2 if k % 2 else -(k // 2) for k in range(ring)]
    turns = rng.sample(range(ring // 2), cycles)
    return [[apart, *(names[(turn + place) % ring] for place in zigzag)] for turn in turns]
