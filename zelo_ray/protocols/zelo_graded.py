"""Battles within queries, and a few grades that put the scores of all queries on one scale.

Scores of battles say nothing across queries, since each query's are centred on its own documents.
So, after the battles, some documents of each query are graded, spread over the ranks that the
battles gave; a query's grades tell how far its scores are shifted. Two rounds.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from math import hypot, isfinite, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zelo_ray.files.wording import counted
from zelo_ray.fitting import calibration
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.protocols import Protocol, Rounds, ScoreKind, graded, shared_error, zelo
from zelo_ray.protocols.graded import Measured
from zelo_ray.protocols.grading import grade_requests
from zelo_ray.protocols.judgments import GRADES, VOTES
from zelo_ray.protocols.options import ZeloGradedOptions
from zelo_ray.protocols.protocol import plain_headline
from zelo_ray.records import AbsoluteScore, Failure, Grade, Judge, Pool, Score, Vote


def rounds(pool: Pool, panel: Sequence[Judge], options: ZeloGradedOptions) -> Rounds:
    """Let every judge vote on every pair, then take turns in grading some of the documents."""
    votes = yield from zelo.rounds(pool, panel, options)
    good = [vote for vote in votes if isinstance(vote, Vote)]
    if not good or len(good) < options.min_coverage * len(votes):  # it would have no scores
        return votes
    (ranked,) = zelo.fit([good], options)
    documents = {document.id: document for document in pool.documents}
    voted = {vote.judge for vote in good}
    judges = _turns(pool, [judge for judge in panel if judge.name in voted], options)
    chosen = [ranked.scores[place] for place in _spread(len(ranked.scores), options.grades)]
    questions = [
        sheet
        for score, judge in zip(chosen, judges, strict=False)
        for sheet in grade_requests(pool, documents[score.doc_id], judge, options, options.repeats)
    ]
    if not questions:
        return votes
    replies = yield [sheet.request for sheet in questions]
    return [*votes, *(sheet.read(reply) for sheet, reply in zip(questions, replies, strict=True))]


def count(pool: Pool, panel: Sequence[Judge], options: ZeloGradedOptions) -> dict[str, int]:
    """Count the requests for votes, and a judge's share of the grades."""
    votes = zelo.count(pool, panel, options)
    documents = len(pool.documents[: options.document_limit])
    chosen = len(_spread(documents, options.grades)) if any(votes.values()) else 0
    for judge in _turns(pool, panel, options)[:chosen]:
        votes[judge.name] += options.repeats
    return votes


def _battle(row: Vote | Grade | Failure) -> str | None:
    """Return the key of a battle, so that each counts by itself; None for grades."""
    battle = isinstance(row, Vote) or (isinstance(row, Failure) and len(row.doc_ids) > 1)
    return row.key if battle else None


def _turns(pool: Pool, panel: Sequence[Judge], options: ZeloGradedOptions) -> list[Judge]:
    """Return the judges who grade the first, second ... of the chosen documents."""
    rng = random.Random(f"{options.seed}:{pool.query_id}:grades")
    start = rng.randrange(len(panel))
    return [panel[(start + turn) % len(panel)] for turn in range(options.grades)]


