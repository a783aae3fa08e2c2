"""The criteria protocol: every judge grades every document by several criteria, in one call.

Criteria have names, weights and meanings of the user's own. A judge's grade is the weighted mean of
its grades by criterion, to the nearest whole one (a half goes to the even grade); a document's
score is the weighted mean of its scores by criterion, each the mean over judges. Every criterion
keeps a column of its own. One round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import cache
from math import hypot, isnan, nan, sqrt
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    create_model,
)

from zelo_ray.fitting import calibration
from zelo_ray.fitting.bradley_terry import Fit
from zelo_ray.protocols import Protocol, Rounds, ScoreKind, graded
from zelo_ray.protocols.judgments import GRADES
from zelo_ray.protocols.options import USUAL, CriteriaOptions, Criterion, parse_criterion
from zelo_ray.protocols.protocol import Judgments, always
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict, shown_document
from zelo_ray.records import (
    AnyRequest,
    CriterionGrade,
    Document,
    Failure,
    Grade,
    GradedScore,
    Judge,
    PlannedRequest,
    Pool,
    Reply,
    SyntheticFeatures,
)

PROMPT = "criteria"
_SCALE = 10_000
"""Weighted means are counted in units of 1 / `_SCALE`, as grades are whole numbers."""
_PLAIN = tuple(column.name for column in fields(GradedScore))


class CriterionVerdict(BaseModel):
    """A judge's verdict on a document by one criterion."""

    model_config = ConfigDict(strict=True, extra="forbid")

    reason: str = Field(description="one sentence: what in the document decides the grade")
    grade: int = Field(ge=0, le=3, description="0: not met at all ... 3: met fully")


