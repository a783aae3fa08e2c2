"""A cap on dollars that holds while many spend at once: reserve before a call, charge after it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOTHING = 1e-9  # dollars that rounding may leave
_SILENT_SECONDS = 30.0
"""After so long a silence a spender counts as dead, and what it had reserved as spent."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to a spender: how many of the amounts it asked for may be spent.

    ``over``: the next one never will be, since nobody holds money that could come back.
    """

    count: int
    over: bool


@dataclass(slots=True)
class _Spender:
    charged: float = 0.0
    reserved: float = 0.0
    heard_at: float = 0.0


class Budget:
    """Budget that all spenders share.

    Each tells its own figures so far with every call, so nothing is lost when this object is made
    anew after a crash.

    Args:
        cap: US dollars.
        spent: what was spent before.
    """

    def __init__(self, cap: float, spent: float) -> None:
        self.cap, self._before = cap, spent
        self._spenders = dict[str, _Spender]()

    @property
    def spent(self) -> float:
        """Return what is spent for certain, in US dollars."""
        return self._before + sum(account.charged for account in self._spenders.values())

    @property
    def reserved(self) -> float:
        """Return what is reserved for calls that have not ended, in US dollars."""
        return sum(account.reserved for account in self._spenders.values())

    @property
    def spenders(self) -> dict[str, tuple[float, float]]:
        """Return what each spender was charged and has reserved, in US dollars."""
        return {name: (who.charged, who.reserved) for name, who in self._spenders.items()}

    def recall(self, spenders: Mapping[str, tuple[float, float]]) -> None:
        """Count spenders that have not reported, as they were known before: they may have ended."""
        for name, (charged, reserved) in spenders.items():
            self._spenders.setdefault(name, _Spender(charged, reserved, -math.inf))

    def reserve(
        self, spender: str, charged: float, reserved: float, wants: Sequence[float], now: float
    ) -> Grant:
        """Reserve as many of the wanted amounts as the budget has room for, in their order.

        Args:
            spender: who asks.
            charged: what its ended calls have cost in all.
            reserved: what it has reserved for calls that have not ended.
            wants: what its next calls may cost at most.
            now: seconds of a monotonic clock.
        """
        account = self._spenders[spender] = _Spender(charged, reserved, now)
        free = self.cap - self.spent - self.reserved
        count = 0
        for want in wants:
            if want > max(0.0, free) + NOTHING:  # what costs nothing may always go
                break
            free -= want
            account.reserved += want
            count += 1
        coming_back = sum(
            account.reserved
            for account in self._spenders.values()
            if now - account.heard_at < _SILENT_SECONDS
        )
        return Grant(count, over=bool(wants) and not count and coming_back < NOTHING)

    def give_back(self, spender: str, dollars: float) -> None:
        """Take back what was just reserved for calls that may not go yet for another reason."""
        self._spenders[spender].reserved -= dollars
