"""The pairwise protocol: battles between documents, Bradley-Terry scores.

Random rings decide which pairs meet; every judge votes once on each pair, or they take turns, and a
judge sees a pair in an order of its own. Where it is asked again, it sees the other. One round.

With so many calls a document (``--calls-per-document``), judges grade every document first, as far
as the calls reach beside a ring of battles; the others are battles, by judges in turn. Grades by
all judges hold where judges are of unequal quality, which turns do not; battles tell apart
documents of one grade (docs/protocols.md has the figures).
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError

from zelo_ray.fitting.battles import battles_of
from zelo_ray.fitting.grade_worth import grade_shares, learn_grade_worth
from zelo_ray.fitting.pairs import first_turn, ring_pairs
from zelo_ray.fitting.scores import Fit, score_votes
from zelo_ray.protocols import Evidence, Learned, Protocol, ScoreKind, shared_error
from zelo_ray.protocols.grading import Grading, grading_question
from zelo_ray.protocols.judgments import GRADES, VOTES
from zelo_ray.protocols.options import ZeloOptions
from zelo_ray.protocols.questions import Ask, Question, StrictModel, one_round
from zelo_ray.protocols.texts import ShownDocuments, build_request
from zelo_ray.records import (
    AbsoluteScore,
    Grade,
    Judge,
    PlannedRequest,
    Pool,
    Reply,
    Request,
    SyntheticFeatures,
    Vote,
)

PROMPT = ZeloOptions.template_form.prompt
_MAX_GRADES, _MIN_QUERIES = 12_000, 8
"""Grades that tell what they are worth, at most, and queries at least."""
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
LETTERS, LETTER_PROMPT = ("A", "B"), "pairwise-token"
"""A vote of one token is the probability of B less that of A (Zheng et al. 2023, arXiv 2306.05685,
have judges say A or B; Qin et al. 2023, arXiv 2306.17563, section 3.1, compare documents by the
likelihoods of two words). No reasoning is written: a call costs little more than its prompt."""
LEAST_MASS = 0.5
"""The least probability that both letters must have together: else they are no choice."""

_Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_NONE = "the answer has no probabilities of A and B; use --answer reasoned"
_OTHERWISE = (
    "A and B have less than half of the probability together, so the model begins its answer "
    "otherwise; turn its thinking off, or use --answer reasoned"
)


class Preference(StrictModel):
    """A judge's verdict on a pair."""

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


