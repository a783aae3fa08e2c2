"""Rows on what a score's error says: whether it holds the truth, and how sure one may be."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from benchmarks.lean import figures, fits
from benchmarks.lean.designs import ring_asks
from benchmarks.lean.lines import Line, Lines, Size
from benchmarks.lean.plans import Plan, play
from benchmarks.lean.recorded import Battlefield
from benchmarks.lean.worlds import REGIMES, Asks, World, draw_world
from zelo_ray.fitting.battles import Bools, Floats, Ints
from zelo_ray.fitting.truth_error import SHARE, learn_share, shared_sd

SHARED = 0.6
"""What all judges get wrong about a document, in logits: heavy, so that it matters."""
BINS = 10
SHIFT = 0.8
"""By how much whole pools differ, in logits, where scores of different queries are compared."""


def coverage(row: str, size: Size) -> Lines:
    """How many truths lie within 1.96 truth_error, if the spread of the shared error is known."""
    for own, refused in ((0.0, 0.0), (0.25, 0.0), (0.6, 0.0), (0.25, 0.2)):
        regime = replace(REGIMES["mid"], shared_document=SHARED, own_document=own)
        world = draw_world(regime, size.of(300), 25, np.random.default_rng([size.seed, 1]))
        asks = ring_asks(*_shape(world), rings=4, audits=0.02, seed=size.seed)
        heard = np.random.default_rng(size.seed).random(len(asks)) >= refused
        votes = world.answer(_kept(asks, heard))
        belief = fits.believe(votes, None, fits.learn(votes, None))
        held = _held(belief, world, SHARED), _held(belief, world, 0.0)
        low, high = (0.92, 0.98) if refused else (0.93, 0.97)
        name = f"own {own:g}" + (f", {refused:.0%} refused" if refused else "")
        said = f"{held[0]:.3f}; by std_error alone {held[1]:.3f}"
        yield Line(row, f"{name}: {low} to {high}", said, low <= held[0] <= high)


def _held(belief: fits.Belief, world: World, shared: float) -> float:
    """How many truths lie within 1.96 errors.

    A logit of the world is so many logits of winning as make the scores its consensus' expectation:
    consensus = truth + what all judges get wrong.
    """
    scores = belief.scores
    consensus = figures.centred(world.truth + world.alike)
    unit = (scores * scores).sum() / (scores * consensus).sum()
    errors = np.stack(belief.errors(shared * unit))
    return float((np.abs(scores - unit * figures.centred(world.truth)) <= 1.96 * errors).mean())


def _shape(world: World) -> tuple[int, int, int]:
    queries, judges, documents = world.grades.shape
    return queries, documents, judges


def _kept(asks: Asks, heard: Floats) -> Asks:
    return Asks(*(getattr(asks, name)[heard] for name in Asks.__slots__))


def pooled(row: str, size: Size) -> Lines:
    """Scores of all queries on one scale, by one grade a document."""
    rng = np.random.default_rng([size.seed, 2])
    world = draw_world(REGIMES["mid"], size.of(300), 25, rng, shift=SHIFT)
    outcome = play(world, Plan(4, 2, 1), size.seed)
    scores = outcome.scores
    moved = scores + outcome.belief.shifts[:, np.newaxis]
    best = scores + world.truth.mean(axis=1, keepdims=True)

    def alike(values: Floats) -> float:
        return float(np.corrcoef(values.ravel(), world.truth.ravel())[0, 1])

    yield Line(row, "without / true shifts", f"{alike(scores):.3f} / {alike(best):.3f}")
    yield Line(row, "correlation >= .88", f"{alike(moved):.3f}", alike(moved) >= 0.88)


def sureness(row: str, size: Size) -> Lines:
    """Expected calibration error of "i is better than j" against people (Naeini 2015, AAAI 29).

    The chance is Phi((s_i - s_j) / hypot(truth_error_i, truth_error_j)), as `learn_share` has it;
    the share is learned on the other half of the queries.
    """
    field = Battlefield()
    for battles in (2.0, 3.5):
        votes = field.battles(battles, size.seed)
        for name, grades in (("", None), (" and a grade", field.grades)):
            belief = fits.believe(votes, grades, fits.learn(votes, grades))
            found = _columns(belief, field.people)
            half = found.query % 2
            learned = [_learned(found.only(half != other)) for other in (0, 1)]
            error = _calibration(found, np.array(learned)[half])
            shares = " and ".join(f"{share:.2f}" for share in learned)
            usual, alone = (_calibration(found, np.full(len(half), x)) for x in (SHARE, 0.0))
            told = f"{error:.3f}, share {shares}; default {usual:.3f}, std_error alone {alone:.3f}"
            yield Line(row, f"{battles:g} battles{name}: <= .05", told, error <= 0.05)


@dataclass(frozen=True, slots=True)
class _Columns:
    """Scores of all queries with what people say, of shape [documents]."""

    query: Ints
    scores: Floats
    errors: Floats
    human: Floats

    def only(self, rows: Bools) -> "_Columns":
        return _Columns(*(getattr(self, name)[rows] for name in self.__slots__))


def _columns(belief: fits.Belief, people: list[Floats]) -> _Columns:
    query = np.repeat(np.arange(len(people)), [len(own) for own in people])
    columns = (belief.means, belief.errors(), people)
    return _Columns(query, *(np.concatenate(column) for column in columns))


def _learned(found: _Columns) -> float:
    return learn_share(found.query, found.scores, found.errors, found.human).found


def _calibration(found: _Columns, share: Floats) -> float:
    """Mean distance, over bins of sureness, of how sure from how often right; queries alike."""
    su = share * shared_sd(found.query, found.scores, 1.0)
    kept = 1 - 1 / np.bincount(found.query)[found.query]
    variance = found.errors**2 + kept * su**2
    apart, total = np.zeros(BINS), 0
    for number in np.unique(found.query).tolist():
        own = np.flatnonzero(found.query == number)
        above, below = np.nonzero(found.human[own][:, np.newaxis] > found.human[own])
        if not len(above):
            continue
        i, j = own[above], own[below]
        gap = found.scores[i] - found.scores[j]
        sure = norm.cdf(np.abs(gap) / np.sqrt(variance[i] + variance[j]))
        right = (1 + np.sign(gap)) / 2
        place = np.minimum(((sure - 0.5) * 2 * BINS).astype(int), BINS - 1)
        apart += np.bincount(place, sure - right, BINS) / len(i)
        total += 1
    return float(np.abs(apart).sum() / total)


ROWS = {"coverage": coverage, "sureness": sureness, "pooled": pooled}
