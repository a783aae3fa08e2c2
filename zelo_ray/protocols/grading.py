"""Ask one judge to grade one document from 0 to 3, as a whole or by several criteria."""

import random
from collections.abc import Mapping, Sequence
from functools import cache
from math import nan
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, create_model

from zelo_ray.protocols import anchors
from zelo_ray.protocols.options import AnchoredOptions, Criterion, GradedOptions
from zelo_ray.protocols.questions import Ask, Question, StrictModel
from zelo_ray.protocols.texts import ShownDocuments, build_request
from zelo_ray.records import (
    CriterionGrade,
    Grade,
    PlannedRequest,
    Pool,
    Reply,
    Request,
    SyntheticFeatures,
)

PROMPT = GradedOptions.template_form.prompt
CRITERIA_PROMPT = "criteria"
GRADES = (
    "0, irrelevant: it has nothing to do with what the query asks for.",
    "1, marginal: it is on the topic, but does not answer.",
    "2, relevant: it answers in part, or gives context that directly helps to an answer.",
    "3, highly relevant: it answers fully and directly.",
)
"""What the grades mean, for judges and for the people who label."""


class Grading(StrictModel):
    """A judge's verdict on a document."""

    facets_covered: list[str] = Field(description="what the query asks for, and the document gives")
    facets_missing: list[str] = Field(description="what the query asks for, and is not there")
    rationale: str = Field(description="one to three sentences")
    grade: int = Field(ge=0, le=3, description="0: irrelevant ... 3: highly relevant")

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        return cls(
            facets_covered=list(seen.covered),
            facets_missing=list(seen.missing),
            rationale=seen.words,
            grade=seen.grade,
        )


class CriterionVerdict(StrictModel):
    """A judge's verdict on a document by one criterion."""

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


def grading_question(asked: Ask, shown: ShownDocuments) -> Question:
    """Build the question for a document's grade, with its parts where criteria were named."""
    (judge, (doc_id,), repeat), pool = asked, shown.pool
    options = shown.options
    criteria: tuple[Criterion, ...] = getattr(options, "parsed_criteria", ())
    names = tuple(criterion.name for criterion in criteria)
    model = grading_by(names) if criteria else Grading
    about = (pool.query_id, doc_id, judge.name)

    def build() -> Request:
        fields = _criteria_fields(criteria) if criteria else _rubric_fields(pool, asked, options)
        return build_request(
            CRITERIA_PROMPT if criteria else PROMPT,
            shown,
            judge,
            model,
            [doc_id],
            texts={"document": shown[doc_id].content},
            fields=fields,
            repeat=repeat,
            item=(doc_id, repeat),
        )

    def grade(verdict: Grading, reply: Reply) -> list[Grade]:
        facets = tuple(verdict.facets_covered), tuple(verdict.facets_missing)
        return [Grade(*about, verdict.grade, *facets, verdict.rationale, reply.key)]

    def grades(verdict: CriteriaGrading, reply: Reply) -> list[Grade | CriterionGrade]:
        parts: dict[str, CriterionVerdict] = {name: getattr(verdict, name) for name in names}
        mean = weighted_mean({name: part.grade for name, part in parts.items()}, criteria)
        reasons = "; ".join(f"{name} {part.grade}: {part.reason}" for name, part in parts.items())
        return [
            Grade(*about, round(mean), (), (), reasons, reply.key),
            *(
                CriterionGrade(*about, name, part.grade, part.reason, reply.key)
                for name, part in parts.items()
            ),
        ]

    request = PlannedRequest.find(pool, judge, doc_id, repeat) or build()
    return Question(pool.query_id, (doc_id,), request, model, grades if criteria else grade)


def weighted_mean(grades: Mapping[str, float], criteria: Sequence[Criterion]) -> float:
    """Return the mean of grades by criterion, weighted; NaN where one is missing.

    It is rounded to 9 digits, so that a half is one whatever the weights.
    """
    total = sum(criterion.weight for criterion in criteria)
    return round(sum(c.weight * grades.get(c.name, nan) for c in criteria) / total, 9)


def _criteria_fields(criteria: Sequence[Criterion]) -> dict[str, str]:
    lines = (f"- {c.name}{c.meaning and ': '}{c.meaning}" for c in criteria)
    names = ", ".join(f'"{criterion.name}"' for criterion in criteria)
    return {"criteria": "\n".join(lines), "names": names}


def _rubric_fields(pool: Pool, asked: Ask, options: AnchoredOptions) -> dict[str, str]:
    """Write the rubric, with the same examples for all documents of a query.

    They stand in one order for each judge and repeat, so that requests share that text.
    """
    drawn = random.Random(f"{options.seed}:{pool.query_id}")
    anchor = drawn.choice(anchors.load_anchors(options.anchors))
    seed = f"{options.seed}:{pool.query_id}:{asked.judge.name}:{asked.repeat}"
    examples = anchors.write_examples(anchor, random.Random(seed))
    return {"examples": examples, "grades": "\n".join(GRADES)}
