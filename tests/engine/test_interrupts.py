"""The ends of a job: what is closed, and when signals are handled."""

import fcntl
import gc
import os
import signal
import threading
import time

import pytest

from tests.helpers.builders import key_for, options_of, pool_of
from zelo_ray.engine.coordinator import Coordinator, LocalCoordination
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.lock import WRITERS_LOCK
from zelo_ray.engine.watching import run_watched
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


def test_judges_whose_process_dies_again_are_left_out(fakes, environ, tmp_path):
    class Dying(LocalCoordination):
        async def send(self, message, *words):
            is_first = message is Coordinator.register_worker
            return False if is_first else await super().send(message, *words)

    options = options_of(out=str(tmp_path), allow_missing_judges=True)
    panel, control = build_panel(options.judges, {}, environ), Dying()
    worker = OnlineWorker(Job(options, panel, "run", frozenset()), panel, control, environ)
    worker.ask([pool_of()])
    worker.close()
    _, stopped, disabled = control.read_figures()
    assert not stopped
    assert {why.message for why in disabled.values()} == {"its process died again and again"}


def test_a_judge_that_ends_at_once_leaves_no_task(fakes, tmp_path, caplog):
    keys, options = {"OPENAI_API_KEY": "a-wrong-key"}, options_of(limits=None, out=str(tmp_path))
    panel = build_panel(options.judges, {}, keys)
    worker = OnlineWorker(Job(options, panel, "run", frozenset()), panel, LocalCoordination(), keys)
    worker.ask(pool_of(query_id=f"q{n}", query=f"question {n}?") for n in range(20))
    worker.close()
    del worker
    gc.collect()
    assert "destroyed" not in caplog.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_a_run_before_anything_is_asked(number):
    control, before, said = LocalCoordination(), signal.getsignal(number), []

    class Watch(SilentWatch):
        def say(self, line):
            said.append(line)

    def ask():
        os.kill(os.getpid(), number)  # unhandled it would end this process, or this test
        while not control.read_figures()[1]:
            time.sleep(0.01)

    run_watched(control, {}, Watch(), ask, batches=False)
    assert number.name in said[0]
    assert signal.getsignal(number) is before
