"""State of asking online: a channel for each judge, and the effort made for each request."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zelo_ray.engine.circuit_breaker import CircuitBreaker, FailureDetector
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.permits import PermitClient
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.tokens import Bound, Estimates, RequestSize
from zelo_ray.engine.trial import FirstRequests
from zelo_ray.protocols.server_figures import ServerFigures
from zelo_ray.providers import Connection, Provider
from zelo_ray.reasons import Disabled
from zelo_ray.records import Answer, CallTiming, Judge, Request

NO_BOUND = Bound(0, 0, 0)


@dataclass(slots=True)
class Channel:
    """Channel to one judge: its connection, and what holds its calls back."""

    judge: Judge
    provider: Provider
    connection: Connection
    concurrency: int
    slots: asyncio.Semaphore
    permits: PermitClient
    estimates: Estimates
    failure_detector: FailureDetector
    circuit_breaker: CircuitBreaker
    trial: FirstRequests
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    """held by a first call that goes alone"""
    tally: Tally = field(default_factory=Tally)
    server: ServerFigures = field(default_factory=ServerFigures)
    has_judged: bool = False
    """whether it has given a judgment, now or in an earlier run"""
    disabled: Disabled | None = None
    """why this judge is asked nothing more; None while it is"""

    def close(self) -> None:
        """Release all waiting calls: no call is made after this."""
        self.permits.close()
        self.circuit_breaker.close()
        self.trial.skip()


@dataclass(slots=True)
class RequestState:
    """The calls made for one request, and what is reserved for its next call."""

    calls: int = 0
    reasks: int = 0
    attempts_used: float = 0.0
    ended: bool = False
    size: RequestSize | None = None
    bound: Bound = NO_BOUND
    """of its prompt's tokens, where money is capped"""
    reserved: CallCost = field(default_factory=CallCost)
    used: Mapping[str, float] | None = None
    """amounts of the limits that the last call took; None if it is not known"""
    limit: int = 0
    """tokens that the next answer may have; 0 for a judge without such a limit"""
    cut: bool = False
    """whether an answer was cut off at a limit that was lower than the judge's own"""
    is_probe: bool = False
    """whether the next call goes alone, to find out whether the judge answers again"""
    answered: bool = False
    """whether the last call was"""
    missed_after: int | None = None
    """answers to any request of the judge before the first call of this one that got none"""
    last_answer: Answer | None = None
    """what the server answered last"""
    possibly_billed: bool = False
    """whether the last call may have been billed although no response confirmed it"""
    uncounted: bool = False
    """whether its answer came without a count of tokens"""
    timing: CallTiming | None = None
    """how long the last call took, if it was answered"""

    def begin_call(self) -> None:
        """Count a call, of whose outcome nothing is known yet."""
        self.calls += 1
        self.possibly_billed = self.answered = self.uncounted = False
        self.used = self.timing = None


def with_limit(request: Request, effort: RequestState) -> Request:
    """Return the request with the output limit that money was taken for."""
    if not effort.limit or effort.limit == request.output_limit:
        return request
    return replace(request, limit=effort.limit)
