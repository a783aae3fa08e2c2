"""Queries, documents and judges that are made up, with the truth at hand.

A document's relevance s, in logits, is drawn from four kinds (`KINDS`, `SHARES`); queries differ
in how rich they are (the shares of the three better kinds are multiplied by a log-normal of sd
`TILT`).
Judge m, shown document i first and j second, feels

    x = s_i - s_j + bias_mi - bias_mj + shared_ij + own_mij + position_m + retest

and says tanh(gain_m x / 2), rounded to its step; a few of its answers are anything. ``bias`` is a
document's own: one part is the same for all judges, one is the judge's. ``shared`` and ``own``
belong to the unordered pair. So the same question has the same answer whichever plan asks it, and
the other order differs by the position and the retest alone.

Assumed here, since no record says it: the gains .8, 1, 1.2 and so on round the panel, the steps .05
and .1, 2 to 4 in a hundred answers at random; a grade cuts s + bias + noise of sd .8 halfway
between the means of the kinds.
"""

from dataclasses import dataclass, replace
from random import Random

import numpy as np

from zelo_ray.fitting.battles import Battles, Bools, Floats, Ints, count_games
from zelo_ray.fitting.bradley_terry import fit_games
from zelo_ray.fitting.pairs import Pair, ring_pairs

KINDS = ((-1.5, 0.45), (0.0, 0.5), (1.5, 0.5), (2.8, 0.4))
SHARES = (0.72, 0.16, 0.09, 0.03)
TILT = 0.6
CUTS = (-0.75, 0.75, 2.15)
GAINS, STEPS, RANDOM = (0.8, 1.0, 1.2), (0.05, 0.05, 0.1), (0.02, 0.03, 0.04)
RETEST = 0.2
GRADE_NOISE = 0.8


@dataclass(frozen=True, slots=True)
class Regime:
    """How judges err: standard deviations in logits, own ones round the panel."""

    shared_pair: float
    own_pair: tuple[float, ...]
    shared_document: float
    own_document: float
    position: tuple[float, ...]
    sizes: bool = True
    """whether the size of a preference means anything; else it is pure noise"""


REGIMES = {
    "mid": Regime(0.7, (0.6, 0.8, 1.0), 0.25, 0.25, (0.1, 0.3, 0.5)),
    "hard": Regime(1.2, (1.0, 1.3, 1.8), 0.4, 0.4, (0.2, 0.6, 1.0)),
}
REGIMES["sign"] = replace(REGIMES["mid"], sizes=False)


@dataclass(frozen=True, slots=True)
class Asks:
    """Questions as columns: which query, which document first, which second, which judge."""

    query: Ints
    first: Ints
    second: Ints
    judge: Ints

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True, slots=True)
class World:
    """The truth of each query, and every answer that any judge would give."""

    truth: Floats
    """[queries, documents], in logits"""
    says: Floats
    """[queries, judges, first, second]: in [-1, 1], positive for the first"""
    grades: Ints
    """[queries, judges, documents]: 0 to 3"""
    alike: Floats
    """[queries, documents]: what all judges get wrong about a document, in logits"""

    def answer(self, asks: Asks) -> Battles:
        """The votes on some questions; A is the document of the smaller number."""
        swapped = asks.first > asks.second
        said = self.says[asks.query, asks.judge, asks.first, asks.second]
        return battles_of_columns(self.truth.shape, self.says.shape[1], asks, said, swapped)


def battles_of_columns(
    shape: tuple[int, ...], judges: int, asks: Asks, for_first: Floats, swapped: Bools
) -> Battles:
    """Votes as the fits take them, of documents named by their numbers."""
    ids = names_of(shape[1])
    return Battles(
        query=asks.query,
        a=np.minimum(asks.first, asks.second),
        b=np.maximum(asks.first, asks.second),
        judge=asks.judge,
        preference=np.where(swapped, for_first, -for_first),
        documents=(ids,) * shape[0],
        judges=tuple(f"judge-{number}" for number in range(judges)),
    )


def names_of(documents: int) -> tuple[str, ...]:
    """Ids of documents that are numbers, in their order."""
    return tuple(f"{place:03}" for place in range(documents))


