"""The strong baseline of debate: one careful prompt, asked once, or as often as a debate took.

Answers between markers, five criteria, an analysis before each score, and means taken by us. All
repeats are asked at once.
"""

import re
from dataclasses import replace
from itertools import zip_longest
from typing import Annotated, Any, Self

from pydantic import Field, StringConstraints, model_validator

from zelo_ray.protocols import Rounds, samre
from zelo_ray.protocols.options import RoundsOptions
from zelo_ray.protocols.pairings import (
    NUMBER,
    Pairing,
    failures_in,
    mean_score,
    pairing_protocol,
)
from zelo_ray.protocols.questions import StrictModel
from zelo_ray.records import SyntheticFeatures

PROMPT = "baseline-strong"
_Mark = Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


class Analysis(StrictModel):
    """Both answers by one criterion."""

    analysis: Annotated[str, StringConstraints(strip_whitespace=True)]
    answer_1: _Mark
    answer_2: _Mark


_CRITERIA = ("relevance", "accuracy", "depth", "clarity", "reasoning")
_INNER = tuple(Analysis.model_fields)
_TAG = re.compile(f"(</?(?:{'|'.join((*_CRITERIA, *_INNER))})>)")
_FORM = [
    tag
    for name in _CRITERIA
    for tag in (f"<{name}>", *(t for i in _INNER for t in (f"<{i}>", f"</{i}>")), f"</{name}>")
]
"""The tags of an answer: these, in this order."""


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
        if any(_TAG.search(assessment.analysis) for _, assessment in self):
            raise ValueError("an analysis holds a tag")
        return self

    @classmethod
    def read(cls, text: str) -> "Tagged":
        """Parse a text that holds every tag once, in its place, and nothing outside of them."""
        pieces = _TAG.split(text)
        for expected, tag in zip_longest(_FORM, pieces[1::2], fillvalue="the end"):
            if expected != tag:
                raise ValueError(f"{tag} where {expected} belongs")
        values = dict[str, dict[str, Any]]()
        for before, said in zip(("the beginning", *_FORM), pieces[::2], strict=True):
            name = before.strip("<>")
            if name in _CRITERIA:
                criterion = values.setdefault(name, {})
            if name in _INNER:
                criterion[name] = said
            elif said.strip():
                raise ValueError(f"text outside the tags, after {before}")
        for about, fields in values.items():
            for name in _INNER[1:]:
                if not re.fullmatch(NUMBER, fields[name].strip()):
                    raise ValueError(f"{about}.{name}: not a number such as 7 or 7.5, alone")
                fields[name] = float(fields[name])
        return cls.model_validate(values)

    def write(self) -> str:
        """Return the analyses as text, between tags."""
        return "\n".join(
            f"<{name}>\n<analysis>{assessment.analysis}</analysis>\n"
            f"<answer_1>{_text(assessment.answer_1)}</answer_1>\n"
            f"<answer_2>{_text(assessment.answer_2)}</answer_2>\n</{name}>"
            for name, assessment in self
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
    scores = [
        (
            mean_score([one.answer_1 for _, one in answer]),
            mean_score([one.answer_2 for _, one in answer]),
        )
        for answer in good.values()
    ]
    reasons = ["\n".join(f"{name}: {one.analysis}" for name, one in a) for a in good.values()]
    return [pairing.verdict("baseline-strong", scores, [*good], reasoning=reasons), *failures]


PROTOCOL = pairing_protocol(
    "baseline-strong",
    _score,
    _most_calls,
    response_models=(Tagged, *samre.PROTOCOL.response_models),
    max_rounds=None,  # one, after those of a debate if it tells how often to ask
    options=RoundsOptions,
)
