"""Which questions a plan asks, of documents that are named by their numbers."""

from math import ceil
from random import Random

import numpy as np

from benchmarks.lean.worlds import Asks, names_of
from zelo_ray.fitting.battles import Battles, Floats
from zelo_ray.fitting.bradley_terry import fit_games
from zelo_ray.fitting.games import Games
from zelo_ray.fitting.pairs import Pair, ring_pairs

Row = tuple[int, int, int, int]


def cycle_asks(queries: int, documents: int, cycles: int, judges: int, seed: int) -> Asks:
    """As ``zelo`` asks: rings, every judge on every pair, each in an order drawn."""
    names = names_of(documents)
    rows: list[Row] = []
    for query in range(queries):
        rng = Random(f"{seed}:{query}")
        for pair in ring_pairs(seed, str(query), names, cycles):
            rows += [(query, *_turned(pair, rng), judge) for judge in range(judges)]
    return asks_of(rows)


def cycle_scores(votes: Battles, prior_sd: float = 2.5) -> tuple[Floats, Floats]:
    """As ``zelo`` fits: a pair is one game, shared by the judges; the sign of a vote is its word.

    Returns:
        Scores and their standard errors, of shape [queries, documents].
    """
    return fitted(wins_of(votes), prior_sd)


def wins_of(votes: Battles) -> Floats:
    """The share of each pair's one game that the first document won."""
    queries, documents = len(votes.documents), len(votes.documents[0])
    won, asked = np.zeros((2, queries, documents, documents))
    word = (1 - np.sign(votes.preference)) / 2
    np.add.at(won, (votes.query, votes.a, votes.b), word)
    np.add.at(won, (votes.query, votes.b, votes.a), 1 - word)
    np.add.at(asked, (votes.query, votes.a, votes.b), 1)
    np.add.at(asked, (votes.query, votes.b, votes.a), 1)
    wins: Floats = np.divide(won, asked, out=won, where=asked > 0)
    return wins


def fitted(wins: Floats, prior_sd: float = 2.5) -> tuple[Floats, Floats]:
    """Scores and errors by matrices of wins, of shape [queries, documents, documents]."""
    query, i, j = np.nonzero(np.triu(wins + wins.swapaxes(1, 2), 1))
    sizes = np.full(len(wins), wins.shape[1])
    games = Games(query, i, j, wins[query, i, j], wins[query, j, i], sizes)
    scores, errors = fit_games(games, prior_sd)
    return scores.reshape(wins.shape[:2]), errors.reshape(wins.shape[:2])


def ring_asks(
    queries: int, documents: int, judges: int, *, rings: float, audits: float, seed: int
) -> Asks:
    """Rings with judges in turn, each pair in an order drawn.

    Args:
        queries: how many.
        documents: of each query.
        judges: how many.
        rings: each gives a document two battles; of the last part of one, so many pairs by chance.
        audits: share of pairs about which all judges are asked, in both orders.
        seed: of every draw.
    """
    names = names_of(documents)
    rows: list[Row] = []
    for query in range(queries):
        rng = Random(f"rings:{seed}:{query}")
        for pair in _some(ring_pairs(seed, str(query), names, ceil(rings)), documents, rings):
            one, other = int(pair.a), int(pair.b)
            if pair.draw < audits:
                rows += [(query, one, other, judge) for judge in range(judges)]
                rows += [(query, other, one, judge) for judge in range(judges)]
            else:
                rows.append((query, *_turned(pair, rng), pair.turn % judges))
    return asks_of(rows)


def _some(pairs: list[Pair], documents: int, rings: float) -> list[Pair]:
    """All pairs of whole rings, and of the last those that chance names first."""
    whole = int(rings) * documents
    last = sorted(pairs[whole:], key=lambda pair: -pair.draw)
    return [*pairs[:whole], *last[: round(rings * documents) - whole]]


def _turned(pair: Pair, rng: Random) -> tuple[int, int]:
    one, other = int(pair.a), int(pair.b)
    return (other, one) if rng.random() < 0.5 else (one, other)


def asks_of(rows: list[Row]) -> Asks:
    """Rows as columns."""
    return Asks(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def joined(*parts: Asks) -> Asks:
    """All questions of several plans."""
    columns = ([getattr(part, name) for part in parts] for name in Asks.__slots__)
    return Asks(*(np.concatenate(column) for column in columns))
