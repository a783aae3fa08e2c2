"""Simulated judges: they know the truth, and err as their options say.

They are for sizing a run before it is paid for (docs/sizing.md), and for tests with known results.
The truth is a number in each document's metadata. For two documents, in the order in which they are
shown, such a judge perceives a difference, in logits:

    slope (truth of the second - truth of the first) - position_bias + shared_noise z + noise e

where e is standard logistic, drawn for each request, and z standard normal, drawn for each pair
and the same for all simulated judges, since real ones err together. Its preference is the tanh of
half of that. So with noise 1 and nothing else the second document wins with probability
1 / (1 + exp(-slope (difference of truths))): the model of Bradley & Terry (1952, Biometrika
39:324), whose scores then estimate slope times truth. The response model turns a preference into a
winner or points (see `zelo_ray.records.SyntheticFeatures`). A single document is perceived as

    slope (truth) - severity + shared_noise z + noise e

and gets the nearest of the grades 0, 1, 2 and 3: the graded response model of Samejima (1969,
Psychometrika Monograph 17), with logistic errors.

With ``biases`` such a judge also goes by what it sees in the texts (`BIASES`), which is added to
the truth of each document, so that a probe of judges has a known fault to find.

Three documents and more are perceived one by one, each with a standard Gumbel error, so that their
order follows the model of Plackett and Luce (1975, Applied Statistics 24:193): the difference of
two such errors is logistic. The first place is worth ``position_bias`` more than the last.

All randomness is seeded with the request's key, so the same question has the same answer, and
judges with different names err independently. It depends on the content that the key covers, and on
no id.
"""

import asyncio
import contextlib
import json
import math
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from zelo_ray.providers import Fatal, Provider, Refused, Retry
from zelo_ray.records import (
    Answer,
    Document,
    Judge,
    Prose,
    Request,
    Status,
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

    truth: str = Field("grade", min_length=1, description="the field of the metadata")
    slope: _Logits = Field(1.0, description="logits, or grades, for each step of truth")
    noise: _Scale = Field(1.0, description="scale of the logistic error of a vote or a grade")
    shared_noise: _Scale = Field(
        0.0, description="sd of the error on a pair or document that all judges share"
    )
    severity: _Logits | None = Field(
        None, description="grades by which what is seen is marked down; 0 if None"
    )
    position_bias: _Logits = Field(0.0, description="logits in favour of what is shown first")
    biases: dict[BiasName, _Logits] | None = Field(
        None,
        description="logits, or grades: length for each doubling of the text, stuffing if the "
        "query stands in it, injection if it tells how to judge it, popularity if it is cited",
    )
    refusals: _Chance = Field(0.0, description="chance of an answer that refuses")
    truncated: _Chance = Field(0.0, description="chance of an answer that breaks off")
    invalid: _Chance = Field(0.0, description="chance of an answer that is no verdict")
    failures: _Chance = Field(0.0, description="chance of a call that comes to no answer")
    latency: _Scale = Field(0.0, description="mean seconds of a call")
    output_tokens: int = Field(120, ge=0, le=2**31, description="of each answer")

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
        judge = request.judge
        traits = _traits(judge)
        text = _text(request, traits)
        luck = random.Random(f"{request.key}:{self._calls[request.key]}")
        self._calls[request.key] += 1
        fails, status = luck.random() < traits.failures, _draw_status(luck.random(), traits)
        if traits.latency:  # drawn last, so that the latency changes no answer
            spread = luck.lognormvariate(-(_LATENCY_SPREAD**2) / 2, _LATENCY_SPREAD)
            await self._sleep(traits.latency * spread)
        if fails:
            raise Retry("a simulated failure", name=judge.name)
        output_tokens = 1 if request.choices else traits.output_tokens
        usage = Usage(_tokens(request.system, request.user), output_tokens)
        if status == "invalid":  # it may be asked again, so the count is kept
            nothing = "" if isinstance(request.response_model, Prose) else "Hard to say."
            return Answer("ok", nothing, usage, model=judge.model)  # no parser accepts it
        del self._calls[request.key]
        if status == "refused":
            return Answer(status, "", usage, model=judge.model, reason="a simulated refusal")
        if status == "truncated":
            half, reason = text[: len(text) // 2], "a simulated answer that breaks off"
            return Answer(status, half, usage, model=judge.model, reason=reason)
        return Answer("ok", text, usage, model=judge.model)

    async def aclose(self) -> None:
        """Do nothing, as no resource is held."""


def _traits(judge: Judge) -> Traits:
    try:
        return Traits.model_validate(judge.options)
    except ValidationError as error:
        raise Fatal(f"judge_options: {first_error(error)}", name=judge.name) from None


def _draw_status(chance: float, traits: Traits) -> Status:
    """Return how an answer ends, for a draw from [0, 1), by the chances of bad endings."""
    ends: dict[Status, float] = {
        "refused": traits.refusals,
        "truncated": traits.truncated,
        "invalid": traits.invalid,
    }
    for status, share in ends.items():
        if chance < share:
            return status
        chance -= share
    return "ok"


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
    """Return the features of several documents: scores whose differences err as those of a pair.

    The difference of two Gumbel errors is logistic, and the first place is worth ``position_bias``
    more than the last.
    """
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
    """Return the error that all simulated judges share on a pair, in sd, for the second document.

    Its sign depends on the order of the documents; for identical documents it is 0.
    """
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
