"""The pairwise protocol: battles between documents, Bradley-Terry scores.

Random rings decide which pairs meet; every judge votes once on each pair, or they take turns, and a
judge sees a pair in an order of its own. Where it is asked again, it sees the other. One round.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from zelo_ray.fitting.bradley_terry import Fit, score_votes
from zelo_ray.fitting.pairs import Pair, count_pairs, ring_pairs
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Learned, Protocol, Rounds, ScoreKind, shared_error, token_votes
from zelo_ray.protocols.judgments import VOTES
from zelo_ray.protocols.options import BattleOptions, ZeloOptions
from zelo_ray.protocols.texts import build_failure, build_request, read_verdict, shown_document
from zelo_ray.records import (
    AnyRequest,
    Document,
    Failure,
    Judge,
    PlannedRequest,
    Pool,
    Reply,
    SyntheticFeatures,
    Vote,
)

PROMPT = ZeloOptions.template_form.prompt
LOGITS = (
    "A score is in logits, centred on the query's judged documents: a document one logit above "
    "another wins 73% of their {}. ± is the standard error if the same judges answered again; the "
    "error about people is larger, since judges share mistakes. Scores of different queries share "
    "no zero"
)
"""What a score of Bradley-Terry means, by the judgments that it rests on."""
_OF_TOKENS = (
    "A vote of one token is a share of a win: the probability of the letter. So scores lie closer "
    "together than by whole votes where a judge is unsure, and ± is that of whole votes: too large"
)


class Preference(BaseModel):
    """A judge's verdict on a pair."""

    model_config = ConfigDict(strict=True, extra="forbid")

    reasoning: str = Field(description="considerations on A, then on B, then the decision")
    preference: float = Field(
        ge=-1,
        le=1,
        allow_inf_nan=False,
        description="-1.0: A more relevant ... 1.0: B more relevant",
    )

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        return cls(reasoning=seen.words, preference=seen.preference)


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A request to one judge for a battle, which can read its reply."""

    query_id: str
    pair: tuple[str, str]
    request: AnyRequest
    response_model: type[Preference | token_votes.LetterVote] = Preference

    def read(self, reply: Reply) -> Vote | Failure:
        """Turn a reply into a vote, or into a failure."""
        judge, verdict = self.request.judge.name, read_verdict(reply, self.response_model)
        if isinstance(verdict, str):
            return build_failure(self.query_id, self.pair, judge, reply, verdict)
        swapped = self.request.swapped
        preference = -verdict.preference if swapped else verdict.preference
        return Vote(
            *(self.query_id, *self.pair, judge),
            *(preference, swapped, verdict.reasoning, reply.key),
        )


def rounds(pool: Pool, panel: Sequence[Judge], options: BattleOptions) -> Rounds:
    """Let judges vote on every pair of the plan."""
    shown = shown_documents(pool, options)
    ballots = [
        vote_request(pool, (shown[pair.a], shown[pair.b]), judge, options, repeat)
        for pair in ring_pairs(options.seed, pool.query_id, shown, options.cycles)
        for judge in _voters(pair, panel, options)
        for repeat in range(options.repeats)
    ]
    if not ballots:
        return []
    replies = yield [ballot.request for ballot in ballots]
    return [ballot.read(reply) for ballot, reply in zip(ballots, replies, strict=True)]


def count(pool: Pool, panel: Sequence[Judge], options: BattleOptions) -> dict[str, int]:
    """Count one request for each vote and repeat."""
    if options.votes == "all":
        pairs = count_pairs(len(pool.documents[: options.document_limit]), options.cycles)
        return {judge.name: pairs * options.repeats for judge in panel}
    doc_ids = [document.id for document in pool.documents[: options.document_limit]]
    voting = Counter(
        judge.name
        for pair in ring_pairs(options.seed, pool.query_id, doc_ids, options.cycles)
        for judge in _voters(pair, panel, options)
    )
    return {judge.name: voting[judge.name] * options.repeats for judge in panel}


def _voters(pair: Pair, panel: Sequence[Judge], options: BattleOptions) -> Sequence[Judge]:
    return panel if options.votes == "all" else [judge_in_turn(panel, pair.turn)]


def judge_in_turn(panel: Sequence[Judge], turn: int) -> Judge:
    """Return the judge whose turn it is, whatever the order of the panel."""
    return sorted(panel, key=lambda judge: judge.name)[turn % len(panel)]


def shown_documents(pool: Pool, options: AnnotateOptions) -> dict[str, Document]:
    """Return the documents that take part, as judges see them, by ID."""
    return {
        document.id: shown_document(document, pool, options)
        for document in pool.documents[: options.document_limit]
    }


def fit(
    judgments: Sequence[Sequence[Vote]], options: BattleOptions, learned: Learned | None = None
) -> list[Fit]:
    """Fit Bradley-Terry scores, many queries at once.

    A vote of one token is a share of a win, by its probabilities; any other is a win by its sign.
    """
    share = shared_error.shared_error(learned)
    by_size = getattr(options, "answer", "reasoned") == "token"
    return score_votes(judgments, options.prior_sd, share, by_size=by_size)


def _explain(options: Mapping[str, Any]) -> str:
    """Return the meaning of a score, by the options of a run."""
    if options.get("answer") != "token":
        return LOGITS.format("battles")
    return f"{LOGITS.format('battles')}. {_OF_TOKENS}"


def vote_request(
    pool: Pool,
    pair: tuple[Document, Document],
    judge: Judge,
    options: AnnotateOptions,
    repeat: int = 0,
) -> VoteRequest:
    """Build one judge's battle of two documents, given as shown, in ascending order of IDs.

    The order in which the judge sees them is drawn; every other repeat has the other one.
    """
    ids = (pair[0].id, pair[1].id)
    in_a_token = getattr(options, "answer", "reasoned") == "token"
    response_model = token_votes.LetterVote if in_a_token else Preference
    if planned := PlannedRequest.find(pool, judge, *ids, repeat):
        return VoteRequest(pool.query_id, ids, planned, response_model)
    order = random.Random(f"{options.seed}:{pool.query_id}:{ids[0]}:{ids[1]}:{judge.name}")
    swapped = (order.random() < 0.5) != (repeat % 2 == 1)
    first, second = (pair[1], pair[0]) if swapped else pair
    request = build_request(
        token_votes.PROMPT if in_a_token else PROMPT,
        pool,
        judge,
        options,
        response_model,
        documents=(first, second),
        texts={"a": first.content, "b": second.content},
        repeat=repeat // 2,  # two repeats show the two orders; after them the same prompts return
        item=(*ids, repeat),
        swapped=swapped,
        choices=token_votes.LETTERS if in_a_token else (),
    )
    return VoteRequest(pool.query_id, ids, request, response_model)


PROTOCOL = Protocol(
    name="zelo",
    rounds=rounds,
    count=count,
    response_models=(Preference, token_votes.LetterVote),
    min_documents=2,
    judgments={"votes": VOTES},
    fit=fit,
    score=ScoreKind(unit="logits", explain=_explain),
    options=ZeloOptions,
    judges_are_independent=lambda options: bool(options.votes == "all"),
    **shared_error.LEARNING,
)