class LetterVote(StrictModel):
    """A judge's verdict on a pair, as the probabilities that it writes A and that it writes B."""

    a: _Probability = Field(alias="A")
    b: _Probability = Field(alias="B")

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse the probabilities from JSON such as {"A": 0.83, "B": 0.17}."""
        try:
            vote = cls.model_validate_json(text)
        except ValidationError:
            raise ValueError(_NONE) from None
        if vote.a + vote.b < LEAST_MASS:
            raise ValueError(_OTHERWISE)
        return vote

    def write(self) -> str:
        """Return the JSON that `read` parses to this instance."""
        return json.dumps({"A": self.a, "B": self.b})

    @property
    def preference(self) -> float:
        """Return the preference from -1 (A is more relevant) to 1 (B), of the two letters alone."""
        return (self.b - self.a) / (self.a + self.b)

    @property
    def reasoning(self) -> str:
        """Return the probabilities in words: no reasons were asked for."""
        return f"A with probability {self.a:.3g}, B with {self.b:.3g}; no reasons were asked for"

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        b = (1 + seen.preference) / 2
        return cls.model_validate({"A": 1 - b, "B": b})


def plan(pool: Pool, panel: Sequence[Judge], options: ZeloOptions) -> Iterator[Ask]:
    """Yield the grades of each document, if there are calls for them, and the votes on pairs.

    All judges vote on a pair, or one in turn where calls are counted. A document is graded by the
    judges whose turn comes after those of its pairs; documents of one text by the same judges, so
    that their answers are the same.
    """
    doc_ids = [document.id for document in pool.documents]
    grades, rings = options.first_round(len(panel))
    ids: dict[str, str] = {}
    for document in pool.documents if grades else ():
        ids[document.content] = min(document.id, ids.get(document.content, document.id))
    for document in pool.documents if len(doc_ids) >= PROTOCOL.min_documents else ():
        first = first_turn(options.seed, pool.query_id, ids.get(document.content, "")) + rings
        for turn in range(grades):
            yield Ask(judge_in_turn(panel, first + turn), (document.id,))
    in_turn = options.votes == "one" or options.calls_per_document is not None
    for pair in ring_pairs(options.seed, pool.query_id, doc_ids, rings):
        for judge in [judge_in_turn(panel, pair.turn)] if in_turn else panel:
            for repeat in range(options.repeats):
                yield Ask(judge, (pair.a, pair.b), repeat)


def question(asked: Ask, shown: ShownDocuments) -> Question:
    """Build the question for a grade, or for a vote on a pair in ascending order of ids."""
    if len(asked.doc_ids) == 1:
        return grading_question(asked, shown)
    pool, options, (a, b) = shown.pool, shown.options, asked.doc_ids
    in_a_token = options.answer == "token"
    model = LetterVote if in_a_token else Preference

    def build() -> Request:
        """Build a battle in an order drawn for the judge; every other repeat has the other."""
        judge, repeat = asked.judge, asked.repeat
        order = random.Random(f"{options.seed}:{pool.query_id}:{a}:{b}:{judge.name}")
        swapped = (order.random() < 0.5) != (repeat % 2 == 1)
        first, second = (shown[b], shown[a]) if swapped else (shown[a], shown[b])
        return build_request(
            LETTER_PROMPT if in_a_token else PROMPT,
            shown,
            judge,
            model,
            (first.id, second.id),
            texts={"a": first.content, "b": second.content},
            repeat=repeat // 2,  # two repeats show the two orders; then the same prompts return
            item=(a, b, repeat),
            swapped=swapped,
            choices=LETTERS if in_a_token else (),
        )

    request = PlannedRequest.find(pool, asked.judge, a, b, asked.repeat) or build()
    about = (pool.query_id, a, b, asked.judge.name)

    def vote(verdict: Preference | LetterVote, reply: Reply) -> list[Vote]:
        preference = -verdict.preference if request.swapped else verdict.preference
        return [Vote(*about, preference, request.swapped, verdict.reasoning, reply.key)]

    return Question(pool.query_id, asked.doc_ids, request, model, vote)


rounds, count = one_round(plan, question)


def judge_in_turn(panel: Sequence[Judge], turn: int) -> Judge:
    """Return the judge whose turn it is, whatever the order of the panel."""
    return sorted(panel, key=lambda judge: judge.name)[turn % len(panel)]


def learn(
    judgments: Sequence[Sequence[Vote | Grade]], evidence: Evidence, options: ZeloOptions
) -> Learned:
    """Learn what grades are worth, where calls are counted, and how far judges err together."""
    learned = Learned()
    if options.calls_per_document is not None:
        votes, grades = _by_kind(judgments)
        # All queries tell it, or fewer of many documents.
        sums = accumulate(map(len, grades))
        some = sum(n < _MIN_QUERIES or total <= _MAX_GRADES for n, total in enumerate(sums))
        votes, grades = votes[:some], grades[:some]
        judges = sorted({grade.judge for pool in grades for grade in pool})
        battles = battles_of(votes, [[grade.doc_id for grade in pool] for pool in grades])
        worth = learn_grade_worth(battles, grade_shares(battles, grades, judges), judges)
        learned = Learned(model=worth)
    return shared_error.learn(fit(judgments, options, learned), evidence.human, options, learned)


def _by_kind(
    judgments: Sequence[Sequence[Vote | Grade]],
) -> tuple[list[list[Vote]], list[list[Grade]]]:
    votes = [[row for row in pool if isinstance(row, Vote)] for pool in judgments]
    return votes, [[row for row in pool if isinstance(row, Grade)] for pool in judgments]


def fit(
    judgments: Sequence[Sequence[Vote | Grade]],
    options: ZeloOptions,
    learned: Learned | None = None,
) -> list[Fit]:
    """Fit Bradley-Terry scores, many queries at once; with grades, once their worth is learned.

    A vote of one token is a share of a win, by its probabilities; any other is a win by its sign.
    """
    votes, grades = _by_kind(judgments)
    how = (options.prior_sd, shared_error.share_of(learned))
    if options.calls_per_document is None:
        return score_votes(votes, *how, by_size=options.answer == "token")
    if learned is None or learned.model is None:
        return [Fit() for _ in judgments]
    return score_votes(votes, *how, query_grades=grades, worth=learned.model)


def _explain(options: Mapping[str, Any]) -> str:
    """Return the meaning of a score, by the options of a run."""
    meaning = LOGITS.format("battles")
    if options.get("calls_per_document"):
        return (
            f"{meaning}; absolute scores do: each is the score, shifted by what the grades of each "
            "query tell of where it stands"
        )
    return f"{meaning}. {_OF_TOKENS}" if options.get("answer") == "token" else meaning


def _score_kind(options: ZeloOptions) -> ScoreKind:
    if options.calls_per_document is None:
        return _SCORE
    return replace(_SCORE, record=AbsoluteScore, shown=("score", "absolute_score"))


_SCORE = ScoreKind(unit="logits", explain=_explain)
PROTOCOL = Protocol(
    name="zelo",
    rounds=rounds,
    count=count,
    response_models=(Preference, LetterVote, Grading),
    min_documents=2,
    judgments={"votes": VOTES, "grades": replace(GRADES, optional=True)},
    fit=fit,
    score=_SCORE,
    score_under=_score_kind,
    options=ZeloOptions,
    judges_are_independent=lambda options: bool(
        options.votes == "all" and options.calls_per_document is None
    ),
    learn=learn,
    learns=lambda options: options.calls_per_document is not None or options.human is not None,
)
