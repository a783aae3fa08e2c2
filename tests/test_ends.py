"""The ends of a job: what is closed, when signals are handled, and what is forgotten."""

import fcntl
import os
import signal
import threading
import time

import pytest

from tests.builders import key_for, options_of, pool_of
from tests.test_coordinator import StoppedClock
from zelo_ray.engine.coordinator import (
    CoordinatedRun,
    Coordinator,
    LocalCoordination,
    RunMemory,
    WorkerReport,
)
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.lock import WRITERS_LOCK
from zelo_ray.engine.tally import Tally
from zelo_ray.engine.watching import watched
from zelo_ray.engine.worker import OnlineWorker
from zelo_ray.providers import build_panel
from zelo_ray.report.watches import SilentWatch


def is_being_written(out):
    """Whether a writer of an earlier run holds the output, for which a later run would wait."""
    handle = os.open(out / WRITERS_LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(handle)


def test_a_worker_closes_connections_and_ledger_at_its_end(fakes, environ, tmp_path):
    keys = key_for(environ, "openai")
    options, before = options_of(out=str(tmp_path)), {*threading.enumerate()}
    panel = build_panel(options.judges, {}, keys)
    for run, queries in (("first", 2), ("second", 4)):  # in one process, one after the other
        job = Job(options, panel, run, frozenset())
        worker = OnlineWorker(job, panel, LocalCoordination(), keys)
        worker.ask(pool_of(query_id=f"q{n}", query=f"question {n}?") for n in range(queries))
        assert is_being_written(tmp_path)
        worker.close()
        worker.close()
        assert not is_being_written(tmp_path)
        assert len({row.key for row in read_rows(str(tmp_path))}) == 6 * queries
    assert {*threading.enumerate()} <= before  # some of earlier tests may have ended


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_run_before_anything_is_asked(number):
    control, before, said = LocalCoordination(), signal.getsignal(number), []

    class Watch(SilentWatch):
        def say(self, line):
            said.append(line)

    with watched(control, {}, Watch(), batches=False):
        os.kill(os.getpid(), number)  # unhandled it would end this process, or this test
        while not control.read_figures({})[1]:
            time.sleep(0.01)
    assert number.name in said[0]
    assert signal.getsignal(number) is before


def test_a_coordinator_forgets_runs_that_have_ended_and_learns_of_a_silent_one_anew():
    clock = StoppedClock()
    coordinator = Coordinator(clock)
    ended, silent = CoordinatedRun("ended"), CoordinatedRun("silent")
    for run in (ended, silent):
        coordinator.begin(run)
        coordinator.report(run, WorkerReport("a", {"openai:m": Tally(answered=2)}))
    _, memory = coordinator.read_figures(silent, RunMemory())
    for number in range(100):
        clock.seconds += 601.0
        coordinator.begin(CoordinatedRun(f"later {number}"))
    assert len(coordinator._runs) == 1
    assert coordinator.read_figures(ended, RunMemory())[0] == ({}, "", {})
    (tallies, *_), _ = coordinator.read_figures(silent, memory)
    assert tallies["openai:m"].answered == 2


def test_one_that_goes_on_is_not_forgotten():
    clock = StoppedClock()
    coordinator, run = Coordinator(clock), CoordinatedRun("long")
    coordinator.begin(run)
    coordinator.stop(run, "enough")
    for number in range(9):
        clock.seconds += 400.0
        coordinator.register_worker(run, ["openai:m"], 1)
        coordinator.begin(CoordinatedRun(f"later {number}"))
    assert coordinator.read_figures(run, RunMemory())[0][1] == "enough"
