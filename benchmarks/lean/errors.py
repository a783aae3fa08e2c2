"""Rows on what a score's error says: whether it holds the truth, and how sure one may be."""

from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import norm

from benchmarks.lean import figures, fits
from benchmarks.lean.designs import ring_asks
from benchmarks.lean.lines import Line, Lines, Size
from benchmarks.lean.plans import Plan, play
from benchmarks.lean.recorded import DATA, Battlefield, absent
from benchmarks.lean.worlds import REGIMES, Asks, World, draw_world
from zelo_ray.fitting.battles import Floats

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

    What the judges get wrong alike is learned on the other half of the queries.
    """
    if absent():
        yield Line(row, "recorded data", f"skipped: there is no {DATA}")
        return
    field = Battlefield()
    for battles in (2.0, 3.5):
        votes = field.battles(battles, size.seed)
        for name, grades in (("", None), (" and a grade", field.grades)):
            belief = fits.believe(votes, grades, fits.learn(votes, grades))
            pairs = [_pairs(belief, field.people, query) for query in range(len(field.people))]
            error, learned = _crossed(pairs)
            alone = _error([_sure(*own, 0.0) for own in pairs], pairs)
            told = f"{error:.3f}, su {learned}; by std_error alone {alone:.3f}"
            yield Line(row, f"{battles:g} battles{name}: <= .05", told, error <= 0.05)


Pairs = tuple[Floats, Floats, Floats]
"""Difference of scores, its variance, and whether people say that it has the right sign."""


def _pairs(belief: fits.Belief, people: list[Floats], query: int) -> Pairs:
    mean, covariance, grades = belief.means[query], belief.covariances[query], people[query]
    i, j = np.nonzero(grades[:, np.newaxis] > grades)
    variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    gap = mean[i] - mean[j]
    return np.abs(gap), variance, (gap > 0) + 0.5 * (gap == 0)


def _sure(gap: Floats, variance: Floats, right: Floats, su: float) -> Floats:
    del right
    sure: Floats = norm.cdf(gap / np.sqrt(variance + 2 * su**2))
    return sure


def _crossed(pairs: list[Pairs]) -> tuple[float, str]:
    """The error over all queries, each judged by what the other half has taught."""
    sure: list[Floats] = [np.array([])] * len(pairs)
    learned = []
    for half in (0, 1):
        su = _learn_su([own for query, own in enumerate(pairs) if query % 2 != half])
        learned.append(f"{su:.2f}")
        for query in range(half, len(pairs), 2):
            sure[query] = _sure(*pairs[query], su)
    return _error(sure, pairs), " and ".join(learned)


def _learn_su(pairs: list[Pairs]) -> float:
    """The spread under which people's words are most likely, each query counting alike."""

    def loss(su: float) -> float:
        total = 0.0
        for gap, variance, right in pairs:
            sure = np.clip(_sure(gap, variance, right, su), 1e-9, 1 - 1e-9)
            if len(gap):
                total -= float((right * np.log(sure) + (1 - right) * np.log(1 - sure)).mean())
        return total

    return float(minimize_scalar(loss, bounds=(0, 10), method="bounded").x)


def _error(sure: list[Floats], pairs: list[Pairs]) -> float:
    """Mean distance, over bins of sureness, between how sure and how often right."""
    weight = np.concatenate([np.full(len(own), 1 / max(1, len(own))) for own in sure])
    said, right = np.concatenate(sure), np.concatenate([own[2] for own in pairs])
    place = np.minimum(((said - 0.5) * 2 * BINS).astype(int), BINS - 1)
    apart = np.bincount(place, weight * (said - right), BINS)
    return float(np.abs(apart).sum() / weight.sum())


ROWS = {"coverage": coverage, "sureness": sureness, "pooled": pooled}
