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
from zelo_ray.records import Judge, Request

_BYTES_PER_TOKEN = 4
_LONGEST = 10.0
"""Seconds that one waits: an answer has begun by then, and a first call may hang."""
_Beginning = tuple[str, str, str]
"""The judge, the system prompt, and how the user's begins."""
GoOn = Callable[[bool], None]


class PromptCacheScheduler:
    """Scheduler of the requests about one query that are to be asked now.

    Args:
        requests: the requests, not yet marked.
        clock: the time.
    """

    def __init__(self, requests: Sequence[Request], clock: Clock = CLOCK) -> None:
        self._clock = clock
        self._least = {r.judge.name: least_cached_tokens(r.judge) for r in requests}
        self._shared = Counter(
            begin for request in requests for begin in self._long_openings(request)
        )
        self._kept = set[_Beginning]()
        self._leads = dict[_Beginning, asyncio.Future[None]]()

    def keep_useful_openings(self, request: Request) -> Request:
        """Return the request with only those of its beginnings that are worth keeping."""
        starts = tuple(len(begin[-1]) for begin in self._useful_openings(request))
        if starts == request.prefix_ends:
            return request
        return replace(request, prefix_ends=starts, key_override=request.key)

    @asynccontextmanager
    async def wait_turn(self, request: Request) -> AsyncIterator[GoOn]:
        """Wait while another request goes first with a beginning that this one shares.

        What it gives is to be called when a call has ended, with whether it was answered. If it was
        not, one of the others goes first. Beginnings are waited for in the order of their lengths,
        so nobody waits for one that waits for it.
        """
        leads = list[_Beginning]()

        def go_on(answered: bool) -> None:
            while leads:
                begin = leads.pop()
                if answered:
                    self._kept.add(begin)
                self._leads.pop(begin).set_result(None)

        until = self._clock.now() + _LONGEST
        try:
            for begin in self._useful_openings(request):
                while begin not in self._kept and begin in self._leads:
                    seconds = until - self._clock.now()
                    if seconds <= 0:
                        break
                    await self._clock.wait_for(asyncio.shield(self._leads[begin]), seconds)
                else:
                    if begin not in self._kept:
                        self._leads[begin] = asyncio.get_running_loop().create_future()
                        leads.append(begin)
            yield go_on
        finally:
            go_on(False)

    def _useful_openings(self, request: Request) -> Iterator[_Beginning]:
        """Yield the beginnings of a request that are worth keeping, the shortest first."""
        return (begin for begin in self._long_openings(request) if self._shared[begin] > 1)

    def _long_openings(self, request: Request) -> Iterator[_Beginning]:
        """Yield the beginnings of a request that are long enough to be kept, the shortest first."""
        minimum = self._least.get(request.judge.name)
        if minimum is None:
            return
        for at in request.prefix_ends:
            text = request.user[:at]
            if len((request.system + text).encode(errors="replace")) >= minimum * _BYTES_PER_TOKEN:
                yield request.judge.name, request.system, text


def least_cached_tokens(judge: Judge) -> int | None:
    """Return the fewest tokens of a beginning that a judge's provider caches; None if none.

    A server that is named by its URL has caches of its own kind, which need no help.
    """
    rule = load_provider(judge.provider).least_cached_tokens
    return rule(judge.model) if rule and not judge.base_url else None
