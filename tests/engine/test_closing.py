"""Jobs in one process leave nothing behind, and none of them holds up another's paid calls."""

import asyncio
import fcntl
import json
import os
import resource
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import zelo_ray
from tests.fakes.rerank import Rerankers
from tests.helpers import crash
from tests.helpers.builders import pool_of
from tests.helpers.jobs import annotate, run_job
from zelo_ray.engine.coordinator import LocalCoordination
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.lock import RUN_LOCK
from zelo_ray.errors import InputError, Stopped

OPENAI = crash.DEFAULT_JUDGES[0]
BLOCKS = """
import time
from zelo_ray import Provider
from zelo_ray.records import Answer, Usage


blocked = []


def block_once():
    if not blocked:
        blocked.append(True)
        time.sleep(9)  # holds its loop


class Blocks:
    async def send(self, request):
        block_once()
        return Answer("ok", '{"reasoning": "The first.", "preference": -1.0}', Usage())

    async def aclose(self):
        pass


PROVIDER = Provider(connect=lambda settings: Blocks(), models=("m",), free=True)


async def score(query, documents):
    block_once()
    return [len(text) for text in documents]
"""


@pytest.fixture
def pools(tmp_path):
    crash.write_pools(tmp_path / "pools.jsonl", 4, 4)
    return tmp_path / "pools.jsonl"


@pytest.fixture
def servers(tmp_path, monkeypatch):
    """Servers in a process of their own; this one's environment leads to them."""
    with crash.fakes(tmp_path) as environ:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        yield environ


def held_open():
    """Threads, and open files but those of the machine's libraries."""
    threads = Counter(thread.name for thread in threading.enumerate())
    return threads, len([*Path("/proc/self/fd").iterdir()])


def held_since(before):
    """What is held open besides; threads of earlier tests may have ended."""
    (threads, files), (had, files_before) = held_open(), before
    return [*(threads - had), *range(files_before, files)]


def test_ten_jobs_in_one_process_leave_no_thread_file_or_lock(servers, pools, tmp_path):
    crash.write_pools(pools, 2, 3)
    limits = {judge: {"rpm": 1e6} for judge in crash.DEFAULT_JUDGES}

    def job(number, **more):
        run = zelo_ray.annotate(
            pools,
            out=tmp_path / f"out-{number}",
            judges=crash.DEFAULT_JUDGES,
            limits=limits,
            progress=None,
            **more,
        )
        zelo_ray.bakeoff(
            truth=run,
            pools=pools,
            rerankers={"own": lambda query, documents: [len(text) for text in documents]},
            out=tmp_path / f"contest-{number}",
            progress=None,
        )
        return run

    job("first")
    before = held_open()
    for number in range(8):
        assert job(number).complete
    with pytest.raises(InputError):
        job("too dear", max_usd=1e-9)
    assert job("first", cycles=2, replace=True).complete, "the same place again"
    assert not held_since(before)
    for lock in tmp_path.glob(f"*/{RUN_LOCK}"):
        with lock.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it


def test_a_running_event_loop_does_no_harm(servers, pools, tmp_path):
    async def cell():
        return zelo_ray.annotate(pools, out=tmp_path / "out", judges=OPENAI, progress=None)

    assert asyncio.run(cell()).complete


def test_an_interrupt_in_a_cell_ends_the_job_and_keeps_all_answers(
    servers, pools, tmp_path, monkeypatch
):
    crash.write_pools(pools, 12, 4)  # more than are in flight at a time
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    before = held_open()
    heard, stop = threading.Event(), LocalCoordination.request_stop

    def stop_and_tell(*given):
        stop(*given)
        heard.set()

    def interrupt():
        while len(crash.journal(tmp_path)) < 10:
            time.sleep(0.02)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)  # any thread may get it
        heard.wait(60)  # before more is answered
        crash._told(servers, "release")

    monkeypatch.setattr(LocalCoordination, "request_stop", stop_and_tell)
    crash._told(servers, "hold?after=10")
    thread = threading.Thread(target=interrupt)
    thread.start()
    status, printed = annotate(pools, tmp_path / "out", servers)
    thread.join()
    assert status == 1, printed
    assert "SIGINT: waiting for calls in flight" in printed
    assert "interrupted; run the same command again to resume" in printed
    answered = len(crash.answers(tmp_path))
    assert len([*read_rows(str(tmp_path / "out"))]) == answered < 12 * 6 * 3
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert not held_since(before)
    status, printed = annotate(pools, tmp_path / "out", servers)
    assert status == 0, printed
    assert crash.paid_twice(tmp_path, tmp_path / "out") == (0, 0)


