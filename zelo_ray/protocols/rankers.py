"""Order a pool by one judge: a reranker, or a language model that scores or orders documents.

`rerank` asks a reranker for a number for each document, higher is better: one request for a pool,
or several where a server takes only so many documents at once. `pointwise` has a model score each
document by itself.

`listwise` slides a window of documents from the back of the list to its front (Sun et al. 2023,
arXiv 2304.09542); the model orders what stands in it, and the better half moves on with it. So the
best documents can come from anywhere, and others move by at most a window: the result depends on
the pool's own order, which is the first stage's.

What a judge does not answer fails the whole pool: half a ranking is none.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, Field, create_model, field_validator

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols.progress import Rounds
from zelo_ray.protocols.protocol import Ranker
from zelo_ray.protocols.questions import (
    Ask,
    Count,
    Question,
    StrictModel,
    ask_for_all,
    build_failure,
    cut_pool,
    one_round,
)
from zelo_ray.protocols.texts import ShownDocuments, build_request
from zelo_ray.records import (
    Failure,
    Judge,
    Pool,
    Ranked,
    Reply,
    Request,
    SyntheticFeatures,
)

WINDOW, _STEP = 20, 10  # the paper's, section 4.2


class Scores(StrictModel):
    """A reranker's verdict on a list of documents, in their order."""

    scores: list[Annotated[float, Field(allow_inf_nan=False)]]

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        if not seen.scores:
            raise ValueError("it has no scores")
        return cls(scores=list(seen.scores))


class Relevance(StrictModel):
    """A judge's verdict on one document."""

    reasoning: str = Field(description="what the document answers, and what is missing")
    relevance: int = Field(ge=0, le=100, description="0: not at all ... 100: fully")


class Order(StrictModel):
    """A judge's verdict on the documents of a window."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    """how many documents, as a text, of which `order_of` builds it"""

    order: list[int] = Field(
        description="the numbers of all documents, each once, the most relevant first"
    )


@cache
def order_of(documents: int, base: type[Order] = Order) -> type[Order]:
    """Build the response model for so many documents, which accepts permutations only."""

    def complete(order: list[int]) -> list[int]:
        if sorted(order) != list(range(1, documents + 1)):
            raise ValueError(f"not each number from 1 to {documents} once")
        return order

    check = {"complete": field_validator("order")(complete)}
    model = create_model(base.__name__, __base__=base, __doc__=base.__doc__, __validators__=check)
    model.PARAMETERS = (str(documents),)
    return model


def order_request(
    shown: ShownDocuments, doc_ids: Sequence[str], judge: Judge, model: type[Order], **more: Any
) -> Request:
    """Build the request for an order of documents."""
    texts = (shown[doc_id].content for doc_id in doc_ids)
    blocks = {f"document {number}": text for number, text in enumerate(texts, 1)}
    fields = {"count": len(doc_ids)}
    return build_request(
        "listwise", shown, judge, model, doc_ids, blocks=blocks, fields=fields, **more
    )


# rerank


def _chunks(pool: Pool, panel: Sequence[Judge], _options: AnnotateOptions) -> Iterator[Ask]:
    """Yield the documents of each request: all of them if the model runs here.

    Servers have the option `documents`: they refuse longer lists, or worse, cut them in silence.
    """
    ids = tuple(document.id for document in pool.documents)
    for judge in panel:
        size = judge.options.get("documents") or max(1, len(ids))
        for start in range(0, len(ids), size):
            yield Ask(judge, ids[start : start + size])


def _rerank(asked: Ask, shown: ShownDocuments) -> Question:
    """Build the question; all that is sent, and so hashed in the key, is in ``user``.

    A failure is of the whole pool.
    """
    pool = shown.pool
    every = [document.id for document in pool.documents]
    documents = tuple(shown[doc_id] for doc_id in asked.doc_ids)
    body = {"query": pool.query, "documents": [document.content for document in documents]}
    request = Request(
        judge=asked.judge,
        system="",
        user=json.dumps(body, ensure_ascii=False),
        response_model=Scores,
        query=pool.query,
        query_id=pool.query_id,
        documents=documents,
    )

    def ranked(answer: Scores, reply: Reply) -> list[Ranked | Failure]:
        if len(answer.scores) != len(documents):
            why = f"{len(answer.scores)} scores for {len(documents)} documents"
            return [build_failure(pool.query_id, every, asked.judge.name, reply, why)]
        pairs = zip(asked.doc_ids, answer.scores, strict=True)
        return [Ranked(pool.query_id, doc_id, score) for doc_id, score in pairs]

    return Question(pool.query_id, every, request, Scores, ranked)


# pointwise


def _each(pool: Pool, panel: Sequence[Judge], _options: AnnotateOptions) -> Iterator[Ask]:
    return (Ask(judge, (document.id,)) for document in pool.documents for judge in panel)


def _score(asked: Ask, shown: ShownDocuments) -> Question:
    (judge, (doc_id,), _), query_id = asked, shown.pool.query_id
    texts = {"document": shown[doc_id].content}
    request = build_request("pointwise", shown, judge, Relevance, [doc_id], texts=texts)

    def ranked(answer: Relevance, _reply: Reply) -> list[Ranked]:
        return [Ranked(query_id, doc_id, float(answer.relevance))]

    return Question(query_id, (doc_id,), request, Relevance, ranked)


# listwise


def _order_windows(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> Rounds:
    pool, (judge,) = cut_pool(pool, options), panel
    shown = ShownDocuments(pool, options)
    order = [document.id for document in pool.documents]
    for start, end in _windows(len(order)):
        window = order[start:end]
        model = order_of(len(window))
        request = order_request(shown, window, judge, model)

        def ordered(answer: Order, _reply: Reply, window: list[str] = window) -> list[str]:
            return [window[number - 1] for number in answer.order]

        rows = yield from ask_for_all([Question(pool.query_id, window, request, model, ordered)])
        if isinstance(rows[0], Failure):
            return rows
        order[start:end] = rows
    scores = {doc_id: float(len(order) - rank) for rank, doc_id in enumerate(order, 1)}
    return [Ranked(pool.query_id, d.id, scores[d.id]) for d in pool.documents]


def _count_windows(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> dict[str, int]:
    windows = sum(1 for _ in _windows(len(cut_pool(pool, options).documents)))
    return {judge.name: windows for judge in panel}


def _windows(documents: int) -> Iterator[tuple[int, int]]:
    """Yield each window's start and end, from the back; none if there is nothing to order."""
    end = documents if documents > 1 else 0
    while end:
        start = max(0, end - WINDOW)
        yield start, end
        end = end - _STEP if start else 0


def _ranker(
    name: str, ways: tuple[Callable[..., Rounds], Count], model: type[BaseModel], **more: Any
) -> Ranker:
    return Ranker(name=name, rounds=ways[0], count=ways[1], response_models=(model,), **more)


RANKERS: Mapping[str, Ranker] = {
    "rerank": _ranker("rerank", one_round(_chunks, _rerank, ask_for_all), Scores),
    "pointwise": _ranker("pointwise", one_round(_each, _score, ask_for_all), Relevance),
    "listwise": _ranker(
        "listwise",
        (_order_windows, _count_windows),
        Order,
        rebuild={"Order": lambda parameters: order_of(int(parameters[0]))},
        max_rounds=None,  # one for each window
    ),
}
