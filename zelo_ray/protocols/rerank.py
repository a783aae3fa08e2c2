"""A reranker's scores for a pool: it answers with one number a document, higher is better.

One round, and one request for each pool; several where a server takes only so many documents at
once. Such parts are ordered as one by their scores. Where a model sees the documents of a request
side by side, scores of different parts are not strictly comparable.
"""

import json
from collections.abc import Sequence
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zelo_ray.config import Options
from zelo_ray.protocols import Rounds
from zelo_ray.protocols.texts import cut
from zelo_ray.records import (
    Document,
    Failure,
    Judge,
    Pool,
    Ranked,
    Reply,
    Request,
    first_error,
)

TABLE = "runs"
JUDGMENT = Ranked
ROUNDS = 1
MIN_DOCUMENTS = 1

V = TypeVar("V", bound=BaseModel)


class Scores(BaseModel):
    """A reranker's verdict on a list of documents, in their order."""

    model_config = ConfigDict(strict=True, extra="forbid")

    scores: list[Annotated[float, Field(allow_inf_nan=False)]]


VERDICTS = (Scores,)


def rounds(pool: Pool, panel: Sequence[Judge], options: Options) -> Rounds:
    """Ask one reranker for the scores of all documents; without one of them there are none."""
    (judge,) = panel
    limited = pool.documents[: options.document_limit]
    shown = [cut(d, options.document_tokens, options.show_metadata) for d in limited]
    chunks = _chunks(shown, judge)
    if not chunks:
        return []
    replies = yield [_request(pool.query, chunk, judge) for chunk in chunks]
    scores: list[float] = []
    for chunk, reply in zip(chunks, replies, strict=True):
        found = verdict_in(reply, Scores)
        if isinstance(found, Scores) and len(found.scores) != len(chunk):
            found = f"{len(found.scores)} scores for {len(chunk)} documents"
        if isinstance(found, str):
            return [failure_of(pool, limited, reply, found)]
        scores += found.scores
    return [Ranked(pool.query_id, d.id, s) for d, s in zip(limited, scores, strict=True)]


def count(pool: Pool, panel: Sequence[Judge], options: Options) -> int:
    """One request a chunk."""
    return sum(len(_chunks(pool.documents[: options.document_limit], judge)) for judge in panel)


def _chunks(documents: Sequence[Document], judge: Judge) -> list[Sequence[Document]]:
    """Documents that go together: all, for who computes here and may compare them.

    Servers have the option `documents`: they refuse longer lists, or worse, cut them in silence.
    """
    most = judge.options.get("documents") or max(1, len(documents))
    return [documents[start : start + most] for start in range(0, len(documents), most)]


def _request(query: str, documents: Sequence[Document], judge: Judge) -> Request:
    """What is sent, and so what the key must hash, stands in ``user``."""
    asked = {"query": query, "documents": [document.content for document in documents]}
    return Request(
        judge=judge,
        system="",
        user=json.dumps(asked, ensure_ascii=False),
        verdict=Scores,
        query=query,
        documents=tuple(documents),
    )


def verdict_in(reply: Reply, verdict: type[V]) -> V | str:
    """The verdict that a reply holds, or why it holds none."""
    if reply.status != "ok":
        return reply.reason
    try:
        return verdict.model_validate_json(reply.text)
    except ValidationError as error:
        return first_error(error)


def failure_of(pool: Pool, documents: Sequence[Document], reply: Reply, why: str) -> Failure:
    """What a pool comes to when this reply to a question about these documents is no good."""
    status = "invalid" if reply.status == "ok" else reply.status
    ids = tuple(document.id for document in documents)
    return Failure(pool.query_id, ids, reply.judge, status, why, reply.attempts, reply.key)
