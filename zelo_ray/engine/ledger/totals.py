"""Sum up the rows of a segment, and keep the sums so that nobody need read the rows again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Payer = tuple[str, str]
"""Who paid for a reply: the run and the judge."""


@dataclass(slots=True)
class Total:
    """The totals of a payer's rows."""

    rows: int = 0
    parts: list[float] = field(default_factory=list)
    """US dollars: two or three amounts whose exact sum is that of the rows"""
    unpriced: int = 0
    dearest: float = 0.0

    @classmethod
    def of(cls, totals: Sequence["Total"]) -> "Total":
        """Add up several totals."""
        return cls(
            sum(total.rows for total in totals),
            split_exactly([part for total in totals for part in total.parts]),
            sum(total.unpriced for total in totals),
            max(total.dearest for total in totals),
        )


def split_exactly(amounts: Sequence[float]) -> list[float]:
    """Return two or three amounts with the same exact sum, so that it is rounded only once."""
    parts: list[float] = []
    addends = list(amounts)
    while part := math.fsum(addends):
        parts.append(part)
        if not math.isfinite(part):
            break
        addends.append(-part)
    return parts


@dataclass(slots=True)
class Covered:
    """The facts that a table holds of one segment."""

    name: str
    """of the segment, in the folder of the ledger"""
    size: int = 0
    """bytes up to which it was read"""
    stamp: str = ""
    """what the storage says of its last change; empty while that is not known"""
    damaged: list[tuple[int, int]] = field(default_factory=list)
    """the lines that are no replies: where each begins, and how many it held"""
    totals: dict[Payer, Total] = field(default_factory=dict)

    def add(self, other: "Covered") -> None:
        """Add another part of the same segment."""
        self.size = max(self.size, other.size)
        self.stamp = self.stamp or other.stamp
        self.damaged += other.damaged
        for payer, total in other.totals.items():
            subtotal = self.totals.get(payer)
            self.totals[payer] = Total.of([subtotal, total]) if subtotal else total


class SegmentTotals:
    """The totals of one segment, row by row."""

    def __init__(self) -> None:
        self._dollars: dict[Payer, list[float | None]] = {}

    def add(self, row: Mapping[str, Any]) -> Payer:
        """Add a row; return who paid for it."""
        payer = row["run_id"], row["judge"]
        try:
            self._dollars[payer].append(row["dollars"])
        except KeyError:
            self._dollars[payer] = [row["dollars"]]
        return payer

    def totals(self) -> dict[Payer, Total]:
        """Return the totals by payer."""
        return {payer: self._total(dollars) for payer, dollars in self._dollars.items()}

    @staticmethod
    def _total(dollars: Sequence[float | None]) -> Total:
        prices = [price for price in dollars if price is not None]
        dearest = max(0.0, max(prices, default=0.0))
        return Total(len(dollars), split_exactly(prices), len(dollars) - len(prices), dearest)
