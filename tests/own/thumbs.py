"""A protocol as a user would bring it: a judge says of each document thumb up or down."""

from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from zelo_ray.fitting.scores import Fit
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Judgments, Protocol, ScoreKind
from zelo_ray.protocols.questions import Ask, Question, one_round
from zelo_ray.protocols.texts import criteria_block
from zelo_ray.records import Request, Score


class ThumbOptions(AnnotateOptions):
    tone: str = Field("plain", description="how strict the judge is asked to be")


class Thumbing(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    why: str
    up: bool

    @classmethod
    def synthesize(cls, seen) -> Self:
        return cls(why=seen.words, up=seen.grade >= 2)


@dataclass(frozen=True)
class Thumb:
    query_id: str
    doc_id: str
    judge: str
    up: bool
    why: str
    key: str


def plan(pool, panel, options):
    return (Ask(judge, (document.id,)) for document in pool.documents for judge in panel)


def question(asked, shown):
    judge, (doc_id,), _ = asked
    pool, options = shown.pool, shown.options
    ask = f"Be {options.tone}. Does the document answer the query? Say why, then up or down."
    if options.instructions:
        ask = f"{ask}\n\n{criteria_block('instructions', options.instructions)}"
    user = f"{pool.query}\n\n{shown[doc_id].content}"
    request = Request(
        *(judge, ask, user, Thumbing, pool.query, (shown[doc_id],)),
        marks=("thumbs", pool.query),
    )

    def thumbs(said, reply):
        return [Thumb(pool.query_id, doc_id, judge.name, said.up, said.why, reply.key)]

    return Question(pool.query_id, (doc_id,), request, Thumbing, thumbs)


rounds, count = one_round(plan, question)


def fit(judgments, options, learned=None):
    return [Fit(tuple(scores(thumbs))) for thumbs in judgments]


def scores(thumbs):
    ups = {}
    for each in thumbs:
        ups.setdefault(each.doc_id, []).append(each.up)
    shares = sorted(((sum(up) / len(up), doc_id) for doc_id, up in ups.items()), reverse=True)
    for rank, (share, doc_id) in enumerate(shares, 1):
        error = (share * (1 - share) / len(ups[doc_id])) ** 0.5
        yield Score(thumbs[0].query_id, doc_id, share, error, len(ups[doc_id]), rank)


PROTOCOL = Protocol(
    name="thumbs",
    rounds=rounds,
    count=count,
    response_models=(Thumbing,),
    judgments={
        "thumbs": Judgments(
            record=Thumb,
            noun="thumb",
            as_grades=lambda rows: pa.table(
                {
                    **{name: rows[name] for name in ("query_id", "doc_id", "judge")},
                    "grade": pc.cast(rows["up"], pa.float64()),
                }
            ),
        )
    },
    fit=fit,
    score=ScoreKind(
        unit="shares of thumbs up",
        scale=(0, 1),
        explain="A score is the share of judges whose thumb was up.",
    ),
    options=ThumbOptions,
    per_document=True,
)
