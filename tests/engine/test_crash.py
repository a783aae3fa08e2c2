"""Kill a run at any moment: nothing paid for is lost, and nothing is paid for twice."""

import contextlib
import json
import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from tests.helpers import crash
from tests.helpers.jobs import annotate
from tests.helpers.nodes import await_
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.replies import format_dollars
from zelo_ray.errors import InputError
from zelo_ray.files.judgments import read_qrels

pytestmark = pytest.mark.ray

OPENAI = crash.DEFAULT_JUDGES[0]
KILLS = int(os.environ.get("ZELO_TEST_KILLS", "1"))
SLOTS = 24  # calls that a judge may have in flight
LATER = 60  # requests after which something else happens to a run


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pools") / "pools.jsonl"
    crash.write_pools(path, queries=2 + 4 * KILLS, documents=8)  # so that enough is left
    return path


@pytest.fixture(scope="module")
def undisturbed(pools: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The results of a run to which nothing happened."""
    folder = tmp_path_factory.mktemp("undisturbed")
    out = folder / "out"
    with crash.fakes(folder) as environ:
        status, printed = annotate(pools, out, environ)
    assert status == 0, printed
    return crash.outputs(out)


def descendants(process: "subprocess.Popen[str]", title: str) -> list[psutil.Process]:
    tree = psutil.Process(process.pid).children(recursive=True)
    return [each for each in tree if is_called(each, title)]


def is_called(process: psutil.Process, title: str) -> bool:
    """Whether a process has such a title; one that has just ended has none."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return title in " ".join(process.cmdline())
    return False


@pytest.mark.parametrize(
    ("begun", "ended"),
    [("local", "ray"), pytest.param("ray", "local", marks=pytest.mark.nightly)],
)
def test_a_run_interrupted_and_killed_pays_once_and_gives_the_same_bytes(
    pools: Path, undisturbed: dict[str, bytes], tmp_path: Path, begun: str, ended: str
) -> None:
    """An interrupt brings calls home; a kill of the run, or of an actor, costs those in flight."""
    rng, kills, out = random.Random(7), 0, tmp_path / "out"
    limits = {judge: {"rpm": 1e6, "concurrency": SLOTS} for judge in crash.DEFAULT_JUDGES}
    with (
        crash.fakes(tmp_path, "--latency", "0.2") as environ,
        tempfile.TemporaryDirectory(prefix="t-") as place,
    ):
        environ |= {"TEST_OPTION_LIMITS": json.dumps(limits), "TMPDIR": place}
        with crash.held(environ, after=LATER):
            run = crash.annotate(pools, out, environ, "--executor", begun)
            crash.await_requests(tmp_path, LATER, run)
            run.send_signal(signal.SIGTERM)
        status, printed = crash.finish(run)
        assert status == 1, printed
        assert "run the same command again to resume" in printed
        kept = len(crash.journal(tmp_path))
        assert len(list(read_rows(str(out)))) == kept
        with pytest.raises(InputError, match="is not finished; run the same command again"):
            read_qrels(str(out))
        for _ in range(KILLS):
            before, more = len(crash.journal(tmp_path)), rng.randint(1, 150)
            with crash.held(environ, after=more):
                run = crash.annotate(pools, out, environ, "--executor", begun)
                crash.await_requests(tmp_path, before + more, run)
                crash.kill_tree(run)
            kills += 1
        remains = {*Path(place).glob("zelo-*")}
        before = len(crash.journal(tmp_path))
        with crash.held(environ, after=LATER):
            run = crash.annotate(pools, out, environ, "--executor", ended)
            crash.await_requests(tmp_path, before + LATER, run)
            if ended == "ray":
                actors = descendants(run, "OnlineActor")
                assert actors, crash.end_and_describe(run)
                actors[0].kill()
                kills += 1
        status, printed = crash.finish(run)
        assert {*Path(place).glob("zelo-*")} == remains, "a run that ends removes its own"
        billed = sum(crash.billed(environ).values())
    assert status == 0, printed
    summary = json.loads((out / "run.json").read_text())["summary"]
    known, maybe = summary["dollars_in_all"], summary["maybe_dollars"]
    assert known <= billed <= known + maybe
    assert f"up to {format_dollars(maybe)} more may have been billed" in printed
    in_flight, repeated = crash.paid_twice(tmp_path, out)
    print(f"{kills} kills, {in_flight} requests in flight sent again, {repeated} others")
    assert in_flight <= kills * SLOTS * len(limits)
    assert repeated == 0
    assert crash.outputs(out) == undisturbed


@pytest.mark.nightly
def test_the_limits_hold_when_their_actor_is_killed(tmp_path: Path) -> None:
    pools = tmp_path / "pools.jsonl"
    crash.write_pools(pools, queries=7, documents=8)
    with crash.fakes(tmp_path, "--rpm", "1200", "--burst", "2", "--latency", "0.2") as environ:
        # So few slots that no stall of the machine alone meets the limit; see `test_cluster`.
        environ["TEST_OPTION_LIMITS"] = json.dumps({OPENAI: {"rpm": 1200, "concurrency": 15}})
        with crash.held(environ, after=LATER):
            flags = ("--judges", OPENAI, "--executor", "ray")
            process = crash.annotate(pools, tmp_path / "out", environ, *flags)
            crash.await_requests(tmp_path, LATER, process)
            (actor,) = descendants(process, "ray::Coordinator")
            actor.kill()
            killed, before = time.time(), len(crash.journal(tmp_path))
        status, printed = crash.finish(process)
        assert status == 0, printed
        server = environ["OPENAI_BASE_URL"].partition("/openai")[0]
        outcomes = json.load(urlopen(f"{server}/stats"))["outcomes"]
    assert outcomes == {"ok": 7 * 28}
    assert before < 6 * 28
    assert crash.paid_twice(tmp_path, tmp_path / "out") == (0, 0)
    after = sorted(e["arrived"] for e in crash.journal(tmp_path) if e["arrived"] > killed)
    print(
        f"{before} before; then {len(after)} in {after[-1] - after[0]:.1f} s, first after "
        f"{after[0] - killed:.2f} s\n{printed}"
    )


def test_the_cap_holds_when_the_actor_that_keeps_it_is_killed(tmp_path: Path) -> None:
    pools, cap = tmp_path / "pools.jsonl", 0.012
    crash.write_pools(pools, queries=12, documents=8)
    with crash.fakes(tmp_path, "--latency", "0.3") as environ:
        environ["TEST_OPTION_LIMITS"] = json.dumps({OPENAI: {"rpm": 1e6, "concurrency": SLOTS}})
        flags = ("--judges", OPENAI, "--max-usd", str(cap), "--executor", "ray")
        process = crash.annotate(pools, tmp_path / "out", environ, *flags)
        crash.await_requests(tmp_path, LATER, process)
        # First one that has spent, and will not tell of it any more; twice the one that knew it.
        for title in ("OnlineActor", "ray::Coordinator", "ray::Coordinator"):
            time.sleep(1.0)  # in which the driver learns of what was spent
            await_(title, lambda title=title: descendants(process, title))
            for actor in descendants(process, title):
                actor.kill()
        status, printed = crash.finish(process)
        billed = sum(crash.billed(environ).values())
    print(f"${billed:.4f} of ${cap}\n{printed}")
    assert status == 3, printed
    assert 0.5 * cap < billed <= cap
    in_flight, repeated = crash.paid_twice(tmp_path, tmp_path / "out")
    assert in_flight <= SLOTS
    assert repeated <= 0  # what was in flight need not be asked again: no money is left


@pytest.mark.nightly
@pytest.mark.parametrize("executor", ["local", "ray"])
@pytest.mark.parametrize("ignored", [False, True], ids=["closed", "nohup"])
def test_a_terminal_that_is_closed_loses_no_call(
    tmp_path: Path, ignored: bool, executor: str
) -> None:
    """The system tells all processes of the run, and a shell tells them again."""
    pools, out = tmp_path / "pools.jsonl", tmp_path / "out"
    queries = 4 if ignored else 100  # so many that they last until a slow machine has stopped
    crash.write_pools(pools, queries, documents=8)
    with crash.fakes(tmp_path, "--latency", "1") as environ:
        environ["TEST_OPTION_LIMITS"] = json.dumps({OPENAI: {"rpm": 1e6, "concurrency": SLOTS}})
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
        with crash.held(environ, after=2 * SLOTS):
            try:
                flags = ("--judges", OPENAI, "--executor", executor)
                run = crash.annotate(pools, out, environ, *flags, own_group=True)
            finally:
                signal.signal(signal.SIGHUP, before)
            crash.await_requests(tmp_path, 2 * SLOTS, run)
            for _ in range(2):
                os.killpg(run.pid, signal.SIGHUP)
        status, printed = crash.finish(run)
    assert status == (0 if ignored else 1), printed
    assert ("SIGHUP: waiting for calls in flight" in printed) != ignored
    answered = len(crash.journal(tmp_path))
    assert len(list(read_rows(str(out)))) == answered
    assert (answered == queries * 28) == ignored
