"""The graded protocol: every judge grades every document from 0 to 3, by itself.

The grades are pinned to worked examples (see `anchors`), shown in another order each time. What the
panel's grades come to is learned from all of a run at once: how severe and how steady each judge
is. One round.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zelo_ray.files.wording import counted
from zelo_ray.fitting import calibration
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.fitting.effective_judges import effective_number_by_people
from zelo_ray.fitting.truth_error import GRADE_SD as USUAL
from zelo_ray.fitting.truth_error import MEDIAN_SD, learn_grades
from zelo_ray.protocols import (
    Learned,
    Protocol,
    Rounds,
    ScoreKind,
    anchor_order,
    with_people,
)
from zelo_ray.protocols.grading import Grading, grade_requests
from zelo_ray.protocols.judgments import GRADES
from zelo_ray.protocols.options import GradedOptions, pooling_of, recorded_pooling
from zelo_ray.protocols.protocol import always, describe_errors
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import Grade, GradedScore, Judge, Pool

HUMAN = "human"
"""Human grades take part under this name."""
_UNGRADED = Unscored.because(UnscoredReason.NO_GRADES)
ANCHORS = 20
"""Of fewer human grades the scale would hang on each."""
FEWEST = 3
"""Of fewer judges one cannot say which errs: two give one correlation for two spreads."""
_PLAIN = {
    "mean": calibration.mean,
    "median": calibration.median,
    "majority": calibration.majority,
}
"""Ways of pooling that take every judge alike."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def rounds(pool: Pool, panel: Sequence[Judge], options: GradedOptions) -> Rounds:
    """Let every judge grade every document."""
    documents = pool.documents[: options.document_limit]
    questions = [
        sheet
        for document in documents
        for judge in panel
        for sheet in grade_requests(pool, document, judge, options, options.repeats)
    ]
    if not questions:
        return []
    replies = yield [sheet.request for sheet in questions]
    return [sheet.read(reply) for sheet, reply in zip(questions, replies, strict=True)]


def count(pool: Pool, panel: Sequence[Judge], options: GradedOptions) -> dict[str, int]:
    """Count one request for each document and repeat."""
    documents = len(pool.documents[: options.document_limit])
    return {judge.name: documents * options.repeats for judge in panel}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Learned):
    """The judges as measured from all grades of a run; ``model`` is None if no score uses one."""

    judges: tuple[str, ...] = ()
    model: calibration.Model | None = None
    variance: float = nan
    """between the judges of a document, for the error of mean grades; NaN if no score is a mean of
    several judges"""


def learn(tables: Mapping[str, pa.Table], options: GradedOptions) -> Measured:
    """Measure the judges, and with human grades the scale that they share.

    Human grades of documents that no judge graded are left out. The others correct the shares.
    They also anchor the scale if they are not too few, without those of a query that judges were
    shown as an example. Where fewer than three judges, or two and the human, agree at all, nobody
    can tell who of them errs: the mean is taken then, and no spread is told.

    Args:
        tables: ``grades``, with query_id, doc_id, judge and grade; perhaps ``human``, with
            query_id, doc_id and relevance.
        options: of the job.

    Raises:
        ArithmeticError: the fit did not converge.
    """
    grades = tables["grades"]
    if not len(grades):
        return Measured()
    judges = tuple(sorted(pc.unique(grades["judge"]).to_pylist()))
    people = tables.get("human")
    unit, query, everyone, drawn = _units(grades, people)
    human = (
        everyone
        if people is None
        else _units(grades, with_people.without_example_queries(people, options))[2]
    )
    ratings = calibration.Ratings(
        unit=unit,
        judge=pc.index_in(grades["judge"], pa.array(judges)).to_numpy().astype(np.int64),
        grade=grades["grade"].to_numpy(),
        units=len(human),
        judges=judges,
    )
    labels, notes = int(np.isfinite(human).sum()), list[str]()
    anchor = HUMAN if labels >= ANCHORS else None
    if labels and not anchor:
        notes.append(f"{labels} human grades correct the shares; an anchor takes {ANCHORS}")
    anchored = _with_human(ratings, human) if anchor else ratings
    plain = pooling_of(options.pooling, human="human" in tables) in _PLAIN
    try:
        model = calibration.learn(anchored, anchor, clusters=query)
        raters = model.raters
    except ArithmeticError:
        if not plain:
            raise
        raters = ()
    if raters and sum(math.isfinite(rater.spread) for rater in raters) < FEWEST:
        raters = tuple(replace(r, spread=nan, spread_error=nan, weight=nan) for r in raters)
        detail = "" if plain else "; scores are mean grades, by no model"
        notes.append(f"fewer than three judges that agree: how far each errs is not known{detail}")
    modelled = raters and not math.isnan(raters[0].spread) and not plain
    by_mean = not modelled and _plain_pooling(options) == "mean"
    measured = Measured(
        judges=judges,
        model=model if modelled else None,
        variance=calibration.typical_variance(ratings) if by_mean else nan,
        raters=raters,
        notes=tuple(notes),
    )
    score, error, _ = _pool_grades(measured, ratings, options)
    usual = _usual_error(measured)
    shared = learn_grades(query, score, np.nan_to_num(error), human, usual)
    if shared.queries:
        detail = counted(shared.queries, "query", "queries")
        word = f"what judges get wrong together is {shared.found:.2f} grades by {detail}"
        notes.append(f"{word}; {shared.value:.2f} is taken ({usual:g} without human grades)")
        if labels >= ANCHORS and not math.isnan(
            worth := effective_number_by_people(ratings, human)
        ):
            notes.append(f"given people's grades, {len(judges)} judges err like {worth:.1f} apart")
        measured = replace(measured, shared=shared.value, notes=tuple(notes))
    sure = (
        calibration.compute_posterior(measured.model, ratings).at_least if measured.model else None
    )
    framed = people is not None and "frame" in people.column_names and len(people)
    frame = people["frame"][0].as_py() if people is not None and framed else None
    shares, lines = with_people.correct_means(score, sure, everyone, query, drawn, frame=frame)
    trusted = with_people.measure_consensus(ratings, human, query)
    lines = (
        *measured.notes,
        *lines,
        *with_people.describe_consensus(trusted),
        *anchor_order.describe_shift(grades, options),
    )
    return replace(measured, shares=shares, consensus=trusted, notes=lines)


