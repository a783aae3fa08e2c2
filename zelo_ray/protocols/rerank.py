"""Score a pool by a reranker, which answers with a number for each document, higher is better.

One round, and one request for each pool; several where a server takes only so many documents at
once. Such parts are ordered as one by their scores. Where a model sees the documents of a request
side by side, scores of different parts are not strictly comparable.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Ranker, Rounds
from zelo_ray.protocols.texts import build_failure, read_verdict, shown_document
from zelo_ray.records import Document, Judge, Pool, Ranked, Request, SyntheticFeatures


class Scores(BaseModel):
    """A reranker's verdict on a list of documents, in their order."""

    model_config = ConfigDict(strict=True, extra="forbid")

    scores: list[Annotated[float, Field(allow_inf_nan=False)]]

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge.

        Raises:
            ValueError: it has no scores.
        """
        if not seen.scores:
            raise ValueError("it has no scores")
        return cls(scores=list(seen.scores))


def rounds(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> Rounds:
    """Ask one reranker for the scores of all documents; without one of them there are none."""
    (judge,) = panel
    limited = pool.documents[: options.document_limit]
    shown = [shown_document(document, pool, options) for document in limited]
    chunks = _chunks(shown, judge)
    if not chunks:
        return []
    replies = yield [_request(pool, chunk, judge) for chunk in chunks]
    scores: list[float] = []
    for chunk, reply in zip(chunks, replies, strict=True):
        answer = read_verdict(reply, Scores)
        if isinstance(answer, Scores) and len(answer.scores) != len(chunk):
            answer = f"{len(answer.scores)} scores for {len(chunk)} documents"
        if isinstance(answer, str):
            return [
                build_failure(pool.query_id, [d.id for d in limited], reply.judge, reply, answer)
            ]
        scores += answer.scores
    return [Ranked(pool.query_id, d.id, s) for d, s in zip(limited, scores, strict=True)]


def count(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> dict[str, int]:
    """Count one request for each chunk."""
    limited = pool.documents[: options.document_limit]
    return {judge.name: len(_chunks(limited, judge)) for judge in panel}


def _chunks(documents: Sequence[Document], judge: Judge) -> list[Sequence[Document]]:
    """Split documents into requests: all in one if the model runs here and may compare them.

    Servers have the option `documents`: they refuse longer lists, or worse, cut them in silence.
    """
    size = judge.options.get("documents") or max(1, len(documents))
    return [documents[start : start + size] for start in range(0, len(documents), size)]


def _request(pool: Pool, documents: Sequence[Document], judge: Judge) -> Request:
    """Build the request; all that is sent, and so hashed in the key, is in ``user``."""
    body = {"query": pool.query, "documents": [document.content for document in documents]}
    return Request(
        judge=judge,
        system="",
        user=json.dumps(body, ensure_ascii=False),
        response_model=Scores,
        query=pool.query,
        query_id=pool.query_id,
        documents=tuple(documents),
    )


RANKER = Ranker(
    name="rerank",
    rounds=rounds,
    count=count,
    response_models=(Scores,),
)
