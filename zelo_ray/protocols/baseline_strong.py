"""The strong baseline of debate: one careful prompt, asked once, or as often as a debate took.

Answers between markers, five criteria, an analysis before each score, and means taken by us. All
repeats are asked at once.
"""

import re
from dataclasses import replace
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from zelo_ray.protocols import Rounds, samre
from zelo_ray.protocols.options import RoundsOptions
from zelo_ray.protocols.pairings import Pairing, failures_in, mean_score, pairing_protocol
from zelo_ray.protocols.questions import StrictModel
from zelo_ray.records import SyntheticFeatures

PROMPT = "baseline-strong"
_Points = Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


class Analysis(StrictModel):
    """Both answers by one criterion."""

    analysis: Annotated[str, StringConstraints(strip_whitespace=True)]
    answer_1: _Points
    answer_2: _Points


_CRITERIA = ("relevance", "accuracy", "depth", "clarity", "reasoning")
_TAG = f"</?(?:{'|'.join((*_CRITERIA, *Analysis.model_fields))})>"
_SCORE = r"\s*<answer_{0}>\s*((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)\s*</answer_{0}>\s*"
_FORM = re.compile(
    "".join(
        rf"\s*<{name}>\s*<analysis>((?:(?!{_TAG}).)*)</analysis>{_SCORE.format(1)}"
        rf"{_SCORE.format(2)}</{name}>\s*"
        for name in _CRITERIA
    ),
    re.DOTALL,
)
"""The form of an answer: each tag once, in its place, and nothing outside of them."""


class Tagged(StrictModel):
    """Both answers by five criteria, between tags."""

    relevance: Analysis
    accuracy: Analysis
    depth: Analysis
    clarity: Analysis
    reasoning: Analysis

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        more = 9 / 4 * seen.preference
        scores = {"answer_1": round(5.5 - more, 2), "answer_2": round(5.5 + more, 2)}
        analysis = Analysis(analysis=seen.words, **scores)
        return cls(**dict.fromkeys(cls.model_fields, analysis))

    @model_validator(mode="after")
    def _holds_no_tags(self) -> "Tagged":
        if any(re.search(_TAG, assessment.analysis) for _, assessment in self):
            raise ValueError("an analysis holds a tag")
        return self

    @classmethod
    def read(cls, text: str) -> "Tagged":
        """Parse a text of the form of `write`."""
        match = _FORM.fullmatch(text)
        if not match:
            raise ValueError(
                "its tags, or what stands between them, are not as they were asked for"
            )
        said = match.groups()
        rows = zip(_CRITERIA, said[::3], said[1::3], said[2::3], strict=True)
        return cls.model_validate(
            {
                name: {"analysis": text, "answer_1": float(one), "answer_2": float(two)}
                for name, text, one, two in rows
            }
        )

    def write(self) -> str:
        """Return the analyses as text, between tags."""
        return "\n".join(
            f"<{name}>\n<analysis>{one.analysis}</analysis>\n"
            f"<answer_1>{_text(one.answer_1)}</answer_1>\n"
            f"<answer_2>{_text(one.answer_2)}</answer_2>\n</{name}>"
            for name, one in self
        )


def _text(score: float) -> str:
    return repr(float(score)).removesuffix(".0")


def _most_calls(options: RoundsOptions) -> int:
    """Count one request for each time to ask, plus those of a debate if it tells how often."""
    if options.rounds == "samre":
        return (samre.CALLS + 1) * samre.most_rounds(options)
    return options.rounds or 1


def _score(pairing: Pairing) -> Rounds:
    """Ask so many times; the scores that came decide, if they are enough."""
    options = pairing.documents.options
    times = options.rounds or 1
    if times == "samre":
        outcomes = yield from samre.debate(pairing)
        if failures := failures_in(outcomes):
            why = "no debate tells how often to ask: "
            return [replace(failure, reason=f"{why}{failure.reason}") for failure in failures]
        times = outcomes[0].rounds
    requests = [pairing.request(PROMPT, Tagged, repeat=repeat) for repeat in range(times)]
    replies = yield from pairing.ask(requests)
    failures = failures_in(replies)
    if len(failures) == times or times - len(failures) < options.min_coverage * times:
        return failures
    good = {r.key: a for r, a in zip(requests, replies, strict=True) if isinstance(a, Tagged)}
    scores, reasons = list[tuple[float, float]](), list[str]()
    for answer in good.values():
        by_name: dict[str, Analysis] = dict(answer)
        parts = by_name.values()
        first, second = [one.answer_1 for one in parts], [one.answer_2 for one in parts]
        scores.append((mean_score(first), mean_score(second)))
        reasons.append("\n".join(f"{name}: {one.analysis}" for name, one in by_name.items()))
    return [pairing.verdict("baseline-strong", scores, [*good], reasoning=reasons), *failures]


PROTOCOL = pairing_protocol(
    "baseline-strong",
    _score,
    _most_calls,
    response_models=(Tagged, *samre.PROTOCOL.response_models),
    max_rounds=None,  # one, after those of a debate if it tells how often to ask
    options=RoundsOptions,
)