def _plain_pooling(options: GradedOptions) -> str:
    """Return how grades are pooled where no model does it."""
    pooling = pooling_of(options.pooling, human=False)
    return pooling if pooling in _PLAIN else "mean"


def _usual_error(learned: Measured) -> float:
    """Return what judges get wrong together, in grades, where no human grades show it."""
    return USUAL if learned.model or math.isfinite(learned.variance) else MEDIAN_SD


def _units(grades: pa.Table, human: pa.Table | None) -> tuple[Ints, Ints, Floats, Floats | None]:
    """Assign a number to each document that has grades.

    Returns:
        The number of each row's document; for each document a number of its query, and its human
        grade, NaN where there is none; and the probability with which it was drawn, where labels
        tell that.
    """
    tables = [grades] if human is None else [grades, human]
    ids = pa.concat_tables([table.select(["query_id", "doc_id"]) for table in tables])
    query, doc = (_codes(column) for column in ids.columns)
    width = int(doc.max()) + 1
    code = query * width + doc
    codes, unit = np.unique(code[: len(grades)], return_inverse=True)
    labels, drawn = np.full((2, len(codes)), np.nan)
    if human is None:
        return unit, codes // width, labels, None
    place = np.searchsorted(codes, code[len(grades) :]).clip(max=len(codes) - 1)
    matches = codes[place] == code[len(grades) :]
    labels[place[matches]] = np.rint(human["relevance"].to_numpy()[matches]).clip(0, 3)
    if "probability" in human.column_names:
        drawn[place[matches]] = human["probability"].to_numpy()[matches]
    complete = matches.any() and np.isfinite(drawn[place[matches]]).all()
    return unit, codes // width, labels, drawn if complete else None


def _codes(column: pa.ChunkedArray) -> Ints:
    """Return numbers that sort as the texts do, so that the order of rows cannot matter."""
    encoded = column.dictionary_encode().combine_chunks()
    ranks = pc.rank(encoded.dictionary).to_numpy().astype(np.int64)
    codes: Ints = ranks[encoded.indices.to_numpy()]
    return codes


def _with_human(ratings: calibration.Ratings, human: Floats) -> calibration.Ratings:
    """Add the human grades to the panel's, as those of one more judge."""
    (graded,) = np.isfinite(human).nonzero()
    judge = np.full(len(graded), len(ratings.judges))
    return calibration.Ratings(
        unit=np.concatenate([ratings.unit, graded]),
        judge=np.concatenate([ratings.judge, judge]),
        grade=np.concatenate([ratings.grade, human[graded].astype(np.int64)]),
        units=ratings.units,
        judges=(*ratings.judges, HUMAN),
    )