def test_what_blocks_its_loop_holds_up_no_paid_call(servers, pools, tmp_path):
    """A judge of the user's own blocks for three times the timeout, and a reranker does."""
    (tmp_path / "mine.py").write_text(BLOCKS)
    short = tmp_path / "short.yaml"
    short.write_text("timeout: 3\n")
    mine, timeout = f"{tmp_path}/mine.py", ("--config", str(short))
    judges = ("--judges", f"{mine}:PROVIDER:m", OPENAI, "--cycles", "1")
    unhurried = servers | crash.limits([OPENAI])
    status, printed = annotate(pools, tmp_path / "out", unhurried, *judges, *timeout)
    assert status in (0, 3), printed
    calls = crash.answers(tmp_path)
    assert len(calls) == len({call["sha"] for call in calls}) == 4 * 4, printed
    with Rerankers() as server:
        urls = {"CO_API_URL": f"{server.url}/cohere", "CO_API_KEY": server.key}
        truth = tmp_path / "truth.txt"
        truth.write_text("".join(f"q{q} 0 d{d} {d % 2}\n" for q in range(4) for d in range(4)))
        words = ("--truth", truth, "--pools", pools, "--out", tmp_path / "contest")
        arms = ("--rerankers", f"blocks={mine}:score", "cohere:rerank-v5.0-pro", *timeout)
        environ = crash.bare_environment() | urls
        status, printed = run_job(environ, "bakeoff", *words, *arms)
        assert status in (0, 3), printed
        asked = [entry["body"]["query"] for entry in server.journal]
        assert len(asked) == len({*asked}) == 4
        assert max(entry["seconds"] for entry in server.journal) < 3


def test_a_second_interrupt_abandons_the_calls_and_the_next_run_does_not_wait(
    servers, pools, tmp_path
):
    def interrupt_twice():
        while len(crash.journal(tmp_path)) < 10:
            time.sleep(0.02)
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    out, threads = tmp_path / "out", {*threading.enumerate()}
    with crash.held(servers, after=10):
        thread = threading.Thread(target=interrupt_twice)
        thread.start()
        status, printed = annotate(pools, out, servers)
        thread.join()
    assert status == 1, printed
    assert "Traceback" not in printed
    left = {*threading.enumerate()} - threads
    assert not left
    answered = len([*read_rows(str(out))])
    status, printed = annotate(pools, out, servers)
    assert status == 0, printed
    in_flight, repeated = crash.paid_twice(tmp_path, out)
    print(answered, in_flight)
    assert repeated == 0
    assert "may have been billed" in printed


def test_a_shells_limit_of_open_files_holds_up_no_call(servers, pools, tmp_path):
    """Three judges may have more calls in flight than a shell lets a process have sockets."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    crash.write_pools(pools, 6, 10)
    judges = {name: {"rpm": 1e6, "concurrency": 200} for name in crash.DEFAULT_JUDGES}
    few = len([*Path("/proc/self/fd").iterdir()]) + 100
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, before[1]))
        given = servers | {"TEST_OPTION_LIMITS": json.dumps(judges)}
        with crash.held(servers, after=10):
            releasing = threading.Timer(5, crash._told, (servers, "release"))
            releasing.start()
            status, printed = annotate(pools, tmp_path / "out", given)
            releasing.join()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert status == 0, printed
    assert crash.paid_twice(tmp_path, tmp_path / "out") == (0, 0)


def test_a_judge_that_cannot_be_asked_holds_up_no_later_run(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk with blanks")
    pool = pool_of((0, 1))
    for _ in range(2):  # the second would wait for ever for writers of the first
        with pytest.raises(Stopped, match="characters that no key has"):
            zelo_ray.annotate([pool], out=tmp_path / "out", judges=OPENAI, progress=None)
