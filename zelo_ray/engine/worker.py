"""Workers that fill the ledger: one for a provider's judges online, one for a judge in batches.

None raises: what goes wrong stops the run, or ends its judges.
"""

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from zelo_ray.engine.batch import BatchClient
from zelo_ray.engine.coordinator import Coordination, Coordinator, WorkerReport
from zelo_ray.engine.job import Job
from zelo_ray.engine.online import OnlineClient
from zelo_ray.engine.replies import open_ledger, unexpected
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

    def run(self, work: Coroutine[Any, Any, None], seconds: float | None = None) -> None:
        """Run a coroutine on the loop, and wait for its end, for so long."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

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
                self.run(closing(), _CLOSING_SECONDS)
            self.run(self._loop.shutdown_default_executor(), _CLOSING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()


class _Reporter:
    """Reports a client's figures again and again, and has the client obey what is answered."""

    def __init__(
        self, job: Job, coordination: Coordination, client: OnlineClient | BatchClient
    ) -> None:
        self._job, self._coordination, self._client = job, coordination, client
        self._name, self._reporting = uuid.uuid4().hex, asyncio.create_task(self._keep_reporting())

    async def report(self) -> None:
        """Report once."""
        client, display_name = self._client, self._job.display_name
        await client.report_spending()
        tallies = {display_name(judge): deepcopy(tally) for judge, tally in client.tallies.items()}
        reasons = {display_name(judge): why for judge, why in client.disabled.items()}
        report = WorkerReport(self._name, tallies, client.stopped, reasons, self._job.sweep)
        stop, disabled = await self._coordination.send(Coordinator.report, report)
        if stop:
            client.stop(stop)
        for judge in client.tallies:
            if reason := disabled.get(display_name(judge)):
                client.disable_judge(judge, reason)

    async def _keep_reporting(self) -> None:
        while True:
            await self.report()
            await asyncio.sleep(_REPORT_SECONDS)

    def close(self) -> None:
        self._reporting.cancel()


class OnlineWorker:
    """Worker that asks one provider's judges online, on an event loop in a thread of its own.

    So code that computes, or blocks its loop, holds up no other provider's calls. Several threads
    may let it ask at a time. Keys are found in ``environ``.
    """

    def __init__(
        self,
        job: Job,
        judges: Sequence[Judge],
        coordination: Coordination,
        environ: Mapping[str, str],
    ) -> None:
        self._job, self._judges, self._coordination = job, judges, coordination
        self._names = [job.display_name(judge.name) for judge in judges]
        self._loop, self._asking = EventLoopThread(), set[asyncio.Task[None]]()
        self._client: OnlineClient | None = None
        self._abandoned = False
        self._loop.run(self._open(environ))

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

    async def _open(self, environ: Mapping[str, str]) -> None:
        """Connect, or leave the judges out."""
        job, coordination, ledger = self._job, self._coordination, None
        message, actors = Coordinator.register_worker, job.options.actors
        if not await coordination.send(message, self._names, actors, job.sweep):
            error = PanelError("its process died again and again")
            await _leave_out(job, self._judges, coordination, error)
            return
        try:
            self._ledger = ledger = open_ledger(job.options, self._judges, job.run_id)
            self._client = OnlineClient(
                *(job.options, job.panel, self._judges),
                ledger=ledger,
                environ=environ,
                run_id=job.run_id,
                coordinator=coordination,
                disabled=job.disabled,
                again=job.sweep > 1,
            )
            self._reporter = _Reporter(job, coordination, self._client)
        except Exception as error:  # noqa: BLE001 - one that cannot start would start for ever
            if ledger:  # else this process would hold the lock of writers
                ledger.close()
            await _leave_out(job, self._judges, coordination, error)

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client:
            self._reporter.close()
            await client.aclose()
            await asyncio.to_thread(self._ledger.close)

    async def _ask(self, pools: Sequence[Pool]) -> None:
        client = self._client
        if client is None or self._abandoned:
            return
        asking = list[asyncio.Task[None]]()
        try:
            await asyncio.to_thread(self._ledger.refresh)
            asking = [asyncio.create_task(client.ask_about(pool)) for pool in pools]
            self._asking.update(asking)
            await asyncio.gather(*asking)
        except LedgerError as error:
            client.stop(str(error))
        except Exception as error:  # noqa: BLE001 - its text may hold a prompt
            for judge in self._judges:
                client.disable_judge(judge.name, unexpected(error))
        await asyncio.gather(*asking, return_exceptions=True)  # calls in flight are still answered
        self._asking.difference_update(asking)
        await asyncio.to_thread(client.plans.flush)
        await self._reporter.report()


async def _leave_out(
    job: Job, judges: Sequence[Judge], coordination: Coordination, error: Exception
) -> None:
    """Ask judges nothing whose worker cannot start; the run stops where it needs them."""
    names = [job.display_name(judge.name) for judge in judges]
    if isinstance(error, LedgerError | PanelError):
        own = (name for judge in judges for name in (judge.name, judge.provider))
        reason = Disabled(StopReason.FATAL, strip_name(str(error), *own))
    else:
        reason = unexpected(error)
    report = WorkerReport(uuid.uuid4().hex, stopped=reason.message_for(*names))
    if job.options.allow_missing_judges:
        report = WorkerReport(uuid.uuid4().hex, disabled=dict.fromkeys(names, reason))
    await coordination.send(Coordinator.report, report)


async def ask_in_batches(
    job: Job,
    judge: Judge,
    coordination: Coordination,
    environ: Mapping[str, str],
    pools: Callable[[], Iterable[Pool]],
) -> None:
    """Ask one judge through its provider's batch API; ``pools`` gives all pools anew each time."""
    ledger = None
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
    except Exception as error:  # noqa: BLE001 - Ray would start it again for ever
        if ledger:
            ledger.close()
        await _leave_out(job, (judge,), coordination, error)
        return
    reporter = _Reporter(job, coordination, batcher)
    try:
        await batcher.run(pools)
    except Exception as error:  # noqa: BLE001 - its text may hold a prompt
        batcher.disable(unexpected(error))
    finally:
        reporter.close()
        await reporter.report()
        ledger.close()