class CriteriaGrading(BaseModel):
    """A judge's verdict on a document, with a field for each criterion."""

    model_config = ConfigDict(strict=True, extra="allow")
    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    """names of the criteria, of which `grading_by` builds it"""

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge, which cannot tell criteria apart."""
        verdict = CriterionVerdict(reason=seen.words, grade=seen.grade)
        return cls(**dict.fromkeys(cls.model_fields, verdict))


@cache
def grading_by(names: tuple[str, ...]) -> type[CriteriaGrading]:
    """Build the response model of these criteria, which accepts no others."""
    verdicts: dict[str, Any] = dict.fromkeys(names, (CriterionVerdict, ...))
    model = create_model(
        "CriteriaGrading",
        __base__=CriteriaGrading,
        __doc__=CriteriaGrading.__doc__,
        __module__=__name__,
        __cls_kwargs__={"extra": "forbid"},
        **verdicts,
    )
    model.PARAMETERS = names
    return model


@dataclass(frozen=True, slots=True)
class CriteriaRequest:
    """A request to one judge to grade one document by all criteria, which can read its reply."""

    query_id: str
    doc_id: str
    criteria: tuple[Criterion, ...]
    request: AnyRequest

    def read(self, reply: Reply) -> list[Grade | CriterionGrade | Failure]:
        """Turn a reply into a grade and its parts, or into a failure."""
        judge = self.request.judge.name
        verdict = read_verdict(reply, grading_by(tuple(c.name for c in self.criteria)))
        if isinstance(verdict, str):
            return [build_failure(self.query_id, [self.doc_id], judge, reply, verdict)]
        parts: list[tuple[Criterion, CriterionVerdict]] = [
            (criterion, getattr(verdict, criterion.name)) for criterion in self.criteria
        ]
        rows = [
            CriterionGrade(
                *(self.query_id, self.doc_id, judge, criterion.name),
                *(part.grade, part.reason, reply.key),
            )
            for criterion, part in parts
        ]
        grade = Grade(
            *(self.query_id, self.doc_id, judge),
            round(weighted_mean({c.name: part.grade for c, part in parts}, self.criteria)),
            *((), (), "; ".join(f"{c.name} {part.grade}: {part.reason}" for c, part in parts)),
            reply.key,
        )
        return [grade, *rows]


def weighted_mean(grades: Mapping[str, float], criteria: Sequence[Criterion]) -> float:
    """Return the mean of grades by criterion, weighted; NaN where one is missing.

    It is rounded to 9 digits, so that a half is one whatever the weights.
    """
    total = sum(criterion.weight for criterion in criteria)
    return round(sum(c.weight * grades.get(c.name, nan) for c in criteria) / total, 9)


def rounds(pool: Pool, panel: Sequence[Judge], options: CriteriaOptions) -> Rounds:
    """Let every judge grade every document by all criteria."""
    criteria = options.parsed_criteria
    questions = [
        CriteriaRequest(
            *(pool.query_id, document.id, criteria),
            PlannedRequest.find(pool, judge, document.id, repeat)
            or _request(pool, document, judge, options, repeat),
        )
        for document in pool.documents[: options.document_limit]
        for judge in panel
        for repeat in range(options.repeats)
    ]
    if not questions:
        return []
    replies = yield [question.request for question in questions]
    pairs = zip(questions, replies, strict=True)
    return [row for question, reply in pairs for row in question.read(reply)]


def count(pool: Pool, panel: Sequence[Judge], options: CriteriaOptions) -> dict[str, int]:
    """Count one request for each document and repeat."""
    documents = len(pool.documents[: options.document_limit])
    return {judge.name: documents * options.repeats for judge in panel}


def _request(
    pool: Pool, document: Document, judge: Judge, options: CriteriaOptions, repeat: int
) -> AnyRequest:
    shown = shown_document(document, pool, options)
    names = tuple(criterion.name for criterion in options.parsed_criteria)
    lines = (
        f"- {criterion.name}{criterion.meaning and ': '}{criterion.meaning}"
        for criterion in options.parsed_criteria
    )
    return build_request(
        PROMPT,
        pool,
        judge,
        options,
        grading_by(names),
        documents=[shown],
        texts={"document": shown.content},
        fields={"criteria": "\n".join(lines), "names": ", ".join(f'"{name}"' for name in names)},
        repeat=repeat,
        item=(document.id, repeat),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedCriteria(graded.Measured):
    """The judges as measured from all grades of a run, and by each criterion."""

    by_criterion: Mapping[str, graded.Measured] = field(default_factory=dict)
    mean_variance: float = nan
    """between the judges of a document, of their weighted means, which are not rounded"""


def learn(tables: Mapping[str, pa.Table], options: CriteriaOptions) -> LearnedCriteria:
    """Measure the judges by their grades, and by those of each criterion.

    Raters of a criterion are called after judge and criterion; people's grades are of the whole.

    Args:
        tables: ``grades``; ``criteria``, with query_id, doc_id, judge, criterion and grade; perhaps
            ``human``.
        options: of the job.

    Raises:
        ArithmeticError: the fit did not converge.
    """
    measured = graded.learn({n: t for n, t in tables.items() if n != "criteria"}, options.as_graded)
    parts, notes = dict[str, graded.Measured](), list[str]()
    alone = options.as_graded.model_copy(update={"human": None})
    for criterion in options.parsed_criteria:
        rows = tables["criteria"].filter(pc.field("criterion") == criterion.name)
        part = graded.learn({"grades": rows}, alone)
        parts[criterion.name] = replace(part, notes=(), shares=(), consensus=())
        if len(rows):
            mean = pc.mean(rows["grade"]).as_py()
            notes.append(f"{criterion.name} (weight {criterion.weight:g}): mean grade {mean:.2f}")
    raters = [
        replace(rater, judge=f"{rater.judge} by {name}")
        for name, part in parts.items()
        for rater in part.raters
    ]
    return LearnedCriteria(
        judges=measured.judges,
        model=measured.model,
        variance=measured.variance,
        raters=(*measured.raters, *raters),
        shares=measured.shares,
        consensus=measured.consensus,
        notes=(*notes, *measured.notes),
        shared=measured.shared,
        by_criterion=parts,
        mean_variance=calibration.typical_variance(
            _means_in(tables["criteria"], options.parsed_criteria)
        )
        / _SCALE**2,
    )


def _means_in(table: pa.Table, criteria: Sequence[Criterion]) -> calibration.Ratings:
    """Return each judge's weighted mean of its grades of each document of a table."""
    items = pc.binary_join_element_wise(table["query_id"], table["doc_id"], "\0")
    unit, judge = (
        pc.rank(column, tiebreaker="dense").to_numpy().astype(np.int64) - 1
        for column in (items, table["judge"])
    )
    weights = {criterion.name: criterion.weight for criterion in criteria}
    weight = np.array([weights[name] for name in table["criterion"].to_pylist()])
    return _weighted_means(unit, judge, weight, table["grade"].to_numpy())


