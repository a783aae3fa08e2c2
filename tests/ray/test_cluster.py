"""Three nodes, and jobs on them to which everything happens: what it costs, and what comes out."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers import crash
from tests.helpers.jobs import annotate
from tests.helpers.nodes import TOKEN, Cluster, Node, await_
from zelo_ray.engine.job import POOLS_AT_ONCE
from zelo_ray.engine.ledger import read_rows

pytestmark = [pytest.mark.ray, pytest.mark.nightly]

OPENAI = crash.DEFAULT_JUDGES[0]
RPM = 1200
SLOTS = 15
"""Calls that the judge may have in flight. Where this machine stalls its processes, as many may go
late and together, on top of the second's worth that an idle account may save; the servers let two
seconds' worth through. So no stall alone meets the limit: 15 + 20 calls are less than 40."""
ACTORS = 3
SHARDS = 25  # of a block each, of which an actor takes 8 at once
SAMPLE = crash.ROOT / "data" / "sample"
STEPS = ("start", "stop", "kill of a worker", "of the driver", "of the head", "the end")


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    """Shards of a block each: Ray Data would make one of smaller ones, for one actor alone."""
    folder, whole = tmp_path / "pools", tmp_path / "pools.jsonl"
    folder.mkdir()
    crash.write_pools(whole, queries=SHARDS * POOLS_AT_ONCE, documents=2)
    lines = whole.read_text().splitlines(keepends=True)
    for shard in range(SHARDS):
        few = lines[shard * POOLS_AT_ONCE : (shard + 1) * POOLS_AT_ONCE]
        (folder / f"{shard:02}.jsonl").write_text("".join(few))
    return folder


def await_answers(folder: Path, count: int) -> None:
    """Return once so many more calls were answered."""
    aim = len(crash.answers(folder)) + count
    await_(f"{aim} answers", lambda: len(crash.answers(folder)) >= aim)


def worker_that_calls(cluster: Cluster, server: str) -> Node:
    """A worker whose calls are in flight, as those of every other node are."""
    await_("calls from all nodes", lambda: all(node.calls(server) for node in cluster.nodes))
    return cluster.nodes[-1]


@pytest.mark.timeout(2700)  # four jobs on two clusters, and a run without a trouble
def test_a_job_on_three_nodes_outlives_stops_and_kills(pools: Path, tmp_path: Path) -> None:
    """Nothing is paid twice but what was in flight, and no byte of the results is another."""
    out, times = tmp_path / "out", [time.time()]
    limits = {"limits": {OPENAI: {"rpm": RPM, "concurrency": SLOTS}}}
    (tmp_path / "limits.yaml").write_text(json.dumps(limits))
    words = ["run.py", "annotate", str(pools), "--out", str(out), "--judges", OPENAI]
    words += ["--actors", str(ACTORS), "--config", str(tmp_path / "limits.yaml")]
    flags = ("--rpm", str(RPM), "--burst", "2", "--latency", "0.3")
    with crash.fakes(tmp_path, *flags) as environ:
        with Cluster(environ, workers=2) as cluster:
            times.append(time.time())
            cluster.submit("stopped", *words)
            await_answers(tmp_path, 40)
            cluster.job("stop", "stopped")
            assert cluster.status("stopped") == "STOPPED"
            logs = cluster.logs("stopped")
            assert "SIGTERM: waiting for calls in flight" in logs
            assert "run the same command again to resume" in logs
            assert not {"\x1b", "\r"} & set(logs), "nothing steers a terminal that shows it"
            assert OPENAI in cluster.job("logs", "stopped")
            assert len(list(read_rows(str(out)))) == len(crash.answers(tmp_path))
            times.append(time.time())

            cluster.submit("bereft", *words)
            await_answers(tmp_path, 40)
            # The first actor would hold all slots, if calls were held before another one calls.
            worker_that_calls(cluster, environ["OPENAI_BASE_URL"])
            with crash.held(environ):  # also until there is another node: the calls would run out
                worker_that_calls(cluster, environ["OPENAI_BASE_URL"]).kill()
                cluster.add()
            await_answers(tmp_path, 40)
            times.append(time.time())
            cluster.driver("bereft").kill()
            await_("the end of a job", lambda: cluster.status("bereft") == "FAILED")
            outcomes = crash.stats(environ)["outcomes"]
            assert set(outcomes) == {"ok"}, f"a limit of the account was met: {outcomes}"
            times.append(time.time())

            cluster.submit("headless", *words)
            await_answers(tmp_path, 40)
            cluster.head.kill()
            times.append(time.time())
            with Cluster(environ, workers=2) as another:
                another.submit("last", *words)
                await_("the end", lambda: another.status("last") in ("SUCCEEDED", "FAILED"))
                assert another.status("last") == "SUCCEEDED", another.logs("last")
        times.append(time.time())
    in_flight, repeated = crash.paid_twice(tmp_path, out)
    steps = zip(STEPS, pairwise(times), strict=True)
    seconds = [f"{step} {end - begin:.0f} s" for step, (begin, end) in steps]
    print(f"{dead_actors(out)} dead, {in_flight} requests in flight sent again, {repeated} others")
    print(", ".join(seconds))
    assert in_flight <= dead_actors(out) * SLOTS / ACTORS
    assert repeated == 0
    assert crash.outputs(out) == crash.outputs(plain(pools, tmp_path / "plain"))


