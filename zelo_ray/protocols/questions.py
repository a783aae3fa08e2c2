"""Ask judges questions that know how to read their replies."""

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols.progress import Rounds
from zelo_ray.protocols.texts import ShownDocuments
from zelo_ray.records import AnyRequest, Failure, Judge, Pool, Reply, V, read_response


class StrictModel(BaseModel):
    """What an answer must satisfy: these fields, with values of these types."""

    model_config = ConfigDict(strict=True, extra="forbid")


class Ask(NamedTuple):
    """What is asked of a judge: about which documents of a pool, and how often it was before."""

    judge: Judge
    doc_ids: tuple[str, ...]
    repeat: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """A request that knows how to read its reply."""

    query_id: str
    doc_ids: Sequence[str]
    request: AnyRequest
    model: type[BaseModel]
    """what an answer must satisfy"""
    rows: Callable[[Any, Reply], Sequence[Any]]
    """the judgments that an answer gives"""

    def read(self, reply: Reply) -> Sequence[Any]:
        """Return the judgments of a reply, or one `Failure`."""
        verdict = read_verdict(reply, self.model)
        if not isinstance(verdict, str):
            return self.rows(verdict, reply)
        judge = self.request.judge.name
        return [build_failure(self.query_id, self.doc_ids, judge, reply, verdict)]


def cut_pool(pool: Pool, options: AnnotateOptions) -> Pool:
    """Return a pool with the documents that take part: its first ones, up to the limit."""
    limit = options.document_limit
    if limit is None or len(pool.documents) <= limit:
        return pool
    return replace(pool, documents=pool.documents[:limit])


def ask(questions: Iterable[Question]) -> Rounds:
    """Ask all at once, if there are any, and return their judgments and failures in order."""
    questions = [*questions]
    replies = (yield [question.request for question in questions]) if questions else []
    pairs = zip(questions, replies, strict=True)
    return [row for question, reply in pairs for row in question.read(reply)]


def ask_for_all(questions: Iterable[Question]) -> Generator[Any, list[Any], list[Any]]:
    """Ask as `ask` does, but return the first failure alone where there is one."""
    rows: list[Any] = yield from ask(questions)
    failures = [row for row in rows if isinstance(row, Failure)]
    return failures[:1] or rows


Plan = Callable[[Pool, Sequence[Judge], Any], Iterator[Ask]]
Count = Callable[[Pool, Sequence[Judge], Any], dict[str, int]]


def one_round(
    plan: Plan,
    question: Callable[[Ask, ShownDocuments], Question],
    ask_all: Callable[[Iterable[Question]], Rounds] = ask,
) -> tuple[Callable[[Pool, Sequence[Judge], Any], Rounds], Count]:
    """Return the ``rounds`` and the ``count`` of a protocol that asks all at once."""

    def rounds(pool: Pool, panel: Sequence[Judge], options: Any) -> Rounds:
        pool = cut_pool(pool, options)
        shown = ShownDocuments(pool, options)
        return ask_all(question(asked, shown) for asked in plan(pool, panel, options))

    def count(pool: Pool, panel: Sequence[Judge], options: Any) -> dict[str, int]:
        asked = Counter(each.judge.name for each in plan(cut_pool(pool, options), panel, options))
        return {judge.name: asked[judge.name] for judge in panel}

    return rounds, count


def read_verdict(reply: Reply, model: type[V]) -> V | str:
    """Return the verdict that a reply holds, or why it holds none."""
    if reply.status != "ok":
        return reply.reason
    try:
        return read_response(model, reply.text, parsed=reply.parsed)
    except Exception as error:  # noqa: BLE001 - a user's own reader, which raised when it was kept
        return f"its reader raised {type(error).__name__}"


def build_failure(
    query_id: str, doc_ids: Sequence[str], judge: str, reply: Reply, why: str
) -> Failure:
    """Build the failure of a judge's question about these documents from an unusable reply."""
    status = "invalid" if reply.status == "ok" else reply.status
    return Failure(query_id, tuple(doc_ids), judge, status, why, reply.attempts, reply.key)
