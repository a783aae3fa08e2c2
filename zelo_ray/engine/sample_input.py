"""Count the requests of all the input and keep a sample of pools, before anything is paid for."""

import hashlib
import heapq
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from zelo_ray.engine.tokens import OVERHEAD, measure_request
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, Replies, find_protocol
from zelo_ray.protocols.texts import BYTES_PER_TOKEN, shown_document, shown_query
from zelo_ray.records import Judge, Pool, Reply, Request

Array = NDArray[np.float64]
_FIRST, _OTHERS = 60, 240  # pools of the sample: those that a pilot takes first, and any others
_MOST_RENDERED = 15_000  # requests of each part of the sample: a second or two
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

    query_id: str
    counts: dict[str, int]
    traits: Array
    asked: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """by judge: keys, and four bytes each of the requests"""
    first: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """the same of its first round"""
    ended: bool = False
    """whether that is all that it takes"""
    weight: float = 1.0
    """how many pools it stands for"""


class InputSample:
    """Counts what the input will take to ask, and keeps a sample of its pools.

    The sample has two parts, neither of which depends on the order of the input: the pools that a
    pilot takes first, so that some of it is answered, and others by another lot. All pools of a
    small input are in it. Of their requests those can be rendered that follow from the ``replies``
    at hand: without any, the first round.
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
        self.traits = {judge.name: np.zeros(3) for judge in panel}
        """the sum of `_traits` over these requests"""
        self._protocol = find_protocol(options.protocol)
        self._first, self._others = _Lowest(_FIRST), _Lowest(_OTHERS)
        self._all = list[Pool]()
        """every pool, as long as they are few"""

    def add(self, pool: Pool) -> None:
        """Add one good pool, which must not be added twice."""
        self.pools += 1
        counts, traits = self._counts(pool), _traits(pool, self.options)
        for name, count in counts.items():
            self.planned[name] += count
            self.traits[name] += count * traits
        if any(counts.values()):
            self.asked += 1
            self._all.append(pool)
            if sum(self.planned.values()) > _MOST_WHOLE:
                self._all.clear()
            self._first.offer(pilot_order(pool.query_id, self.options.seed), pool)
            self._others.offer(pilot_order(f"other:{pool.query_id}", self.options.seed), pool)

    def sample(self) -> list[Sampled]:
        """Render the sample's pools, or as many as can be done quickly."""
        first = self._render(self._all or self._first.pools, ())
        others = [] if self._all else self._render(self._others.pools, {e.query_id for e in first})
        for pool in others:  # they stand for all that are not among the first
            pool.weight = (self.asked - len(first)) / len(others)
        sample = [*first, *others]
        for judge in self.panel:
            _foresee([pool for pool in sample if pool.asked.get(judge.name)], judge.name)
        return sample

    def _render(self, pools: Iterable[Pool], used_ids: Collection[str]) -> list[Sampled]:
        rendered, requests = list[Sampled](), 0
        for pool in pools:
            if pool.query_id in used_ids or (requests >= _MOST_RENDERED and not self._all):
                continue
            sampled = Sampled(pool.query_id, self._counts(pool), _traits(pool, self.options))
            current, missing = self._requests_so_far(pool, self._replies)
            one_round = self._protocol.max_rounds == 1
            first = current if one_round else self._requests_so_far(pool, NoReplies())[0]
            for by_judge, group in ((sampled.first, first), (sampled.asked, current)):
                for request in group:
                    words = (
                        math.ceil(measure_request(request.with_codes("")) / BYTES_PER_TOKEN)
                        + OVERHEAD
                    )
                    by_judge.setdefault(request.judge.name, []).append((request.key, words))
            sampled.ended = not missing
            requests += len(current)
            rendered.append(sampled)
        return rendered

    def _requests_so_far(self, pool: Pool, replies: Replies) -> tuple[list[Request], bool]:
        """Return the known requests about a pool, by its replies, and whether more is missing."""
        rounds = self._protocol.rounds(pool, self.panel, self.options)
        progress = Progress(rounds, remember=True)
        missing = progress.step(replies).missing
        return [*progress.answered_requests, *missing], bool(missing)

    def _counts(self, pool: Pool) -> dict[str, int]:
        return self._protocol.count(pool, self.panel, self.options)


def _foresee(sample: Sequence[Sampled], judge: str) -> None:
    """Assume that requests are as long as those of pools that have ended, round by round."""
    ended = [pool for pool in sample if pool.ended and pool.first.get(judge)]
    if ended:
        longer = _mean(pool.asked[judge] for pool in ended) / _mean(
            pool.first[judge] for pool in ended
        )
        for pool in sample:
            if not pool.ended:
                pool.asked[judge] = [(key, words * longer) for key, words in pool.asked[judge]]


def _mean(samples: Iterable[Sequence[tuple[str, float]]]) -> float:
    words = [n for requests in samples for _, n in requests]
    return sum(words) / len(words)


class NoReplies:
    """A ledger without any reply."""

    def contains(self, keys: Sequence[str]) -> list[bool]:
        """Return False for each key: no reply is there."""
        return [False] * len(keys)

    def read(self, keys: Sequence[str]) -> list[Reply]:
        """Read nothing."""
        del keys
        return []


class _Lowest:
    """Keeps the pools with the lowest marks."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap = list[tuple[int, int, Pool]]()
        self._offered = 0

    def offer(self, mark: str, pool: Pool) -> None:
        self._offered += 1
        item = (-int(mark, 16), self._offered, pool)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, item)
        else:
            heapq.heappushpop(self._heap, item)

    @property
    def pools(self) -> list[Pool]:
        """Return the sampled pools, the lowest first."""
        return [pool for *_, pool in sorted(self._heap, reverse=True)]


def _traits(pool: Pool, options: AnnotateOptions) -> Array:
    """Return the predictors of request length: 1, and the bytes of query and mean document.

    They are known of all pools, so they carry over to all what the sample tells.
    """
    documents = pool.documents[: options.document_limit]
    shown = [shown_document(document, pool, options).content for document in documents]
    mean = sum(len(text.encode()) for text in shown) / max(1, len(shown))
    return np.array([1.0, len(shown_query(pool, options.show_query).encode()), mean])
