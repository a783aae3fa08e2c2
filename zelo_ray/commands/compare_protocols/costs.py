"""Add up what protocols cost: all rows of the ledger for the requests that each of them makes.

A reply that two protocols ask for is paid once, and is part of what both cost: so a protocol's cost
does not depend on which others ran, nor in what order. Nor does what it may still spend.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan

from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Replies, advance, load
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Judge, Pool, Reply

Lying = tuple[float, Sequence[str]]
"""Of an open batch the US dollars that are reserved for it, and the keys of its requests."""


@dataclass(slots=True)
class Bill:
    """Costs of some requests: calls, US dollars, and the answers of unknown price besides."""

    calls: int = 0
    dollars: float = 0.0
    unpriced: int = 0

    def add(self, other: "Bill") -> None:
        """Add another's."""
        self.calls += other.calls
        self.dollars += other.dollars
        self.unpriced += other.unpriced

    @property
    def price(self) -> float:
        """Return the cost in US dollars; NaN where not all prices are known."""
        return nan if self.unpriced else self.dollars


class _Noting:
    """Replies, and the keys of all that was asked for, found or not."""

    def __init__(self, replies: Replies) -> None:
        self._replies, self.keys = replies, dict[str, None]()

    def there(self, keys: Sequence[str]) -> list[bool]:
        self.keys |= dict.fromkeys(keys)
        return self._replies.there(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        return self._replies.read(keys)


def pools_in(file: str) -> Iterator[Pool]:
    """Yield the pools of a file; bad lines are passed over."""
    for line in read_lines(file, LineLimits()):
        if line.pool:
            yield line.pool


def requests_of(
    pools: Iterable[Pool], panel: Sequence[Judge], options: AnnotateOptions, replies: Replies
) -> Iterator[tuple[str, list[str]]]:
    """Yield the query id of each pool, and the keys of all requests that a protocol makes about it.

    What is not there counts as failed here, so that also what a run asked is found that was cut
    off, and went on without some of its judges. It takes as long as the replies are many.
    """
    protocol = load(options.protocol)
    missing = Disabled(StopReason.MISSING, "not there")
    disabled = {judge.name: missing for judge in panel}
    for pool in pools:
        noting = _Noting(replies)
        advance(protocol.rounds(pool, panel, options), noting, disabled)
        yield pool.query_id, list(noting.keys)


@dataclass(slots=True)
class _Rows:
    """All rows of one request."""

    dollars: float = 0.0
    unpriced: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    """by run, as each begins to count anew"""


def bills_of(rows: Iterable[Reply], wanted: Iterable[str]) -> dict[str, Bill]:
    """Return the bill of each request by its key, with every billed answer, used or not."""
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


def by_query(asked: Mapping[str, Sequence[str]], bills: Mapping[str, Bill]) -> dict[str, Bill]:
    """Return the bill of each query. A request that two queries share counts for the first.

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


def spent_on(
    options: AnnotateOptions,
    panel: Sequence[Judge],
    ledger: Ledger,
    pools: Iterable[Pool],
    lying: Iterable[Lying],
) -> float | None:
    """Return the US dollars that a protocol has spent of its budget in all runs; None without one.

    A run takes over all open batches of its judges, and holds them against its budget. What is
    reserved there for requests of other protocols is taken off, so it may be less than 0.
    """
    if options.max_usd is None:
        return None
    requests = requests_of(pools, panel, options, ledger)
    request_keys = {key for _, keys in requests for key in keys}
    return spent(read_rows(options.books), request_keys, lying)


def spent(rows: Iterable[Reply], own: Collection[str], lying: Iterable[Lying] = ()) -> float:
    """Return the US dollars paid for requests of these keys, less what batches hold for others."""
    paid = sum(row.dollars or 0.0 for row in rows if row.key in own)
    others = (
        dollars * sum(key not in own for key in keys) / len(keys) for dollars, keys in lying if keys
    )
    return paid - sum(others)
