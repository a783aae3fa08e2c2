"""Define the results of a comparison of protocols."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Literal

from zelo_ray.commands.compare_protocols.costs import Bill
from zelo_ray.evaluation.agreement import Difference, Figure

Unit = Literal["dollars", "calls"]
"""The unit of costs: calls if dollars are unknown, or everything is free."""
MOST = 0.9
"""Protocols that judged a smaller share are ranked below: these items may be easier."""


@dataclass(frozen=True, slots=True)
class ProtocolTrial:
    """Result of one protocol.

    ``correct`` counts the judged items with the same verdict as people's, ``decided`` those that
    neither ties. ``figures`` are by name, as in `measured.FIGURES`.
    """

    protocol: str
    items: int
    judged: int
    correct: int
    decided: int
    decided_correct: int
    queries: int
    """with judged items"""
    bill: Bill
    figures: Mapping[str, Figure]

    @property
    def is_partial(self) -> bool:
        """Return whether so few items were judged that they may be easier ones."""
        return self.judged < MOST * self.items


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs and results of a protocol on one query; NaN for unknown dollars."""

    protocol: str
    query_id: str
    calls: int
    dollars: float
    items: int
    judged: int
    correct: int


@dataclass(slots=True)
class ProtocolsOutcome:
    """Outcome of a comparison.

    ``together`` is what was paid for all protocols: less than the sum, if they share replies.
    ``paid`` is everything in the ledger, also for other requests. ``differences`` are of agreement
    with people, on the items that both protocols of a pair judged.
    """

    trials: list[ProtocolTrial]
    costs: list[Cost]
    differences: list[Difference]
    together: Bill
    paid: Bill = field(default_factory=Bill)
    notes: list[str] = field(default_factory=list)
    complete: bool = True

    @property
    def unit(self) -> Unit:
        """Return the unit of costs."""
        bills = [trial.bill for trial in self.trials]
        priced = not any(bill.unpriced for bill in bills) and any(bill.dollars for bill in bills)
        return "dollars" if priced else "calls"

    @property
    def best(self) -> str:
        """Return the protocol that agrees most with people; "" if none judged what they did."""
        return next((trial.protocol for trial in self.ranked if trial.judged), "")

    @property
    def ranked(self) -> list[ProtocolTrial]:
        """Return the trials, best agreement with people first; ties by name.

        Those that judged only a part of the items come after the others.
        """
        return sorted(self.trials, key=_place)


def _place(trial: ProtocolTrial) -> tuple[bool, float, str]:
    value = trial.figures["agreement"].value
    return trial.is_partial, inf if isnan(value) else -value, trial.protocol
