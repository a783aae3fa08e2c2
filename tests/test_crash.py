"""Kill a run at any moment: nothing paid for is lost, and nothing is paid for twice."""

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests import crash

pytestmark = pytest.mark.ray


def _undisturbed(folder: Path, pools: Path) -> dict[str, bytes]:
    folder.mkdir()
    with crash.fakes(folder) as environ:
        status, printed = crash.finish(crash.annotate(pools, folder / "out", environ))
    assert status == 0, printed
    return crash.outputs(folder / "out")


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pools") / "pools.jsonl"
    crash.write_pools(path, queries=10, documents=8)
    return path


@pytest.fixture(scope="module")
def expected(pools: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return _undisturbed(tmp_path_factory.mktemp("undisturbed") / "run", pools)


def test_a_run_killed_and_resumed_pays_once_and_gives_the_same_bytes(
    pools: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    rng, kills = random.Random(7), []
    with crash.fakes(tmp_path, "--latency", "0.2") as environ:
        for _ in range(int(os.environ.get("ZELO_TEST_KILLS", "2"))):
            run = crash.annotate(pools, tmp_path / "out", environ)
            crash.await_requests(tmp_path, len(crash.journal(tmp_path)) + rng.randint(1, 150), run)
            if run.poll() is None:
                kills.append(crash.kill_tree(run))
        status, printed = crash.finish(crash.annotate(pools, tmp_path / "out", environ))
    assert status == 0, printed
    assert kills
    in_flight, repeated = crash.paid_twice(tmp_path, kills)
    print(f"{len(kills)} kills, {in_flight} requests in flight sent again, {repeated} others")
    assert repeated == 0
    assert crash.outputs(tmp_path / "out") == expected


def test_an_actor_that_is_killed_costs_only_its_calls_in_flight(
    pools: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    with crash.fakes(tmp_path, "--latency", "0.2") as environ:
        run = crash.annotate(pools, tmp_path / "out", environ)
        crash.await_requests(tmp_path, 60, run)
        actors = [
            process
            for process in psutil.Process(run.pid).children(recursive=True)
            if "Ask" in " ".join(process.cmdline())
        ]
        assert actors
        began = time.time()
        os.kill(actors[0].pid, signal.SIGKILL)
        killed = (began, time.time())
        status, printed = crash.finish(run)
    assert status == 0, printed
    assert crash.paid_twice(tmp_path, [killed])[1] == 0
    assert crash.outputs(tmp_path / "out") == expected


def test_an_interrupted_run_brings_its_calls_home(
    pools: Path, expected: dict[str, bytes], tmp_path: Path
) -> None:
    with crash.fakes(tmp_path, "--latency", "0.2") as environ:
        run = crash.annotate(pools, tmp_path / "out", environ)
        crash.await_requests(tmp_path, 60, run)
        run.send_signal(signal.SIGTERM)
        status, printed = crash.finish(run)
        assert status == 1, printed
        assert "the same command goes on from here" in printed
        status, printed = crash.finish(crash.annotate(pools, tmp_path / "out", environ))
    assert status == 0, printed
    assert crash.paid_twice(tmp_path, []) == (0, 0)
    assert crash.outputs(tmp_path / "out") == expected


def test_two_runs_on_one_directory_do_not_meet(pools: Path, tmp_path: Path) -> None:
    with crash.fakes(tmp_path, "--latency", "0.2") as environ:
        first = crash.annotate(pools, tmp_path / "out", environ)
        crash.await_requests(tmp_path, 10, first)
        status, printed = crash.finish(crash.annotate(pools, tmp_path / "out", environ))
        assert status == 1
        assert "in use by another run" in printed
        status, printed = crash.finish(first)
    assert status == 0, printed
    assert crash.paid_twice(tmp_path, []) == (0, 0)
