"""Rows on pools that change, and on speed."""

from collections.abc import Callable, Iterable
from functools import partial
from random import Random
from time import process_time

import numpy as np

from benchmarks.lean import fits
from benchmarks.lean.designs import fitted, ring_asks, wins_of
from benchmarks.lean.lines import Line, Lines, Size
from benchmarks.lean.worlds import REGIMES, draw_world, names_of
from zelo_ray.fitting.bradley_terry import score_battles
from zelo_ray.fitting.pairs import ring_pairs

MOST = 1.25
ROUNDS = 5
FASTER = 2.2
"""So many times as fast is `bradley_terry` as when the targets of speed were set, by both in one
process (2.28 at K=25, 2.20 at K=100)."""


def growth(row: str, size: Size) -> Lines:
    """Pairs asked anew as a document joins, as one leaves, and as a pool is reordered."""
    for rings, documents in ((2, 25), (2, 100), (4, 25), (4, 100)):
        counts = [_anew(str(query), documents, rings, size.seed) for query in range(size.of(200))]
        joined, left, turned = np.mean(counts, axis=0)
        name = f"{rings} rings, K={documents}"
        most = MOST * 2 * rings
        yield Line(row, f"{name}: one more <= {most:g}", f"{joined:.2f}", joined <= most)
        yield Line(row, f"{name}: one fewer", f"{left:.2f}")
        yield Line(row, f"{name}: reordered 0", f"{turned:g}", turned == 0)


def _anew(query_id: str, documents: int, rings: int, seed: int) -> tuple[int, int, int]:
    names = names_of(documents + 1)
    fewer, turned = names[:-1], Random(query_id).sample(names[:-1], documents)

    def pairs(of: Iterable[str]) -> set[tuple[str, str]]:
        return {(pair.a, pair.b) for pair in ring_pairs(seed, query_id, of, rings)}

    one, more = pairs(fewer), pairs(names)
    return len(more - one), len(one - more), len(pairs(turned) - one)


def speed(row: str, size: Size) -> Lines:
    """Queries a second, by processor time and in turns, of fits of the same votes as columns.

    The targets are shares of the speed of `bradley_terry` as it was when they were set. It begins
    with matrices of wins; the others, and `score_battles`, with votes.
    """
    for documents, usual in ((25, 400), (100, 60)):
        queries = size.of(usual)
        world = draw_world(REGIMES["mid"], queries, documents, np.random.default_rng(size.seed))
        asks = ring_asks(queries, documents, 3, rings=4, audits=0.02, seed=size.seed)
        votes = world.answer(asks)
        wins = wins_of(votes)
        flat, own = (fits.with_own(fits.learn(votes, None), own_sd) for own_sd in (0.0, 0.25))
        seconds = _race(
            [
                partial(score_battles, votes),
                partial(fitted, wins),
                partial(fits.believe, votes, None, flat),
                partial(fits.believe, votes, None, own),
            ]
        )
        for name, taken in zip(("score_battles", "bradley_terry alone"), seconds, strict=False):
            yield Line(row, f"K={documents}: {name}", f"{queries / taken:,.0f} queries/s")
        for name, least, taken in (("0", 1.0, seconds[2]), (".25", 0.3, seconds[3])):
            share = seconds[1] * FASTER / taken
            today = f"{seconds[1] / taken:.2f}x and {seconds[0] / taken:.2f}x of today's two"
            told = f"{queries / taken:,.0f} queries/s, {share:.2f}x; {today}"
            yield Line(row, f"K={documents}, own {name}: >= {least}x of then", told, share >= least)


def _race(contestants: list[Callable[[], object]]) -> list[float]:
    """Seconds of processor time, the best of some rounds."""
    best = [np.inf] * len(contestants)
    for _ in range(ROUNDS):
        for place, contestant in enumerate(contestants):
            start = process_time()
            contestant()
            best[place] = min(best[place], process_time() - start)
    return best


ROWS = {"growth": growth, "speed": speed}