def _weighted_means(
    unit: graded.Ints, judge: graded.Ints, weight: graded.Floats, grade: graded.Ints
) -> calibration.Ratings:
    """Return weighted means by document and judge, as grades in units of 1 / `_SCALE`."""
    judges, units = (int(codes.max(initial=-1)) + 1 for codes in (judge, unit))
    cells, place = np.unique(unit * max(judges, 1) + judge, return_inverse=True)
    means = np.bincount(place, weight * grade) / np.bincount(place, weight)
    return calibration.Ratings(
        unit=cells // max(judges, 1),
        judge=cells % max(judges, 1),
        grade=np.rint(_SCALE * means).astype(np.int64),
        units=units,
        judges=tuple(map(str, range(judges))),
        levels=3 * _SCALE + 1,
    )


def fit(
    judgments: Sequence[Sequence[Grade | CriterionGrade]],
    options: CriteriaOptions,
    learned: LearnedCriteria | None = None,
) -> list[Fit]:
    """Score each document by the weighted mean of its scores by criterion.

    Nothing has a score before the judges are measured.
    """
    if learned is None:
        return [Fit() for _ in judgments]
    how, record = options.as_graded, score_record(options.parsed_criteria)
    grades = [[row for row in pool if isinstance(row, Grade)] for pool in judgments]
    fits = graded.fit(grades, how, learned)
    parts = {
        criterion.name: graded.fit(
            [[_as_grade(row) for row in pool if _is_by(row, criterion.name)] for pool in judgments],
            how,
            learned.by_criterion[criterion.name],
        )
        for criterion in options.parsed_criteria
    }
    errors = _errors(judgments, options.parsed_criteria, learned.mean_variance)
    return [
        _with_criteria(
            fitted,
            {name: fits_by[number] for name, fits_by in parts.items()},
            options.parsed_criteria,
            record,
            errors[number],
        )
        for number, fitted in enumerate(fits)
    ]


def _errors(
    judgments: Sequence[Sequence[Grade | CriterionGrade]],
    criteria: Sequence[Criterion],
    variance: float,
) -> list[dict[str, float]]:
    """Return, by pool and document, the standard error of the mean of the judges' means."""
    weights = {criterion.name: criterion.weight for criterion in criteria}
    units, judges = dict[tuple[int, str], int](), dict[str, int]()
    rows = [
        (
            units.setdefault((number, row.doc_id), len(units)),
            judges.setdefault(row.judge, len(judges)),
            weights[row.criterion],
            row.grade,
        )
        for number, pool in enumerate(judgments)
        for row in pool
        if isinstance(row, CriterionGrade)
    ]
    errors = [dict[str, float]() for _ in judgments]
    if rows:
        unit, judge, weight, grade = (np.array(column) for column in zip(*rows, strict=True))
        ratings = _weighted_means(unit, judge, weight, grade)
        values = calibration.mean_errors(ratings, variance * _SCALE**2) / _SCALE
        for (number, doc_id), value in zip(units, values.tolist(), strict=True):
            errors[number][doc_id] = value
    return errors


def _is_by(row: Grade | CriterionGrade, name: str) -> bool:
    return isinstance(row, CriterionGrade) and row.criterion == name


def _as_grade(row: Any) -> Grade:
    return Grade(row.query_id, row.doc_id, row.judge, row.grade, (), (), row.reason, row.key)


