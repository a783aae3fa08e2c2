"""Compute how often batches must be sent before a cap has bought all of them.

For what lies in batches as much is reserved as it may cost at most, which is more than it will.
What comes home gives the difference back, and teaches how long answers get, so that the next time
less is reserved for each.
"""

from dataclasses import dataclass

from zelo_ray.engine.tokens import OVERHEAD
from zelo_ray.options import Price
from zelo_ray.providers.pricing import highest_price
from zelo_ray.records import Judge, Usage

_LONGEST = 2.5  # times the mean are the longest answers, with what is spared beyond them
_DEAREST = 1.8  # times what prompts take is what their words may take
_LEAST = 1e-3  # of the requests: who can send no more will not come to an end
_MOST = 50


@dataclass(frozen=True, slots=True)
class Reserve:
    """US dollars reserved for requests in batches: at first, and after the first replies."""

    first: float = 0.0
    later: float = 0.0

    def __add__(self, other: "Reserve") -> "Reserve":
        """Add up the reserves for the requests of both."""
        return Reserve(self.first + other.first, self.later + other.later)


def reserve_for_batches(
    judge: Judge, requests: int, size: float, usage: Usage, prices: dict[str, Price]
) -> Reserve:
    """Return the US dollars that are held for a judge's requests.

    Args:
        judge: who is asked.
        requests: how many times.
        size: mean bytes of a request.
        usage: what one is expected to use.
        prices: the user's own.
    """
    limit = judge.options.get("max_output_tokens") or 0
    first = Usage(round(size) + OVERHEAD, limit)
    tokens = round(min(size, _DEAREST * usage.input_tokens)) + OVERHEAD
    later = Usage(tokens, min(limit, round(_LONGEST * usage.output_tokens)))
    held = (requests * highest_price(judge, case, prices, batch=True) for case in (first, later))
    return Reserve(*held)


def count_waves(room: float, cost: float, held: Reserve) -> int | None:
    """Return how many times batches are sent, one after another; None if there is no end.

    Args:
        room: US dollars that are left of the cap.
        cost: what all of it is expected to cost.
        held: for all of it.
    """
    sent = 0.0
    for wave in range(1, _MOST):
        share = (room - sent * cost) / max(held.first if wave == 1 else held.later, cost, 1e-12)
        sent += share
        if sent >= 1.0:
            return wave
        if share < _LEAST:
            break
    return None
