"""A cap on dollars that holds while many spend at once: reserve before a call, charge after it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOTHING = 1e-9  # dollars that rounding may leave
_SILENT_SECONDS = 30.0
"""After so long a silence a holder counts as dead, and what it had reserved as spent."""


@dataclass(frozen=True, slots=True)
class Grant:
    """How many of the amounts that a holder asked for it may spend.

    ``exhausted``: the next one never, since nobody has money reserved that could come back.
    """

    count: int
    exhausted: bool


@dataclass(slots=True)
class _Holder:
    charged: float = 0.0
    reserved: float = 0.0
    heard_at: float = 0.0


class Budget:
    """Budget that many holders share.

    Each tells its own figures so far with every message, so nothing is lost when this object is
    made anew after a crash.

    Args:
        cap: US dollars.
        spent: what was spent before.
    """

    def __init__(self, cap: float, spent: float) -> None:
        self.cap, self._before = cap, spent
        self._holders = dict[str, _Holder]()

    @property
    def spent(self) -> float:
        """Return what is spent for certain, in US dollars."""
        return self._before + sum(holder.charged for holder in self._holders.values())

    @property
    def reserved(self) -> float:
        """Return what is reserved for calls that have not ended, in US dollars."""
        return sum(holder.reserved for holder in self._holders.values())

    @property
    def holders(self) -> dict[str, tuple[float, float]]:
        """Return what each holder was charged and has reserved, in US dollars."""
        return {name: (each.charged, each.reserved) for name, each in self._holders.items()}

    def recall(self, holders: Mapping[str, tuple[float, float]]) -> None:
        """Count holders that have not reported, as they were known before: they may have ended."""
        for name, (charged, reserved) in holders.items():
            self._holders.setdefault(name, _Holder(charged, reserved, -math.inf))

    def reserve(
        self, name: str, charged: float, reserved: float, wants: Sequence[float], now: float
    ) -> Grant:
        """Reserve as many of the wanted amounts as there is room for, in their order.

        Args:
            name: of the holder.
            charged: what its ended calls have cost in all.
            reserved: what it has reserved for calls that have not ended.
            wants: what its next calls may cost at most.
            now: seconds of a monotonic clock.
        """
        holder = self._holders[name] = _Holder(charged, reserved, now)
        free, count = self.cap - self.spent - self.reserved, 0
        for want in wants:
            if want > max(0.0, free) + NOTHING:  # what costs nothing may always go
                break
            free -= want
            holder.reserved += want
            count += 1
        heard = (h for h in self._holders.values() if now - h.heard_at < _SILENT_SECONDS)
        coming_back = sum(each.reserved for each in heard)
        return Grant(count, exhausted=bool(wants) and not count and coming_back < NOTHING)

    def give_back(self, name: str, dollars: float) -> None:
        """Take back what was just reserved for calls that may not go yet for another reason."""
        self._holders[name].reserved -= dollars
