"""Let a model propose other instructions for judges, from cases in which they went wrong.

One round, and one request. The pool stands for the errors: its query is the instructions of now,
and each of its documents is a case, whose metadata hold the query, and what people and judges say.
All of that is material between markers. What comes back is checked by `usable_instructions`, and no
document can put it into a prompt by itself: it becomes a candidate, which people's labels measure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from pydantic import BaseModel, ConfigDict, Field

from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Judgments, Protocol, Rounds, ScoreKind, score_nothing
from zelo_ray.protocols.passages import truncate_text
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict
from zelo_ray.records import CODE_PLACEHOLDER, Document, Failure, Judge, Pool, Reply, Request
from zelo_ray.wrapping import break_special_tokens

PROMPT = "proposals"
NAME = "zelo_ray.protocols.proposals:PROTOCOL"
"""The name by which `load_protocol` finds it: it judges nothing, so it is not among the others."""
QUERY, PEOPLE, JUDGES = "query", "people", "judges"
"""The metadata of a case."""
NONE_YET = "(none: the judges go by their prompt alone)"
MOST = 4000
"""The most characters of a proposal: some 600 words."""
_TOKENS_EACH = 700
"""Tokens of answer that a proposal may take with its reason."""
_BYTES = {QUERY: 2_000, JUDGES: 4_000}
"""The most bytes of a case that are shown, beside the document."""


class Proposals(BaseModel):
    """All that a model proposes; flat, as not every provider takes nested schemas."""

    model_config = ConfigDict(strict=True, extra="forbid")

    reasons: list[str] = Field(description="what in the cases each proposal goes by")
    proposals: list[str] = Field(description="whole texts of instructions, in the same order")


class ProposalOptions(AnnotateOptions):
    """Options of proposals."""

    count: int = Field(3, ge=1, description="how many proposals are asked for")


@dataclass(frozen=True, slots=True)
class Proposal:
    """One text of instructions that a model proposed, as it wrote it."""

    query_id: str
    number: int
    judge: str
    instructions: str
    why: str
    key: str


def rounds(pool: Pool, panel: Sequence[Judge], options: ProposalOptions) -> Rounds:
    """Ask the first of the panel once for all proposals."""
    request = _request(pool, panel[0], options)
    (reply,) = yield [request]
    return read_proposals(pool, reply, options.count)


def read_proposals(pool: Pool, reply: Reply, count: int) -> list[Proposal] | list[Failure]:
    """Return the proposals that a reply holds, at most so many; or one failure."""
    answer = read_verdict(reply, Proposals)
    if isinstance(answer, str):
        doc_ids = [document.id for document in pool.documents]
        return [build_failure(pool.query_id, doc_ids, reply.judge, reply, answer)]
    pairs = zip_longest(answer.proposals[:count], answer.reasons[:count], fillvalue="")
    return [
        Proposal(pool.query_id, number, reply.judge, text, why, reply.key)
        for number, (text, why) in enumerate(pairs, 1)
        if text
    ]


def usable_instructions(text: str) -> str:
    """Return a proposed text as judges may be shown it; "" if it is too long, or says nothing.

    Special tokens of models are broken, and the place of the markers' code cannot be forged.
    """
    plain = break_special_tokens(text.replace(CODE_PLACEHOLDER, "").replace("\0", "")).strip()
    return plain if len(plain) <= MOST and len(plain.split()) > 1 else ""


def _request(pool: Pool, judge: Judge, options: ProposalOptions) -> Request:
    blocks = dict[str, str]()
    for number, case in enumerate(pool.documents, 1):
        blocks |= _blocks(number, case, options)
    plain = options.model_copy(update={"instructions": None, "show_query": (), "passages": None})
    request = build_request(
        PROMPT,
        pool,
        judge,
        plain,
        Proposals,
        documents=pool.documents,
        blocks=blocks,
        fields={"count": options.count},
    )
    usual = request.output_limit  # enough for one judgment
    return replace(request, limit=usual + _TOKENS_EACH * options.count) if usual else request


def _blocks(number: int, case: Document, options: ProposalOptions) -> dict[str, str]:
    """Return the texts of a case by the names of their markers."""
    texts = {name: str(case.metadata.get(name, "")) for name in (QUERY, PEOPLE, JUDGES)}
    return {
        f"query of case {number}": truncate_text(texts[QUERY], _BYTES[QUERY]),
        f"document of case {number}": truncate_text(case.content, 4 * options.document_tokens),
        f"people on case {number}": texts[PEOPLE],
        f"judges on case {number}": truncate_text(texts[JUDGES], _BYTES[JUDGES]),
    }


def count(_pool: Pool, panel: Sequence[Judge], _options: ProposalOptions) -> dict[str, int]:
    """Count one request, to the first of the panel."""
    return {judge.name: int(place == 0) for place, judge in enumerate(panel)}


PROTOCOL = Protocol(
    name="proposals",
    rounds=rounds,
    count=count,
    response_models=(Proposals,),
    judgments={"proposals": Judgments(record=Proposal, noun="proposal", documents=())},
    fit=score_nothing,
    score=ScoreKind(explain="Nothing is scored: a model proposed instructions."),
    options=ProposalOptions,
    title="Proposals from",
)
