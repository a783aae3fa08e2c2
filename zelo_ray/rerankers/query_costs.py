"""Sum what one query cost a ranker, in seconds and dollars, from its replies in the ledger.

The seconds are those of the critical path as far as the ledger tells it. Requests of one round are
sent side by side, so a round takes as long as its slowest reply; rounds follow one another, so
their seconds add up. Waiting for limits, for a free slot or for a model that loads is not part of
them, nor are failed tries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

from zelo_ray.options import Price
from zelo_ray.protocols import Replies
from zelo_ray.providers.pricing import price
from zelo_ray.records import Judge, Reply, Usage


@dataclass(frozen=True, slots=True)
class QueryCost:
    """The cost of one query that a ranker answered; NaN where it is not known."""

    run: str
    query_id: str
    documents: int
    requests: int
    seconds: float = nan
    dollars: float = nan
    in_flight: int = 0
    """calls of the ranker that ran side by side, at most; 0 if not known"""
    load_seconds: float = 0.0
    """in which a local model was loaded, before ``seconds``; 0 if none was"""
    device: str = ""
    """that computed it, if it is on this machine and known"""


@dataclass(slots=True)
class RepliesByRound:
    """A source of replies that remembers what was read from it, a list for each round."""

    source: Replies
    rounds: list[Sequence[Reply]] = field(default_factory=list)

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return whether there is a reply for each of these keys."""
        return self.source.contains(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Read the replies for keys that are present, in their order."""
        replies = self.source.read(keys)
        self.rounds.append(replies)
        return replies


def sum_replies(
    rounds: Sequence[Sequence[Reply]],
    judge: Judge,
    prices: Mapping[str, Price],
    *,
    ranker: str,
    query_id: str,
    documents: int,
) -> QueryCost:
    """Sum the replies to one query.

    Args:
        rounds: the replies of each round.
        judge: that gave them.
        prices: the user's own, by judge, for replies whose price was unknown when they came.
        ranker: its name.
        query_id: the query.
        documents: how many were ranked.
    """
    replies = [reply for replies in rounds for reply in replies]
    if not replies:
        return QueryCost(ranker, query_id, documents, 0)
    is_timed = all(reply.seconds for reply in replies)
    paid = [_dollars(reply, judge, prices) for reply in replies]
    return QueryCost(
        ranker,
        query_id,
        documents,
        len(replies),
        seconds=sum(max(r.seconds for r in part) for part in rounds if part) if is_timed else nan,
        dollars=nan if None in paid else sum(dollars or 0.0 for dollars in paid),
        in_flight=max(reply.in_flight for reply in replies),
        load_seconds=sum(reply.load_seconds for reply in replies),
        device=next((reply.device for reply in replies if reply.device), ""),
    )


def _dollars(reply: Reply, judge: Judge, prices: Mapping[str, Price]) -> float | None:
    """Return what a reply cost; if that was unknown when it came, what it costs by these prices."""
    if reply.dollars is not None:
        return reply.dollars
    usage = Usage(
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cached_tokens=reply.cached_tokens,
        cache_write_tokens=reply.cache_write_tokens,
        thinking_tokens=reply.thinking_tokens,
        searches=reply.searches,
    )
    return price(judge, usage, prices, batch=bool(reply.batch)) if usage.has_tokens else None
