"""Debate: Single Advocate Multi-Round Evaluation without juries (arXiv 2410.04663).

In each round an advocate defends each of two answers; then the judge gives both feedback, and
scores them. The debate ends when two rounds in a row lean the same way, and the mean scores decide.
The judge's model speaks for all of its own debate. A round takes two steps, since feedback and
scores need only the defences.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple, Self

from pydantic import Field, StringConstraints

from zelo_ray.protocols import Rounds
from zelo_ray.protocols.options import RoundsOptions
from zelo_ray.protocols.pairings import Pairing, failures_in, pairing_protocol
from zelo_ray.protocols.questions import StrictModel
from zelo_ray.records import Request, SyntheticFeatures

DEFENCE, FEEDBACK, SCORES = "samre-defence", "samre-feedback", "samre-scores"
CALLS = 4
"""Requests of a round: two defences, feedback and scores."""
_MOST_ROUNDS = 4  # the paper's


class Speech(StrictModel):
    """A text that is all of an answer; white space around it is none of it."""

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

    @classmethod
    def read(cls, text: str) -> Self:
        """Take the whole text."""
        return cls(text=text)

    def write(self) -> str:
        """Return the text."""
        return self.text

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        return cls(text=seen.argument)


class Defence(Speech):
    """An advocate's argument for an answer."""


class Feedback(Speech):
    """What the judge tells both advocates after a round."""


class Points(StrictModel):
    """Both answers by one criterion."""

    justification: str
    answer_1: int = Field(ge=1, le=20)
    answer_2: int = Field(ge=1, le=20)


class RoundScores(StrictModel):
    """Both answers by six criteria, after a round. Nobody but us adds them up."""

    relevance: Points
    accuracy: Points
    depth: Points
    clarity: Points
    logic: Points
    rebuttal: Points

    @classmethod
    def synthesize(cls, seen: SyntheticFeatures) -> Self:
        """Build the answer of a free judge."""
        more = round(19 / 4 * seen.preference)
        points = Points(justification=seen.words, answer_1=10 - more, answer_2=10 + more)
        return cls(**dict.fromkeys(cls.model_fields, points))


class _Round(NamedTuple):
    """The texts and scores of one round. Pairs are for Answer 1 and Answer 2."""

    arguments: tuple[str, str]
    feedback: str
    scores: tuple[float, float]
    reasons: str


def most_rounds(options: RoundsOptions) -> int:
    """Return how many rounds a debate can have at most."""
    return options.rounds if isinstance(options.rounds, int) else _MOST_ROUNDS


def debate(pairing: Pairing) -> Rounds:
    """Run one debate; an unusable reply ends it without a verdict."""
    limit, past, keys = most_rounds(pairing.documents.options), list[_Round](), list[str]()
    while len(past) < limit and not _is_settled(past):
        requests = [_defence(pairing, side, past) for side in (0, 1)]
        defences = yield from pairing.ask(requests)
        if failures := failures_in(defences):
            return failures
        first, second = (defence.text for defence in defences)
        keys += [request.key for request in requests]
        requests = _verdicts(pairing, (first, second), past, limit)
        replies = yield from pairing.ask(requests)
        if failures := failures_in(replies):
            return failures
        feedback, scores = replies
        keys += [request.key for request in requests]
        points: dict[str, Points] = dict(scores)
        ones, twos = zip(*((each.answer_1, each.answer_2) for each in points.values()), strict=True)
        reasons = "\n".join(f"{name}: {each.justification}" for name, each in points.items())
        sums = (float(sum(ones)), float(sum(twos)))
        past.append(_Round((first, second), feedback.text, sums, reasons))
    arguments, feedbacks, all_scores, explanations = zip(*past, strict=True)
    more = {"arguments": arguments, "feedback": feedbacks, "reasoning": explanations}
    return [pairing.verdict("samre", all_scores, keys, **more)]


def _is_settled(past: Sequence[_Round]) -> bool:
    """Return whether the last two rounds favour the same answer; a tie favours neither."""
    leads = [turn.scores[0] - turn.scores[1] for turn in past[-2:]]
    return len(leads) == 2 and leads[0] * leads[1] > 0


def _defence(pairing: Pairing, side: int, past: Sequence[_Round]) -> Request:
    """Build the request to the advocate of Answer 1 (0) or Answer 2 (1)."""
    opponent, more = 1 - side, dict[str, str]()
    if past:
        more["last feedback of the judge"] = past[-1].feedback
        more["last argument of your opponent"] = past[-1].arguments[opponent]
    for number, turn in enumerate(past, 1):
        more[f"your argument of round {number}"] = turn.arguments[side]
    fields = {"own": side + 1, "other": opponent + 1}
    return pairing.request(DEFENCE, Defence, answers=(side, opponent), more=more, fields=fields)


def _verdicts(
    pairing: Pairing, arguments: tuple[str, str], past: Sequence[_Round], rounds: int
) -> list[Request]:
    """Build the requests to the judge after both defences: feedback and scores."""
    more = {f"defence of Answer {number}": text for number, text in enumerate(arguments, 1)}
    lines = [
        f"Round {number}: Answer 1: {turn.scores[0]:g}, Answer 2: {turn.scores[1]:g}"
        for number, turn in enumerate(past, 1)
    ]
    history = "\n".join(lines) or "None; this is the first round."
    fields: dict[str, str | int] = {"rounds": rounds, "past": history, "round": len(past) + 1}
    return [
        pairing.request(FEEDBACK, Feedback, more=more, fields=fields),
        pairing.request(SCORES, RoundScores, more=more, fields=fields),
    ]


PROTOCOL = pairing_protocol(
    "samre",
    debate,
    lambda options: CALLS * most_rounds(options),
    response_models=(Defence, Feedback, RoundScores),
    max_rounds=None,  # two for each round of a debate
    options=RoundsOptions,
)
