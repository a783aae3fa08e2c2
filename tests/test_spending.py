"""What runs cost, by the servers' own books: caps, pilots, lost judges, batches, kills; on Ray."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pyarrow.parquet as pq
import pytest

from tests import crash
from zelo_ray.batch.parts import Parts
from zelo_ray.ledger import read_rows

pytestmark = pytest.mark.ray

QUERIES, PAIRS = 30, 6  # of four documents each
REQUESTS = QUERIES * PAIRS
OPENAI, ANTHROPIC, GEMINI = crash.DEFAULT_JUDGES
KEY, TEXT = b"a-key-for-tests-only", "[[worth="
# US dollars for a million tokens in November 2026: input, output, read from a cache, written to it
PRICES = {
    "openai": (0.10, 0.50, 0.01, 0.10),
    "anthropic": (0.10, 0.50, 0.01, 0.125),
    "gemini": (0.25, 1.50, 0.025, 0.25),
}
USAGE = ("--cached", "0.3", "--thinking", "40")
SHORT = {judge: {"max_output_tokens": 400} for judge in crash.DEFAULT_JUDGES}
QUICKLY = ("--mode", "batch", "--batch-poll", "0.5")
JUDGMENTS = ("annotated.jsonl", "scores.parquet", "votes.parquet")


def billed(environ: dict[str, str]) -> dict[bool, float]:
    """What the servers have billed for calls (False) and in batches (True), in US dollars."""
    sums = {False: 0.0, True: 0.0}
    server = environ["OPENAI_BASE_URL"].partition("/openai")[0]
    for row in json.load(urlopen(f"{server}/books")):
        read, written = row.get("cached", 0), row.get("cache_write", 0)
        plain, out = row.get("input", 0) - read - written, row.get("output", 0)
        amounts = zip((plain, out, read, written), PRICES[row["provider"]], strict=True)
        dollars = sum(amount * price for amount, price in amounts) / 1e6
        sums[row["batch"]] += dollars * (0.5 if row["batch"] else 1.0)
    return sums


def stats(environ: dict[str, str]) -> dict[str, Any]:
    server = environ["OPENAI_BASE_URL"].partition("/openai")[0]
    return json.load(urlopen(f"{server}/stats"))


def summary(out: Path) -> dict[str, Any]:
    return json.loads((out / "run.json").read_text())["summary"]


def failures(out: Path) -> list[dict[str, Any]]:
    return pq.read_table(out / "failures.parquet").to_pylist()


def exactly(amount: float) -> Any:
    return pytest.approx(amount, rel=1e-9)


def run(pools: Path, out: Path, environ: dict[str, str], *flags: str) -> tuple[int, str]:
    return crash.finish(crash.annotate(pools, out, environ, *flags))


def away(out: Path, environ: dict[str, str], *flags: str) -> str:
    """What ``zelo-ray batches`` prints."""
    return subprocess.run(
        [*crash.COMMAND, "batches", str(out), *flags],
        env={**environ, "COLUMNS": "200"},
        cwd=crash.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def lines(folder: Path) -> list[dict[str, Any]]:
    """The requests that batches brought and the servers came to."""
    return [entry for entry in crash.journal(folder) if entry["endpoint"] == "line"]


def await_batches(folder: Path, count: int, process: "subprocess.Popen[str]") -> None:
    """Return once so many batches have been created."""
    while process.poll() is None:
        if sum(entry["endpoint"] == "create" for entry in crash.journal(folder)) >= count:
            return
        time.sleep(0.05)


def holding(folder: Path, needle: bytes) -> list[Path]:
    """The files below a folder that hold these bytes; some come and go meanwhile."""
    found = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink() and needle in path.read_bytes():
                found.append(path)
    return found


def descendants(process: "subprocess.Popen[str]", title: str) -> list[psutil.Process]:
    tree = psutil.Process(process.pid).children(recursive=True)
    return [each for each in tree if title in " ".join(each.cmdline())]


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pools") / "pools.jsonl"
    crash.write_pools(path, queries=QUERIES, documents=4)
    return path


@dataclass(frozen=True)
class Plain:
    """A run to which nothing happened, online: its results, and what it cost."""

    outputs: dict[str, bytes]
    dollars: float


@pytest.fixture(scope="module")
def plain(pools: Path, tmp_path_factory: pytest.TempPathFactory) -> Plain:
    folder = tmp_path_factory.mktemp("plain")
    with crash.fakes(folder, *USAGE) as environ:
        status, printed = run(pools, folder / "out", environ)
        assert status == 0, printed
        return Plain(crash.outputs(folder / "out"), billed(environ)[False])


# The books


def test_what_a_run_says_it_cost_is_what_the_servers_billed(pools: Path, tmp_path: Path) -> None:
    faults = (
        *("500:rate=0.05", "429:rate=0.02,retry_after=0.1", "malformed_billed:rate=0.05"),
        *("prose:rate=0.15", "refusal:rate=0.03", "filtered:rate=0.03"),
        *(f"batch_expired:total=1,provider={name}" for name in PRICES),
    )
    flags = [flag for fault in faults for flag in ("--fault", fault)]
    with crash.fakes(tmp_path, *USAGE, *flags) as environ:
        status, printed = run(pools, tmp_path / "online", environ)
        assert status == 3, printed
        online = billed(environ)
        status, more = run(pools, tmp_path / "batch", environ, *QUICKLY)
        assert status == 3, more
        batch = billed(environ)
        struck = stats(environ)["outcomes"]
    assert all(struck.get(fault.partition(":")[0]) for fault in faults[:6]), struck
    assert online[True] == 0
    assert summary(tmp_path / "online")["dollars"] == exactly(online[False])
    assert batch[False] == online[False]
    assert summary(tmp_path / "batch")["dollars"] == exactly(batch[True])
    for name, again in (("online", {"failed", "invalid"}), ("batch", {"invalid"})):
        out = tmp_path / name
        assert summary(out)["unpriced"] == 0
        assert summary(out)["dollars_in_all"] == summary(out)["dollars"]
        assert {row.status for row in read_rows(str(out)) if not row.final} == again
        assert holding(out, KEY) == []
    ended = Counter(part.judge for part in Parts(str(tmp_path / "batch")))
    assert min(ended[judge] for judge in crash.DEFAULT_JUDGES) >= 2
    assert KEY.decode() not in printed + more
    assert TEXT not in printed + more


# A cap


def test_a_cap_is_never_exceeded_and_a_higher_one_completes_the_run(
    pools: Path, plain: Plain, tmp_path: Path
) -> None:
    cap = round(plain.dollars / 2, 4)
    with crash.fakes(tmp_path, *USAGE) as environ:
        environ["ZELO_RAY_JUDGE_OPTIONS"] = json.dumps(SHORT)
        status, printed = run(pools, tmp_path / "out", environ, "--max-usd", str(cap))
        assert status == 3, printed
        spent = billed(environ)[False]
        assert 0.8 * cap < spent <= cap
        assert summary(tmp_path / "out")["dollars"] == exactly(spent)
        missing = failures(tmp_path / "out")
        votes = pq.read_table(tmp_path / "out" / "votes.parquet")
        assert len(votes) + len(missing) == 3 * REQUESTS
        assert all("not asked: the budget of" in f["reason"] for f in missing)
        assert {f["judge"] for f in missing} <= set(summary(tmp_path / "out")["absent"])
        assert "the budget of" in printed
        status, more = run(pools, tmp_path / "out", environ, "--max-usd", "5")
        assert status == 0, more
        assert billed(environ)[False] == exactly(plain.dollars)
    assert summary(tmp_path / "out")["dollars_in_all"] == exactly(plain.dollars)
    assert summary(tmp_path / "out")["dollars"] == exactly(plain.dollars - spent)
    assert crash.paid_twice(tmp_path, []) == (0, 0)
    print(f"cap ${cap}: spent ${spent:.6f}\n{printed}\n{more}")


def test_a_cap_holds_in_batches_too(pools: Path, plain: Plain, tmp_path: Path) -> None:
    cap = round(plain.dollars / 4, 4)
    with crash.fakes(tmp_path, *USAGE) as environ:
        environ["ZELO_RAY_JUDGE_OPTIONS"] = json.dumps(SHORT)
        status, printed = run(pools, tmp_path / "out", environ, *QUICKLY, "--max-usd", str(cap))
        assert status == 3, printed
        spent = billed(environ)
    assert spent[False] == 0
    assert 0.8 * cap < spent[True] <= cap
    assert summary(tmp_path / "out")["dollars"] == exactly(spent[True])
    votes = pq.read_table(tmp_path / "out" / "votes.parquet")
    missing = failures(tmp_path / "out")
    assert len(votes) + len(missing) == 3 * REQUESTS
    assert all("not asked: the budget of" in failure["reason"] for failure in missing)
    waves = Counter(part.judge for part in Parts(str(tmp_path / "out")))
    assert max(waves.values()) > 1, "nobody waited for money that came back"
    assert set(Counter(entry["custom_id"] for entry in lines(tmp_path)).values()) == {1}
    print(f"{dict(waves)}, spent ${spent[True]:.6f} of ${cap}\n{printed}")


def test_a_judge_of_unknown_price_cannot_be_capped(pools: Path, tmp_path: Path) -> None:
    with crash.fakes(tmp_path) as environ:
        judge = f"openai:x@{environ['OPENAI_BASE_URL']}"
        flags = ("--judges", OPENAI, judge, "--max-usd", "1")
        status, printed = run(pools, tmp_path / "out", environ, *flags)
    assert status == 2
    assert len(printed.splitlines()) == 1
    assert judge in printed
    assert OPENAI not in printed
    assert crash.journal(tmp_path) == []


# Before


def test_an_estimate_needs_no_key_makes_no_call_and_writes_nothing(
    pools: Path, tmp_path: Path
) -> None:
    with crash.fakes(tmp_path) as environ:
        keyless = {name: value for name, value in environ.items() if not name.endswith("_API_KEY")}
        flags = ("--dry-run", "--judges", *crash.DEFAULT_JUDGES)
        status, printed = run(pools, tmp_path / "out", keyless, *flags)
    assert status == 0, printed
    assert f"{3 * REQUESTS:,} of {3 * REQUESTS:,} requests" in printed
    assert crash.journal(tmp_path) == []
    assert not (tmp_path / "out").exists()


def test_a_pilot_tells_what_the_rest_will_cost(pools: Path, plain: Plain, tmp_path: Path) -> None:
    with crash.fakes(tmp_path, *USAGE) as environ:
        status, printed = run(pools, tmp_path / "out", environ, "--pilot", "5")
        assert status == 0, printed
        assert len((tmp_path / "out" / "annotated.jsonl").read_text().splitlines()) == 5
        pilot = billed(environ)[False]
        assert summary(tmp_path / "out")["dollars"] == exactly(pilot)
        *_, together = re.findall(r"^together +(\$.*)$", printed, re.MULTILINE)
        low, expected, high = [float(amount.strip("$")) for amount in together.split()[:3]]
        status, more = run(pools, tmp_path / "out", environ)
        assert status == 0, more
        assert billed(environ)[False] == exactly(plain.dollars)
    rest = plain.dollars - pilot
    assert low <= rest <= high
    assert expected == pytest.approx(rest, rel=0.1)
    assert crash.outputs(tmp_path / "out") == plain.outputs
    assert crash.paid_twice(tmp_path, []) == (0, 0)
    print(f"pilot ${pilot:.6f}; rest: {together}, paid ${rest:.6f}\n{printed}\n{more}")


# A judge that has to stop


def test_a_run_goes_on_without_a_judge_only_if_it_may(
    pools: Path, plain: Plain, tmp_path: Path
) -> None:
    with crash.fakes(tmp_path, *USAGE, "--fault", "no_model:provider=gemini") as environ:
        status, printed = run(pools, tmp_path / "out", environ)
        assert status == 1, printed
        *_, last = printed.splitlines()
        assert last.startswith(f"zelo-ray: {GEMINI}: no such model")
        assert sum(GEMINI in line for line in printed.splitlines()[1:]) == 1
        asked = Counter(entry["provider"] for entry in crash.journal(tmp_path))
        assert 0 < asked["gemini"] < REQUESTS
        status, more = run(pools, tmp_path / "out", environ, "--allow-missing-judges")
        assert status == 3, more
    assert len(pq.read_table(tmp_path / "out" / "scores.parquet")) == QUERIES * 4
    missing = failures(tmp_path / "out")
    assert len(missing) == REQUESTS
    assert {failure["judge"] for failure in missing} == {GEMINI}
    assert all("no such model" in failure["reason"] for failure in missing)
    assert list(summary(tmp_path / "out")["absent"]) == [GEMINI]
    with crash.fakes(tmp_path, *USAGE) as environ:
        status, last = run(pools, tmp_path / "out", environ)
    assert status == 0, last
    assert crash.outputs(tmp_path / "out") == plain.outputs
    answered = Counter(entry["sha"] for entry in crash.journal(tmp_path) if entry["status"] == 200)
    assert set(answered.values()) == {1}
    print(f"{printed}\n{more}\n{last}")


# Kills


def test_the_limits_hold_when_their_actor_is_killed(tmp_path: Path) -> None:
    pools = tmp_path / "pools.jsonl"
    crash.write_pools(pools, queries=10, documents=8)
    with crash.fakes(tmp_path, "--rpm", "1200", "--burst", "2", "--latency", "0.2") as environ:
        environ["ZELO_RAY_LIMITS"] = json.dumps({OPENAI: {"rpm": 1200}})
        process = crash.annotate(pools, tmp_path / "out", environ, "--judges", OPENAI)
        crash.await_requests(tmp_path, 100, process)
        (actor,) = descendants(process, "ray::SharedLimits")
        actor.kill()
        killed, before = time.time(), len(crash.journal(tmp_path))
        status, printed = crash.finish(process)
        assert status == 0, printed
        outcomes = stats(environ)["outcomes"]
    assert outcomes == {"ok": 280}
    assert before < 250
    assert crash.paid_twice(tmp_path, []) == (0, 0)
    after = sorted(e["arrived"] for e in crash.journal(tmp_path) if e["arrived"] > killed)
    print(
        f"{before} before; then {len(after)} in {after[-1] - after[0]:.1f} s, first after "
        f"{after[0] - killed:.2f} s\n{printed}"
    )


_TWO_NODES = """
import sys
from ray.cluster_utils import Cluster
node = dict(num_cpus=2, object_store_memory=200 * 2**20)
cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
cluster.add_node(**node)
print(cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@contextmanager
def two_nodes(environ: dict[str, str]) -> Iterator[tuple[str, psutil.Process]]:
    """A Ray cluster on this machine: its address, and the raylet of its second node."""
    command = [sys.executable, "-c", _TWO_NODES]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=environ, **pipes) as process:
        assert process.stdout
        assert process.stdin
        try:
            address = process.stdout.readline().strip()
            below = psutil.Process(process.pid).children(recursive=True)
            raylets = [each for each in below if each.name() == "raylet"]
            yield address, max(raylets, key=psutil.Process.create_time)
        finally:
            process.stdin.close()


