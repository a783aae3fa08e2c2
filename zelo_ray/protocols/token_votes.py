"""Votes of one token: the judge writes a letter, and its probability is the vote.

No reasoning is written, so a call costs little more than the reading of its prompt. The preference
is the probability of B less that of A (Zheng et al. 2023, arXiv 2306.05685, have judges say A or B;
Qin et al. 2023, arXiv 2306.17563, section 3.1, compare documents by the likelihoods of two words).
"""

import json
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zelo_ray.records import SyntheticFeatures

PROMPT = "pairwise-token"
LETTERS = ("A", "B")
LEAST_MASS = 0.5
"""The least probability that both letters must have together: with less, the model answers
otherwise, and what is left for them is no choice between them."""

AnswerForm = Annotated[
    Literal["reasoned", "token"],
    Field(
        description="how a judge votes on a pair: with its reasons, or by the probabilities of one "
        "letter, for a tenth of the output or less (openai and compatible servers alone)"
    ),
]
"""The option of protocols with battles."""

_Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_NONE = "the answer has no probabilities of A and B; use --answer reasoned"
_OTHERWISE = (
    "A and B have less than half of the probability together, so the model begins its answer "
    "otherwise; turn its thinking off, or use --answer reasoned"
)


class LetterVote(BaseModel):
    """A judge's verdict on a pair, as the probabilities that it writes A and that it writes B."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

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