def _with_criteria(
    fitted: Fit,
    parts: Mapping[str, Fit],
    criteria: Sequence[Criterion],
    record: Any,
    errors: Mapping[str, float],
) -> Fit:
    """Return a query's fit with the scores by criterion, ranked by their weighted mean.

    Args:
        fitted: to the whole grades.
        parts: the fits to the grades by criterion.
        criteria: their weights.
        record: the record of a score.
        errors: standard errors of the weighted means, by document.
    """
    if fitted.reason or not fitted.scores:
        return fitted
    scores = {name: {s.doc_id: s for s in part.scores} for name, part in parts.items()}
    rows = list[Any]()
    for score in fitted.scores:
        of = {name: by_document[score.doc_id] for name, by_document in scores.items()}
        mean = weighted_mean({name: part.score for name, part in of.items()}, criteria)
        columns = {f"by_{name}": part.score for name, part in of.items()}
        columns |= {f"by_{name}_error": part.std_error for name, part in of.items()}
        plain = {column: getattr(score, column) for column in _PLAIN}
        error = errors[score.doc_id]
        shared = sqrt(max(score.truth_error**2 - _or_zero(score.std_error) ** 2, 0.0))
        plain |= {"score": mean, "grade": round(mean), "std_error": error}
        plain |= {"truth_error": hypot(_or_zero(error), shared)}
        rows.append(record(**plain, **columns))
    rows.sort(key=lambda row: (-row.score, row.doc_id))
    return Fit(tuple(replace(row, rank=rank) for rank, row in enumerate(rows, 1)))


def _or_zero(error: float) -> float:
    """Return an error, or 0 if it is unknown."""
    return 0.0 if isnan(error) else error


@cache
def score_record(criteria: tuple[Criterion, ...]) -> type[GradedScore]:
    """Return the record of a score with a column, and its error, for each criterion.

    Columns are called ``by_accuracy``, since readers of labels take ``relevance`` for the label.
    """
    names = [f"by_{criterion.name}" for criterion in criteria]
    columns = [(f"{name}{end}", float) for end in ("", "_error") for name in names]
    record: type[GradedScore] = make_dataclass(
        "CriteriaScore", columns, bases=(GradedScore,), frozen=True, slots=True, kw_only=True
    )
    return record


def _score_kind(options: CriteriaOptions) -> ScoreKind:
    """Return the kind of scores under these options: with a column for each criterion."""
    names = [f"by_{criterion.name}" for criterion in options.parsed_criteria]
    kind = replace(SCORE, record=score_record(options.parsed_criteria))
    return replace(kind, shown=(*kind.shown, *names))


def _explained(options: Mapping[str, Any]) -> str:
    criteria = [parse_criterion(text) for text in options.get("criteria") or USUAL]
    weights = ", ".join(f"{criterion.name} {criterion.weight:g}" for criterion in criteria)
    return (
        "A score is the weighted mean, from 0 to 3, of a document's scores by criterion "
        f"(weights: {weights}), each of which is the mean of the judges' grades; ± is the standard "
        "error of the mean of the judges' weighted means; about people it is larger by what they "
        "get wrong together"
    )


SCORE = replace(graded.PROTOCOL.score, explain=_explained)
CRITERIA = Judgments(
    record=CriterionGrade,
    noun="grade by criterion",
    words=lambda row: f"{row.criterion} {row.grade}: {row.reason}",
    narrative=lambda _held, _doc_id: (),  # the reasons of a grade tell it
    counts=False,
)
PROTOCOL = Protocol(
    name="criteria",
    rounds=rounds,
    count=count,
    response_models=(CriteriaGrading,),
    rebuild={"CriteriaGrading": grading_by},
    judgments={"grades": GRADES, "criteria": CRITERIA},
    fit=fit,
    score=SCORE,
    score_under=_score_kind,
    options=CriteriaOptions,
    judges_are_independent=always,
    per_document=True,
    learn=learn,
    fits_from=("grades", "criteria"),
)
