"""A protocol: each judge says of each document, by yes or no, whether it answers the query."""

from collections import defaultdict
from dataclasses import dataclass

from pydantic import BaseModel, Field

from zelo_ray.fitting.scores import Fit
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Judgments, Protocol, ScoreKind
from zelo_ray.protocols.questions import Ask, Question, one_round
from zelo_ray.protocols.texts import criteria_block
from zelo_ray.records import Request, Score


class YesNoOptions(AnnotateOptions):
    tone: str = Field("plain", description="how strict a judge is asked to be")


class Answer(BaseModel, extra="forbid"):  # the response model
    yes: bool

    @classmethod
    def synthesize(cls, seen):  # the answer of a free judge
        return cls(yes=seen.grade >= 2)


@dataclass(frozen=True)
class YesNo:  # a row of answers.parquet
    query_id: str
    doc_id: str
    judge: str
    yes: bool
    key: str


def plan(pool, panel, options):  # what is asked of whom
    return (Ask(judge, (document.id,)) for document in pool.documents for judge in panel)


def question(asked, shown):
    judge, (doc_id,), _repeat = asked
    pool, options = shown.pool, shown.options
    ask = f"Does the document answer the query? Be {options.tone}."
    if options.instructions:
        ask += f"\n\n{criteria_block('instructions', options.instructions)}"
    document = shown[doc_id]
    request = Request(
        *(judge, ask, f"{pool.query}\n\n{document.content}", Answer, pool.query, (document,)),
        query_id=pool.query_id,
        marks=("yes-no", pool.query),
    )

    def judgments(answer, reply):  # of an answer that can be read; else there is a failure
        return [YesNo(pool.query_id, doc_id, judge.name, answer.yes, reply.key)]

    return Question(pool.query_id, (doc_id,), request, Answer, judgments)


rounds, count = one_round(plan, question)


def fit(judgments, options, learned=None):
    return [Fit(tuple(scores(answers))) for answers in judgments]


def scores(answers):
    by_document = defaultdict(list)
    for answer in answers:
        by_document[answer.doc_id].append(answer.yes)
    shares = {doc_id: sum(yes) / len(yes) for doc_id, yes in by_document.items()}
    for rank, doc_id in enumerate(sorted(shares, key=lambda doc_id: -shares[doc_id]), 1):
        n, share = len(by_document[doc_id]), shares[doc_id]
        yield Score(answers[0].query_id, doc_id, share, (share * (1 - share) / n) ** 0.5, n, rank)


PROTOCOL = Protocol(
    name="yes-no",
    rounds=rounds,
    count=count,
    response_models=(Answer,),
    judgments={"answers": Judgments(record=YesNo, noun="answer")},
    fit=fit,
    score=ScoreKind(unit="shares of yes", scale=(0, 1)),
    options=YesNoOptions,
    per_document=True,
)
