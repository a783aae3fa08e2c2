"""Compute what protocols cost: all rows of the ledger for the requests of each protocol.

A reply that two protocols ask for is paid once, but counts in the cost of both. So neither the cost
of a protocol nor the rest of its budget depends on which others ran, or in what order.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Replies, advance, load_protocol
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge, Pool, Reply

OpenBatch = tuple[float, Sequence[str]]
"""An open batch: the US dollars that are reserved for it, and the keys of its requests."""


@dataclass(slots=True)
class Bill:
    """Cost of some requests: calls, US dollars, and the number of answers of unknown price."""

    calls: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    def add(self, other: "Bill") -> None:
        """Add another bill."""
        self.calls += other.calls
        self.dollars += other.dollars
        self.unpriced += other.unpriced

    @property
    def price(self) -> float:
        """Return the cost in US dollars; NaN if a price is unknown."""
        return nan if self.unpriced else self.dollars


class _KeyRecorder:
    """Replies that record the keys of all requests, whether found or not."""

    def __init__(self, replies: Replies) -> None:
        self._replies, self.keys = replies, dict[str, None]()

    def contains(self, keys: Sequence[str]) -> list[bool]:
        self.keys |= dict.fromkeys(keys)
        return self._replies.contains(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        return self._replies.read(keys)


def pools_in(file: str) -> Iterator[Pool]:
    """Yield the pools of a file; invalid lines are skipped."""
    for line in read_lines(file, LineLimits()):
        if line.pool:
            yield line.pool


def requests_of(
    pools: Iterable[Pool], panel: Sequence[Judge], options: AnnotateOptions, replies: Replies
) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each pool, its query id and the keys of all requests of a protocol.

    Missing replies count as failed, so that requests of interrupted runs, and of runs that went on
    without some judges, are found too. The time grows with the number of replies.
    """
    protocol = load_protocol(options.protocol)
    missing = Disabled(StopReason.MISSING, "not there")
    disabled = {judge.name: missing for judge in panel}
    for pool in pools:
        noting = _KeyRecorder(replies)
        advance(protocol.rounds(pool, panel, options), noting, disabled)
        yield pool.query_id, list(noting.keys)


@dataclass(slots=True)
class _Rows:
    """All rows of one request."""

    dollars: float = 0.0
    unpriced: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    """by run, because each run counts from 1"""


def bills_of(rows: Iterable[Reply], wanted: Iterable[str]) -> dict[str, Bill]:
    """Return the bill of each request by its key: of all billed answers, used or not."""
    by_key = {key: _Rows() for key in wanted}
    for row in rows:
        if request := by_key.get(row.key):
            request.dollars += row.dollars or 0.0
            request.unpriced += row.dollars is None
            request.calls[row.run_id] = max(request.calls.get(row.run_id, 0), row.attempts)
    return {
        key: Bill(sum(entry.calls.values()), entry.dollars, entry.unpriced)
        for key, entry in by_key.items()
    }


def bills_by_query(
    asked: Mapping[str, Sequence[str]], bills: Mapping[str, Bill]
) -> dict[str, Bill]:
    """Return the bill of each query. A request of two queries counts for the first one.

    Args:
        asked: by query id, the keys of its requests.
        bills: by key.
    """
    billed_keys = set[str]()
    totals = {}
    for query_id, keys in asked.items():
        totals[query_id] = Bill()
        for key in keys:
            if key not in billed_keys:
                billed_keys.add(key)
                totals[query_id].add(bills[key])
    return totals


def spending_of_protocol(
    options: AnnotateOptions,
    panel: Sequence[Judge],
    ledger: Ledger,
    pools: Iterable[Pool],
    lying: Iterable[OpenBatch],
) -> float | None:
    """Return the US dollars of a protocol's budget spent in all runs; None without a budget.

    A run takes over all open batches of its judges, and counts them in its budget. What these
    reserve for requests of other protocols is subtracted, so the result may be negative.
    """
    if options.max_usd is None:
        return None
    requests = requests_of(pools, panel, options, ledger)
    request_keys = {key for _, keys in requests for key in keys}
    return sum_spending(read_rows(options.ledger_dir), request_keys, lying)


def sum_spending(
    rows: Iterable[Reply], own: Collection[str], lying: Iterable[OpenBatch] = ()
) -> float:
    """Return US dollars paid for these requests, less what open batches reserve for others."""
    paid = sum(row.dollars or 0.0 for row in rows if row.key in own)
    others = (
        dollars * sum(key not in own for key in keys) / len(keys) for dollars, keys in lying if keys
    )
    return paid - sum(others)
