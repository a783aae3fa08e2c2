"""Scores from battles and grades: Bradley-Terry whose prior says what grades are worth.

The prior of a graded document is normal. Its mean is that of what the grades are worth which judges
gave it, its width how far documents lie from it. Both are learned from a run by EM (Dempster, Laird
& Rubin 1977, J. R. Stat. Soc. B 39:1): the scores of documents given the worth of grades, and
ridge regression of the scores on the grades.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zelo_ray.fitting.battles import (
    Battles,
    Bools,
    Floats,
    Ints,
    battles_of,
    merge_copies,
    with_copies,
)
from zelo_ray.fitting.bradley_terry import Fit, fit_games, rank_scores
from zelo_ray.fitting.games import Games, count_games, why_unscored
from zelo_ray.records import AbsoluteScore, Grade, Vote

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


def mark_documents(
    battles: Battles, query_grades: Sequence[Sequence[Grade]], judges: Sequence[str]
) -> Floats:
    """Return by document the share of its grades that each grade of each judge is.

    Args:
        battles: which hold the graded documents; see ``also`` of `battles_of`.
        query_grades: the grades of each query, in the same order.
        judges: whose grades count.

    Returns:
        Of shape [documents, judges * grades]; a document without a grade has zeros.
    """
    number = {name: place for place, name in enumerate(judges)}
    ends = np.cumsum([len(ids) for ids in battles.documents])
    marks = np.zeros((int(ends[-1]) if len(ends) else 0, len(judges) * GRADES))
    for start, ids, grades in zip(
        np.concatenate([[0], ends]), battles.documents, query_grades, strict=False
    ):
        place = {doc_id: start + at for at, doc_id in enumerate(ids)}
        for row in grades:
            if row.judge in number:
                marks[place[row.doc_id], number[row.judge] * GRADES + row.grade] += 1
    shares: Floats = marks / np.maximum(marks.sum(axis=1, keepdims=True), 1)
    return shares


def learn_grade_worth(battles: Battles, marks: Floats, judges: Sequence[str]) -> GradeWorth:
    """Learn what grades are worth from the battles of the same documents."""
    by_size = _sizes_count(battles, marks)
    games = count_games(battles, by_size=by_size)
    query = np.repeat(np.arange(len(games.sizes)), games.sizes)
    graded = marks.sum(axis=1) > 0
    usual, ridge = np.tile(_USUAL, len(judges)), _PULL / max(1, len(judges)) ** 2
    apart = _centred(marks, query, graded)[graded]
    square, worth, sd, scores = apart.T @ apart, usual, 1.0, marks @ usual
    for _ in range(_SWEEPS if graded.any() else 0):
        width = np.where(graded, sd, _UNGRADED)
        scores, errors = fit_games(games, width, marks @ worth, scores)
        known = _centred(scores[:, np.newaxis], query, graded)[graded, 0]
        found = np.linalg.solve(
            ridge * np.eye(len(usual)) + square / sd**2, ridge * usual + apart.T @ known / sd**2
        )
        missed = ((known - apart @ found) ** 2 + errors[graded] ** 2).mean()
        rise = np.sqrt((missed + _SHARE * _WIDTH**2) / (1 + _SHARE)) - sd
        # Longer steps than EM's own reach the same place sooner.
        worth, sd = worth + _STEP * (found - worth), float(sd + _STEP * rise)
        if max(np.abs(found - worth).max(), abs(rise)) < _NEAR:
            break
    return GradeWorth(tuple(judges), worth.reshape(len(judges), GRADES), sd, by_size)


def fit_with_grades(
    games: Games, marks: Floats, learned: GradeWorth, prior_sd: float = _UNGRADED
) -> tuple[Floats, Floats, Floats, Floats]:
    """Fit scores whose prior is by grades, where a document has any, and else ``prior_sd`` wide.

    Returns:
        Scores, centred on 0 in each query, and their standard errors, [documents] each; and by
        query the shift that puts all of them on one scale, with its error: NaN without grades.
    """
    query = np.repeat(np.arange(len(games.sizes)), games.sizes)
    graded = marks.sum(axis=1) > 0
    mean = marks @ learned.worth.ravel()
    count = np.bincount(query[graded], minlength=len(games.sizes)).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        level = np.bincount(query, np.where(graded, mean, 0), len(games.sizes)) / count
        noise = learned.sd / np.sqrt(count)
    mean = np.where(graded, mean, np.nan_to_num(level)[query])
    scores, errors = fit_games(games, np.where(graded, learned.sd, prior_sd), mean)
    with np.errstate(invalid="ignore"):
        seen = np.bincount(query, np.where(graded, scores, 0), len(games.sizes)) / count
    return scores, errors, level - seen, np.where(count > 0, noise, np.nan)


def _centred(values: Floats, query: Ints, rows: Bools) -> Floats:
    """Return the values less their mean over the given rows of the query."""
    sums = np.zeros((int(query.max(initial=-1)) + 1, values.shape[1]))
    np.add.at(sums, query[rows], values[rows])
    count = np.maximum(np.bincount(query[rows], minlength=len(sums)), 1)
    apart: Floats = values - (sums / count[:, np.newaxis])[query]
    return apart


def _sizes_count(battles: Battles, marks: Floats) -> bool:
    """Return whether larger preferences go with larger differences of grades."""
    starts = np.cumsum([0, *map(len, battles.documents)])[battles.query]
    means = marks @ np.tile(np.arange(GRADES), marks.shape[1] // GRADES)
    graded = marks.sum(axis=1) > 0
    a, b = starts + battles.a, starts + battles.b
    rows = graded[a] & graded[b] & (battles.preference != 0)
    size, gap = np.abs(battles.preference[rows]), np.abs(means[a] - means[b])[rows]
    if rows.sum() < GRADES or not (size.std() and gap.std()):
        return False
    r = float(np.corrcoef(size, gap)[0, 1])
    return bool(r * np.sqrt(rows.sum()) > _SURE)


def score_votes_and_grades(
    query_votes: Sequence[Sequence[Vote]],
    query_grades: Sequence[Sequence[Grade]],
    learned: GradeWorth,
    prior_sd: float,
    share: float,
) -> list[Fit]:
    """Score documents by votes and grades, as `score_votes` does by votes alone.

    Documents without a vote or a grade get no score. Votes link documents; where they leave parts
    that never met, grades link those that have one, and else the query has no scores. Absolute
    scores are NaN in a query without grades.
    """
    pools = [*map(merge_copies, query_votes, query_grades)]
    merged, copies = zip(*pools, strict=True) if pools else ((), ())
    query_grades = [*map(_merge_grades, query_grades, copies)]
    battles = battles_of(merged, [[grade.doc_id for grade in pool] for pool in query_grades])
    marks = mark_documents(battles, query_grades, learned.judges)
    games = count_games(battles, by_size=learned.by_size)
    scores, errors, shifts, noise = fit_with_grades(games, marks, learned, prior_sd)
    reasons = why_unscored(battles, games, linked=marks.sum(axis=1) > 0)
    ranked = rank_scores(battles, reasons, scores, errors, share)
    rows: list[list[AbsoluteScore]] = [[] for _ in query_votes]
    names = ("query", "doc", "score", "std_error", "comparisons", "rank", "truth_error")
    columns = (getattr(ranked, name).tolist() for name in names)
    for query, doc, score, error, comparisons, rank, beyond in zip(*columns, strict=True):
        query_id = (query_votes[query] or query_grades[query])[0].query_id
        about = (query_id, battles.documents[query][doc], score, error, comparisons, rank)
        # The digits past the twelfth are rounding, which follows the order of the documents.
        absolute = score + float(shifts[query]), float(np.hypot(error, noise[query]))
        exact = (round(number, 12) + 0.0 for number in absolute)
        rows[query].append(AbsoluteScore(*about, *exact, truth_error=beyond))
    return [
        Fit(with_copies(pool, copies[query]), reasons.get(query)) for query, pool in enumerate(rows)
    ]


def _merge_grades(grades: Sequence[Grade], copies: Mapping[str, str]) -> list[Grade]:
    """Return a query's grades with those of copies as of one document, each answer once."""
    if not copies:
        return [*grades]
    renamed = [replace(grade, doc_id=copies.get(grade.doc_id, grade.doc_id)) for grade in grades]
    return [*{(grade.key, grade.doc_id): grade for grade in renamed}.values()]
