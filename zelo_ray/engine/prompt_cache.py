"""Order requests that share a beginning, so that the provider's prompt cache serves them.

A cache holds a beginning only when the answer to a first request with it has begun. So of those
that share one the first goes alone, and the others wait until it is answered, or for some seconds.
That is done only for beginnings that are long enough for the provider to keep, and that several
requests have.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.providers import load_provider
from zelo_ray.records import Request

_BYTES_PER_TOKEN = 4
_LONGEST = 10.0
"""Seconds that one waits: an answer has begun by then, and a first call may hang."""
_Beginning = tuple[str, str, str]
"""The judge, the system prompt, and how the user's begins."""


class PromptCacheScheduler:
    """Scheduler of the requests about one query that are to be asked now."""

    def __init__(self, requests: Sequence[Request], clock: Clock = CLOCK) -> None:
        long = {request.key: [*_long_beginnings(request)] for request in requests}
        shared = Counter(start for starts in long.values() for start in starts)
        self._useful = {key: [s for s in starts if shared[s] > 1] for key, starts in long.items()}
        self._clock, self._kept = clock, set[_Beginning]()
        self._leaders = dict[_Beginning, asyncio.Future[None]]()

    def keep_useful_beginnings(self, request: Request) -> Request:
        """Return the request with only those of its beginnings that are worth keeping."""
        ends = tuple(len(start[-1]) for start in self._useful[request.key])
        if ends == request.prefix_ends:
            return request
        return replace(request, prefix_ends=ends, key_override=request.key)

    @asynccontextmanager
    async def wait_turn(self, request: Request) -> AsyncIterator[Callable[[bool], None]]:
        """Wait while another request goes first with a beginning that this one shares.

        What it gives is to be called when a call has ended, with whether it was answered. If it was
        not, one of the others goes first. Beginnings are waited for in the order of their lengths,
        so nobody waits for one that waits for it.
        """
        led = list[_Beginning]()

        def release(answered: bool) -> None:
            while led:
                start = led.pop()
                if answered:
                    self._kept.add(start)
                self._leaders.pop(start).set_result(None)

        until = self._clock.now() + _LONGEST
        try:
            for start in self._useful[request.key]:
                while start in self._leaders and (seconds := until - self._clock.now()) > 0:
                    await self._clock.wait_for(asyncio.shield(self._leaders[start]), seconds)
                if start not in self._kept and start not in self._leaders:
                    self._leaders[start] = asyncio.get_running_loop().create_future()
                    led.append(start)
            yield release
        finally:
            release(False)


def _long_beginnings(request: Request) -> Iterator[_Beginning]:
    """Yield the beginnings of a request that are long enough to be kept, the shortest first.

    A server that is named by its URL has caches of its own kind, which need no help.
    """
    judge, rule = request.judge, load_provider(request.judge.provider).least_cached_tokens
    if not rule or judge.base_url:
        return
    for end in request.prefix_ends:
        text = request.user[:end]
        size = len((request.system + text).encode(errors="replace"))
        if size >= rule(judge.model) * _BYTES_PER_TOKEN:
            yield judge.name, request.system, text
