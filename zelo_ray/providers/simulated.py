"""Simulated judges: they know the truth, and err as their options say (docs/sizing.md).

The truth is a number in each document's metadata. For two documents, in the order in which they are
shown, such a judge perceives a difference, in logits:

    slope (truth of the second - truth of the first) - position_bias + shared_noise z + noise e

where e is standard logistic, drawn for each request, and z standard normal, drawn for each pair
and the same for all simulated judges, since real ones err together. Its preference is the tanh of
half of that: with noise 1 alone the model of Bradley & Terry (1952, Biometrika 39:324). A single
document gets the nearest grade to slope (truth) - severity + shared_noise z + noise e: the graded
response model of Samejima (1969, Psychometrika Monograph 17). Three documents and more are
perceived one by one, each with a standard Gumbel error: the model of Plackett and Luce (1975,
Applied Statistics 24:193). ``biases`` add what it sees in the texts (`BIASES`) to the truth.

All randomness is seeded with the request's key, so the same question has the same answer, and
judges with different names err independently. It depends on no id.
"""

import asyncio
import contextlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from zelo_ray.providers import Fatal, Provider, Refused, Retry
from zelo_ray.records import (
    Answer,
    Document,
    Prose,
    Request,
    SyntheticFeatures,
    Usage,
    first_error,
    synthesize_answer,
)

_LARGEST = 1e9
"""Largest option or truth, so that products stay finite."""
_BYTES_PER_TOKEN = 4
_LATENCY_SPREAD = 0.5
"""Standard deviation of the logarithm of a latency."""

BiasName = Literal["length", "stuffing", "injection", "popularity"]
_ORDERS = re.compile(
    r"\b(?:most relevant document|highest grade|perfectly relevant|(?:ignore|disregard) [^.]{0,40}"
    r"instructions)\b",
    re.IGNORECASE,
)
_REPUTE = re.compile(r"\bcited by\b|^source:", re.IGNORECASE)
_TYPICAL = 100
"""Words of a text whose length counts neither for nor against it."""


def _stuffing(query: str, text: str) -> float:
    words, texts = (f" {' '.join(part.casefold().split())} " for part in (query, text))
    return float(words in texts)


BIASES: Mapping[BiasName, Callable[[str, str], float]] = {
    "length": lambda _, text: math.log2(max(1, len(text.split())) / _TYPICAL),
    "stuffing": _stuffing,  # the query's words stand in the text, one after another
    "injection": lambda _, text: float(bool(_ORDERS.search(text))),  # it tells how to judge it
    "popularity": lambda _, text: float(bool(_REPUTE.search(text))),  # it says who cites it
}
"""Numbers of a query and a text, which an option ``biases: {NAME: x}`` adds x times."""

_Logits = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]
_Scale = Annotated[float, Field(ge=0, le=_LARGEST)]
_Chance = Annotated[float, Field(ge=0, le=1)]


