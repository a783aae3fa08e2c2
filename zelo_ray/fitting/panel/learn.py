"""Learn how the judges of a panel answer, from a sample of queries.

Some votes are hidden from a first fit, to test whether the sizes of preferences help to predict.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from zelo_ray.fitting.battles import Battles, Bools, Floats, Ints
from zelo_ray.fitting.panel.arrays import sum_cells
from zelo_ray.fitting.panel.cavity import (
    LEARNING_TOLERANCE,
    NODES,
    SHARES,
    cavities,
    gather_evidence,
    level_chances,
)
from zelo_ray.fitting.panel.columns import Grades, VoteColumns, build_columns, build_stacks
from zelo_ray.fitting.panel.curves import curves_of
from zelo_ray.fitting.panel.grid_search import search_grid
from zelo_ray.fitting.panel.habits import (
    error_correlation,
    fit_habits,
    has_several_sizes,
    set_levels,
)
from zelo_ray.fitting.panel.mode import maximise
from zelo_ray.fitting.panel.model import PanelModel, default_model
from zelo_ray.fitting.panel.prior import learn_prior

HIDDEN = 6
"""One pair in six is hidden, with all its votes."""
FEWEST_HIDDEN_QUERIES = 100
"""The fewest queries with hidden votes that the test needs."""
SAMPLE = 240
"""Queries for the test on hidden votes, and for learning the meaning of grades."""
TRAINING_QUERIES, DOCUMENTS = 60, 2500
"""The most queries, and documents of these, for the judges' habits: 40 queries are enough."""
FEWEST_QUERIES, FEWEST_VOTES = 5, 100
"""With fewer, nothing is learned."""
OWN_SDS = (0.0, 0.15, 0.3, 0.5, 0.7)
"""Candidates for the spread of judges' own views, which expectation-maximisation hardly moves."""
SWEEPS = 4
"""Rounds of expectation-maximisation."""


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
    preferences count only if they predict the signs of hidden votes better than signs alone.

    Args:
        battles: the votes.
        grades: of some of the documents, or None.
        seed: of the sample and of the hidden votes.
        start: the model that an earlier run learned; else `default_model`.

    Returns:
        A model of the judges of ``battles``; its notes say how it was learned.

    Raises:
        ValueError, ArithmeticError: as `posteriors`.
    """
    base_model = (start or default_model(battles.judges)).for_judges(battles.judges)
    sample = _sample(battles, seed)
    votes = build_columns(battles, sample)
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
    return queries[np.argsort(hash_rows(seed, queries), kind="stable")][:SAMPLE]


def _teachers(battles: Battles, sample: Ints) -> Ints:
    """Return the queries of the sample from which the judges' habits are learned."""
    sizes = np.array([len(battles.documents[query]) for query in sample])
    few = np.searchsorted(np.cumsum(sizes), DOCUMENTS, side="right")
    return sample[: min(TRAINING_QUERIES, max(int(few), FEWEST_QUERIES))]


def _of_sizes_or_signs(
    battles: Battles, votes: VoteColumns, sample: Ints, start: PanelModel, seed: int
) -> PanelModel:
    """Learn the judges' habits, with the sizes of preferences if these predict hidden votes."""
    teachers = build_columns(battles, _teachers(battles, sample))
    signs = set_levels(start, teachers, sizes=False)
    if not has_several_sizes(teachers, start.judges):
        return _noted(
            _learn_own_sd(teachers, signs), "Signs count: preferences have one size only."
        )
    sizes = set_levels(start, teachers, sizes=True)
    unseen = choose_hidden(votes, seed)
    queries = len(np.unique(votes.query[unseen]))
    if queries < FEWEST_HIDDEN_QUERIES:
        why = f"{queries} queries with hidden votes are too few to tell; "
        why += f"it takes {FEWEST_HIDDEN_QUERIES}"
        if start.sizes:
            return _noted(
                _learn_own_sd(teachers, sizes), f"Sizes count, as in an earlier run: {why}."
            )
        return _noted(_learn_own_sd(teachers, signs), f"Signs count: {why}.")
    training_votes = drop_votes(teachers, choose_hidden(teachers, seed))
    signs, sizes = _learn_own_sd(training_votes, signs), _learn_own_sd(training_votes, sizes)
    held = _compare(votes, unseen, signs, sizes)
    summary = f"{held.gain:+.3f} ± {held.error:.3f} a query, on {held.queries}"
    if held.gain > held.error:
        note = f"Sizes count: they add to the log likelihood of hidden votes' signs ({summary})."
        return _noted(_run_sweeps(teachers, sizes), note)
    note = (
        f"Signs count: sizes add nothing to the log likelihood of hidden votes' signs ({summary})."
    )
    return _noted(_run_sweeps(teachers, signs), note)


