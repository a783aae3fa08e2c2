"""Which questions a plan asks: today's cycles, and rings with judges in turn."""

from random import Random

import numpy as np

from benchmarks.lean.worlds import Asks
from zelo_ray.fitting.battles import Battles, Floats
from zelo_ray.fitting.bradley_terry import CHUNK_CELLS, bradley_terry
from zelo_ray.fitting.pairs import sample_pairs


def cycle_asks(queries: int, documents: int, cycles: int, judges: int, seed: int) -> Asks:
    """As ``zelo`` asks: edge-disjoint cycles, every judge on every pair, each in an order drawn."""
    rows = []
    for query in range(queries):
        rng = Random(f"{seed}:{query}")
        for one, other in sample_pairs(range(documents), cycles, rng):
            for judge in range(judges):
                turned = rng.random() < 0.5
                rows.append((query, *((other, one) if turned else (one, other)), judge))
    return Asks(*np.array(rows, dtype=np.int64).T)


def cycle_scores(votes: Battles, prior_sd: float = 2.5) -> tuple[Floats, Floats]:
    """As ``zelo`` fits: a pair is one game, shared by the judges; the sign of a vote is its word.

    Returns:
        Scores and their standard errors, of shape [queries, documents].
    """
    queries, documents = len(votes.documents), len(votes.documents[0])
    won, asked = np.zeros((2, queries, documents, documents))
    word = (1 - np.sign(votes.preference)) / 2
    np.add.at(won, (votes.query, votes.a, votes.b), word)
    np.add.at(won, (votes.query, votes.b, votes.a), 1 - word)
    np.add.at(asked, (votes.query, votes.a, votes.b), 1)
    np.add.at(asked, (votes.query, votes.b, votes.a), 1)
    wins = np.divide(won, asked, out=won, where=asked > 0)
    step = max(1, CHUNK_CELLS // documents**2)
    fits = [bradley_terry(wins[i : i + step], prior_sd) for i in range(0, queries, step)]
    scores, errors = (np.concatenate(parts) for parts in zip(*fits, strict=True))
    return scores, errors


def ring_asks(
    queries: int, documents: int, judges: int, *, rings: float, audits: float, seed: int
) -> Asks:
    """Rings of random orders, no pair twice, judges in turn along a ring.

    Args:
        queries: how many.
        documents: of each query.
        judges: how many.
        rings: each gives a document two battles; of a last part of one, so many pairs are asked.
        audits: chance that all judges are asked about a pair, in both orders.
        seed: of every draw.
    """
    rows: list[tuple[int, int, int, int]] = []
    for query in range(queries):
        rng = Random(f"rings:{seed}:{query}")
        met: set[tuple[int, int]] = set()
        wanted = min(round(rings * documents), documents * (documents - 1) // 2)
        battles = [0] * documents
        ring, idle = 0, 0
        while len(met) < wanted and idle < 50:
            order = rng.sample(range(documents), documents)
            before = len(met)
            for place, (one, other) in enumerate(zip(order, order[1:] + order[:1], strict=True)):
                pair = (min(one, other), max(one, other))
                full = ring >= rings and max(battles[one], battles[other]) >= 2 * rings
                if pair in met or full or len(met) >= wanted:
                    continue
                met.add(pair)
                battles[one] += 1
                battles[other] += 1
                turn = (place + ring) % 2
                first, second = (other, one) if turn else (one, other)
                mine = (place + ring) % judges
                if rng.random() < audits:
                    rows += [(query, one, other, judge) for judge in range(judges)]
                    rows += [(query, other, one, judge) for judge in range(judges)]
                else:
                    rows.append((query, first, second, mine))
            ring += 1
            idle = idle + 1 if len(met) == before else 0
    return Asks(*np.array(rows, dtype=np.int64).T)


def joined(*parts: Asks) -> Asks:
    """All questions of several plans."""
    columns = ([getattr(part, name) for part in parts] for name in Asks.__slots__)
    return Asks(*(np.concatenate(column) for column in columns))
