"""Votes, and grades beside them, to ranked scores and their errors."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from zelo_ray.fitting.battles import (
    Battles,
    Bools,
    Floats,
    Games,
    Ints,
    battles_of,
    connected_parts,
    count_games,
)
from zelo_ray.fitting.bradley_terry import fit_games
from zelo_ray.fitting.grade_worth import GradeWorth, fit_with_grades, grade_shares
from zelo_ray.fitting.truth_error import SHARE, truth_errors
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import AbsoluteScore, Grade, Score, Vote
from zelo_ray.request_key import KEY_LENGTH

_NAMED = 4  # documents of a part, or parts, that a reason names


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of fitting one query: its scores by rank, or the reason why there are none."""

    scores: tuple[Score, ...] = ()
    reason: Unscored | None = None


def score_votes(
    query_votes: Sequence[Sequence[Vote]],
    prior_sd: float = 2.5,
    share: float = SHARE,
    *,
    by_size: bool = False,
    query_grades: Sequence[Sequence[Grade]] | None = None,
    worth: GradeWorth | None = None,
) -> list[Fit]:
    """Turn the votes of many queries into scores: a fit for each, in the order given.

    A pair counts as one game, shared equally by the judges that answered on it, since judges
    err together: the sign of a vote is its word, and 0 is half a win for each; ``by_size``, a
    vote of preference p is (1 + p) / 2 of a win, and errors are too large. Documents of one
    text are one. A fit depends, bit for bit, on the votes and grades of its query alone, and
    not on their order. ``share`` is what judges get wrong together: see `fitting.truth_error`.

    With grades, and what they are worth, documents without a vote or a grade get no score.
    Votes link documents; where they leave parts that never met, grades link those that have
    one, and else the query has no scores. Absolute scores are NaN in a query without grades.
    """
    more = query_grades or [()] * len(query_votes)
    pools = [merge_copies(*pool) for pool in zip(query_votes, more, strict=True)]
    graded = [grades for _, grades, _ in pools]
    battles = battles_of(
        [votes for votes, _, _ in pools], [[grade.doc_id for grade in each] for each in graded]
    )
    linked = shifts = None
    if worth is None:
        games = count_games(battles, by_size=by_size)
        fitted = fit_games(games, prior_sd)
    else:
        games = count_games(battles, by_size=worth.by_size)
        shares = grade_shares(battles, graded, worth.judges)
        scores, errors, *shifts = fit_with_grades(games, shares, worth, prior_sd)
        fitted, linked = (scores, errors), shares.sum(axis=1) > 0
    query_ids = [
        rows[0].query_id if (rows := votes or grades) else ""
        for votes, grades in zip(query_votes, more, strict=True)
    ]
    reasons = why_unscored(battles, games, linked)
    fits = rank_documents(battles, reasons, query_ids, fitted, share, shifts=shifts)
    return [add_copies(fit, copies) for fit, (*_, copies) in zip(fits, pools, strict=True)]


def rank_documents(
    battles: Battles,
    reasons: Mapping[int, Unscored],
    query_ids: Sequence[str],
    fitted: tuple[Floats, Floats],
    share: float,
    *,
    comparisons: Ints | None = None,
    shifts: Sequence[Floats] | None = None,
) -> list[Fit]:
    """Rank the documents of each query, best first; equal scores by document id.

    ``fitted`` are the scores of all documents of the battles, and standard errors;
    ``comparisons`` what each rests on (None: its votes); ``shifts``, by query, what makes its
    scores absolute, and the error of that.
    """
    sizes = np.array([len(ids) for ids in battles.documents], dtype=np.int64)
    query, starts = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
    if comparisons is None:
        places = [starts[battles.query] + side for side in (battles.a, battles.b)]
        comparisons = np.bincount(np.concatenate(places), minlength=len(query))
    # The digits past the twelfth are rounding, which must not break a tie. Adding 0 turns -0 to 0.
    score, error = (np.round(numbers, 12) + 0.0 for numbers in fitted)
    columns = [score.tolist(), error.tolist(), comparisons.tolist()]
    if shifts:
        absolute = score + shifts[0][query], np.hypot(error, shifts[1][query])
        columns += [[round(number, 12) + 0.0 for number in part.tolist()] for part in absolute]
    columns.append(np.round(truth_errors(query, score, error, share), 12).tolist())
    rows, fits = zip(*columns, strict=True), list[Fit]()
    record: Callable[..., Score] = AbsoluteScore if shifts else Score
    for number, ids in enumerate(battles.documents):
        own_rows = zip(ids, rows, strict=False)  # the next rows, as many as there are ids
        best = enumerate(sorted(own_rows, key=lambda row: -row[1][0]), 1)
        scores = (
            record(
                query_ids[number], doc_id, *about[:3], rank, *about[3:], truth_error=people_error
            )
            for rank, (doc_id, (*about, people_error)) in best
        )
        reason = reasons.get(number)
        fits.append(Fit(() if reason else tuple(scores), reason))
    return fits


