"""The pairs and the estimator of zbench, the program that this one follows, restated.

Its calls: the union of random cycles with duplicates, every judge on every pair. Its scores: with
w[i, j] the share of judges that prefer i to j, and .5 on the diagonal, iterate

    e_i += (1 + t)^(-1/8) log(sum_j w_ij sig(e_j - e_i) / sum_j w_ji sig(e_i - e_j))

centred after each step, until the loss changes by less than 1e-4 (three steps at least, 1000 at
most). It is Newman's iteration (2023, JMLR 24:238) in logarithms, damped.
"""

import numpy as np

from benchmarks.lean.worlds import Asks
from zelo_ray.fitting.battles import Battles, Floats

STEPS, TOLERANCE = 1000, 1e-4


def asks(queries: int, documents: int, cycles: int, judges: int, rng: np.random.Generator) -> Asks:
    """Each judge on each pair of independent random cycles; which stands first, chance says."""
    turns = rng.permuted(
        np.broadcast_to(np.arange(documents), (queries, cycles, documents)), axis=2
    )
    one, other = turns.reshape(queries, -1), np.roll(turns, -1, axis=2).reshape(queries, -1)
    flip = rng.random(one.shape) < 0.5
    first, second = np.where(flip, other, one), np.where(flip, one, other)
    query = np.broadcast_to(np.arange(queries)[:, np.newaxis], one.shape)
    columns = [np.repeat(column.ravel(), judges) for column in (query, first, second)]
    return Asks(*columns, judge=np.tile(np.arange(judges), one.size))


def scores(votes: Battles, judges: int) -> Floats:
    """Scores of [queries, documents]; a preference of 0 counts for the document shown first."""
    queries, documents = len(votes.documents), len(votes.documents[0])
    first = np.where(votes.swapped, votes.b, votes.a)
    second = np.where(votes.swapped, votes.a, votes.b)
    for_second = np.where(votes.swapped, -votes.preference, votes.preference) > 0
    wins = np.zeros((queries, documents, documents))
    np.add.at(wins, (votes.query, second, first), for_second / judges)
    np.add.at(wins, (votes.query, first, second), ~for_second / judges)
    wins += 0.5 * np.eye(documents)
    return _iterate(wins)


def _iterate(wins: Floats) -> Floats:
    found = np.zeros(wins.shape[:2])
    going, last = np.arange(len(wins)), np.full(len(wins), np.inf)
    for step in range(STEPS):
        own, elo = wins[going], found[going]
        beats = 1 / (1 + np.exp(elo[:, np.newaxis] - elo[:, :, np.newaxis]))
        up = (own * beats.swapaxes(1, 2)).sum(axis=2)
        down = (own.swapaxes(1, 2) * beats).sum(axis=2)
        elo = elo + (1 + step) ** -0.125 * np.log(up / down)
        elo -= elo.mean(axis=1, keepdims=True)
        found[going] = elo
        loss = (own * np.logaddexp(0, elo[:, np.newaxis] - elo[:, :, np.newaxis])).sum(axis=(1, 2))
        stay = (np.abs(loss - last[going]) >= TOLERANCE) | (step < 3)
        last[going] = loss
        going = going[stay]
        if not going.size:
            break
    return found
