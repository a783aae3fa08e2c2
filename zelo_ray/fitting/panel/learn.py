"""Learning how the judges of a panel answer, from a sample of queries."""

from dataclasses import dataclass, replace

import numpy as np

from zelo_ray.fitting.battles import Battles, Ints
from zelo_ray.fitting.panel.cavity import gather
from zelo_ray.fitting.panel.columns import Columns, Grades, columns, stacks
from zelo_ray.fitting.panel.curves import curves_of
from zelo_ray.fitting.panel.gate import ENOUGH, foretold, hidden, without
from zelo_ray.fitting.panel.habits import correlation, improve, with_levels, worth_trying
from zelo_ray.fitting.panel.mix import mixed
from zelo_ray.fitting.panel.model import PanelModel, default_model
from zelo_ray.fitting.panel.prior import learn_prior
from zelo_ray.fitting.panel.walk import walk

SAMPLE = 240
"""Queries for the gate and for what grades say."""
TAUGHT, DOCUMENTS = 60, 2500
"""Queries for the judges' habits, and the most documents of theirs: 40 queries say enough."""
FEWEST_QUERIES, FEWEST_VOTES = 5, 100
"""With fewer, nothing is learned."""
OWN_SDS = (0.0, 0.15, 0.3, 0.5, 0.7)
"""Among which the spread of judges' own views is chosen: expectation-maximisation hardly moves
it."""
SWEEPS = 4


def learn(
    battles: Battles,
    grades: Grades | None,
    *,
    seed: int = 0,
    start: PanelModel | None = None,
) -> PanelModel:
    """Learn how judges answer from a sample of the queries.

    Slopes, terms and biases are those that make votes most likely given the others of their query
    (see `cavity`); so are the spread of judges' own views and that around grades. Sizes of
    preferences count only where they foretell the signs of hidden votes better than signs do.

    Args:
        battles: the votes.
        grades: of some of the documents, or None.
        seed: of the sample and of the hidden votes.
        start: what an earlier run has learned; else `default_model`.

    Returns:
        A model of the judges of ``battles``, whose notes say how it came about.

    Raises:
        ValueError, ArithmeticError: as `posteriors`.
    """
    base_model = (start or default_model(battles.judges)).of(battles.judges)
    sample = _sample(battles, seed)
    votes = columns(battles, sample)
    if len(sample) < FEWEST_QUERIES or len(votes.query) < FEWEST_VOTES:
        few = f"{len(votes.query)} votes of {len(sample)} queries are too few to learn from."
        return replace(base_model, notes=(*base_model.notes, few))
    model = _of_sizes_or_signs(battles, votes, sample, base_model, seed)
    if grades is not None and len(grades.grade):
        model = learn_prior(votes, grades, model)
    return model


def _sample(battles: Battles, seed: int) -> Ints:
    """Draw queries with at least two votes, in random order."""
    votes = np.bincount(battles.query, minlength=len(battles.documents))
    queries = np.flatnonzero(votes >= 2)
    return queries[np.argsort(mixed(seed, queries), kind="stable")][:SAMPLE]


def _teachers(battles: Battles, sample: Ints) -> Ints:
    sizes = np.array([len(battles.documents[query]) for query in sample])
    few = np.searchsorted(np.cumsum(sizes), DOCUMENTS, side="right")
    return sample[: min(TAUGHT, max(int(few), FEWEST_QUERIES))]


@dataclass(frozen=True, slots=True)
class _Held:
    """The result of a test on hidden votes."""

    queries: int
    gain: float
    """mean log likelihood that sizes add, a query"""
    error: float


def _of_sizes_or_signs(
    battles: Battles, votes: Columns, sample: Ints, start: PanelModel, seed: int
) -> PanelModel:
    teachers = columns(battles, _teachers(battles, sample))
    signs = with_levels(start, teachers, sizes=False)
    if not worth_trying(teachers, start.judges):
        return _noted(_taught(teachers, signs), "Signs count: preferences have one size only.")
    sizes = with_levels(start, teachers, sizes=True)
    unseen = hidden(votes, seed)
    queries = len(np.unique(votes.query[unseen]))
    if queries < ENOUGH:
        why = f"{queries} queries with hidden votes are too few to tell; it takes {ENOUGH}"
        if start.sizes:
            return _noted(_taught(teachers, sizes), f"Sizes count, as in an earlier run: {why}.")
        return _noted(_taught(teachers, signs), f"Signs count: {why}.")
    training_votes = without(teachers, hidden(teachers, seed))
    signs, sizes = _taught(training_votes, signs), _taught(training_votes, sizes)
    held = _compare(votes, unseen, signs, sizes)
    summary = f"{held.gain:+.3f} ± {held.error:.3f} a query, on {held.queries}"
    if held.gain > held.error:
        note = f"Sizes count: they add to the log likelihood of hidden votes' signs ({summary})."
        return _noted(_swept(teachers, sizes), note)
    note = (
        f"Signs count: sizes add nothing to the log likelihood of hidden votes' signs ({summary})."
    )
    return _noted(_swept(teachers, signs), note)


def _noted(model: PanelModel, note: str) -> PanelModel:
    return replace(model, notes=(note,))


def _compare(votes: Columns, unseen: np.ndarray, signs: PanelModel, sizes: PanelModel) -> _Held:
    queries = np.unique(votes.query[unseen])
    gain = (foretold(votes, unseen, sizes) - foretold(votes, unseen, signs))[queries]
    return _Held(len(queries), float(gain.mean()), float(gain.std() / np.sqrt(len(queries))))


def _taught(votes: Columns, model: PanelModel) -> PanelModel:
    """Return the model with the spread of judges' own views that predicts best."""

    def at(own_sd: float, known: PanelModel) -> tuple[PanelModel, float]:
        tried = _swept(votes, replace(known, own_sd=own_sd))
        evidence = gather(stacks(votes, None, tried), curves_of(tried), own_sd)
        return tried, evidence.log_likelihood

    return walk(at, OWN_SDS, model, start=0.15)


def _swept(votes: Columns, model: PanelModel) -> PanelModel:
    for _ in range(SWEEPS):
        evidence = gather(stacks(votes, None, model), curves_of(model), model.own_sd)
        model = improve(model, evidence)
        model = replace(model, rho=correlation(evidence))
    return model
