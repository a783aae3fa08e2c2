"""Ask judges to write down, from memory, a document that is not shown.

One round, one request to each judge: the query alone. What comes back is compared with documents
where it is measured (`zelo_ray.evaluation.recitation`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Judgments, Protocol, Rounds, ScoreKind, score_nothing
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict
from zelo_ray.records import Failure, Judge, Pool, SyntheticFeatures

PROMPT = "recitation"
NAME = "zelo_ray.protocols.recitation:PROTOCOL"
"""The name by which `load_protocol` finds it: it judges nothing, so it is not among the others."""
TABLE = "recitations"


class RememberedPassage(BaseModel):
    """A passage that a judge remembers."""

    model_config = ConfigDict(strict=True, extra="forbid")

    IS_OF_MEMORY: ClassVar = True
    """See `SyntheticFeatures.remembered`."""

    passage: str = Field(description="the passage as you remember it")

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> "RememberedPassage":
        """Write down what a simulated judge remembers."""
        return cls(passage=seen.remembered)


@dataclass(frozen=True, slots=True)
class Recitation:
    """The document of a query as a judge remembers it."""

    query_id: str
    judge: str
    text: str
    key: str


def rounds(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> Rounds:
    """Ask every judge once for a document of the query."""
    plain = options.model_copy(update={"instructions": None, "passages": None})
    requests = [
        build_request(PROMPT, pool, judge, plain, RememberedPassage, documents=pool.documents)
        for judge in panel
    ]
    replies = yield requests
    doc_ids = [document.id for document in pool.documents]
    judgments = list[Recitation | Failure]()
    for reply in replies:
        answer = read_verdict(reply, RememberedPassage)
        judgments.append(
            build_failure(pool.query_id, doc_ids, reply.judge, reply, answer)
            if isinstance(answer, str)
            else Recitation(pool.query_id, reply.judge, answer.passage, reply.key)
        )
    return judgments


def count(_pool: Pool, panel: Sequence[Judge], _options: AnnotateOptions) -> dict[str, int]:
    """Count one request to each judge."""
    return {judge.name: 1 for judge in panel}


PROTOCOL = Protocol(
    name="recitation",
    rounds=rounds,
    count=count,
    response_models=(RememberedPassage,),
    judgments={TABLE: Judgments(record=Recitation, noun="recitation", documents=())},
    fit=score_nothing,
    score=ScoreKind(explain="Nothing is scored: judges were asked what they remember."),
    title="Recitations of",
)