def _noted(model: PanelModel, note: str) -> PanelModel:
    return replace(model, notes=(note,))


def _learn_own_sd(votes: VoteColumns, model: PanelModel) -> PanelModel:
    """Return the model with the spread of judges' own views that predicts best."""

    def at(own_sd: float, known: PanelModel) -> tuple[PanelModel, float]:
        tried = _run_sweeps(votes, replace(known, own_sd=own_sd))
        evidence = gather_evidence(build_stacks(votes, None, tried), curves_of(tried), own_sd)
        return tried, evidence.log_likelihood

    return search_grid(at, OWN_SDS, model, start=0.15)


def _run_sweeps(votes: VoteColumns, model: PanelModel) -> PanelModel:
    """Return the model after some rounds of expectation-maximisation."""
    for _ in range(SWEEPS):
        evidence = gather_evidence(build_stacks(votes, None, model), curves_of(model), model.own_sd)
        model = fit_habits(model, evidence)
        model = replace(model, rho=error_correlation(evidence))
    return model


@dataclass(frozen=True, slots=True)
class _HiddenTest:
    """The result of a test on hidden votes."""

    queries: int
    gain: float
    """mean log likelihood per query that sizes add"""
    error: float
    """its standard error"""


def _compare(
    votes: VoteColumns, unseen: np.ndarray, signs: PanelModel, sizes: PanelModel
) -> _HiddenTest:
    queries = np.unique(votes.query[unseen])
    gain = (
        hidden_log_likelihood(votes, unseen, sizes) - hidden_log_likelihood(votes, unseen, signs)
    )[queries]
    return _HiddenTest(len(queries), float(gain.mean()), float(gain.std() / np.sqrt(len(queries))))


def hidden_log_likelihood(votes: VoteColumns, unseen: Bools, model: PanelModel) -> Floats:
    """Compute the log likelihood of each query's hidden signs given its other votes: [queries].

    The queries are those of ``votes``, in their order; without hidden votes it is 0.
    """
    return np.concatenate(list(_foretold(votes, unseen, model)))


def _foretold(votes: VoteColumns, unseen: Bools, model: PanelModel) -> Iterator[Floats]:
    curves, start = curves_of(model), 0
    for stack in build_stacks(votes, None, model):
        out = unseen[start : start + len(stack.query)]
        start += len(stack.query)
        blind = replace(stack, weight=np.where(out, 0.0, stack.weight))
        mode = maximise(blind, curves, model.own_sd, LEARNING_TOLERANCE)
        middle, spread = cavities(blind, mode, curves, model.own_sd)
        gaps = middle[:, np.newaxis] + spread[:, np.newaxis] * NODES
        chances = level_chances(blind, curves, gaps)
        top = curves.top
        signs = (chances[:, :, :top].sum(2), chances[:, :, top], chances[:, :, top + 1 :].sum(2))
        likelihood = np.choose(np.sign(stack.level)[:, np.newaxis] + 1, signs) @ SHARES
        logs: Floats = np.where(out, np.log(likelihood), 0.0)
        yield sum_cells(stack.query, logs, len(stack.places))


def choose_hidden(votes: VoteColumns, seed: int) -> Bools:
    """Choose the votes to hide, by a hash of the query and the pair."""
    pair = hash_rows(seed, votes.queries[votes.query], votes.i, votes.j)
    out: Bools = pair % np.uint64(HIDDEN) == 0
    return out


def drop_votes(votes: VoteColumns, dropped: Bools) -> VoteColumns:
    """Return the votes without the dropped ones."""
    mask = ~dropped
    return replace(
        votes,
        query=votes.query[mask],
        i=votes.i[mask],
        j=votes.j[mask],
        judge=votes.judge[mask],
        order=votes.order[mask],
        favour=votes.favour[mask],
        together=votes.together[mask],
    )


def hash_rows(seed: int, *parts: Ints) -> NDArray[np.uint64]:
    """Hash each row of some columns of integers (SplitMix64: Steele et al. 2014, OOPSLA 49:453)."""
    state = np.full(len(parts[0]), seed % 2**64, dtype=np.uint64)
    for column in parts:
        state = _scrambled(state ^ column.astype(np.uint64))
    return state


def _scrambled(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = state + np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