def fit(
    judgments: Sequence[Sequence[Grade]], options: GradedOptions, learned: Measured | None = None
) -> list[Fit]:
    """Score each document by the panel's grades; human grades set the scale only.

    A document without a grade gets no score, and nothing has one before the judges are measured.
    A fit depends, bit for bit, on the grades of its pool and what was learned alone.
    """
    if learned is None:
        return [Fit() for _ in judgments]
    if not any(judgments):
        return [Fit(reason=_UNGRADED) for _ in judgments]
    judges = {name: place for place, name in enumerate(learned.judges)}
    items = dict[tuple[int, str], int]()  # number of a pool, and document: the unit
    rows = [
        (items.setdefault((number, row.doc_id), len(items)), judges[row.judge], row.grade)
        for number, grades in enumerate(judgments)
        for row in grades
    ]
    unit, judge, grade = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    ratings = calibration.Ratings(unit, judge, grade, len(items), learned.judges)
    score, error, grades = _pool_grades(learned, ratings, options)
    shared = _usual_error(learned) if learned.shared is None else learned.shared
    columns = (
        *(score, error, np.hypot(np.nan_to_num(error), shared)),
        grades,
        np.bincount(unit, minlength=len(items)),
        calibration.median(ratings),
        calibration.majority(ratings),
        calibration.disagreement(ratings),
    )
    words = list[list[_PooledGrade]]([] for _ in judgments)
    for (number, doc_id), *word in zip(
        items, *(column.tolist() for column in columns), strict=True
    ):
        words[number].append(_PooledGrade(doc_id, *word))
    return [
        Fit(_ranked(grades[0].query_id, entries, options)) if grades else Fit(reason=_UNGRADED)
        for grades, entries in zip(judgments, words, strict=True)
    ]


class _PooledGrade(NamedTuple):
    """The pooled grades of one document."""

    doc_id: str
    score: float
    std_error: float
    truth_error: float
    grade: int
    comparisons: int
    median: float
    majority: int
    disagreement: float


def _pool_grades(
    learned: Measured, ratings: calibration.Ratings, options: GradedOptions
) -> tuple[Floats, Floats, Ints]:
    """Return score, standard error and grade of each document."""
    if learned.model:
        posterior = calibration.compute_posterior(learned.model, ratings)
        return posterior.grade_mean, posterior.grade_sd, posterior.grade
    score = _PLAIN[_plain_pooling(options)](ratings).astype(np.float64)
    errors = calibration.mean_errors(ratings, learned.variance)
    return score, errors, calibration.round_grades(score)


def _ranked(
    query_id: str, words: Sequence[_PooledGrade], options: GradedOptions
) -> tuple[GradedScore, ...]:
    """Rank documents, the best first; equal scores by document ID."""
    ordered = sorted(words, key=lambda word: (-word.score, word.doc_id))
    return tuple(
        GradedScore(
            query_id=query_id,
            rank=rank,
            ambiguous=word.disagreement >= options.ambiguous,
            **word._asdict(),
        )
        for rank, word in enumerate(ordered, 1)
    )


_POOLED = {
    "mean": "the mean of the judges' grades; ± is its standard error; about people it is larger by "
    "what they get wrong together",
    "median": "the median of the judges' grades",
    "majority": "the grade that most judges gave",
}
_MEAN = (
    "the mean of what a document's grade may be, given what the judges said and how each of them "
    "grades; ± is its standard deviation if judges err apart; about people it is larger by what "
    "they get wrong together"
)


def _explained(options: Mapping[str, Any]) -> str:
    pooling = recorded_pooling(options)
    return (
        "Grades are 0 irrelevant, 1 marginal (on topic, does not answer), 2 relevant (answers in "
        "part), 3 highly relevant (answers fully). A score is on that scale, the same for all "
        f"queries: {_POOLED.get(pooling, _MEAN)}"
    )


def _headline(score: GradedScore, documents: int, noun: str) -> str:
    split = " The judges are split." if score.ambiguous else ""
    return (
        f"{score.doc_id}: grade {score.grade} (score {score.score:.2f}{describe_errors(score)}), "
        f"rank {score.rank} of {documents}, from {score.comparisons} {noun}s: median "
        f"{score.median:g}, majority {score.majority}.{split}"
    )


PROTOCOL = Protocol(
    name="graded",
    rounds=rounds,
    count=count,
    response_models=(Grading,),
    judgments={"grades": GRADES},
    fit=fit,
    score=ScoreKind(
        record=GradedScore,
        unit="grades",
        scale=(0, 3),
        shown=("score", "grade"),
        explain=_explained,
        headline=_headline,
    ),
    options=GradedOptions,
    judges_are_independent=always,
    per_document=True,
    learn=learn,
    fits_from=("grades",),
)
