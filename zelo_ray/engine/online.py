"""Ask judges online: many calls in flight, and each reply is in the ledger before it is used.

An `OnlineClient` holds the connections of some judges, and drives each pool's protocol as far as
these judges can carry it; their calls are in `calling`.
"""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from zelo_ray.engine.asker import Asker
from zelo_ray.engine.calling import JudgeOnline
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.coordinator import Coordination
from zelo_ray.engine.exposure import Exposure
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.prompt_cache import PromptCacheScheduler
from zelo_ray.engine.request_plans import RequestPlans
from zelo_ray.engine.tally import Tally
from zelo_ray.errors import LedgerError
from zelo_ray.options import AnnotateOptions
from zelo_ray.protocols import Progress, Step, find_protocol
from zelo_ray.providers import Connection, Settings, connect, find_key
from zelo_ray.providers.extra_body import call_timeout
from zelo_ray.reasons import Disabled
from zelo_ray.records import Judge, Pool, Request

_PLANNERS = 4
_ROOM = 4  # times what may be in flight: requests that wait, some for others that begin alike


class OnlineClient(Asker):
    """Client that asks some of a panel's judges, on the event loop that it was made on.

    Protocols must know the whole panel; of its judges ``disabled`` are asked nothing more.
    ``again``: the same run has asked about all pools before, so recorded replies are counted anew.
    By default the coordinator is one of this process, without a cap; it goes by the same clock.

    Raises:
        PanelError: a judge cannot be reached at all.
    """

    def __init__(
        self,
        options: AnnotateOptions,
        panel: Sequence[Judge],
        judges: Sequence[Judge],
        *,
        ledger: Ledger,
        environ: Mapping[str, str],
        run_id: str,
        coordinator: Coordination | None = None,
        disabled: Mapping[str, Disabled] | None = None,
        again: bool = False,
        clock: Clock = CLOCK,
    ) -> None:
        names = [judge.name for judge in judges]
        super().__init__(options, names, ledger, run_id, coordinator=coordinator, clock=clock)
        self._exposure = Exposure(options.ledger_dir, run_id, clock)
        self._connections: dict[tuple[str, Settings], Connection] = {}
        self._others_disabled, self._again = disabled or {}, again
        self.channels = {judge.name: self._open(judge, environ, again=again) for judge in judges}
        self._protocol = find_protocol(options.protocol)
        self.plans = RequestPlans(options, run_id)
        """what is known of the requests of the pools that were asked about, to be flushed"""
        self._panel = self._protocol.judges_in_scope(judges, panel, options)
        self._asked: dict[str, asyncio.Future[None]] = {}
        self._planners, self._finishers = asyncio.Semaphore(_PLANNERS), asyncio.Semaphore(_PLANNERS)
        self._has_room_again = asyncio.Event()
        self._has_room_again.set()
        self._slots = sum(channel.slots for channel in self.channels.values())
        # Pools on their way, and their requests.
        self._begun_pools, self._pending = set[Progress](), 0

    def _open(self, judge: Judge, environ: Mapping[str, str], *, again: bool) -> JudgeOnline:
        options, variable = self.options, self.options.api_key_env.get(judge.name, "")
        key = find_key(judge, options.api_key_env, environ)
        seconds = call_timeout(judge.options, options.timeout)
        settings = Settings(key, judge.base_url, seconds, variable)
        place = (judge.provider, settings)
        if place not in self._connections:
            self._connections[place] = connect(judge, settings)
        connection = self._connections[place]
        return JudgeOnline(judge, settings, connection, self, self._exposure, again=again)

    @property
    def tallies(self) -> dict[str, Tally]:
        """Return each judge's figures so far."""
        for channel in self.channels.values():
            channel.tally.limits = dict(channel.permits.rates)
        return {name: channel.tally for name, channel in self.channels.items()}

    def stop(self, reason: str) -> None:
        """Make no new call. What is in flight is still kept."""
        super().stop(reason)
        self._has_room_again.set()
        for channel in self.channels.values():
            channel.close()

    def disable_judge(self, name: str, reason: Disabled) -> None:
        """Ask a judge nothing more. The run stops, unless it may go on without one."""
        super().disable_judge(name, reason)
        if name in self.channels:
            self.channels[name].close()

    async def ask_about(self, pool: Pool) -> None:
        """Ask about one pool until nothing is missing that these judges can answer, or stopped."""
        asked_keys, latest_step = set[str](), None
        progress = Progress(self._protocol.rounds(pool, self._panel, self.options))
        try:
            while planned := await self._plan(progress, asked_keys):
                latest_step, requests = planned
                if not requests:
                    break
                asked_keys.update(request.key for request in requests)
                turns = PromptCacheScheduler(requests, self.clock)
                await asyncio.gather(*(self._ask_once(request, turns) for request in requests))
        finally:  # also where a protocol of a user's own raises
            self._begun_pools.discard(progress)
            self._make_room()
        if latest_step is None or self.stopped:
            return
        most, answered = (
            self._protocol.count(pool, self._panel, self.options),
            progress.answered_keys(),
        )
        is_own = self.ledger.is_own if self._again else asked_keys.__contains__
        asked = [channel for name, channel in self.channels.items() if name not in self.disabled]
        for channel in asked:
            name = channel.judge.name
            own = sum(map(is_own, set(answered.get(name, ()))))
            channel.tally.count_skipped(name, most[name], own, latest_step)
        self.plans.keep(pool, progress.plan(), [channel.judge for channel in asked])

    async def _plan(
        self, progress: Progress, asked_keys: set[str]
    ) -> tuple[Step, list[Request]] | None:
        """Return a pool's state and its requests beyond ``asked_keys``; None when stopped.

        Prompts are long, so only some times as many requests wait as can be in flight. A pool that
        was begun waits for no other, and only so many are begun as keep all slots busy: a budget is
        to buy whole tournaments, not the first contest of each.
        """
        is_begun = progress in self._begun_pools
        async with self._finishers if is_begun else self._planners:
            while not (is_begun or self._has_room or self.halt.is_set()):
                self._has_room_again.clear()
                await self._has_room_again.wait()
            if self.stopped:
                return None
            self._begun_pools.add(progress)
            step = await asyncio.to_thread(progress.step, self.ledger, self._others_disabled)
            for channel in self.channels.values():
                await channel.recall(progress.answered_keys().get(channel.judge.name, ()))
            open_to = self.channels.keys() - self.disabled
            requests = [
                r for r in step.missing if r.judge.name in open_to and r.key not in asked_keys
            ]
            self._pending += len(requests)
            return step, requests

    async def _ask_once(self, request: Request, turns: PromptCacheScheduler) -> None:
        """Ask, unless another pool asks or has just asked the same."""
        try:
            if request.key in self._asked:
                await self._asked[request.key]
                return
            if self.ledger.has(request.key):
                return
            self._asked[request.key] = asyncio.get_running_loop().create_future()
            try:
                async with turns.wait_turn(request) as release:
                    channel = self.channels[request.judge.name]
                    await channel.call(turns.keep_useful_beginnings(request), release)
            finally:
                self._asked.pop(request.key).set_result(None)
        finally:
            self._pending -= 1
            self._make_room()

    @property
    def _has_room(self) -> bool:
        """Return whether another pool may begin."""
        return len(self._begun_pools) <= self._slots and self._pending < _ROOM * self._slots

    def _make_room(self) -> None:
        if self._has_room:
            self._has_room_again.set()

    async def report_spending(self) -> None:
        """Report what is spent and reserved, and on disk what may still be billed."""
        await self._lower_exposure()
        for channel in self.channels.values():
            await channel.permits.report_spending()

    async def _lower_exposure(self) -> None:
        with contextlib.suppress(LedgerError):  # the amount on record is high enough
            await self._exposure.lower()

    async def aclose(self) -> None:
        """Close connections; the ledger is the caller's."""
        await self._lower_exposure()
        await asyncio.to_thread(self.plans.close)
        for channel in self.channels.values():
            await channel.permits.aclose()
        for provider in self._connections.values():
            await provider.aclose()
        self.writer.close()
