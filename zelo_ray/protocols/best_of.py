"""King of the hill: the first answer is king, and each next one challenges the king.

A challenger takes the throne only by winning, so a tie keeps the king, and N answers take N - 1
contests, one after another. Each judge holds a tournament of its own. Judges see *answer 1* and
*answer 2*, on sides that follow from the seed, and no name. A contest that gives no word ends its
tournament: nobody wins that. As many rounds as contests.
"""

from collections.abc import Sequence
from dataclasses import asdict
from random import Random
from typing import Literal, Self

from pydantic import Field

from zelo_ray.fitting.scores import Fit, score_votes
from zelo_ray.protocols import Learned, Parallel, Protocol, Rounds, ScoreKind, shared_error, zelo
from zelo_ray.protocols.judgments import CONTESTS, WINNERS
from zelo_ray.protocols.options import BestOfOptions
from zelo_ray.protocols.protocol import always
from zelo_ray.protocols.questions import Ask, Question, StrictModel, ask, cut_pool
from zelo_ray.protocols.texts import ShownDocuments, build_request, criteria_block
from zelo_ray.reasons import Unscored, UnscoredReason
from zelo_ray.records import (
    TIE,
    Contest,
    CrownedScore,
    Failure,
    Judge,
    Pool,
    Reply,
    SyntheticFeatures,
    Vote,
    Winner,
)

PROMPT = BestOfOptions.template_form.prompt
CRITERIA = """\
- It is right: what it says is true, and nothing that matters in it is made up.
- It is whole: it deals with every part of what was asked.
- It keeps to what was asked, and leaves out what is beside the point.
- It is clear: well ordered, and easy to follow for the one who asked.
- It is of use: after reading it, the user can go on."""
_TIE = 0.125
_NO_TOURNAMENT = Unscored.because(UnscoredReason.NO_TOURNAMENT)


class Choice(StrictModel):
    """Which of two answers a judge takes."""

    reasoning: str = Field(
        description="considerations on answer 1, then on answer 2, then the decision"
    )
    verdict: str = Field(description="one sentence: which answer is better, and what decided it")
    winner: Literal["1", "2", "tie"]
    confidence: float = Field(
        ge=0, le=1, allow_inf_nan=False, description="how sure: 0.0 a guess ... 1.0 no doubt"
    )

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge: a tie if its preference is small."""
        tie = abs(seen.preference) < _TIE
        return cls(
            reasoning=seen.words,
            verdict=seen.words,
            winner="tie" if tie else "2" if seen.preference > 0 else "1",
            confidence=(1 + abs(seen.preference)) / 2,
        )


def rounds(pool: Pool, panel: Sequence[Judge], options: BestOfOptions) -> Rounds:
    """Run all tournaments in parallel."""
    pool = cut_pool(pool, options)
    ids = [document.id for document in pool.documents]
    if len(ids) < PROTOCOL.min_documents:
        return []
    if TIE in ids:
        why = "an answer whose id is 'tie' cannot be told from a tie"
        return [Failure(pool.query_id, (TIE,), j.name, "failed", why, 0, "") for j in panel]
    shown = ShownDocuments(pool, options)
    tournaments = [
        _tournament(judge, repeat, shown) for judge in panel for repeat in range(options.repeats)
    ]
    ended = yield Parallel(tournaments)
    return [row for rows in ended for row in rows]


def count(pool: Pool, panel: Sequence[Judge], options: BestOfOptions) -> dict[str, int]:
    """Count one request for each contest and repeat."""
    documents = len(cut_pool(pool, options).documents)
    return {judge.name: max(documents - 1, 0) * options.repeats for judge in panel}


def fit(
    judgments: Sequence[Sequence[Contest | Winner]],
    options: BestOfOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Fit Bradley-Terry scores to contests, and give each answer's share of tournaments won.

    A contest is a vote, however sure the judge was. A query none of whose tournaments came to an
    end has no scores: answers that stood further back were never seen.
    """
    votes, fits = list[list[Vote]](), list[Fit]()
    for pool in judgments:
        contests = (row for row in pool if isinstance(row, Contest))
        votes.append(
            [
                Vote(c.query_id, c.left_id, c.right_id, c.judge, c.preference, c.swapped, "", c.key)
                for c in contests
            ]
        )
    plain = score_votes(votes, options.prior_sd, shared_error.share_of(learned))
    for pool, fitted in zip(judgments, plain, strict=True):
        kings = [row.winner_id for row in pool if isinstance(row, Winner)]
        scores = (
            CrownedScore(**asdict(score), crowned=kings.count(score.doc_id) / len(kings))
            for score in fitted.scores
        )
        reason = fitted.reason or (None if kings else _NO_TOURNAMENT)
        fits.append(Fit(reason=reason) if reason else Fit(tuple(scores)))
    return fits


