"""Define the reasons on which code branches, as enums with a message for people."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class StopReason(StrEnum):
    """Kinds of reasons for disabling a judge, that is for asking it nothing more."""

    BUDGET = "budget"
    """the budget is used up, which is not the judge's fault"""
    THROTTLED = "throttled"
    """its account has exceeded its rate limit for long"""
    UNREACHED = "unreached"
    """no connection to it can be made"""
    SILENT = "silent"
    """it does not respond"""
    FATAL = "fatal"
    """its server reports an error that only a person can mend, such as a wrong key"""
    EXCESS = "excess"
    """it charged more for a call than was reserved"""
    NO_JUDGMENT = "no judgment"
    """none of its first answers was a judgment"""
    CUT_PROMPTS = "cut prompts"
    """its server reads only the beginning of prompts"""
    NO_BATCH = "no batch"
    """no batch can be created, or batch after batch gives no answer"""
    ERROR = "error"
    """an unexpected exception was raised"""
    MISSING = "missing"
    """its answer is not recorded, and this command makes no calls"""


@dataclass(frozen=True, slots=True)
class Disabled:
    """The reason why a judge is disabled; the message is one line, without the judge's name."""

    code: StopReason
    message: str

    @property
    def is_over_budget(self) -> bool:
        """Return whether only the budget is used up."""
        return self.code is StopReason.BUDGET

    def message_for(self, *judges: str) -> str:
        """Return the message with the judges' names before it; a budget concerns the whole run."""
        return self.message if self.is_over_budget else f"{', '.join(judges)}: {self.message}"


def judges_by_reason(disabled: Mapping[str, Disabled]) -> dict[Disabled, list[str]]:
    """Group the disabled judges by reason."""
    judges: dict[Disabled, list[str]] = {}
    for judge, reason in disabled.items():
        judges.setdefault(reason, []).append(judge)
    return judges


def describe_disabled(disabled: Mapping[str, Disabled]) -> Iterator[str]:
    """Yield a line for each reason, with the judges that it disables."""
    for reason, judges in judges_by_reason(disabled).items():
        yield reason.message_for(*judges)


class UnscoredReason(StrEnum):
    """Kinds of reasons for a query without scores."""

    NO_DOCUMENTS = "no documents"
    TOO_FEW_DOCUMENTS = "too few documents"
    LOW_COVERAGE = "low coverage"
    """too few of its requests produced a judgment"""
    NO_VOTES = "no votes"
    NO_GRADES = "no grades"
    DISCONNECTED = "disconnected"
    """its comparisons form several parts that were never compared with each other"""
    NO_TOURNAMENT = "no tournament"
    """none of its tournaments was finished"""
    OTHER = "other"
    """a reason that a user's own protocol gives"""


_SENTENCES = {
    UnscoredReason.NO_DOCUMENTS: "it holds no documents",
    UnscoredReason.TOO_FEW_DOCUMENTS: (
        "it holds {held} of the {takes} documents that a comparison takes"
    ),
    UnscoredReason.LOW_COVERAGE: (
        "only {judged} of its {asked} requests gave a judgment (min_coverage)"
    ),
    UnscoredReason.NO_VOTES: "it has no votes",
    UnscoredReason.NO_GRADES: "it has no grades",
    UnscoredReason.DISCONNECTED: (
        "its comparisons fall into {parts} parts that never met: {names}"
    ),
    UnscoredReason.NO_TOURNAMENT: "none of its tournaments came to an end",
}


@dataclass(frozen=True, slots=True)
class Unscored:
    """The reason why a query has no scores; in the message "it" is the query."""

    code: UnscoredReason
    message: str

    @classmethod
    def because(cls, code: UnscoredReason, **numbers: int | str) -> Self:
        """Build a reason, with these values in its message."""
        return cls(code, _SENTENCES[code].format(**numbers))


def strip_name(text: str, *names: str) -> str:
    """Remove the name of a judge or provider from the beginning of an error message."""
    for name in names:
        text = text.removeprefix(f"{name}: ")
    return text