class Traits(BaseModel):
    """The ``judge_options`` of a simulated judge, all of which are part of the key."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    truth: Annotated[str, Field(min_length=1)] = "grade"  # a field of the metadata
    slope: _Logits = 1.0  # logits, or grades, for each step of truth
    noise: _Scale = 1.0  # scale of the logistic error of a vote or a grade
    shared_noise: _Scale = 0.0  # sd of the error that all judges share on a pair or document
    severity: _Logits | None = None  # grades by which what is seen is marked down
    position_bias: _Logits = 0.0  # logits in favour of what is shown first
    biases: dict[BiasName, _Logits] | None = None
    refusals: _Chance = 0.0
    truncated: _Chance = 0.0
    invalid: _Chance = 0.0
    failures: _Chance = 0.0  # of a call that comes to no answer
    latency: _Scale = 0.0  # mean seconds of a call
    output_tokens: Annotated[int, Field(ge=0, le=2**31)] = 120

    @model_validator(mode="after")
    def _ends_exclude_each_other(self) -> "Traits":
        if self.refusals + self.truncated + self.invalid > 1:
            raise ValueError("refusals, truncated and invalid must not sum to more than 1")
        return self


def _limit_tokens(usage: Usage) -> Mapping[str, float]:
    """Count tokens for every kind of limit, so that all limits can be tried out."""
    tokens = usage.input_tokens, usage.output_tokens
    return {"tpm": sum(tokens), "itpm": tokens[0], "otpm": tokens[1]}


class Simulated:
    """A connection that answers from the truth, and counts the calls for each request."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._calls, self._sleep = Counter[str](), sleep

    async def send(self, request: Request) -> Answer:
        """Compare two documents or grade one, with the errors that the options set."""
        name, model = request.judge.name, request.judge.model
        try:
            traits = Traits.model_validate(request.judge.options)
        except ValidationError as error:
            raise Fatal(f"judge_options: {first_error(error)}", name=name) from None
        text = _text(request, traits)
        luck = random.Random(f"{request.key}:{self._calls[request.key]}")
        self._calls[request.key] += 1
        fails, chance = luck.random() < traits.failures, luck.random()
        if traits.latency:  # drawn last, so that the latency changes no answer
            spread = luck.lognormvariate(-(_LATENCY_SPREAD**2) / 2, _LATENCY_SPREAD)
            await self._sleep(traits.latency * spread)
        if fails:
            raise Retry("a simulated failure", name=name)
        shares = (traits.refusals, traits.truncated, traits.invalid)
        refused, truncated, invalid = accumulate(shares)
        usage = Usage(
            _tokens(request.system, request.user), 1 if request.choices else traits.output_tokens
        )
        if truncated <= chance < invalid:  # it may be asked again, so the count is kept
            nothing = "" if isinstance(request.response_model, Prose) else "Hard to say."
            return Answer("ok", nothing, usage, model=model)  # no parser accepts it
        del self._calls[request.key]
        if chance < refused:
            return Answer("refused", "", usage, model=model, reason="a simulated refusal")
        if chance < truncated:
            half, reason = text[: len(text) // 2], "a simulated answer that breaks off"
            return Answer("truncated", half, usage, model=model, reason=reason)
        return Answer("ok", text, usage, model=model)

    async def aclose(self) -> None:
        """Do nothing, as no resource is held."""


def _tokens(*texts: str) -> int:
    """Estimate the number of tokens from the bytes in UTF-8."""
    size = sum(len(text.encode("utf-8", "replace")) for text in texts)
    return -(-size // _BYTES_PER_TOKEN)


def _text(request: Request, traits: Traits) -> str:
    view = SyntheticFeatures()
    match request.documents:
        case [document]:
            view = _graded(request, traits, _truth(request, document))
        case [first, second]:
            view = _compared(request, traits, (_truth(request, first), _truth(request, second)))
        case [_, _, *_] as documents:
            view = _ordered(request, traits, [_truth(request, document) for document in documents])
    try:
        return synthesize_answer(request, view)
    except ValueError:
        raise Refused(
            "simulated judges compare two documents, grade one or order some, and no more"
        ) from None


def _truth(request: Request, document: Document) -> float:
    field = request.judge.options["truth"]
    truth: Any = document.metadata.get(field)
    if isinstance(truth, str):  # as it comes from a column of a CSV file
        with contextlib.suppress(ValueError):
            truth = float(truth)
    if type(truth) in (int, float) and -_LARGEST <= truth <= _LARGEST:
        return float(truth)
    what = f"document {document.id!r} has no number as {field!r} in its metadata"
    raise Refused(what, name=request.judge.name)


def _compared(request: Request, traits: Traits, truths: tuple[float, float]) -> SyntheticFeatures:
    """Return the features of a pair, in the order in which it is shown."""
    first, second = truths
    logits = (
        traits.slope * (second - first)
        + _bias(request, traits, 1)
        - _bias(request, traits, 0)
        - traits.position_bias
        + traits.shared_noise * _shared_error(request, truths)
        + traits.noise * _logistic(random.Random(request.key))
    )
    words = f"A is worth {first:g} and B {second:g}; seen as {logits:+.2f} logits for B"
    return SyntheticFeatures(pair_preference=math.tanh(logits / 2), words=words, argument=words)


def _ordered(request: Request, traits: Traits, truths: Sequence[float]) -> SyntheticFeatures:
    """Return the features of several documents: scores whose differences err as those of a pair."""
    chances, last = random.Random(request.key), len(truths) - 1
    scores = tuple(
        traits.slope * truth
        + traits.position_bias * (1 - place / last)
        + traits.shared_noise * _own_error(request, document) / math.sqrt(2)
        + traits.noise * _gumbel(chances)
        for place, (document, truth) in enumerate(zip(request.documents, truths, strict=True))
    )
    words = ", ".join(f"{score:+.2f}" for score in scores)
    return SyntheticFeatures(scores=scores, words=f"seen as {words} logits")


def _own_error(request: Request, document: Document) -> float:
    """Return the error that all simulated judges share on a document, in sd."""
    return random.Random(json.dumps([request.query, document.content])).gauss(0.0, 1.0)


def _graded(request: Request, traits: Traits, truth: float) -> SyntheticFeatures:
    """Return the features of one document."""
    (document,) = request.documents
    shared = _own_error(request, document)
    raw_grade = (
        traits.slope * truth
        + _bias(request, traits, 0)
        - (traits.severity or 0.0)
        + traits.shared_noise * shared
        + traits.noise * _logistic(random.Random(request.key))
    )
    words = f"It is worth {truth:g}; seen as {raw_grade:.2f}"
    return SyntheticFeatures(
        document_grade=min(max(math.floor(raw_grade + 0.5), 0), 3), words=words, argument=words
    )


def _bias(request: Request, traits: Traits, place: int) -> float:
    """Return what the judge's biases add to a document, whose text it sees for them alone."""
    biases, text = traits.biases or {}, request.documents[place].content
    return sum(bias * BIASES[name](request.query, text) for name, bias in biases.items())


def _gumbel(rng: random.Random) -> float:
    """Draw from the standard Gumbel distribution."""
    return -math.log(-math.log(rng.random() or 2**-54))


def _logistic(rng: random.Random) -> float:
    """Draw from the standard logistic distribution."""
    chance = rng.random() or 2**-54
    return math.log(chance / (1 - chance))


def _shared_error(request: Request, truths: Sequence[float]) -> float:
    """Return the error that all judges share on a pair, in sd, for the second document."""
    sides = [
        (document.content, truth) for document, truth in zip(request.documents, truths, strict=True)
    ]
    if sides[0] == sides[1]:
        return 0.0
    pair = [request.query, *sorted(document.content for document in request.documents)]
    error = random.Random(json.dumps(pair)).gauss(0.0, 1.0)
    return error if sides[0] < sides[1] else -error


PROVIDER = Provider(
    connect=lambda _: Simulated(),
    models=("judge",),
    options=Traits.model_validate({}).model_dump(),
    concurrency=256,
    free=True,
    gives_probabilities=True,
    limit_tokens=_limit_tokens,
)
