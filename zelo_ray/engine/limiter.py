"""Rate limits that all callers of an account share: requests and tokens a minute.

A `Limiter` answers at once and never waits: it tells each call how long to wait. It does so by
virtual scheduling (the generic cell rate algorithm of ATM Forum TM 4.0, for several limits at
once): each limit has a clock that a call advances by its amount divided by the rate; the call may
go when every clock has come. So calls go first come, first served, whatever their size.

Time is passed in, in seconds of any monotonic clock.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_PERIOD = 60.0  # seconds of all limits
_HEADROOM = 0.99  # of a limit is used: the server's clock and network are not ours
_BURST = 1.0  # seconds' worth that an idle account may spend at once
_HORIZON = 1.0  # seconds that a lease looks ahead: a caller that dies wastes no more
_CUT, _LEAST = 0.8, 0.02  # at each 429, and the smallest share of the limits that is left
_GROWTH, _WARY_GROWTH = 0.02, 0.001  # a second; the latter past a guess that met a 429
_RETREAT = 0.95  # of a guess, at each 429
_SOONEST = 0.05  # seconds before a caller asks again


@dataclass(frozen=True, slots=True)
class Account:
    """A model behind one key, and what is known of its limits beforehand.

    ``limits`` are the user's word; ``cautious`` are used where neither that nor the server's says
    how many requests a minute there may be. Both by the names of the option ``limits``.
    """

    name: str
    limits: Mapping[str, float] = field(default_factory=dict)
    cautious: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lease:
    """The moments when calls may go: a delay in seconds for each of the first ones asked for.

    For the others the caller asks anew after ``again`` seconds. ``rates`` are the limits in force,
    ``paused`` is how long nothing may go at all, and ``throttled_for`` how long 429s have been all
    that the account had to say. ``exhausted``: there is no money for the next one, and never will
    be.
    """

    delays: tuple[float, ...]
    again: float
    rates: Mapping[str, float]
    paused: float = 0.0
    throttled_for: float = 0.0
    exhausted: bool = False


class Limiter:
    """The limits of one account. It starts with nothing saved up, also after its own death."""

    def __init__(self, account: Account, now: float) -> None:
        self._account, self._reported_limits = account, dict[str, float]()
        self._clocks = dict[str, float]()
        self._open_at = self._grown_at = self._cut_at = now
        self._share = self._learned_limits = 1.0
        self._met_limits = self._pressed = False
        self._throttled_since = math.inf

    @property
    def guessed(self) -> bool:
        """Return whether the requests a minute are only a cautious guess."""
        has_rate = "rpm" in self._account.limits or "rpm" in self._reported_limits
        return bool(self._account.cautious) and not has_rate

    @property
    def rates(self) -> dict[str, float]:
        """Return the limits in force, a minute."""
        limits = dict(self._reported_limits)
        for name, limit in self._account.limits.items():
            limits[name] = min(limit, limits.get(name, limit))
        rates = {name: limit * self._share * _HEADROOM for name, limit in limits.items()}
        if self.guessed:
            reach = self._share * self._learned_limits
            rates |= {name: limit * reach for name, limit in self._account.cautious.items()}
        return rates

    def learn(self, account: Account, reported: Mapping[str, float]) -> None:
        """Take what the user gives, and what the server's headers said last."""
        self._account = account
        self._reported_limits.update(reported)

    def reserve(self, cost: Mapping[str, float], now: float) -> float:
        """Reserve a place for a call of this cost; return the seconds until it may go."""
        start = max(now, self._open_at)
        for name, rate in self.rates.items():
            clock = self._clock(name, now) + cost.get(name, 0.0) * _PERIOD / rate
            self._clocks[name] = clock
            start = max(start, clock)
        return start - now

    def lease(self, costs: Sequence[Mapping[str, float]], now: float) -> Lease:
        """Reserve for as many calls as may begin soon, in their order."""
        self._grow(now)
        delays = list[float]()
        for cost in costs:
            if self._seconds_ahead(now)[0] > _HORIZON:
                break
            delays.append(self.reserve(cost, now))
        ahead, slowest = self._seconds_ahead(now)
        self._pressed = ahead > _HORIZON / 2 and slowest in self._account.cautious
        again, paused = max(_SOONEST, ahead - _HORIZON / 2), max(0.0, self._open_at - now)
        return Lease(tuple(delays), again, self.rates, paused)

    def correct(self, more: Mapping[str, float]) -> None:
        """Settle estimates: so much more was used than reserved; negative: less."""
        for name, rate in self.rates.items():
            if name in self._clocks:
                self._clocks[name] += more.get(name, 0.0) * _PERIOD / rate

    def spend_savings(self, late: float, now: float) -> None:
        """Save up less by the seconds that calls went later than was reserved for them.

        Late calls go together: they are the burst that an idle account is allowed.
        """
        for name, clock in self._clocks.items():
            self._clocks[name] = max(clock, now - max(0.0, _BURST - late))

    def record_answer(self) -> None:
        """Note that the account answered some caller."""
        self._throttled_since = math.inf

    def pause(self, seconds: float, now: float) -> float:
        """Obey a 429: no call goes for so long, and from then on at a lower rate.

        Return for how many seconds 429s have been all that the account has to say.
        """
        self._open_at = max(self._open_at, now + seconds)
        if now > self._cut_at + 1.0:  # calls that were in flight together are one excess
            self._share, self._met_limits = max(_LEAST, self._share * _CUT), True
            self._learned_limits *= _RETREAT
            self._cut_at = now
        self._throttled_since = min(self._throttled_since, now)
        return now - self._throttled_since

    def _clock(self, name: str, now: float) -> float:
        return max(self._clocks.get(name, -math.inf), self._open_at, now - _BURST)

    def _seconds_ahead(self, now: float) -> tuple[float, str]:
        """Return how many seconds the slowest clock is ahead of the time, and its limit."""
        clocks = [(self._clock(name, now) - now, name) for name in self.rates]
        return max(clocks, default=(self._open_at - now, ""))

    def _grow(self, now: float) -> None:
        """Raise the share slowly back to 1; then raise a guessed limit while calls press on it.

        Where they do not, another program sets the pace, and nothing is learned.
        """
        seconds, self._grown_at = min(1.0, now - self._grown_at), now
        if self._share < 1:
            self._share = min(1.0, self._share * (1 + _GROWTH * seconds))
        elif self.guessed and self._pressed:
            self._learned_limits *= 1 + (_WARY_GROWTH if self._met_limits else _GROWTH) * seconds
