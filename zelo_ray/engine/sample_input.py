"""Count the requests of all the input and keep a sample of pools, before anything is paid for."""

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from zelo_ray.engine.tokens import OVERHEAD, measure_request
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, Replies, find_protocol
from zelo_ray.protocols.texts import BYTES_PER_TOKEN
from zelo_ray.records import Judge, Pool, Reply, Request

_SAMPLE = 300  # pools: those that a pilot takes first
_MOST_RENDERED = 20_000  # requests of the sample: two seconds
_MOST_WHOLE = 10_000  # requests of an input whose pools are all rendered: two seconds


def pilot_order(query_id: str, seed: int) -> str:
    """Return a query's place in the order of pilots: random, and stable as the input grows."""
    return hashlib.sha256(f"{seed}:{query_id}".encode()).hexdigest()


def pilot_lines(
    places: Iterable[tuple[str, int, str]], n: int, seed: int
) -> frozenset[tuple[str, int]]:
    """Return the file and line number of each query of a pilot.

    Args:
        places: file, line number and query id of each pool.
        n: how many to take.
        seed: the job's.
    """
    first = heapq.nsmallest(n, places, key=lambda place: pilot_order(place[2], seed))
    return frozenset((file, number) for file, number, _ in first)


@dataclass(slots=True)
class Sampled:
    """A sampled pool: the requests that follow from its recorded replies, and their lengths."""

    counts: dict[str, int]
    """requests by judge"""
    asked: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """by judge: keys, and four bytes each of the requests"""
    first: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """the same of its first round"""
    ended: bool = False
    """whether that is all that it takes"""
    one_token: Counter[str] = field(default_factory=Counter)
    """by judge: how many of the requests asked are answered by one token"""


class InputSample:
    """Counts what the input will take to ask, and keeps a sample of its pools.

    The sample does not depend on the order of the input. It begins with the pools that a pilot
    takes, so that some of it is answered; all pools of a small input are in it. Of their requests
    those can be rendered that follow from the ``replies`` at hand: without any, the first round.
    """

    def __init__(
        self, panel: Sequence[Judge], options: AnnotateOptions, replies: Replies | None = None
    ) -> None:
        self.panel, self.options = tuple(panel), options
        self._replies = replies or NoReplies()
        self.pools = 0
        self.asked = 0
        """pools about which there is anything to ask"""
        self.planned = {judge.name: 0 for judge in panel}
        """requests by judge"""
        self._protocol = find_protocol(options.protocol)
        self._drawn = list[tuple[str, Pool]]()

    def add(self, pool: Pool) -> None:
        """Add one good pool, which must not be added twice."""
        self.pools += 1
        counts = self._counts(pool)
        for name, count in counts.items():
            self.planned[name] += count
        if any(counts.values()):
            self.asked += 1
            self._drawn.append((pilot_order(pool.query_id, self.options.seed), pool))
            if not self._is_small and len(self._drawn) >= 2 * _SAMPLE:
                self._drawn = self._lowest(_SAMPLE)

    def sample(self) -> list[Sampled]:
        """Render the sample's pools, or as many as can be done quickly."""
        sample, requests = list[Sampled](), 0
        for _, pool in self._lowest(self.asked if self._is_small else _SAMPLE):
            if self._is_small or requests < _MOST_RENDERED:
                sample.append(self._render(pool))
                requests += sum(map(len, sample[-1].asked.values()))
        return sample

    @property
    def _is_small(self) -> bool:
        return sum(self.planned.values()) <= _MOST_WHOLE

    def _lowest(self, most: int) -> list[tuple[str, Pool]]:
        return heapq.nsmallest(most, self._drawn, key=lambda item: item[0])

    def _render(self, pool: Pool) -> Sampled:
        current, missing = self._requests_so_far(pool, self._replies)
        first = current
        if self._protocol.max_rounds != 1:
            first, _ = self._requests_so_far(pool, NoReplies())
        return Sampled(
            self._counts(pool),
            asked=_lengths(current),
            first=_lengths(first),
            ended=not missing,
            one_token=Counter(request.judge.name for request in current if request.choices),
        )

    def _requests_so_far(self, pool: Pool, replies: Replies) -> tuple[list[Request], bool]:
        """Return the known requests about a pool, by its replies, and whether more is missing."""
        progress = Progress(self._protocol.rounds(pool, self.panel, self.options), remember=True)
        missing = progress.step(replies).missing
        answered = [r for r in progress.answered_requests if isinstance(r, Request)]
        return [*answered, *missing], bool(missing)

    def _counts(self, pool: Pool) -> dict[str, int]:
        return self._protocol.count(pool, self.panel, self.options)


def _lengths(requests: Iterable[Request]) -> dict[str, list[tuple[str, float]]]:
    """Return the keys and the lengths of requests by judge, in words of four bytes."""
    lengths = dict[str, list[tuple[str, float]]]()
    for request in requests:
        size = measure_request(request.with_codes(""))
        words = math.ceil(size / BYTES_PER_TOKEN) + OVERHEAD
        lengths.setdefault(request.judge.name, []).append((request.key, words))
    return lengths


class NoReplies:
    """A ledger without any reply."""

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return False for each key: no reply is there."""
        return [False] * len(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Read nothing."""
        del keys
        return []