def dead_actors(out: Path) -> int:
    """How many died with calls in flight: each leaves a record of what these may cost."""
    return len(list((out / "exposure").glob("*.json")))


def plain(pools: Path, folder: Path) -> Path:
    """The results of a run to which nothing happens."""
    folder.mkdir()
    with crash.fakes(folder) as environ:
        environ.update(crash.limits([OPENAI]))
        run = annotate(pools, folder / "out", environ, "--judges", OPENAI)
    status, printed = run
    assert status == 0, printed
    return folder / "out"


@pytest.fixture(scope="module")
def port() -> int:
    """Where the servers are that the small cluster's workers call."""
    return crash.free_ports(1)[0]


@pytest.fixture(scope="module")
def small(port: int) -> Iterator[Cluster]:
    """A head alone, for tests that leave it as it was; the last one leaves it spoiled."""
    environ = crash.environment_at(port)
    del environ["TEST_OPTION_LIMITS"]  # of judges whom not every run has
    with Cluster(environ) as cluster:
        yield cluster


def test_the_job_runs_under_ray_job_submit(small: Cluster, tmp_path: Path) -> None:
    given = ["--submission-id", "job", "--working-dir", str(crash.ROOT), "--"]
    job = ["python", "jobs/run.py", "annotate", str(SAMPLE), "--out", str(tmp_path / "out")]
    said = small.job("submit", *given, *job, "--judges", "offline")
    assert small.status("job") == "SUCCEEDED", said
    assert "documents scored 329 · comparisons 3,948" in said, said
    assert len(pq.read_table(tmp_path / "out" / "scores.parquet")) == 329


