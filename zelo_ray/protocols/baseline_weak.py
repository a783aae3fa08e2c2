"""The weak baseline of debate: one plain prompt, whose sums are the model's own.

It is what debate was first compared with (arXiv 2410.04663). One round. With `plain` its published
form is kept: no markers around the texts, a pair of scores for each criterion, and why after them.
"""

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from zelo_ray.protocols import Protocol, Rounds, pairings
from zelo_ray.protocols.pairings import (
    NUMBER,
    Pairing,
    PairingOptions,
    exact_score,
    failures_in,
    score_text,
)
from zelo_ray.protocols.texts import build_request
from zelo_ray.records import Judge, Pool, Request, SyntheticFeatures

PROMPT, PROMPT_PLAIN = "baseline-weak", "baseline-weak-plain"

_Total = Annotated[float, Field(ge=6, le=120, allow_inf_nan=False)]
_Two = Annotated[list[Annotated[int, Field(ge=1, le=20)]], Field(min_length=2, max_length=2)]
"""The scores of Answer 1 and Answer 2 by one criterion."""
_TUPLE = re.compile(rf"\([ \t]*({NUMBER})[ \t]*,[ \t]*({NUMBER})[ \t]*\)")


class WeakOptions(PairingOptions):
    """Options of the weak baseline."""

    plain: bool = Field(
        False,
        description="baseline-weak: as published, to repeat its figures: no markers around the "
        "texts, so an answer may pose as instructions",
    )


class FinalScores(BaseModel):
    """Both answers' sums over six criteria, as the judge added them up."""

    model_config = ConfigDict(strict=True, extra="forbid")

    explanation: Annotated[str, StringConstraints(strip_whitespace=True)]
    answer_1: _Total
    answer_2: _Total

    @property
    def sums(self) -> tuple[Fraction, Fraction]:
        """Return the sums of Answer 1 and Answer 2."""
        return exact_score(self.answer_1), exact_score(self.answer_2)

    @classmethod
    def read(cls, text: str) -> "FinalScores":
        """Parse the sums from the last line that is not blank, which must hold nothing else.

        Raises:
            ValueError: it does not, or they are out of range.
        """
        explanation, _, last = text.rstrip().rpartition("\n")
        match = _TUPLE.fullmatch(last.strip())
        if not match:
            raise ValueError("the last line is not exactly a tuple of two numbers")
        first, second = map(float, match.groups())
        return cls(explanation=explanation, answer_1=first, answer_2=second)

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        first, second = pairings.free_judge_scores(seen.preference, 6, 120)
        return cls(explanation=seen.words, answer_1=first, answer_2=second)

    def write(self) -> str:
        """Return the explanation as text, with a last line such as (95, 87)."""
        return f"{self.explanation}\n({score_text(self.answer_1)}, {score_text(self.answer_2)})"


class ListedScores(BaseModel):
    """Both answers by six criteria, and why after them."""

    model_config = ConfigDict(strict=True, extra="forbid")

    relevance: _Two
    accuracy: _Two
    depth: _Two
    clarity: _Two
    logic: _Two
    rebuttal: _Two
    explanation: str

    @property
    def sums(self) -> tuple[Fraction, Fraction]:
        """Return the sums of Answer 1 and Answer 2, each from 6 to 120."""
        pairs: list[list[int]] = [two for _, two in self][:-1]
        return Fraction(sum(two[0] for two in pairs)), Fraction(sum(two[1] for two in pairs))

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        more = round(19 / 4 * seen.preference)
        scores = {name: [10 - more, 10 + more] for name in [*cls.model_fields][:-1]}
        return cls.model_validate({**scores, "explanation": seen.words})


def rounds(pool: Pool, panel: Sequence[Judge], options: WeakOptions) -> Rounds:
    """Let every judge score every pair of the plan."""
    return pairings.rounds(pool, panel, options, _score)


def count(pool: Pool, panel: Sequence[Judge], options: WeakOptions) -> dict[str, int]:
    """Count one request for each pair and order."""
    return pairings.count(pool, panel, options, 1)


def _score(pairing: Pairing, options: WeakOptions) -> Rounds:
    request = _plain(pairing, options) if options.plain else pairing.request(PROMPT, FinalScores)
    replies = yield from pairing.ask([request])
    if failures := failures_in(replies):
        return failures
    (reply,) = replies
    why = [reply.explanation]
    return [pairing.verdict("baseline-weak", [reply.sums], [request.key], reasoning=why)]


def _plain(pairing: Pairing, options: WeakOptions) -> Request:
    """Build the request with the published prompt, which puts no markers around the texts."""
    first, second = pairing.shown
    return build_request(
        PROMPT_PLAIN,
        pairing.pool,
        pairing.judge,
        options,
        ListedScores,
        documents=(first, second),
        texts={"first": first.content, "second": second.content},
    )


PROTOCOL = Protocol(
    name="baseline-weak",
    rounds=rounds,
    count=count,
    response_models=(FinalScores, ListedScores),
    max_rounds=1,
    options=WeakOptions,
    **pairings.DEBATES,
)
