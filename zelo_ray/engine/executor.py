"""Run the parts of a job that take long: ask judges, and build from replies. Here: locally.

The same workers, coordinator and builders run in this process and on Ray, which differs in where
they are and how pools reach them (`zelo_ray.ray.pipeline`).
"""

import contextlib
import resource
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from zelo_ray.engine.coordinator import CoordinatedRun, LocalCoordination, RunFigures
from zelo_ray.engine.job import Job, JobLines, Watch
from zelo_ray.engine.watching import run_watched
from zelo_ray.engine.worker import EventLoopThread, OnlineWorker, ask_in_batches
from zelo_ray.files.pools import Line
from zelo_ray.records import Judge

_CLOSING_SECONDS = 30.0
_HEARING_SECONDS = 0.5
_OPEN_FILES = 10_240  # macOS allows no more
_BLOCKS_AT_ONCE = 4  # so that slots stay busy while the last pools of a block end


@dataclass(frozen=True, slots=True)
class AskedJudges:
    """Judges that are asked together, by workers of their own; in batches it is one judge."""

    job: Job
    judges: tuple[Judge, ...]
    in_batches: bool = False
    gpus: float = 0.0  # of each worker


class Builder(Protocol):
    """Builder of tables from lines and the replies about them; it is made where it works."""

    def build(self, lines: Sequence[Line]) -> pa.Table:
        """Build the table of some lines."""

    def close(self) -> None:
        """Close what it holds open."""


class Executor(Protocol):
    """Where a job runs."""

    def ask(
        self, groups: Sequence[AskedJudges], planned: Mapping[str, int], watch: Watch
    ) -> RunFigures:
        """Ask about all lines what the ledger does not hold, the groups side by side."""

    def build(self, job: Job, make_builder: Callable[[], Builder]) -> Iterator[pa.Table]:
        """Yield what is built of a job's lines, in their order, in blocks."""


class LocalExecutor:
    """Runs a job in this process, each group of judges on a loop in a thread of its own."""

    def __init__(self, run: CoordinatedRun, lines: JobLines, environ: Mapping[str, str]) -> None:
        self._coordination, self._lines, self._environ = LocalCoordination(run), lines, environ

    def ask(
        self, groups: Sequence[AskedJudges], planned: Mapping[str, int], watch: Watch
    ) -> RunFigures:
        """Ask all groups side by side; see `Executor`."""
        _raise_limit_of_open_files()
        abandon = list[Callable[[], None]]()

        def ask() -> None:
            asking = [_in_thread(partial(self._ask_group, group, abandon)) for group in groups]
            try:
                while wait(asking, _HEARING_SECONDS).not_done:
                    pass  # a signal that another thread got is heard between two waits
            except BaseException:  # a second interrupt
                for end in abandon:
                    end()
                wait(asking, _CLOSING_SECONDS)
                raise
            for asked in asking:
                asked.result()

        in_batches = any(group.in_batches for group in groups)
        return run_watched(self._coordination, planned, watch, ask, batches=in_batches)

    def _ask_group(self, group: AskedJudges, abandon: list[Callable[[], None]]) -> None:
        if group.in_batches:
            self._ask_in_batches(group, abandon)
            return
        job, blocks, turn = group.job, self._lines.blocks(group.job), threading.Lock()
        workers = [
            OnlineWorker(job, group.judges, self._coordination, self._environ)
            for _ in range(job.options.actors)
        ]
        abandon.extend(worker.abandon for worker in workers)

        def next_block() -> list[Line] | None:
            with turn:
                return next(blocks, None)

        def feed(worker: OnlineWorker) -> None:
            while block := next_block():
                worker.ask(line.pool for line in block if line.pool)

        try:
            feeding = [_in_thread(partial(feed, worker)) for worker in workers * _BLOCKS_AT_ONCE]
            for fed in feeding:
                fed.result()
        finally:
            for worker in workers:
                worker.close()

    def _ask_in_batches(self, group: AskedJudges, abandon: list[Callable[[], None]]) -> None:
        loop, job, (judge,) = EventLoopThread(), group.job, group.judges
        abandon.append(loop.cancel_tasks)
        pools = partial(self._lines.pools, job)
        try:
            loop.run(ask_in_batches(job, judge, self._coordination, self._environ, pools))
        finally:
            loop.end()

    def build(self, job: Job, make_builder: Callable[[], Builder]) -> Iterator[pa.Table]:
        """Yield what is built of a job's lines; see `Executor`."""
        with contextlib.closing(make_builder()) as builder:
            yield from map(builder.build, self._lines.blocks(job))


def _raise_limit_of_open_files() -> None:
    """Let this process have more sockets than the 256 to 1,024 of a shell: each call takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _in_thread(work: Callable[[], None]) -> Future[None]:
    """Begin work in a daemon thread, so that no end of this process waits for it."""
    future = Future[None]()

    def run() -> None:
        try:
            work()
            future.set_result(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the result is taken
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
