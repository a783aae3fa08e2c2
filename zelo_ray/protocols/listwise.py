"""A language model orders a pool, window by window (Sun et al. 2023, arXiv 2304.09542).

A window of documents slides from the back of the list to its front; the model orders what stands in
it, and the better half moves on with it. So the best documents can come from anywhere, and others
move by at most a window: the result depends on the pool's own order, which is the first stage's.
Each window needs the one before it: as many rounds as windows.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Ranker, Rounds
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict, shown_document
from zelo_ray.records import Document, Judge, Pool, Ranked, Request

PROMPT = "listwise"

_WINDOW, _STEP = 20, 10  # the paper's, section 4.2


class Order(BaseModel):
    """A judge's verdict on the documents of a window."""

    model_config = ConfigDict(strict=True, extra="forbid")
    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    """how many documents, as a text, of which `order_of` builds it"""

    order: list[int] = Field(
        description="the numbers of all documents, each once, the most relevant first"
    )


def rounds(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> Rounds:
    """Let one judge order the pool; a window that it does not order fails the whole pool."""
    (judge,) = panel
    limited = pool.documents[: options.document_limit]
    ranked = [shown_document(document, pool, options) for document in limited]
    for start, end in _windows(len(ranked)):
        window = ranked[start:end]
        (reply,) = yield [_request(pool, window, judge, options)]
        answer = read_verdict(reply, order_of(len(window)))
        if isinstance(answer, str):
            return [
                build_failure(pool.query_id, [d.id for d in window], reply.judge, reply, answer)
            ]
        ranked[start:end] = [window[number - 1] for number in answer.order]
    scores = {document.id: float(len(ranked) - rank) for rank, document in enumerate(ranked, 1)}
    return [Ranked(pool.query_id, d.id, scores[d.id]) for d in limited]


def count(pool: Pool, panel: Sequence[Judge], options: AnnotateOptions) -> dict[str, int]:
    """Count one request for each window."""
    windows = sum(1 for _ in _windows(len(pool.documents[: options.document_limit])))
    return {judge.name: windows for judge in panel}


def _windows(documents: int) -> Iterator[tuple[int, int]]:
    """Yield each window's start and end, from the back; none if there is nothing to order."""
    end = documents if documents > 1 else 0
    while end:
        start = max(0, end - _WINDOW)
        yield start, end
        end = end - _STEP if start else 0


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


def _request(
    pool: Pool, documents: Sequence[Document], judge: Judge, options: AnnotateOptions
) -> Request:
    count = len(documents)
    blocks = {f"document {n}": document.content for n, document in enumerate(documents, 1)}
    verdict, fields = order_of(count), {"count": count}
    return build_request(
        PROMPT,
        pool,
        judge,
        options,
        verdict,
        documents=documents,
        blocks=blocks,
        fields=fields,
    )


RANKER = Ranker(
    name="listwise",
    rounds=rounds,
    count=count,
    response_models=(Order,),
    rebuild={"Order": lambda parameters: order_of(int(parameters[0]))},
    max_rounds=None,  # one for each window
)
