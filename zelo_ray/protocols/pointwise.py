"""A language model scores each document of a pool by itself, from 0 to 100.

One round, and a request for each document: no document is seen beside another, and their order does
not matter. Whole numbers make ties likely; a measure says how it treats them.
"""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Ranker, Rounds
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict, shown_document
from zelo_ray.records import Document, Judge, Pool, Ranked, Request

PROMPT = "pointwise"


class Relevance(BaseModel):
    """A judge's verdict on one document."""

    model_config = ConfigDict(strict=True, extra="forbid")

    reasoning: str = Field(description="what the document answers, and what is missing")
    relevance: int = Field(ge=0, le=100, description="0: not at all ... 100: fully")


def rounds(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> Rounds:
    """Let one judge score every document; one that it does not score fails the whole pool."""
    (judge,) = panel
    limited = pool.documents[: options.document_limit]
    shown = [shown_document(document, pool, options) for document in limited]
    if not shown:
        return []
    replies = yield [_request(pool, document, judge, options) for document in shown]
    ranked = []
    for document, reply in zip(limited, replies, strict=True):
        answer = read_verdict(reply, Relevance)
        if isinstance(answer, str):
            return [build_failure(pool.query_id, [document.id], reply.judge, reply, answer)]
        ranked.append(Ranked(pool.query_id, document.id, float(answer.relevance)))
    return ranked


def count(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> dict[str, int]:
    """Count one request for each document."""
    return {judge.name: len(pool.documents[: options.document_limit]) for judge in panel}


def _request(pool: Pool, document: Document, judge: Judge, options: AnnotateOptions) -> Request:
    texts = {"document": document.content}
    return build_request(PROMPT, pool, judge, options, Relevance, documents=[document], texts=texts)


RANKER = Ranker(
    name="pointwise",
    rounds=rounds,
    count=count,
    response_models=(Relevance,),
)
