"""The strong baseline of debate: one careful prompt, asked once, or as often as a debate took.

Answers between markers, five criteria, an analysis before each score, and means taken by us. All
repeats are asked at once.
"""

import re
from dataclasses import replace
from itertools import zip_longest
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from zelo_ray.protocols import Rounds, samre
from zelo_ray.protocols.options import RoundsOptions
from zelo_ray.protocols.pairings import (
    NUMBER,
    Pairing,
    failures_in,
    free_judge_scores,
    mean_score,
    pairing_protocol,
    score_text,
)
from zelo_ray.records import Failure, SyntheticFeatures

PROMPT = "baseline-strong"
_Mark = Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)]


class Analysis(BaseModel):
    """Both answers by one criterion."""

    model_config = ConfigDict(strict=True, extra="forbid")

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


class Tagged(BaseModel):
    """Both answers by five criteria, between tags."""

    model_config = ConfigDict(strict=True, extra="forbid")

    relevance: Analysis
    accuracy: Analysis
    depth: Analysis
    clarity: Analysis
    reasoning: Analysis

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        first, second = free_judge_scores(seen.preference, 1, 10)
        analysis = Analysis(analysis=seen.words, answer_1=first, answer_2=second)
        return cls(**dict.fromkeys(cls.model_fields, analysis))

    @model_validator(mode="after")
    def _holds_no_tags(self) -> "Tagged":
        if any(_TAG.search(assessment.analysis) for _, assessment in self):
            raise ValueError("an analysis holds a tag")
        return self

    @classmethod
    def read(cls, text: str) -> "Tagged":
        """Parse a text that holds every tag once, in its place, and nothing outside of them.

        Raises:
            ValueError: it is another text, or a score is none, or out of range.
        """
        pieces = _TAG.split(text)
        for expected, tag in zip_longest(_FORM, pieces[1::2]):
            if expected != tag:
                raise ValueError(f"{tag or 'the end'} where {expected or 'the end'} belongs")
        between = iter(pieces[::2])
        _blank(next(between), "before <relevance>")
        fields = dict[str, dict[str, str | float]]()
        for name in _CRITERIA:
            inner = dict[str, str]()
            for field in _INNER:
                _blank(next(between), f"before <{field}> of {name}")
                inner[field] = next(between)
            _blank(next(between), f"before </{name}>")
            _blank(next(between), f"after </{name}>")
            fields[name] = _analysis(name, **inner)
        return cls.model_validate(fields)

    def write(self) -> str:
        """Return the analyses as text, between tags."""
        return "\n".join(
            f"<{name}>\n<analysis>{assessment.analysis}</analysis>\n"
            f"<answer_1>{score_text(assessment.answer_1)}</answer_1>\n"
            f"<answer_2>{score_text(assessment.answer_2)}</answer_2>\n</{name}>"
            for name, assessment in self
        )


def _blank(text: str, where: str) -> None:
    if text.strip():
        raise ValueError(f"text outside the tags, {where}")


def _analysis(name: str, *, analysis: str, answer_1: str, answer_2: str) -> dict[str, str | float]:
    marks = {"answer_1": answer_1.strip(), "answer_2": answer_2.strip()}
    for field, mark in marks.items():
        if not re.fullmatch(NUMBER, mark):
            raise ValueError(f"{name}.{field}: not a number such as 7 or 7.5, and nothing else")
    return {"analysis": analysis, **{key: float(mark) for key, mark in marks.items()}}


def _most_calls(options: RoundsOptions) -> int:
    """Count one request for each time to ask, plus those of a debate if it tells how often."""
    if options.rounds == "samre":
        return (samre.CALLS + 1) * samre.most_rounds(options)
    return options.rounds or 1


def _score(pairing: Pairing, options: RoundsOptions) -> Rounds:
    """Ask so many times; the scores that came decide, if they are enough."""
    times = options.rounds or 1
    if times == "samre":
        (outcome, *more) = yield from samre.debate(pairing, options)
        if isinstance(outcome, Failure):
            return [_without_debate(failure) for failure in (outcome, *more)]
        times = outcome.rounds
    requests = [pairing.request(PROMPT, Tagged, repeat=repeat) for repeat in range(times)]
    replies = yield from pairing.ask(requests)
    failures = failures_in(replies)
    if len(failures) == times or times - len(failures) < options.min_coverage * times:
        return failures
    good = [
        (request.key, answer)
        for request, answer in zip(requests, replies, strict=True)
        if isinstance(answer, Tagged)
    ]
    verdict = pairing.verdict(
        "baseline-strong",
        [_mean(answer) for _, answer in good],
        [key for key, _ in good],
        reasoning=[_describe_analyses(answer) for _, answer in good],
    )
    return [verdict, *failures]


def _without_debate(failure: Failure) -> Failure:
    reason = f"no debate tells how often to ask: {failure.reason}"
    return replace(failure, reason=reason)


def _mean(analyses: Tagged) -> tuple[float, float]:
    """Return the means over the criteria, for Answer 1 and Answer 2."""
    first, second = zip(*((one.answer_1, one.answer_2) for _, one in analyses), strict=True)
    return mean_score(first), mean_score(second)


def _describe_analyses(analyses: Tagged) -> str:
    return "\n".join(f"{name}: {assessment.analysis}" for name, assessment in analyses)


PROTOCOL = pairing_protocol(
    "baseline-strong",
    _score,
    _most_calls,
    response_models=(Tagged, *samre.PROTOCOL.response_models),
    max_rounds=None,  # one, after those of a debate if it tells how often to ask
    options=RoundsOptions,
)
