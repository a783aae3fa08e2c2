"""Ray that cannot be started, joined or kept: one line that says what to do, and no traceback."""

import subprocess
import tempfile
from pathlib import Path

import psutil
import pytest
import ray
from ray import exceptions

from tests.helpers import crash
from tests.helpers.builders import line_of, pool_of, small_disk
from zelo_ray.errors import ExitStatus, LedgerError, RayUnavailable
from zelo_ray.ray.errors import explain_ray_errors
from zelo_ray.ray.pipeline import (
    ASKING_BYTES,
    ASKING_CPUS,
    asking_actor_options,
    most_building_actors,
    reading_task_options,
)


@pytest.fixture
def argv(tmp_path):
    """A job that is right in itself."""
    (tmp_path / "in.jsonl").write_bytes(line_of(pool_of()))
    words = ("annotate", "in.jsonl", "--out", "out", "--judges", "offline:bm25")
    words += ("--executor", "ray")
    return [str(tmp_path / word) if word in ("in.jsonl", "out") else word for word in words]


def line(argv, home, **environ):
    """What is said in the one line of a job that fails, in a process and a home of its own."""
    environ = {**crash.bare_environment(), "HOME": str(home), **environ}
    command = [*crash.COMMAND, *argv]
    ended = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (ExitStatus.FAILED, ""), ended.stderr
    first, where, told = ended.stderr.splitlines()
    assert first.startswith("1 query, ")
    assert where.startswith("Running on Ray: ")
    return told


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("127.0.0.1:1", "Connection refused"),
        ("somewhere", "Invalid address format"),
        ("http://127.0.0.1:1", "Invalid Ray address"),
    ],
)
def test_a_cluster_that_is_not_there_is_told_of_at_once(argv, tmp_path, address, why):
    said = line(argv, tmp_path, RAY_ADDRESS=address)
    assert said.startswith(f"zelo-ray: RAY_ADDRESS={address}: no Ray can be joined there (")
    assert why in said
    assert "correct it; " in said
    assert "RAY_AUTH_TOKEN" in said


def test_what_is_in_the_way_of_a_private_ray_is_told_in_one_line(argv, tmp_path):
    long, full = tmp_path / ("x" * 90), tmp_path / "t"
    long.mkdir()
    said = [line(argv, tmp_path, TMPDIR=str(long))]
    with small_disk(full):
        said.append(line(argv, tmp_path, TMPDIR=str(full)))
        assert [*full.iterdir()] == []
    said.append(line(argv, tmp_path / "in.jsonl"))
    said.append(line(argv, tmp_path, RAY_ROTATION_MAX_BYTES="plenty"))
    reasons = ("AF_UNIX path", "No space left", "in.jsonl/.ray", "'plenty'")
    for told, reason in zip(said, reasons, strict=True):
        assert told.startswith("zelo-ray: Ray does not start on this machine (")
        assert reason in told
        assert "set TMPDIR" in told
    assert [*long.iterdir()] == []


def test_a_ray_that_is_too_slow_is_told_of_and_leaves_nothing(argv):
    """In a process of its own, whose end takes all with it that Ray had begun."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as place:
        slow = {"RAY_gcs_server_port_wait_time_s": "0", "TMPDIR": place}
        run = crash.start([*crash.COMMAND, *argv], {**crash.bare_environment(), **slow})
        status, printed = crash.finish(run)
        assert status == 1
        *before, said = printed.splitlines()
        assert len(before) == 2, printed
        assert said.startswith("zelo-ray: Ray does not start on this machine (")
        assert "not too busy" in said
        assert not [*Path(place).glob("zelo-*")]
        words = (process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"]))
        assert not [line for line in words if any(place in word for word in line)]


IN_A_WORKER = """ray::ResultsActor.f() (pid=1, ip=127.0.0.1)
  File "zelo_ray/engine/write_results.py", line 1, in f
    raise {error}
{error}"""
DEATHS = {
    "memory": (exceptions.OutOfMemoryError("Task was killed\ndue to\nmemory"), "out of memory"),
    "store": (exceptions.ObjectStoreFullError("full"), "out of memory"),
    "disk": (exceptions.OutOfDiskError("full"), "set TMPDIR"),
    "actor": (exceptions.ActorDiedError(), "usually because memory ran out"),
    "worker": (exceptions.WorkerCrashedError(), "usually because memory ran out"),
}


@pytest.mark.parametrize("name", DEATHS)
def test_a_death_on_ray_is_one_line_that_says_how_to_go_on(name):
    error, says = DEATHS[name]
    with pytest.raises(RayUnavailable) as caught, explain_ray_errors(verbose=True):
        raise error
    said = str(caught.value)
    assert says in said
    assert said.endswith("run the same command again to resume")
    assert "\n" not in said


def test_what_is_written_for_the_user_is_told_as_it_is_written():
    raised = LedgerError("out/replies: No space left on device; make room")
    text = IN_A_WORKER.format(error=f"zelo_ray.errors.LedgerError: {raised}")
    error = exceptions.RayTaskError("f", text, raised)
    for wrapped in (error, error.as_instanceof_cause()):
        with pytest.raises(RayUnavailable) as caught, explain_ray_errors(verbose=True):
            raise wrapped
        assert str(caught.value) == str(raised)


def test_a_bug_names_its_exception_and_keeps_its_traceback_for_verbose():
    error = exceptions.RayTaskError("f", IN_A_WORKER.format(error="KeyError: 'd1'"), KeyError("d1"))
    with pytest.raises(RayUnavailable) as caught, explain_ray_errors(verbose=False):
        raise error.as_instanceof_cause()
    assert str(caught.value) == "KeyError: 'd1'; verbose: true in --config shows more"
    with pytest.raises(exceptions.RayTaskError), explain_ray_errors(verbose=True):
        raise error.as_instanceof_cause()


# What is declared to a cluster


@pytest.fixture
def cluster(monkeypatch):
    """Say what the nodes of a cluster that was joined have."""

    def joined(*nodes):
        monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
        told = [
            {"NodeID": f"{number:056x}", "Alive": alive, "Resources": resources}
            for number, (alive, resources) in enumerate(nodes)
        ]
        monkeypatch.setattr(ray, "nodes", lambda: told)
        cpus = sum(resources.get("CPU", 0) for alive, resources in nodes if alive)
        monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": cpus} if cpus else {})

    return joined


def test_nothing_is_declared_to_a_private_ray():
    assert asking_actor_options() == {"num_cpus": 0}
    assert reading_task_options() == {}


def test_an_actor_declares_what_it_takes_and_readers_no_processor(cluster):
    cluster((True, {"CPU": 4.0, "memory": 12e9}), (True, {"CPU": 2.0, "memory": 1e9}))
    assert asking_actor_options() == {"num_cpus": ASKING_CPUS, "memory": ASKING_BYTES}
    assert reading_task_options() == {"num_cpus": 0, "concurrency": 6}


@pytest.mark.parametrize(("cpus", "actors"), [(0, 1), (2, 2), (64, 4)])
def test_no_more_actors_build_than_there_are_processors(cluster, cpus, actors):
    cluster((True, {"CPU": float(cpus)}))
    assert most_building_actors() == actors
