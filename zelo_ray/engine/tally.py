"""Count what a run did, by judge: requests, tokens, dollars, and what went wrong.

Imports little, as the process of the coordinator has nothing else to do and starts with each run.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zelo_ray.reasons import Disabled

if TYPE_CHECKING:
    from zelo_ray.protocols import Step


@dataclass(frozen=True, slots=True, order=True)
class LastProblem:
    """A reason why a request failed or was repeated, and when, in seconds since 1970."""

    at: float = 0.0
    reason: str = ""


@dataclass(slots=True)
class Tally:
    """A judge's figures so far in this run."""

    known: int = 0  # requests that the ledger could answer already
    spared: int = 0  # requests that were planned, and not needed in the end
    queries: int = 0  # on which it has answered all that it is asked
    in_flight: int = 0
    waiting: int = 0  # requests that wait for the account's limits or the budget
    batched: int = 0  # requests that lie in batches at the provider
    answered: int = 0  # finished requests, successful or not
    retries: int = 0
    throttled: int = 0  # responses that said that the account's rate was exceeded
    input_tokens: int = 0
    cached_tokens: int = 0  # of the input, read from the provider's cache, and billed so
    output_tokens: int = 0
    dollars: float = 0.0
    unpriced: int = 0  # billed answers of a model whose price is unknown
    uncounted: int = 0  # of those, answers that reported no tokens
    unsettled: float = 0.0
    """dollars that may have been billed for calls whose answer never came, at most"""
    statuses: dict[str, int] = field(default_factory=dict)
    """how the answered ones ended"""
    limits: dict[str, float] = field(default_factory=dict)
    """the limits in force over all callers, a minute or a day; empty where none are known"""
    trouble: LastProblem = LastProblem()
    """the last failure or retry"""
    disabled: Disabled | None = None
    """why it is asked nothing more, as the coordinator knows; None while it is asked"""

    def count_ended(self, status: str, reason: str = "", at: float = 0.0) -> None:
        """Count a request that came to its end, at a time in seconds since 1970."""
        self.answered += 1
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if status != "ok":
            self.trouble = LastProblem(at, reason or status)

    def count_retry(self, reason: str, at: float) -> None:
        """Count a request that is to be repeated; arguments are as in `count_ended`."""
        self.retries += 1
        self.trouble = LastProblem(at, reason)

    def count_skipped(self, judge: str, planned: int, own_answers: int, step: "Step") -> None:
        """Count a pool that was gone through, and which of this judge's requests need no call.

        The pool takes so many of them at most, of which this run has asked those with its own
        answers.
        """
        replies = step.reply_counts.get(judge, 0)
        self.queries += not any(request.judge.name == judge for request in step.missing)
        self.known += max(0, replies - own_answers)
        if not step.missing:
            self.spared += max(0, planned - replies)

    def add(self, other: "Tally") -> None:
        """Add another's figures."""
        for figure in dataclasses.fields(self):
            ours, theirs = getattr(self, figure.name), getattr(other, figure.name)
            if isinstance(ours, int | float):
                setattr(self, figure.name, ours + theirs)
        for status, count in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count
        self.limits |= other.limits
        self.trouble = max(self.trouble, other.trouble)
        self.disabled = self.disabled or other.disabled


def sum_over_sweeps(tallies: Mapping[int, Tally]) -> Tally:
    """Return a judge's figures of a run, from those of each sweep over the input, by number.

    What needs no call is counted anew in each sweep, of which a later one gets further.
    """
    summed = Tally()
    for tally in tallies.values():
        summed.add(tally)
    for name in ("known", "spared", "queries"):
        setattr(summed, name, max(getattr(tally, name) for tally in tallies.values()))
    return summed