def draw_truth(queries: int, documents: int, rng: np.random.Generator) -> Floats:
    """Relevance of each document of each query, in logits."""
    tilt = np.exp(TILT * rng.standard_normal((queries, 1)))
    shares = np.array(SHARES) * np.hstack([np.ones((queries, 1)), *[tilt] * 3])
    edges = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    place = rng.random((queries, documents, 1))
    kind = np.minimum((place > edges[:, np.newaxis]).sum(axis=2), len(KINDS) - 1)
    means, sds = np.array(KINDS).T
    drawn: Floats = means[kind] + sds[kind] * rng.standard_normal((queries, documents))
    return drawn


def draw_world(
    regime: Regime,
    queries: int,
    documents: int,
    rng: np.random.Generator,
    judges: int = 3,
) -> World:
    """A truth and all that the judges would say of it.

    Args:
        regime: how the judges err.
        queries: how many.
        documents: of each query.
        rng: the only source of chance.
        judges: how many.
    """
    truth = draw_truth(queries, documents, rng)
    one, all_ = (queries, 1, documents), (queries, judges, documents)
    alike = regime.shared_document * rng.standard_normal(one)
    bias = alike + regime.own_document * rng.standard_normal(all_)
    seen = truth[:, np.newaxis] + bias
    shape = (queries, judges, documents, documents)
    own = _around(regime.own_pair, judges) * _antisymmetric(rng.standard_normal(shape))
    shared = _antisymmetric(rng.standard_normal((queries, 1, *shape[2:])))
    felt = seen[..., np.newaxis] - seen[..., np.newaxis, :] + regime.shared_pair * shared + own
    felt += _around(regime.position, judges) + RETEST * rng.standard_normal(shape)
    says = _say(felt, regime, judges, rng)
    felt_alone = seen + GRADE_NOISE * rng.standard_normal(all_)
    grades = np.searchsorted(CUTS, felt_alone).astype(np.int64)
    return World(truth, says, grades, alike[:, 0])


def _say(felt: Floats, regime: Regime, judges: int, rng: np.random.Generator) -> Floats:
    """What the judges say to what they feel."""
    step = _around(STEPS, judges)
    anything = rng.uniform(-1, 1, felt.shape)
    if regime.sizes:
        said = np.tanh(_around(GAINS, judges) * felt / 2)
    else:
        said = np.sign(felt) * rng.uniform(0.1, 1, felt.shape)
    said = np.where(rng.random(felt.shape) < _around(RANDOM, judges), anything, said)
    rounded: Floats = np.round(said / step) * step
    return rounded


def _around(values: tuple[float, ...], judges: int) -> Floats:
    """A value for each judge, shaped for a table of [queries, judges, first, second]."""
    return np.resize(np.array(values), judges)[:, np.newaxis, np.newaxis]


def _antisymmetric(noise: Floats) -> Floats:
    """Noise of unit variance that belongs to an unordered pair."""
    upper = np.triu(noise, 1)
    turned: Floats = upper - upper.swapaxes(-1, -2)
    return turned


# Which questions a plan asks

Row = tuple[int, int, int, int]


def cycle_asks(queries: int, documents: int, cycles: int, judges: int, seed: int) -> Asks:
    """As `zelo` asks: rings, every judge on every pair, each in an order drawn."""
    names = names_of(documents)
    rows: list[Row] = []
    for query in range(queries):
        rng = Random(f"{seed}:{query}")
        for pair in ring_pairs(seed, str(query), names, cycles):
            rows += [(query, *_turned(pair, rng), judge) for judge in range(judges)]
    return _asks_of(rows)


def ring_asks(queries: int, documents: int, judges: int, rings: int, seed: int) -> Asks:
    """Rings with judges in turn; a ring gives each document two battles, in an order drawn."""
    names = names_of(documents)
    rows: list[Row] = []
    for query in range(queries):
        rng = Random(f"rings:{seed}:{query}")
        pairs = ring_pairs(seed, str(query), names, rings)
        rows += [(query, *_turned(pair, rng), pair.turn % judges) for pair in pairs]
    return _asks_of(rows)


def _turned(pair: Pair, rng: Random) -> tuple[int, int]:
    one, other = int(pair.a), int(pair.b)
    return (other, one) if rng.random() < 0.5 else (one, other)


def _asks_of(rows: list[Row]) -> Asks:
    return Asks(*np.array(rows, dtype=np.int64).reshape(-1, 4).T)


def zelo_scores(votes: Battles, *, by_size: bool = False) -> Floats:
    """Scores as `zelo` fits them: [queries, documents]."""
    scores, _ = fit_games(count_games(votes, by_size=by_size), 2.5)
    return scores.reshape(len(votes.documents), -1)
