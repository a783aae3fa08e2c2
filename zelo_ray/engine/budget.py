"""A cap on dollars that holds while many spend at once: reserve before a call, charge after it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

NOTHING = 1e-9  # dollars that rounding may leave
_SILENT_SECONDS = 30.0
"""After so long a silence a holder counts as dead, and what it had reserved as spent."""


@dataclass(frozen=True, slots=True)
class Holder:
    """One who spends: US dollars for calls that have ended, and for those that have not."""

    charged: float
    reserved: float
    heard_at: float = -math.inf


class Budget:
    """Budget of so many US dollars, of which some were spent before, that many holders share.

    Each tells its own figures so far with every message, so nothing is lost when this object is
    made anew after a crash.
    """

    def __init__(self, cap: float, spent: float) -> None:
        self.cap, self._before = cap, spent
        self.holders = dict[str, Holder]()

    @property
    def spent(self) -> float:
        """Return what is spent for certain, in US dollars."""
        return self._before + sum(holder.charged for holder in self.holders.values())

    @property
    def reserved(self) -> float:
        """Return what is reserved for calls that have not ended, in US dollars."""
        return sum(holder.reserved for holder in self.holders.values())

    def recall(self, holders: Mapping[str, Holder]) -> None:
        """Count holders that have not reported, as they were known before: they may have ended."""
        for name, holder in holders.items():
            self.holders.setdefault(name, replace(holder, heard_at=-math.inf))

    def reserve(
        self, name: str, charged: float, reserved: float, wants: Sequence[float], now: float
    ) -> int:
        """Take a holder's figures so far, and reserve what its next calls may cost at most.

        Return for how many of them, in their order, there is room.
        """
        self.holders[name] = Holder(charged, reserved, now)
        free, count = self.cap - self.spent - self.reserved, 0
        for want in wants:
            if want > max(0.0, free) + NOTHING:  # what costs nothing may always go
                break
            free, count = free - want, count + 1
        self.give_back(name, -sum(wants[:count]))
        return count

    def give_back(self, name: str, dollars: float) -> None:
        """Take back what was just reserved for calls that may not go yet for another reason."""
        holder = self.holders[name]
        self.holders[name] = replace(holder, reserved=holder.reserved - dollars)

    def is_exhausted(self, now: float) -> bool:
        """Return whether nobody has money reserved that could come back."""
        heard = (h for h in self.holders.values() if now - h.heard_at < _SILENT_SECONDS)
        return sum(holder.reserved for holder in heard) < NOTHING