def test_a_run_goes_on_when_the_driver_that_owns_the_coordinator_is_killed(
    small: Cluster, port: int, tmp_path: Path
) -> None:
    """Both share the limits of an account; the other one's budget is kept."""
    pools, cap = tmp_path / "pools.jsonl", 0.01
    crash.write_pools(pools, queries=12, documents=8)
    environ = {**small.environ, "RAY_ADDRESS": small.address}
    environ.update(crash.limits([OPENAI], rpm=RPM, concurrency=SLOTS // 2))  # of two runs
    with crash.fakes(tmp_path, "--rpm", str(RPM), "--burst", "2", port=port):
        owner = crash.annotate(pools, tmp_path / "first", environ, "--judges", OPENAI)
        await_answers(tmp_path, 20)
        flags = ("--judges", OPENAI, "--max-usd", str(cap))
        other = crash.annotate(pools, tmp_path / "other", environ, *flags)
        out = str(tmp_path / "other")
        await_("calls of both runs", lambda: len([*read_rows(out)]) > 20)
        crash.kill_tree(owner)
        status, printed = crash.finish(other)
        assert set(crash.stats(environ)["outcomes"]) == {"ok"}, "a limit of the account was met"
    spent = sum(row.dollars or 0.0 for row in read_rows(out))
    print(f"${spent:.4f} of ${cap}\n{printed}")
    assert status == 3, printed
    assert 0.5 * cap < spent <= cap


def line(cluster: Cluster, out: Path | str, **environ: str | None) -> str:
    """What is said in the one line of a run that cannot be on a cluster."""
    whole = {**cluster.environ, "RAY_ADDRESS": cluster.address, **environ}
    known = {name: value for name, value in whole.items() if value is not None}
    words = crash.annotating(SAMPLE, out, "--judges", "offline:bm25")
    with tempfile.TemporaryDirectory() as elsewhere:  # Ray's workers look where a driver stands
        run = crash.start(words, known, Path(elsewhere))
        status, printed = crash.finish(run)
    assert status == 1, printed
    _, where, *told = printed.splitlines()
    assert where == f"Running on Ray: RAY_ADDRESS is {cluster.address}."
    assert len(told) == 1, printed
    return told[0]


def test_a_cluster_that_wants_a_token_says_so(small: Cluster, tmp_path: Path) -> None:
    nothing = {"RAY_AUTH_MODE": None, "RAY_AUTH_TOKEN": None, "HOME": str(tmp_path)}
    for environ in (nothing, {**nothing, "RAY_AUTH_MODE": "token"}, {"RAY_AUTH_TOKEN": "another"}):
        said = line(small, tmp_path / "out", **environ)
        print(said)
        assert "RAY_AUTH_TOKEN" in said
        assert TOKEN not in said


def test_a_node_without_the_package_or_the_results_is_told_of(
    small: Cluster, tmp_path: Path
) -> None:
    other, out = tmp_path / "zelo_ray", tmp_path / "out"
    other.mkdir()
    out.mkdir()
    (other / "__init__.py").write_text("raise ImportError")
    bare = small.add(PYTHONPATH=str(tmp_path))
    said = line(small, out)
    assert "of the cluster has no zelo_ray, and this process is" in said
    bare.kill()
    await_("one node", lambda: small.nodes_alive() == 1)
    own = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs t {out} && exec "$@"', "sh")
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a disk of its own")
    small.add(*own)
    said = line(small, out)
    assert said.startswith(f"zelo-ray: {out}: not every node sees it (not ")


_ANOTHER_VERSION = """
import json, os, sys
from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
from ray._raylet import GcsClient
from zelo_ray import cli
told = json.dumps({"ray_version": "2.9.9", "python_version": "3.11.0"}).encode()
server = GcsClient(address=os.environ["RAY_ADDRESS"])
server.internal_kv_put(b"CLUSTER_METADATA", told, True, KV_NAMESPACE_CLUSTER)
sys.exit(cli.main(sys.argv[1:]))
"""
"""The command, on a cluster that says of itself that it is of another version."""


def test_a_cluster_of_another_version_is_told_of(small: Cluster, tmp_path: Path) -> None:
    """The last test of this cluster, which says since then that it is another."""
    words = ("annotate", str(SAMPLE), "--out", str(tmp_path / "other"), "--judges", "offline")
    environ = {**small.environ, "RAY_ADDRESS": small.address}
    program = [sys.executable, "-c", _ANOTHER_VERSION, *words]
    status, printed = crash.finish(crash.start(program, environ))
    assert status == 1, printed
    told = printed.splitlines()[-1]
    where = f"zelo-ray: RAY_ADDRESS={small.address}"
    assert told.startswith(f"{where}: no Ray can be joined there (RuntimeError: Version mismatch: ")
    assert "2.9.9" in told
    assert "Traceback" not in printed
