"""Reasons on which code branches, as values: a sentence is written only where one is shown."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum


class StopReason(StrEnum):
    """Why a judge is asked nothing more."""

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
    """Why a judge is asked nothing more.

    Attributes:
        code: what code goes by.
        message: one line for people, without the judge's name.
    """

    code: StopReason
    message: str

    @property
    def is_over_budget(self) -> bool:
        """Whether only the money is used up."""
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
    """Say which judges are asked nothing more and why, each reason once."""
    for reason, judges in judges_by_reason(disabled).items():
        yield reason.of(*judges)


def without_name(text: str, *names: str) -> str:
    """Return a text without the name of the judge or provider that an error's text begins with."""
    for name in names:
        text = text.removeprefix(f"{name}: ")
    return text
