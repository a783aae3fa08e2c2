"""Define the results of a comparison of protocols: of each one, and of all of them together."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isnan
from typing import Literal

from zelo_ray.commands.compare_protocols.costs import Bill
from zelo_ray.evaluation.agreement.differences import Difference
from zelo_ray.evaluation.agreement.estimates import Estimate

Unit = Literal["dollars", "calls"]
"""The unit of a protocol's cost: calls where dollars are not known, or all is free."""
MOST = 0.9
"""Protocols that judged fewer of the items are ranked below, as these may be the easier ones."""


@dataclass(frozen=True, slots=True)
class ProtocolTrial:
    """Result of one protocol.

    ``correct`` are the judged items on which it says what people say, ``decided`` those on which
    neither says tie. ``figures`` are by name, as in `measured.FIGURES`.
    """

    protocol: str
    items: int
    judged: int
    correct: int
    decided: int
    decided_correct: int
    queries: int
    """that have judged items"""
    bill: Bill
    figures: Mapping[str, Estimate]

    @property
    def is_partial(self) -> bool:
        """Return whether so few items were judged that the figures may be of easier ones."""
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

    ``together`` is what was paid for all protocols: less than the sum, where they share replies.
    ``paid`` is all that the ledger holds, also for what is not compared here. ``differences`` are
    of agreement with people, on the items that all of a pair judged.
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
        """Return the unit that costs can be given in."""
        bills = [trial.bill for trial in self.trials]
        priced = not any(bill.unpriced for bill in bills) and any(bill.dollars for bill in bills)
        return "dollars" if priced else "calls"

    @property
    def best(self) -> str:
        """Return the protocol that agrees with people most."""
        return next((trial.protocol for trial in self.ranked), "zelo")

    @property
    def ranked(self) -> list[ProtocolTrial]:
        """Return the trials by agreement with people, the closest first; equal ones by name.

        Those that judged a part of the items come after the others.
        """
        return sorted(self.trials, key=_place)


def _place(trial: ProtocolTrial) -> tuple[bool, float, str]:
    value = trial.figures["agreement"].value
    return trial.is_partial, inf if isnan(value) else -value, trial.protocol