def test_a_node_that_is_killed_costs_only_its_calls_in_flight(
    plain: Plain, pools: Path, tmp_path: Path
) -> None:
    (tmp_path / "shards").mkdir()
    rows = pools.read_text().splitlines(keepends=True)
    for shard in range(6):
        part = "".join(rows[5 * shard : 5 * shard + 5])
        (tmp_path / "shards" / f"{shard}.jsonl").write_text(part)
    with (
        crash.fakes(tmp_path, *USAGE, "--latency", "0.5") as environ,
        two_nodes(environ) as (address, raylet),
    ):
        environ["RAY_ADDRESS"] = address
        limits = {judge: {"rpm": 1e6, "concurrency": 18} for judge in crash.DEFAULT_JUDGES}
        environ["ZELO_RAY_LIMITS"] = json.dumps(limits)
        flags = ("--actors", "3")  # nine, which Ray places as it likes
        process = crash.annotate(tmp_path / "shards", tmp_path / "out", environ, *flags)
        crash.await_requests(tmp_path, 150, process)
        asking: list[psutil.Process] = []
        while not asking and process.poll() is None:
            node = raylet.children(recursive=True)
            asking = [each for each in node if "Ask" in " ".join(each.cmdline())]
        began = time.time()
        for each in (raylet, *node):
            each.kill()
        killed = (began, time.time())
        status, printed = crash.finish(process)
        first = (status, printed)
        if status:
            status, printed = crash.finish(
                crash.annotate(tmp_path / "shards", tmp_path / "out", environ, *flags)
            )
    assert status == 0, printed
    assert asking, "no actor was on that node"
    in_flight, repeated = crash.paid_twice(tmp_path, [killed])
    print(
        f"{len(asking)} actors killed, {in_flight} requests sent again, {repeated} others\n{first}"
    )
    assert repeated == 0
    assert crash.outputs(tmp_path / "out") == plain.outputs