def _spread(documents: int, grades: int) -> list[int]:
    """Return so many places of a ranking, evenly from first to last; a single one is the first."""
    grades = min(grades, documents)
    return [turn * (documents - 1) // max(1, grades - 1) for turn in range(grades)]


def learn(tables: Mapping[str, pa.Table], options: ZeloGradedOptions) -> Measured:
    """Measure the judges, with a query's scores known except for their shift.

    In the fit's terms a query is a unit, and the score of the graded document its offset.

    Args:
        tables: ``grades``, with query_id, doc_id, judge and grade; ``scores``, with query_id,
            doc_id, score and std_error; perhaps ``human``, with query_id, doc_id and relevance.
        options: of the job.

    Returns:
        Without a model, and so without absolute scores, if the fit does not converge.
    """
    ids = ["query_id", "doc_id"]
    scores, grades = (
        tables[name].select([*ids, *more])
        for name, more in (("scores", ["score"]), ("grades", ["judge", "grade"]))
    )
    table = grades.join(scores, ids, join_type="inner", use_threads=False).sort_by("query_id")
    people = shared_error.learn(tables, options)
    if not len(table):
        return Measured(notes=people.notes, shared=people.shared)
    judges = tuple(sorted(pc.unique(table["judge"]).to_pylist()))
    unit = pc.rank(table["query_id"], tiebreaker="dense").to_numpy().astype(np.int64) - 1
    ratings = calibration.Ratings(
        unit=unit,
        judge=pc.index_in(table["judge"], pa.array(judges)).to_numpy().astype(np.int64),
        grade=table["grade"].to_numpy(),
        units=int(unit.max()) + 1,
        judges=judges,
        offset=table["score"].to_numpy(),
        item=pc.rank(table["doc_id"], tiebreaker="dense").to_numpy().astype(np.int64) - 1,
    )
    try:
        model = calibration.learn(ratings)
    except ArithmeticError as error:
        notes = (f"no absolute scores: {error}", *people.notes)
        return Measured(judges=judges, notes=notes, shared=people.shared)
    return Measured(
        judges=judges,
        model=model,
        raters=model.raters,
        notes=people.notes,
        shared=people.shared,
    )


def fit(
    judgments: Sequence[Sequence[Vote | Grade]],
    options: ZeloGradedOptions,
    learned: Measured | None = None,
) -> list[Fit]:
    """Fit Bradley-Terry scores, and absolute ones shifted by the grades of each query.

    A query without grades has no absolute scores, and none has before the judges are measured.
    """
    votes = [[row for row in pool if isinstance(row, Vote)] for pool in judgments]
    grades = [[row for row in pool if isinstance(row, Grade)] for pool in judgments]
    fits = zelo.fit(votes, options, learned)
    shifts = _shifts(grades, fits, learned)
    return [
        Fit(tuple(_absolute(score, *shift) for score in fitted.scores), fitted.reason)
        for fitted, shift in zip(fits, shifts, strict=True)
    ]


def _absolute(score: Score, shift: float, error: float) -> AbsoluteScore:
    moved, errors = score.score + shift, hypot(score.std_error, error)
    return AbsoluteScore(**asdict(score), absolute_score=moved, absolute_error=errors)


def _shifts(
    grades: Sequence[Sequence[Grade]], fits: Sequence[Fit], learned: Measured | None
) -> list[tuple[float, float]]:
    """Return each query's shift of scores and its standard error; NaN if unknown."""
    model = learned.model if learned else None
    if model is None or not any(grades):
        return [(nan, nan)] * len(fits)
    judges = {name: place for place, name in enumerate(model.judges)}
    scores = [{score.doc_id: score.score for score in fitted.scores} for fitted in fits]
    items = [{doc_id: place for place, doc_id in enumerate(pool)} for pool in scores]
    rows = [
        (number, judges[row.judge], row.grade, items[number][row.doc_id])
        for number, pool in enumerate(grades)
        for row in pool
        if row.judge in judges and row.doc_id in scores[number]
    ]
    unit, judge, grade, item = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    offsets = [list(pool.values()) for pool in scores]
    offset = np.array([offsets[number][place] for number, _, _, place in rows], dtype=np.float64)
    ratings = calibration.Ratings(
        *(unit, judge, grade, len(fits), model.judges), offset=offset, item=item
    )
    posterior = calibration.compute_posterior(model, ratings)
    return list(zip(posterior.mean.tolist(), posterior.sd.tolist(), strict=True))


def absolute_kind(describe: Callable[[Mapping[str, Any]], str]) -> ScoreKind:
    """Build the kind of scores that grades put on one scale; ``describe`` names the grades."""
    return ScoreKind(
        record=AbsoluteScore,
        unit="logits",
        shown=("score", "absolute_score"),
        explain=lambda options: (
            f"{zelo.LOGITS.format('battles')}; absolute scores do: each is the score, shifted by "
            f"what {describe(options)} of each query tell of where it stands"
        ),
        headline=_headline,
    )


def _headline(score: AbsoluteScore, documents: int, noun: str) -> str:
    headline = plain_headline(score, documents, noun)
    if not isfinite(score.absolute_score):
        return f"{headline}; no absolute score: its query has no grades"
    return f"{headline}; absolute {score.absolute_score:+.2f} ± {score.absolute_error:.2f}"


PROTOCOL = Protocol(
    name="zelo+graded",
    rounds=rounds,
    count=count,
    response_models=(*zelo.PROTOCOL.response_models, *graded.PROTOCOL.response_models),
    max_rounds=2,
    min_documents=2,
    judgments={"votes": VOTES, "grades": GRADES},
    fit=fit,
    score=absolute_kind(lambda options: counted(options.get("grades", 5), "grade")),
    options=ZeloGradedOptions,
    coverage_key=_battle,
    learn=learn,
    fits_from=("grades", "scores"),
)
