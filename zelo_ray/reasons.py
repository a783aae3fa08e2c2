"""Reasons on which code branches, as values: a sentence is written only where one is shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self


class StopReason(StrEnum):
    """The kinds of reasons for asking a judge nothing more."""

    BUDGET = "budget"
    """the money is used up, which is no fault of the judge's and stops nobody else"""
    DAY_QUOTA = "day quota"
    """the requests of the day are used up"""
    THROTTLED = "throttled"
    """its account's rate is exceeded, and has been for long"""
    UNREACHED = "unreached"
    """no connection to it can be made"""
    SILENT = "silent"
    """nothing comes back from it"""
    FATAL = "fatal"
    """its server says that a person must act"""
    EXCESS = "excess"
    """it charges more than could be reserved for a call"""
    NO_JUDGMENT = "no judgment"
    """none of its first answers was a judgment"""
    NO_BATCH = "no batch"
    """no batch can be created, or batch after batch brings nothing"""
    ERROR = "error"
    """something unforeseen went wrong"""
    MISSING = "missing"
    """its answer is not there, and whoever looks asks nobody"""


@dataclass(frozen=True, slots=True)
class Disabled:
    """A reason for asking a judge nothing more.

    Attributes:
        code: what code goes by.
        message: one line for people, without the judge's name.
    """

    code: StopReason
    message: str

    @property
    def is_over_budget(self) -> bool:
        """Return whether only the money is used up."""
        return self.code is StopReason.BUDGET

    def of(self, *judges: str) -> str:
        """Return the message after the names of these judges; a budget is that of the whole run."""
        return self.message if self.is_over_budget else f"{', '.join(judges)}: {self.message}"


def judges_by_reason(disabled: Mapping[str, Disabled]) -> dict[Disabled, list[str]]:
    """Return the judges that are disabled, by the reason."""
    judges: dict[Disabled, list[str]] = {}
    for judge, reason in disabled.items():
        judges.setdefault(reason, []).append(judge)
    return judges


def describe_disabled(disabled: Mapping[str, Disabled]) -> Iterator[str]:
    """List which judges are asked nothing more and why, each reason once."""
    for reason, judges in judges_by_reason(disabled).items():
        yield reason.of(*judges)


class UnscoredReason(StrEnum):
    """The kinds of reasons for a query without scores."""

    NO_DOCUMENTS = "no documents"
    TOO_FEW_DOCUMENTS = "too few documents"
    LOW_COVERAGE = "low coverage"
    """too few of its requests gave a judgment"""
    NO_VOTES = "no votes"
    NO_GRADES = "no grades"
    DISCONNECTED = "disconnected"
    """its comparisons fall into parts that never met"""
    NO_TOURNAMENT = "no tournament"
    """none of its tournaments came to an end"""
    OTHER = "other"
    """what a protocol of the user's own says"""


_SENTENCES = {
    UnscoredReason.NO_DOCUMENTS: "it holds no documents",
    UnscoredReason.TOO_FEW_DOCUMENTS: (
        "it holds {held} of the {takes} documents that a comparison takes"
    ),
    UnscoredReason.LOW_COVERAGE: (
        "only {judged} of its {asked} requests gave a judgment (--min-coverage)"
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
    """A reason for a query without scores.

    Attributes:
        code: what code goes by.
        message: one line for people, as of the query: "it has no votes".
    """

    code: UnscoredReason
    message: str

    @classmethod
    def because(cls, code: UnscoredReason, **numbers: int | str) -> Self:
        """Return a reason with its sentence, in which these numbers stand."""
        return cls(code, _SENTENCES[code].format(**numbers))


def without_name(text: str, *names: str) -> str:
    """Return a text without the name of the judge or provider that an error's text begins with."""
    for name in names:
        text = text.removeprefix(f"{name}: ")
    return text
