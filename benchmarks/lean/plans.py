"""The lean plan, played on a world: grades and rings, then rounds of pairs at the top."""

from dataclasses import dataclass

import numpy as np

from benchmarks.lean import fits
from benchmarks.lean.designs import joined, ring_asks
from benchmarks.lean.worlds import Asks, World
from zelo_ray.fitting.battles import Battles, Floats, Ints


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked of a query. Calls are counted by the document, grades and audits with them."""

    calls: float
    rings: float
    rounds: int = 0
    graded: bool = True
    audits: float = 0.02
    taught: bool = False
    """whether later rounds know the judges as this run's rings teach; a run of ``lean`` does not,
    unless an earlier run taught it"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan came to."""

    votes: Battles
    grades: fits.Graded | None
    model: fits.Model
    belief: fits.Belief
    calls: float
    """a document"""

    @property
    def scores(self) -> Floats:
        return self.belief.scores

    def said(self) -> str:
        """What the judges were taken to be like, in a few words."""
        return fits.described(self.model)


def one_grade(world: World) -> fits.Graded:
    """One grade of each document, by judges in turn."""
    queries, judges, documents = world.grades.shape
    query, place = (each.ravel() for each in np.indices((queries, documents)))
    judge = (query + place) % judges
    return fits.Graded(query, place, judge, world.grades[query, judge, place])


def play(world: World, plan: Plan, seed: int) -> Outcome:
    """Ask and fit as a run of ``lean`` would, with what is learned at its end."""
    queries, judges, documents = world.grades.shape
    grades = one_grade(world) if plan.graded else None
    asks = ring_asks(queries, documents, judges, rings=plan.rings, audits=plan.audits, seed=seed)
    votes = world.answer(asks)
    model = fits.learn(votes, grades) if plan.taught else fits.untaught(votes)
    belief = fits.believe(votes, grades, model)
    rng = np.random.default_rng(seed)
    for left in range(plan.rounds, 0, -1):
        budget = (plan.calls - plan.graded) * queries * documents - len(asks)
        pairs = round(budget / left / queries)
        if pairs < 1:
            break
        more = in_any_order(fits.choose(votes, belief, pairs), judges, rng)
        asks = joined(asks, more)
        votes = world.answer(asks)
        belief = fits.believe(votes, grades, model)
    model = fits.learn(votes, grades)
    belief = fits.believe(votes, grades, model)
    calls = plan.graded + len(asks) / (queries * documents)
    return Outcome(votes, grades, model, belief, calls)


def in_any_order(pairs: tuple[Ints, Ints, Ints], judges: int, rng: np.random.Generator) -> Asks:
    """Each pair to one judge and in one order, both by chance."""
    query, one, other = pairs
    turned = rng.random(len(query)) < 0.5
    first, second = np.where(turned, other, one), np.where(turned, one, other)
    return Asks(query, first, second, rng.integers(judges, size=len(query)))
