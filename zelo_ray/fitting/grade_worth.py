"""Scores from battles and grades: Bradley-Terry whose prior says what grades are worth.

The prior of a graded document is normal. Its mean is that of what the grades are worth which judges
gave it, its width how far documents lie from it. Both are learned from a run by EM (Dempster, Laird
& Rubin 1977, J. R. Stat. Soc. B 39:1): the scores of documents given the worth of grades, and
ridge regression of the scores on the grades.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zelo_ray.fitting.battles import Battles, Bools, Floats, Games, Ints, count_games
from zelo_ray.fitting.bradley_terry import fit_games
from zelo_ray.records import Grade

GRADES = 4
_USUAL = (-0.7, 0.0, 0.8, 1.5)
"""What grades 0 to 3 are worth, in logits, as far as a run's battles do not say otherwise."""
_PULL = 0.3
_WIDTH, _SHARE = 0.85, 0.3
"""The likeliest width runs down to nothing where battles are few, and intervals would hold too
little. So it is drawn to this one, as if by a share of the documents more (`benchmarks.worth` and
`benchmarks.coverage` have the figures)."""
_UNGRADED = 2.5  # the width of the prior of a document without a grade
_SWEEPS, _STEP, _NEAR = 200, 1.7, 2e-3
_SURE = 3.0  # standard errors by which sizes of preferences must go with differences of grades


@dataclass(frozen=True, slots=True)
class GradeWorth:
    """What the grades of each judge are worth, as learned from a run."""

    judges: tuple[str, ...]
    worth: Floats
    """in logits, [judges, grades]"""
    sd: float
    """how far documents lie from it, in logits"""
    by_size: bool
    """whether the sizes of preferences count, and not their signs alone"""


def grade_shares(
    battles: Battles, query_grades: Sequence[Sequence[Grade]], judges: Sequence[str]
) -> Floats:
    """Return by document the share of its grades that each grade of each judge is.

    The battles hold the graded documents (``also`` of `battles_of`). The shape is [documents,
    judges * grades]; a document without a grade has zeros.
    """
    number = {name: place for place, name in enumerate(judges)}
    counts = np.zeros((sum(map(len, battles.documents)), len(judges) * GRADES))
    start = 0
    for ids, grades in zip(battles.documents, query_grades, strict=True):
        place = {doc_id: at for at, doc_id in enumerate(ids, start)}
        for row in grades:
            if row.judge in number:
                counts[place[row.doc_id], number[row.judge] * GRADES + row.grade] += 1
        start += len(ids)
    shares: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return shares


def learn_grade_worth(battles: Battles, shares: Floats, judges: Sequence[str]) -> GradeWorth:
    """Learn what grades are worth from the battles of the same documents."""
    by_size = _sizes_count(battles, shares)
    games = count_games(battles, by_size=by_size)
    query = np.repeat(np.arange(len(games.sizes)), games.sizes)
    graded = shares.sum(axis=1) > 0
    usual, ridge = np.tile(_USUAL, len(judges)), _PULL / max(1, len(judges)) ** 2
    centred = _centred(shares, query, graded)[graded]
    square, worth, sd, scores = centred.T @ centred, usual, 1.0, shares @ usual
    for _ in range(_SWEEPS if graded.any() else 0):
        width = np.where(graded, sd, _UNGRADED)
        scores, errors = fit_games(games, width, shares @ worth, scores)
        target = _centred(scores[:, np.newaxis], query, graded)[graded, 0]
        solution = np.linalg.solve(
            ridge * np.eye(len(usual)) + square / sd**2, ridge * usual + centred.T @ target / sd**2
        )
        missed = ((target - centred @ solution) ** 2 + errors[graded] ** 2).mean()
        rise = np.sqrt((missed + _SHARE * _WIDTH**2) / (1 + _SHARE)) - sd
        # Longer steps than EM's own reach the same place sooner.
        worth, sd = worth + _STEP * (solution - worth), float(sd + _STEP * rise)
        if max(np.abs(solution - worth).max(), abs(rise)) < _NEAR:
            break
    return GradeWorth(tuple(judges), worth.reshape(len(judges), GRADES), sd, by_size)


def fit_with_grades(
    games: Games, shares: Floats, learned: GradeWorth, prior_sd: float = _UNGRADED
) -> tuple[Floats, Floats, Floats, Floats]:
    """Fit scores whose prior is by grades, where a document has any, and else ``prior_sd`` wide."""
    query = np.repeat(np.arange(len(games.sizes)), games.sizes)
    graded = shares.sum(axis=1) > 0
    mean = shares @ learned.worth.ravel()
    count = np.bincount(query[graded], minlength=len(games.sizes)).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.bincount(query, np.where(graded, mean, 0), len(games.sizes)) / count
        noise = learned.sd / np.sqrt(count)
    mean = np.where(graded, mean, np.nan_to_num(level)[query])
    scores, errors = fit_games(games, np.where(graded, learned.sd, prior_sd), mean)
    with np.errstate(invalid="ignore"):
        means = np.bincount(query, np.where(graded, scores, 0), len(games.sizes)) / count
    return scores, errors, level - means, np.where(count > 0, noise, np.nan)


def _centred(values: Floats, query: Ints, rows: Bools) -> Floats:
    """Return the values less their mean over the given rows of the query."""
    sums = np.zeros((int(query.max(initial=-1)) + 1, values.shape[1]))
    np.add.at(sums, query[rows], values[rows])
    count = np.maximum(np.bincount(query[rows], minlength=len(sums)), 1)
    centred: Floats = values - (sums / count[:, np.newaxis])[query]
    return centred


def _sizes_count(battles: Battles, shares: Floats) -> bool:
    """Return whether larger preferences go with larger differences of grades."""
    starts = np.cumsum([0, *map(len, battles.documents)])[battles.query]
    means = shares @ np.tile(np.arange(GRADES), shares.shape[1] // GRADES)
    graded = shares.sum(axis=1) > 0
    a, b = starts + battles.a, starts + battles.b
    rows = graded[a] & graded[b] & (battles.preference != 0)
    size, gap = np.abs(battles.preference[rows]), np.abs(means[a] - means[b])[rows]
    if rows.sum() < GRADES or not (size.std() and gap.std()):
        return False
    r = float(np.corrcoef(size, gap)[0, 1])
    return bool(r * np.sqrt(rows.sum()) > _SURE)
