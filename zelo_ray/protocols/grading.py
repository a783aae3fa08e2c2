"""One document before one judge: the question for a grade from 0 to 3, and what a reply means."""

import random
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from zelo_ray.options import AnnotateOptions, FileText
from zelo_ray.protocols import anchors
from zelo_ray.protocols.protocol import Repeats
from zelo_ray.protocols.texts import code_for, cut, failure_of, load_prompt, response_in
from zelo_ray.records import Document, Failure, Grade, Judge, Pool, Reply, Request, Seen

PROMPT = "graded-1"


class AnchoredOptions(AnnotateOptions):
    """Options of every protocol that grades."""

    anchors: FileText = Field(
        "web", description="worked examples for grades: a built-in domain, a file or a URL"
    )

    @field_validator("anchors")
    @classmethod
    def _can_be_used(cls, text: str) -> str:
        anchors.load(text)
        return text


class GradingOptions(AnchoredOptions):
    """Options of protocols that grade as often as is wished, and pool what judges say."""

    repeats: Repeats = 1
    pooling: Literal["thurstone", "beta", "median", "majority"] | None = Field(
        None,
        description="how a panel's grades become one: thurstone, beta, median or majority; without "
        "it the median, and thurstone where there are human grades or battles",
    )


class Grading(BaseModel):
    """A judge's verdict on a document."""

    model_config = ConfigDict(strict=True, extra="forbid")

    facets_covered: list[str] = Field(description="what the query asks for, and the document gives")
    facets_missing: list[str] = Field(description="what the query asks for, and is not there")
    rationale: str = Field(description="one to three sentences")
    grade: int = Field(ge=0, le=3, description="0: irrelevant ... 3: highly relevant")

    @classmethod
    def synthesize(cls, seen: Seen) -> Self:
        """What a free judge answers."""
        return cls(
            facets_covered=list(seen.covered),
            facets_missing=list(seen.missing),
            rationale=seen.words,
            grade=seen.grade,
        )


@dataclass(frozen=True, slots=True)
class Sheet:
    """One document before one judge: the request, and how to read its reply."""

    query_id: str
    doc_id: str
    request: Request

    def read(self, reply: Reply) -> Grade | Failure:
        """Turn a reply into a grade, or say why it is none."""
        judge, verdict = self.request.judge.name, response_in(reply, Grading)
        if isinstance(verdict, str):
            return failure_of(self.query_id, [self.doc_id], judge, reply, verdict)
        return Grade(
            *(self.query_id, self.doc_id, judge, verdict.grade),
            *(tuple(verdict.facets_covered), tuple(verdict.facets_missing)),
            *(verdict.rationale, reply.key),
        )


def sheets(
    pool: Pool, document: Document, judge: Judge, options: AnchoredOptions, repeats: int = 1
) -> list[Sheet]:
    """One document before one judge, as often as it is to be asked.

    All documents of a query are graded beside the same set of examples, each time in another order.
    """
    shown = cut(document, options.document_tokens, options.show_metadata)
    system, user = load_prompt(PROMPT)
    code = code_for(pool.query, shown.content)
    asked = user.substitute({"code": code, "query": pool.query, "document": shown.content})
    # Drawn for the query, so that its documents are graded alike.
    anchor = random.Random(f"{options.seed}:{pool.query_id}").choice(anchors.load(options.anchors))
    found = []
    for repeat in range(repeats):
        seed = f"{options.seed}:{pool.query_id}:{document.id}:{judge.name}:{repeat}"
        examples = anchors.draw(anchor, random.Random(seed))
        request = Request(
            judge=judge,
            system=system.substitute({"examples": examples}),
            user=asked,
            response_model=Grading,
            query=pool.query,
            query_id=pool.query_id,
            documents=(shown,),
            repeat=repeat,
        )
        found.append(Sheet(pool.query_id, document.id, request))
    return found
