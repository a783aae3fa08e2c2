"""The ends of a job: what is closed, when signals are handled, and what is forgotten."""

import fcntl
import gc
import os
import signal
import threading

import pytest

from tests.builders import key_for, line_of, options_of, pool_of
from zelo_ray.engine.coordinator import OwnCoordinator
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.lock import WRITERS_LOCK
from zelo_ray.engine.tally import Tally
from zelo_ray.providers import build_panel
from zelo_ray.ray import coordinator as module
from zelo_ray.ray.actors import OnlineActor
from zelo_ray.ray.branches import Branches, run_branches
from zelo_ray.ray.coordinator import ActorReport, CoordinatedRun, Coordinator, RunMemory
from zelo_ray.ray.dataset import Job, lines_table
from zelo_ray.reports.progress.events import SilentWatch


class Coordination(OwnCoordinator):
    """What actors ask of the coordinator of a cluster."""

    async def register_actor(self, _judges, _actors):
        return True

    async def report(self, _report):
        return "", {}


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


@pytest.mark.parametrize("end", ["closed", "dropped"])
def test_an_actor_closes_connections_and_ledger_at_its_end(
    fakes, environ, monkeypatch, tmp_path, end
):
    keys = key_for(environ, "openai")
    for name, key in keys.items():
        monkeypatch.setenv(name, key)
    options, threads = options_of(out=str(tmp_path)), threading.active_count()
    panel = build_panel(options.judges, {}, keys)
    for run, queries in (("first", 2), ("second", 4)):  # in one process, one after the other
        actor = OnlineActor(Job(options, panel, run, frozenset()), panel, Coordination())
        pools = [pool_of(query_id=f"q{n}", query=f"question {n}?") for n in range(queries)]
        lines = map(line_of, pools)
        actor(lines_table([("in.jsonl", number, line) for number, line in enumerate(lines, 1)]))
        assert is_being_written(tmp_path)
        if end == "closed":
            actor.close()
        del actor
        gc.collect()
        assert not is_being_written(tmp_path)
        assert len({row.key for row in read_rows(str(tmp_path))}) == 6 * queries
    assert threading.active_count() <= threads + 4, "no thread a run is left"


class Figures:
    """A coordinator of a run, that says nothing."""

    stopped = ""

    def stop(self, reason):
        self.stopped = reason

    def read_figures(self, _planned):
        return {}, self.stopped, {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_handled_before_anything_is_asked(number):
    coordinator, before = Figures(), signal.getsignal(number)
    handled = threading.Event()

    def begin():
        os.kill(os.getpid(), number)  # unhandled it would end this process, or this test
        handled.set()
        return Branches()

    class Watch(SilentWatch):
        def say(self, line):
            assert number.name in line

    run_branches(begin, coordinator, {}, Watch())
    assert handled.is_set()
    assert signal.getsignal(number) is before


def test_a_coordinator_forgets_runs_that_have_ended_and_learns_of_a_silent_one_anew(monkeypatch):
    now = 10_000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    coordinator, ended, silent = Coordinator(), CoordinatedRun("ended"), CoordinatedRun("silent")
    for run in (ended, silent):
        coordinator.begin(run)
        coordinator.report(run, ActorReport("a", {"openai:m": Tally(answered=2)}))
    _, memory = coordinator.read_figures(silent, RunMemory())
    for number in range(100):
        now += 601.0
        coordinator.begin(CoordinatedRun(f"later {number}"))
    assert len(coordinator._runs) == 1
    assert coordinator.read_figures(ended, RunMemory())[0] == ({}, "", {})
    (tallies, *_), _ = coordinator.read_figures(silent, memory)
    assert tallies["openai:m"].answered == 2


def test_one_that_goes_on_is_not_forgotten(monkeypatch):
    now = 10_000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    coordinator, run = Coordinator(), CoordinatedRun("long")
    coordinator.begin(run)
    coordinator.stop(run, "enough")
    for number in range(9):
        now += 400.0
        coordinator.register_actor(run, ["openai:m"], 1)
        coordinator.begin(CoordinatedRun(f"later {number}"))
    assert coordinator.read_figures(run, RunMemory())[0][1] == "enough"
