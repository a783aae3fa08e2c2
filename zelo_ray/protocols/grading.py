"""Ask one judge to grade one document from 0 to 3, and read its reply."""

import random
from dataclasses import dataclass
from typing import Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
)

from zelo_ray.protocols import anchors
from zelo_ray.protocols.options import AnchoredOptions, GradedOptions
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict, shown_document
from zelo_ray.records import (
    AnyRequest,
    Document,
    Failure,
    Grade,
    Judge,
    PlannedRequest,
    Pool,
    Reply,
    Request,
    SyntheticFeatures,
)

PROMPT = GradedOptions.template_form.prompt
GRADES = (
    "0, irrelevant: it has nothing to do with what the query asks for.",
    "1, marginal: it is on the topic, but does not answer.",
    "2, relevant: it answers in part, or gives context that directly helps to an answer.",
    "3, highly relevant: it answers fully and directly.",
)
"""What the grades mean, for judges and for the people who label."""


class Grading(BaseModel):
    """A judge's verdict on a document."""

    model_config = ConfigDict(strict=True, extra="forbid")

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


@dataclass(frozen=True, slots=True)
class GradeRequest:
    """A request to one judge to grade one document, which can read its reply."""

    query_id: str
    doc_id: str
    request: AnyRequest

    def read(self, reply: Reply) -> Grade | Failure:
        """Turn a reply into a grade, or into a failure."""
        judge, verdict = self.request.judge.name, read_verdict(reply, Grading)
        if isinstance(verdict, str):
            return build_failure(self.query_id, [self.doc_id], judge, reply, verdict)
        return Grade(
            *(self.query_id, self.doc_id, judge, verdict.grade),
            *(tuple(verdict.facets_covered), tuple(verdict.facets_missing)),
            *(verdict.rationale, reply.key),
        )


def grade_requests(
    pool: Pool, document: Document, judge: Judge, options: AnchoredOptions, repeats: int = 1
) -> list[GradeRequest]:
    """Build the requests for one document and one judge, one for each repeat.

    All documents of a query are graded beside the same examples, in one order for each judge and
    repeat, so that requests share that text.
    """
    requests = [
        PlannedRequest.find(pool, judge, document.id, repeat)
        or _grade_request(pool, document, judge, options, repeat)
        for repeat in range(repeats)
    ]
    return [GradeRequest(pool.query_id, document.id, request) for request in requests]


def _grade_request(
    pool: Pool, document: Document, judge: Judge, options: AnchoredOptions, repeat: int
) -> Request:
    shown = shown_document(document, pool, options)
    # Drawn for the query, so that its documents are graded alike.
    anchor = random.Random(f"{options.seed}:{pool.query_id}").choice(
        anchors.load_anchors(options.anchors)
    )
    order = example_order(pool.query_id, judge.name, repeat, options)
    return build_request(
        PROMPT,
        pool,
        judge,
        options,
        Grading,
        documents=[shown],
        texts={"document": shown.content},
        fields={"examples": anchors.write_examples(anchor, order), "grades": "\n".join(GRADES)},
        repeat=repeat,
        item=(document.id, repeat),
    )


def example_order(
    query_id: str, judge: str, repeat: int, options: AnchoredOptions
) -> random.Random:
    """Return the random generator that orders the examples of a question."""
    return random.Random(f"{options.seed}:{query_id}:{judge}:{repeat}")
