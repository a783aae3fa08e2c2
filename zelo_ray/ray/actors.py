"""Actors that fill the ledger: one for a provider's judges online, one for a judge in batches."""

import asyncio
import contextlib
import os
import sys
import threading
import uuid
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import ray

from zelo_ray.engine.batch import BatchClient
from zelo_ray.engine.bookkeeping import name_error, open_ledger
from zelo_ray.engine.online import OnlineClient
from zelo_ray.errors import LedgerError, PanelError
from zelo_ray.ray.coordinator import ActorReport, CoordinatorClient
from zelo_ray.ray.dataset import Job, parse_lines, read_pools
from zelo_ray.reasons import Disabled, StopReason, strip_name
from zelo_ray.records import Judge

_CLOSING_SECONDS = 30.0


class OnlineActor:
    """Actor that asks one provider's judges online, on an event loop in a thread of its own.

    Ray Data's own asynchronous functions freeze their loop under back-pressure, and lose rows of an
    actor that dies if rows come out as they finish; so this is a plain callable that returns a
    block's rows at once, in their order. It never raises: what goes wrong stops the run.
    """

    def __init__(self, job: Job, judges: Sequence[Judge], coordinator: CoordinatorClient) -> None:
        self._job, self._judges, self._coordinator = job, judges, coordinator
        self._name = uuid.uuid4().hex
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client: OnlineClient | None = None
        self._run(self._open())

    def __call__(self, block: pa.Table) -> pa.Table:
        """Ask about the pools of a block; return their places."""
        self._run(self._fill(block))
        return block.select(["file", "number"])

    def close(self) -> None:
        """Close connections and ledger; nothing can be asked any more."""
        if self._loop.is_closed():
            return
        client, self._client = self._client, None
        closing = asyncio.run_coroutine_threadsafe(self._close(client), self._loop)
        closing.result(_CLOSING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)
        self._loop.close()

    def __del__(self) -> None:
        """Close: Ray Data drops this object when its actor ends."""
        if not sys.is_finalizing():
            with contextlib.suppress(Exception):
                self.close()

    async def _close(self, client: OnlineClient | None) -> None:
        if client:
            self._reporting.cancel()
            await client.aclose()
            await asyncio.to_thread(self._ledger.close)
        await self._loop.shutdown_default_executor()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self) -> None:
        options = self._job.options
        if not await self._coordinator.register_actor(self._names(), options.actors):
            await self._give_up(StopReason.ERROR, "its process died again and again")
            return
        try:
            self._ledger = open_ledger(options, self._judges, self._job.run_id)
            self._client = OnlineClient(
                options,
                self._job.panel,
                self._judges,
                ledger=self._ledger,
                environ=os.environ,
                run_id=self._job.run_id,
                coordinator=self._coordinator,
                disabled=self._job.disabled,
                again=self._job.sweep > 1,
            )
        except LedgerError as error:
            await self._coordinator.stop(str(error))
        except PanelError as error:
            names = (name for judge in self._judges for name in (judge.name, judge.provider))
            await self._give_up(StopReason.FATAL, strip_name(str(error), *names))
        except Exception as error:  # noqa: BLE001 - an actor that cannot start would start for ever
            await self._give_up(StopReason.ERROR, f"unexpected {name_error(error)}")
        else:
            self._reporting = asyncio.create_task(
                _keep_exchanging(self._coordinator, self._name, self._client, self._job)
            )

    def _names(self) -> list[str]:
        return [self._job.display_name(judge.name) for judge in self._judges]

    async def _give_up(self, code: StopReason, message: str) -> None:
        """Give up these judges; stop the run, unless it may go on without them."""
        names, reason = self._names(), Disabled(code, message)
        if self._job.options.allow_missing_judges:
            disabled = dict.fromkeys(names, reason)
            await self._coordinator.report(ActorReport(self._name, {}, disabled=disabled))
        else:
            await self._coordinator.stop(reason.message_for(*names))

    async def _fill(self, block: pa.Table) -> None:
        if self._client is None:
            return
        fills = list[asyncio.Task[None]]()
        try:
            await asyncio.to_thread(self._ledger.refresh)
            pools = [line.pool for line in parse_lines(block) if line.pool]
            fills = [asyncio.create_task(self._client.ask_about(pool)) for pool in pools]
            await asyncio.gather(*fills)
        except LedgerError as error:
            self._client.stop(str(error))
        except Exception as error:  # noqa: BLE001 - its text may hold a prompt
            for judge in self._judges:
                reason = Disabled(StopReason.ERROR, f"unexpected {name_error(error)}")
                self._client.disable_judge(judge.name, reason)
        await asyncio.gather(*fills, return_exceptions=True)  # calls in flight are still answered
        await asyncio.to_thread(self._client.plans.flush)
        await _exchange(self._coordinator, self._name, self._client, self._job)


@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")
class BatchActor:
    """Actor that asks one judge through its provider's batch API: plan, submit, wait, collect."""

    def __init__(self, job: Job, judges: Sequence[Judge], coordinator: CoordinatorClient) -> None:
        self._job, self._judges, self._coordinator = job, judges, coordinator
        self._name = uuid.uuid4().hex

    async def run(self, shards: Sequence[str]) -> None:
        """Return when nothing is missing that these judges can answer, or the run is stopped."""
        options = self._job.options
        try:
            ledger = open_ledger(options, self._judges, self._job.run_id)
            batcher = BatchClient(
                options,
                self._job.panel,
                self._judges,
                ledger=ledger,
                environ=os.environ,
                run_id=self._job.run_id,
                coordinator=self._coordinator,
                disabled=self._job.disabled,
            )
        except (LedgerError, PanelError) as error:
            await self._coordinator.stop(str(error))
            return
        reporting = asyncio.create_task(
            _keep_exchanging(self._coordinator, self._name, batcher, self._job)
        )
        try:
            await batcher.run(lambda: read_pools(self._job, shards))
        except Exception as error:  # noqa: BLE001 - its text may hold a prompt
            batcher.stop(f"unexpected {name_error(error)}")
        reporting.cancel()
        await _exchange(self._coordinator, self._name, batcher, self._job)
        ledger.close()


async def _keep_exchanging(
    coordinator: CoordinatorClient, name: str, client: OnlineClient | BatchClient, job: Job
) -> None:
    while True:
        await _exchange(coordinator, name, client, job)
        await asyncio.sleep(0.5)


async def _exchange(
    coordinator: CoordinatorClient, name: str, client: OnlineClient | BatchClient, job: Job
) -> None:
    """Report this actor's figures to the coordinator, and obey what it answers."""
    await client.report_spending()
    tallies = {job.display_name(judge): tally for judge, tally in client.tallies.items()}
    reasons = {job.display_name(judge): why for judge, why in client.disabled.items()}
    report = ActorReport(name, tallies, client.stopped, reasons, job.sweep)
    reason, disabled = await coordinator.report(report)
    if reason:
        client.stop(reason)
    for judge in client.tallies:
        if job.display_name(judge) in disabled:
            client.disable_judge(judge, disabled[job.display_name(judge)])
