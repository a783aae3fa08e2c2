"""The graded protocol: every judge grades every document from 0 to 3, by itself.

The grades are pinned to worked examples (see `anchors`), shown in another order each time; or they
are the weighted means of grades by criteria of the user's own (``--criteria``), which keep columns
of their own. A score is the mean of the judges' grades, or what these come to once it is learned
from all of a run how severe and how steady each judge is (Thurstone). One round.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import make_dataclass, replace
from functools import cache
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np

from zelo_ray.files.wording import counted
from zelo_ray.fitting import grades as fits
from zelo_ray.fitting.battles import Floats
from zelo_ray.fitting.grades import Ratings
from zelo_ray.fitting.scores import Fit
from zelo_ray.fitting.truth_error import GRADE_SD, learn_grades
from zelo_ray.protocols import Evidence, Learned, Protocol, ScoreKind
from zelo_ray.protocols.grading import CriteriaGrading, Grading, grading_by, grading_question
from zelo_ray.protocols.judgments import GRADES
from zelo_ray.protocols.options import GradedOptions, recorded_pooling
from zelo_ray.protocols.protocol import Judgments, always
from zelo_ray.protocols.questions import Ask, one_round
from zelo_ray.protocols.shared_error import people_grades
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import CriterionGrade, Grade, GradedScore, Judge, Pool

HUMAN = "human"
"""Human grades take part under this name."""
ANCHORS = 20
"""Of fewer human grades the scale would hang on each."""
FEWEST = 3
"""Of fewer judges one cannot say which errs: two give one correlation for two spreads."""
_UNGRADED = Unscored.because(UnscoredReason.NO_GRADES)


def plan(pool: Pool, panel: Sequence[Judge], options: GradedOptions) -> Iterator[Ask]:
    """Yield every document for every judge, as often as it is to be asked."""
    for document in pool.documents:
        for judge in panel:
            for repeat in range(options.repeats):
                yield Ask(judge, (document.id,), repeat)


rounds, count = one_round(plan, grading_question)


class Graders(NamedTuple):
    """What is learned from all grades of a run: ``panel`` is None if no score uses a fit of it."""

    judges: tuple[str, ...]
    panel: fits.Panel | None = None
    variances: Mapping[str, float] = {}
    """between the judges of a document, for the errors of means: by criterion, "" for the whole"""


def learn(
    judgments: Sequence[Sequence[Grade | CriterionGrade]],
    evidence: Evidence,
    options: GradedOptions,
) -> Learned:
    """Measure the judges, and with human grades the scale that they share.

    Human grades anchor the scale if they are not too few, without those of a query that judges
    were shown as an example. Where fewer than three judges, or two and the human, agree at all,
    nobody can tell who of them errs: the mean is taken then, and no spread is given.
    """
    judges = tuple(sorted(evidence.judges))
    judgments = [sorted(pool, key=_order) for pool in judgments if pool]
    judgments.sort(key=lambda pool: pool[0].query_id)
    items, ratings, parts = _ratings_by(judgments, judges)
    if not items:
        return Learned(model=Graders(judges))
    people = people_grades(evidence.human, options)
    ids = [(judgments[number][0].query_id, doc_id) for number, doc_id in items]
    human = np.rint([people.get(each, nan) for each in ids]).clip(0, 3)
    labels = int(np.isfinite(human).sum())
    notes, plain = list[str](), options.pooling == "mean"
    anchor = HUMAN if labels >= ANCHORS else None
    if labels and not anchor:
        few = f"{labels} human grades are too few to set the scale by"
        notes.append(f"{few}; {ANCHORS} would do")
    panel = None
    try:
        panel = fits.learn_panel(_with_human(ratings, human) if anchor else ratings, anchor)
    except ArithmeticError:
        if not plain:
            raise
    raters = tuple(rater for rater in panel.raters if rater.grades) if panel else ()
    if raters and sum(isfinite(rater.spread) for rater in raters) < FEWEST:
        raters = tuple(replace(r, spread=nan, spread_error=nan, weight=nan) for r in raters)
        detail = "" if plain else "; scores are mean grades"
        notes.append(f"fewer than three judges that agree: how far each errs is not known{detail}")
    used = panel if raters and isfinite(raters[0].spread) and not plain else None
    pooled = _weighted(parts, options) if parts else ratings
    variances = {n: fits.typical_variance(p) for n, p in {**parts, _WHOLE: pooled}.items()}
    model = Graders(judges, used, variances)
    query = np.array([number for number, _ in items])
    score, error = _pool(model, pooled)
    shared = learn_grades(query, score, np.nan_to_num(error), human)
    if shared.queries:
        word = f"what judges get wrong together is {shared.found:.2f} grades by "
        word += counted(shared.queries, "query", "queries")
        notes.append(f"{word}; {shared.value:.2f} is taken ({GRADE_SD:g} without human grades)")
    value = shared.value if shared.queries else None
    return Learned(raters=raters, notes=tuple(notes), shared=value, model=model)


_WHOLE = ""
"""The name of the grade of a document as a whole, beside those by criterion."""


def _order(row: Grade | CriterionGrade) -> tuple[str, str, str, int]:
    """Return what orders judgments, so that it cannot matter in which order they come."""
    return row.doc_id, row.judge, getattr(row, "criterion", _WHOLE), row.grade


def _ratings_by(
    judgments: Sequence[Sequence[Grade | CriterionGrade]],
    judges: tuple[str, ...],
) -> tuple[dict[tuple[int, str], int], Ratings, dict[str, Ratings]]:
    """Return the graded documents of all pools, numbered, their grades, and those by criterion."""
    place = {name: n for n, name in enumerate(judges)}
    items = dict[tuple[int, str], int]()
    rows: dict[str, list[tuple[int, int, float]]] = {_WHOLE: []}
    for number, pool in enumerate(judgments):
        for entry in pool:
            unit = items.setdefault((number, entry.doc_id), len(items))
            part = rows.setdefault(getattr(entry, "criterion", _WHOLE), [])
            part.append((unit, place[entry.judge], entry.grade))
    parts = dict[str, Ratings]()
    for name, part in rows.items():
        units, raters, grades = np.array(part, np.int64).reshape(-1, 3).T
        parts[name] = Ratings(units, raters, grades.astype(np.float64), len(items), judges)
    return items, parts.pop(_WHOLE), parts


def _pool(model: Graders, ratings: Ratings) -> tuple[Floats, Floats]:
    """Return the score and the standard error of each document."""
    if model.panel:
        return fits.calibrate(model.panel, ratings)[:2]
    return fits.mean(ratings), fits.mean_errors(ratings, model.variances.get(_WHOLE, nan))


def _weighted(parts: Mapping[str, Ratings], options: GradedOptions) -> Ratings:
    """Return the weighted means of each judge's grades of a document, over its criteria."""
    rows = [parts[criterion.name] for criterion in options.parsed_criteria]
    sizes = [len(part.unit) for part in rows]
    weight = np.repeat([criterion.weight for criterion in options.parsed_criteria], sizes)
    unit, judge, grade = (
        np.concatenate([getattr(part, name) for part in rows])
        for name in ("unit", "judge", "grade")
    )
    width = max(1, len(rows[0].judges))
    cells, place = np.unique(unit * width + judge, return_inverse=True)
    means = np.bincount(place, weight * grade) / np.bincount(place, weight)
    return replace(rows[0], unit=cells // width, judge=cells % width, grade=np.round(means, 9))


def _with_human(ratings: Ratings, human: Floats) -> Ratings:
    """Add the human grades to the panel's, as those of one more judge."""
    (graded,) = np.isfinite(human).nonzero()
    return Ratings(
        unit=np.concatenate([ratings.unit, graded]),
        judge=np.concatenate([ratings.judge, np.full(len(graded), len(ratings.judges))]),
        grade=np.concatenate([ratings.grade, human[graded]]),
        units=ratings.units,
        judges=(*ratings.judges, HUMAN),
    )


def fit(
    judgments: Sequence[Sequence[Grade | CriterionGrade]],
    options: GradedOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Score each document by the panel's grades; human grades set the scale only.

    A document without a grade gets no score, and nothing has one before the judges are measured.
    A fit depends, bit for bit, on the grades of its pool and what was learned alone.
    """
    if learned is None:
        return [Fit() for _ in judgments]
    model: Graders = learned.model
    items, grades, parts = _ratings_by(judgments, model.judges)
    by_pool = list[list[dict[str, Any]]]([] for _ in judgments)
    if items:
        score, error = _pool(model, _weighted(parts, options) if parts else grades)
        shared = GRADE_SD if learned.shared is None else learned.shared
        disagreement = fits.disagreement(grades)
        columns: dict[str, Any] = {
            "score": score,
            "std_error": error,
            "truth_error": np.hypot(np.nan_to_num(error), shared),
            "grade": fits.round_grades(score),
            "comparisons": np.bincount(grades.unit, minlength=len(items)),
            "median": fits.median(grades),
            "disagreement": disagreement,
            "ambiguous": disagreement >= options.ambiguous,
        }
        for name, part in parts.items():
            columns[f"by_{name}"] = fits.mean(part)
            columns[f"by_{name}_error"] = fits.mean_errors(part, model.variances.get(name, nan))
        values = zip(*(column.tolist() for column in columns.values()), strict=True)
        for (number, doc_id), row in zip(items, values, strict=True):
            by_pool[number].append({"doc_id": doc_id, **dict(zip(columns, row, strict=True))})
    record, fitted = score_record(options.criteria_names), list[Fit]()
    for pool, rows in zip(judgments, by_pool, strict=True):
        rows.sort(key=lambda row: (-row["score"], row["doc_id"]))
        scores = (
            record(query_id=pool[0].query_id, rank=rank, **row) for rank, row in enumerate(rows, 1)
        )
        fitted.append(Fit(tuple(scores)) if pool else Fit(reason=_UNGRADED))
    return fitted


@cache
def score_record(criteria: tuple[str, ...]) -> type[GradedScore]:
    """Return the record of a score with a column, and its error, for each criterion.

    Columns are called ``by_accuracy``, since readers of labels take ``relevance`` for the label.
    """
    if not criteria:
        return GradedScore
    columns = [(f"by_{name}{end}", float) for end in ("", "_error") for name in criteria]
    record: type[GradedScore] = make_dataclass(
        "CriteriaScore", columns, bases=(GradedScore,), frozen=True, slots=True, kw_only=True
    )
    return record


def _score_kind(options: GradedOptions) -> ScoreKind:
    """Return the kind of scores under these options: with a column for each criterion."""
    names = options.criteria_names
    shown = (*_SCORE.shown, *(f"by_{name}" for name in names))
    return replace(_SCORE, record=score_record(names), shown=shown)


def _explained(options: Mapping[str, Any]) -> str:
    what = "the mean of the judges' grades; ± is its standard error"
    if recorded_pooling(options) != "mean":
        what = (
            "the mean of what a document's grade may be, given what the judges said and how each "
            "of them grades; ± is its standard deviation if judges err apart"
        )
    by = "of a weighted mean over criteria, " if options.get("criteria") else ""
    return (
        "Grades are 0 irrelevant, 1 marginal (on topic, does not answer), 2 relevant (answers in "
        f"part), 3 highly relevant (answers fully). A score is on that scale, {by}the same for all "
        f"queries: {what}; about people it is larger by what they get wrong together"
    )


_SCORE = ScoreKind(
    record=GradedScore,
    unit="grades",
    scale=(0, 3),
    shown=("score", "grade"),
    explain=_explained,
)
CRITERIA = Judgments(
    record=CriterionGrade,
    noun="grade by criterion",
    words=lambda row: f"{row.criterion} {row.grade}: {row.reason}",
    counts=False,
    optional=True,
)
PROTOCOL = Protocol(
    name="graded",
    rounds=rounds,
    count=count,
    response_models=(Grading, CriteriaGrading),
    rebuild={"CriteriaGrading": grading_by},
    judgments={"grades": GRADES, "criteria": CRITERIA},
    fit=fit,
    score=_SCORE,
    score_under=_score_kind,
    options=GradedOptions,
    judges_are_independent=always,
    per_document=True,
    learn=learn,
    learns=always,
)