def _tournament(judge: Judge, repeat: int, shown: ShownDocuments) -> Rounds:
    """Let each next answer challenge the king, in an order that is the same for all judges."""
    pool, options = shown.pool, shown.options
    order = [document.id for document in pool.documents]
    if options.order == "random":
        random = Random(f"{options.seed}:{pool.query_id}:order:{repeat}")
        order = random.sample(order, len(order))
    king, rows = order[0], list[Contest | Winner | Failure]()
    for number, challenger in enumerate(order[1:], 1):
        asked = Ask(judge, (king, challenger), repeat)
        (outcome,) = yield from ask([_question(asked, number, shown)])
        if isinstance(outcome, Failure):
            return [*rows, outcome]
        king = outcome.king_id
        rows.append(outcome)
    winner = Winner(
        session_id=pool.session_id,
        query_id=pool.query_id,
        judge=judge.name,
        repeat=repeat,
        winner_id=king,
        contests=len(order) - 1,
    )
    return [*rows, winner]


def _question(asked: Ask, number: int, shown: ShownDocuments) -> Question:
    """Build the question for a contest of the king and a challenger."""
    (judge, (king, challenger), repeat), pool, options = asked, shown.pool, shown.options
    drawn = (options.seed, pool.query_id, king, challenger, judge.name, repeat)
    swapped = Random(":".join(map(str, drawn))).random() < 0.5
    ids = (challenger, king) if swapped else (king, challenger)
    first, second = (shown[doc_id] for doc_id in ids)
    own = options.instructions
    request = build_request(
        PROMPT,
        shown,
        judge,
        Choice,
        ids,
        texts={"first": first.content, "second": second.content},
        fields={"criteria": CRITERIA if own is None else criteria_block("criteria", own)},
        repeat=repeat,
    )

    def contest(choice: Choice, reply: Reply) -> list[Contest]:
        winner = {"1": ids[0], "2": ids[1]}.get(choice.winner, TIE)
        return [
            Contest(
                session_id=pool.session_id,
                query_id=pool.query_id,
                judge=judge.name,
                repeat=repeat,
                round=number,
                left_id=king,
                right_id=challenger,
                winner_id=winner,
                confidence=choice.confidence,
                verdict=choice.verdict,
                reasoning=choice.reasoning,
                swapped=swapped,
                king_id=challenger if winner == challenger else king,
                key=reply.key,
            )
        ]

    return Question(pool.query_id, asked.doc_ids, request, Choice, contest)


PROTOCOL = Protocol(
    name="best-of",
    rounds=rounds,
    count=count,
    response_models=(Choice,),
    judges_are_independent=always,
    max_rounds=None,  # as many as contests
    min_documents=2,
    judgments={"winners": WINNERS, "contests": CONTESTS},
    fit=fit,
    score=ScoreKind(
        record=CrownedScore,
        unit="logits",
        explain=lambda _: (
            f"{zelo.LOGITS.format('contests')}. Who was king at the end is no matter of scores, "
            "and need not have the highest: winners.parquet tells"
        ),
    ),
    options=BestOfOptions,
    **shared_error.learning(fit),
)