def why_unscored(
    battles: Battles, games: Games, linked: Bools | None = None
) -> dict[int, Unscored]:
    """Return why scores would mean nothing, by the number of each query where they would.

    ``linked`` has the documents that something else than games links with each other: [documents].
    """
    sizes, starts = games.sizes, games.starts
    owner = np.repeat(np.arange(len(sizes)), sizes)
    x, y = starts[games.query] + games.i, starts[games.query] + games.j
    more = np.flatnonzero(linked) if linked is not None else np.zeros(0, np.int64)
    queries, first = np.unique(owner[more], return_index=True)
    x = np.concatenate([x, more])
    y = np.concatenate([y, more[first][np.searchsorted(queries, owner[more])]])
    part = connected_parts(x, y, len(owner))
    reasons = dict[int, Unscored]()
    for query in np.unique(owner[part != part[starts[owner]]]).tolist():
        reason, own = UnscoredReason.DISCONNECTED, part[owner == query].tolist()
        names = name_parts(battles.documents[query], own)
        reasons[query] = Unscored.because(reason, parts=len({*own}), names=names)
    idle = set(range(len(sizes))) - {*games.query.tolist(), *queries.tolist()}
    return reasons | dict.fromkeys(idle, Unscored.because(UnscoredReason.NO_VOTES))


def name_parts(names: Iterable[str], part: Iterable[int]) -> str:
    """Return the names by the number of their part, of many the first ones."""
    parts: dict[int, list[str]] = {}
    for name, number in zip(names, part, strict=True):
        parts.setdefault(number, []).append(name)
    return "; ".join(_first([", ".join(_first(own)) for own in parts.values()]))


def _first(names: list[str]) -> list[str]:
    return names if len(names) <= _NAMED else [*names[: _NAMED - 1], "…"]


def merge_copies(
    votes: Sequence[Vote], grades: Sequence[Grade] = ()
) -> tuple[Sequence[Vote], Sequence[Grade], dict[str, str]]:
    """Return a query's votes and grades with documents of one text as one opponent.

    Votes with one request's key are one answer, given to one prompt: what they show first has
    one text, and so has what they show second. Such an answer counts once, and one about a text
    and itself not at all. Grades with one key are of one text, too. Return also, by the id of
    each document with a copy, the first id of its text.
    """
    firsts, graded, alike = dict[str, Vote](), dict[str, str](), list[tuple[str, str]]()
    for vote in votes:
        if len(vote.key) == KEY_LENGTH and firsts.setdefault(vote.key, vote) is not vote:
            alike += zip(_as_shown(firsts[vote.key]), _as_shown(vote), strict=True)
    for grade in grades:
        if len(grade.key) == KEY_LENGTH:
            alike.append((graded.setdefault(grade.key, grade.doc_id), grade.doc_id))
    same: dict[str, str] = {}

    def first_of(doc_id: str) -> str:
        while doc_id in same:
            doc_id = same[doc_id]
        return doc_id

    for pair in alike:
        low, high = sorted(map(first_of, pair))
        if low != high:
            same[high] = low
    merged, counted = list[Vote](), set[str]()
    for vote in votes:
        a, b = first_of(vote.doc_id_a), first_of(vote.doc_id_b)
        if a != b and vote.key not in counted:
            merged.append(replace(vote, doc_id_a=a, doc_id_b=b) if same else vote)
            counted.update([vote.key] if vote.key in firsts else ())
    if not (merged or grades):  # one text alone: nothing else tells of it
        return votes, grades, {}
    if same:
        grades = [replace(grade, doc_id=first_of(grade.doc_id)) for grade in grades]
    texts = {doc_id: first_of(doc_id) for doc_id in same}
    return merged, grades, texts | {first: first for first in texts.values()}


def _as_shown(vote: Vote) -> tuple[str, str]:
    a, b = vote.doc_id_a, vote.doc_id_b
    return (b, a) if vote.swapped else (a, b)


def add_copies(fit: Fit, copies: Mapping[str, str]) -> Fit:
    """Return a fit with the scores of the copies that `merge_copies` put together."""
    if not (copies and fit.scores):
        return fit
    ids: dict[str, list[str]] = {}
    for doc_id, first in copies.items():
        ids.setdefault(first, []).append(doc_id)
    rows = [
        replace(score, doc_id=doc_id)
        for score in fit.scores
        for doc_id in ids.get(score.doc_id, [score.doc_id])
    ]
    mean = fmean(row.score for row in rows)
    rows.sort(key=lambda row: (-row.score, row.doc_id))
    scores = (
        replace(row, score=round(row.score - mean, 12) + 0.0, rank=rank)
        for rank, row in enumerate(rows, start=1)
    )
    return Fit(tuple(scores))
