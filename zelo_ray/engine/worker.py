"""Workers that fill the ledger: one for a provider's judges online, one for a judge in batches.

None raises: what goes wrong stops the run, or ends its judges.
"""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any

from zelo_ray.engine.batch import BatchClient
from zelo_ray.engine.bookkeeping import name_error, open_ledger
from zelo_ray.engine.coordinator import Coordination, WorkerReport
from zelo_ray.engine.job import Job
from zelo_ray.engine.online import OnlineClient
from zelo_ray.errors import LedgerError, PanelError
from zelo_ray.reasons import Disabled, StopReason, strip_name
from zelo_ray.records import Judge, Pool

_REPORT_SECONDS = 0.5
_CLOSING_SECONDS = 30.0


class EventLoopThread:
    """Event loop in a daemon thread of its own, so that no end of this process waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine on the loop to its end, and wait for it."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def cancel_tasks(self, tasks: Collection[asyncio.Task[None]] | None = None) -> None:
        """Cancel some tasks of the loop, by default all; of one that has ended there are none."""

        def cancel() -> None:
            for task in asyncio.all_tasks() if tasks is None else [*tasks]:
                task.cancel()

        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(cancel)

    def end(self, closing: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Run a last coroutine, if any; then end loop and threads. Again, it does nothing."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):  # a user's code may block the loop for ever
            if closing:
                self._submit(closing())
            self._submit(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CLOSING_SECONDS)


class OnlineWorker:
    """Worker that asks one provider's judges online, on an event loop in a thread of its own.

    So code that computes, or blocks its loop, holds up no other provider's calls. Several threads
    may let it ask at a time.

    Args:
        job: what is to be judged.
        judges: those of its panel to ask.
        coordination: who shares out limits and money.
        environ: where keys are found.
    """

    def __init__(
        self,
        job: Job,
        judges: Sequence[Judge],
        coordination: Coordination,
        environ: Mapping[str, str],
    ) -> None:
        self._job, self._judges, self._coordination = job, judges, coordination
        self._name, self._environ = uuid.uuid4().hex, environ
        self._loop, self._asking = EventLoopThread(), set[asyncio.Task[None]]()
        self._client: OnlineClient | None = None
        self._abandoned = False
        self._loop.run(self._open())

    def ask(self, pools: Iterable[Pool]) -> None:
        """Ask about pools, until nothing is missing that these judges can answer, or stopped."""
        self._loop.run(self._ask(list(pools)))

    def close(self) -> None:
        """Close connections and ledger; nothing can be asked any more."""
        self._loop.end(self._close)

    def abandon(self) -> None:
        """End calls in flight; each may be billed all the same, as the exposure on disk says."""
        self._abandoned = True
        self._loop.cancel_tasks(self._asking)

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client:
            self._reporting.cancel()
            await client.aclose()
            await asyncio.to_thread(self._ledger.close)

    async def _open(self) -> None:
        job = self._job
        if not await self._coordination.register_worker(self._names(), job.options.actors):
            await self._give_up(StopReason.ERROR, "its process died again and again")
            return
        try:
            self._ledger = open_ledger(job.options, self._judges, job.run_id)
            self._client = OnlineClient(
                *(job.options, job.panel, self._judges),
                ledger=self._ledger,
                environ=self._environ,
                run_id=job.run_id,
                coordinator=self._coordination,
                disabled=job.disabled,
                again=job.sweep > 1,
            )
        except LedgerError as error:
            await self._coordination.stop(str(error))
        except PanelError as error:
            names = (name for judge in self._judges for name in (judge.name, judge.provider))
            await self._give_up(StopReason.FATAL, strip_name(str(error), *names))
        except Exception as error:  # noqa: BLE001 - one that cannot start would start for ever
            await self._give_up(StopReason.ERROR, f"unexpected {name_error(error)}")
        else:
            self._reporting = asyncio.create_task(
                _keep_exchanging(self._coordination, self._name, self._client, job)
            )

    def _names(self) -> list[str]:
        return [self._job.display_name(judge.name) for judge in self._judges]

    async def _give_up(self, code: StopReason, message: str) -> None:
        """Give up these judges; stop the run, unless it may go on without them."""
        names, reason = self._names(), Disabled(code, message)
        if self._job.options.allow_missing_judges:
            disabled = dict.fromkeys(names, reason)
            await self._coordination.report(WorkerReport(self._name, {}, disabled=disabled))
        else:
            await self._coordination.stop(reason.message_for(*names))

    async def _ask(self, pools: Sequence[Pool]) -> None:
        if self._client is None or self._abandoned:
            return
        asking = list[asyncio.Task[None]]()
        try:
            await asyncio.to_thread(self._ledger.refresh)
            asking = [asyncio.create_task(self._client.ask_about(pool)) for pool in pools]
            self._asking.update(asking)
            await asyncio.gather(*asking)
        except LedgerError as error:
            self._client.stop(str(error))
        except Exception as error:  # noqa: BLE001 - its text may hold a prompt
            for judge in self._judges:
                reason = Disabled(StopReason.ERROR, f"unexpected {name_error(error)}")
                self._client.disable_judge(judge.name, reason)
        await asyncio.gather(*asking, return_exceptions=True)  # calls in flight are still answered
        self._asking.difference_update(asking)
        await asyncio.to_thread(self._client.plans.flush)
        await _exchange(self._coordination, self._name, self._client, self._job)


async def ask_in_batches(
    job: Job,
    judge: Judge,
    coordination: Coordination,
    environ: Mapping[str, str],
    pools: Callable[[], Iterable[Pool]],
) -> None:
    """Ask one judge through its provider's batch API: plan, submit, wait, collect.

    Args:
        job: what is to be judged.
        judge: of its panel.
        coordination: who shares out money.
        environ: where its key is found.
        pools: gives all pools anew at each call.
    """
    name = uuid.uuid4().hex
    try:
        ledger = open_ledger(job.options, (judge,), job.run_id)
        batcher = BatchClient(
            *(job.options, job.panel, judge),
            ledger=ledger,
            environ=environ,
            run_id=job.run_id,
            coordinator=coordination,
            disabled=job.disabled,
        )
    except (LedgerError, PanelError) as error:
        await coordination.stop(str(error))
        return
    reporting = asyncio.create_task(_keep_exchanging(coordination, name, batcher, job))
    try:
        await batcher.run(pools)
    except Exception as error:  # noqa: BLE001 - its text may hold a prompt
        batcher.stop(f"unexpected {name_error(error)}")
    finally:
        reporting.cancel()
        await _exchange(coordination, name, batcher, job)
        ledger.close()


async def _keep_exchanging(
    coordination: Coordination, name: str, client: OnlineClient | BatchClient, job: Job
) -> None:
    while True:
        await _exchange(coordination, name, client, job)
        await asyncio.sleep(_REPORT_SECONDS)


async def _exchange(
    coordination: Coordination, name: str, client: OnlineClient | BatchClient, job: Job
) -> None:
    """Report a worker's figures to the coordinator, and obey what it answers."""
    await client.report_spending()
    tallies = {job.display_name(judge): tally for judge, tally in client.tallies.items()}
    reasons = {job.display_name(judge): why for judge, why in client.disabled.items()}
    report = WorkerReport(name, tallies, client.stopped, reasons, job.sweep)
    reason, disabled = await coordination.report(report)
    if reason:
        client.stop(reason)
    for judge in client.tallies:
        if job.display_name(judge) in disabled:
            client.disable_judge(judge, disabled[job.display_name(judge)])