# Batches


def test_batches_outlive_an_interrupt_and_can_be_cancelled(
    pools: Path, plain: Plain, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with (
        tempfile.TemporaryDirectory(prefix="zs-", dir="/tmp") as short,
        crash.fakes(tmp_path, *USAGE, "--batch-seconds", "25") as environ,
    ):
        environ["TMPDIR"] = short  # where Ray's own files lie
        process = crash.annotate(pools, out, environ, *QUICKLY, own_group=True)
        await_batches(tmp_path, 3, process)
        assert process.poll() is None
        told = holding(Path(short), KEY) + holding(Path(short), TEXT.encode())
        assert list(Path(short).rglob("gcs_server*")), "these are not Ray's logs"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        asked = time.time()
        status, printed = crash.finish(process)
        took = time.time() - asked
        assert status == 1, printed
        assert "batches stay at their providers" in printed
        assert "the same command goes on from here" in printed
        listed = away(out, environ)
        for judge, state in zip(
            crash.DEFAULT_JUDGES, ("in_progress", "in_progress", ""), strict=True
        ):
            (row,) = [line for line in listed.splitlines() if line.startswith(judge)]
            assert state in row
        assert lines(tmp_path) == []
        cancelled = away(out, environ, "--cancel")
        status, more = run(pools, out, environ, *QUICKLY)
        assert status == 0, more
        assert billed(environ) == {False: 0.0, True: exactly(plain.dollars / 2)}
        collected = away(out, environ)
    answers = Counter(entry["custom_id"] for entry in lines(tmp_path))
    assert len(answers) == 3 * REQUESTS
    assert set(answers.values()) == {1}
    assert collected.count("collected") == len(list(Parts(str(out)))) == 6
    assert {name: (out / name).read_bytes() for name in JUDGMENTS} == {
        name: plain.outputs[name] for name in JUDGMENTS
    }
    said = printed + listed + cancelled + more + collected
    assert KEY.decode() not in said
    assert TEXT not in said
    assert holding(out, KEY) == told == []
    print(f"{took:.1f} s\n{printed}\n{listed}\n{cancelled}\n{more}\n{collected}")


def test_a_run_killed_among_its_batches_ends_as_one_online(
    pools: Path, plain: Plain, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with crash.fakes(tmp_path, *USAGE, "--batch-seconds", "3") as environ:
        process = crash.annotate(pools, out, environ, *QUICKLY)
        await_batches(tmp_path, random.randint(1, 3), process)
        time.sleep(3.2 * random.random())
        alive = process.poll() is None
        crash.kill_tree(process)
        states = Counter(part.state for part in Parts(str(out)))
        status, printed = run(pools, out, environ, *QUICKLY)
        assert status == 0, printed
        assert billed(environ) == {False: 0.0, True: exactly(plain.dollars / 2)}
    assert alive
    answers = Counter(entry["custom_id"] for entry in lines(tmp_path))
    assert len(answers) == 3 * REQUESTS
    assert set(answers.values()) == {1}
    assert Counter(entry["endpoint"] for entry in crash.journal(tmp_path))["create"] == 3
    assert {name: (out / name).read_bytes() for name in JUDGMENTS} == {
        name: plain.outputs[name] for name in JUDGMENTS
    }
    print(f"killed with {dict(states)}\n{printed}")
