"""The weak baseline of debate: one plain prompt, as it was published.

It is what debate was first compared with (arXiv 2410.04663), in our words. No markers stand around
the texts, so an answer may pose as instructions: it is there to repeat published figures. A pair of
scores for each criterion, and why after them; the sums are ours. One round.
"""

from typing import Annotated, Self

from pydantic import Field

from zelo_ray.protocols import Rounds
from zelo_ray.protocols.options import PairingOptions
from zelo_ray.protocols.pairings import Pairing, pairing_protocol
from zelo_ray.protocols.questions import StrictModel
from zelo_ray.protocols.texts import build_request
from zelo_ray.records import Failure, SyntheticFeatures

PROMPT = "baseline-weak"

_Two = Annotated[list[Annotated[int, Field(ge=1, le=20)]], Field(min_length=2, max_length=2)]
"""The scores of Answer 1 and Answer 2 by one criterion."""


class ListedScores(StrictModel):
    """Both answers by six criteria, and why after them."""

    relevance: _Two
    accuracy: _Two
    depth: _Two
    clarity: _Two
    logic: _Two
    rebuttal: _Two
    explanation: str

    @property
    def sums(self) -> tuple[float, float]:
        """Return the sums of Answer 1 and Answer 2, each from 6 to 120."""
        pairs: list[list[int]] = [two for _, two in self][:-1]
        return float(sum(two[0] for two in pairs)), float(sum(two[1] for two in pairs))

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        more = round(19 / 4 * seen.preference)
        scores = {name: [10 - more, 10 + more] for name in [*cls.model_fields][:-1]}
        return cls.model_validate({**scores, "explanation": seen.words})


def _score(pairing: Pairing) -> Rounds:
    """Ask once, with no markers around the texts."""
    shown = pairing.documents
    first, second = (shown[doc_id].content for doc_id in pairing.shown)
    texts = {"first": first, "second": second}
    request = build_request(PROMPT, shown, pairing.judge, ListedScores, pairing.shown, texts=texts)
    (answer,) = yield from pairing.ask([request])
    if isinstance(answer, Failure):
        return [answer]
    why = [answer.explanation]
    return [pairing.verdict("baseline-weak", [answer.sums], [request.key], reasoning=why)]


PROTOCOL = pairing_protocol(
    "baseline-weak",
    _score,
    lambda _options: 1,
    response_models=(ListedScores,),
    options=PairingOptions,
    caution="baseline-weak asks as it was published, without markers around the answers: an answer "
    "may steer the judge",
)
