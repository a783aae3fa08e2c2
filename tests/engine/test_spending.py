"""What runs cost, by the servers' own books: caps, pilots, lost judges, batches; on Ray."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.fakes import Fakes
from tests.helpers import crash
from tests.helpers.builders import set_in_file
from tests.helpers.crash import PRICES, billed, stats
from tests.helpers.jobs import annotate
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.ledger import read_rows

QUERIES, PAIRS = 30, 6  # of four documents each
REQUESTS = QUERIES * PAIRS
OPENAI, ANTHROPIC, GEMINI = crash.DEFAULT_JUDGES
KEY, TEXT = b"a-key-for-tests-only", "[[worth="
WRONG_KEY = "sk-a-wrong-and-secret-key"
USAGE = ("--cached", "0.3", "--thinking", "40")
SHORT = {
    "TEST_OPTION_JUDGE_OPTIONS": json.dumps(
        {judge: {"max_output_tokens": 400} for judge in crash.DEFAULT_JUDGES}
    )
}
"""Answers that are short for certain: with a cap, each call reserves what it might cost."""
QUICKLY = ("--mode", "batch", *set_in_file(batch_poll=0.5))
JUDGMENTS = ("annotated.jsonl", "scores.parquet", "votes.parquet")


def summary(out: Path) -> dict[str, Any]:
    return json.loads((out / "run.json").read_text())["summary"]


def failures(out: Path) -> list[dict[str, Any]]:
    return pq.read_table(out / "failures.parquet").to_pylist()


def exactly(amount: float) -> Any:
    return pytest.approx(amount, rel=1e-9)


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


def await_batches(fakes: Fakes, count: int, process: "subprocess.Popen[str]") -> None:
    """Return once so many batches have been created."""
    while process.poll() is None and len(fakes.store.batches) < count:
        time.sleep(0.05)


def await_records(out: Path, count: int, process: "subprocess.Popen[str]") -> None:
    """Return once the run knows of so many batches."""
    while process.poll() is None and sum(p.state == "submitted" for p in Parts(str(out))) < count:
        time.sleep(0.05)


def holding(folder: Path, needle: bytes) -> list[Path]:
    """The files below a folder that hold these bytes; some come and go meanwhile."""
    found = []
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink() and needle in path.read_bytes():
                found.append(path)
    return found


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
        status, printed = annotate(pools, folder / "out", environ | SHORT)
        assert status == 0, printed
        return Plain(crash.outputs(folder / "out"), billed(environ)[False])


# The books


@pytest.mark.nightly
def test_what_a_run_says_it_cost_is_what_the_servers_billed(pools: Path, tmp_path: Path) -> None:
    faults = (
        *("500:rate=0.05", "429:rate=0.02,retry_after=0.1", "malformed_billed:rate=0.05"),
        *("prose:rate=0.15", "refusal:rate=0.03", "filtered:rate=0.03"),
        *(f"batch_expired:total=1,provider={name}" for name in PRICES),
    )
    flags = [flag for fault in faults for flag in ("--fault", fault)]
    with crash.fakes(tmp_path, *USAGE, *flags) as environ:
        status, printed = annotate(pools, tmp_path / "online", environ)
        assert status == 3, printed
        online = billed(environ)
        status, more = annotate(pools, tmp_path / "batch", environ, *QUICKLY)
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


# One run in five commands: a pilot, a cap, a wrong key, a judge that is gone, and to its end


@dataclass(frozen=True)
class Stage:
    """What a command of the run has done, and how all stood after it."""

    status: int
    printed: str
    out: Path
    """A copy of the directory of the run."""
    calls: list[dict[str, Any]]
    """What the servers were asked meanwhile."""
    billed: float
    """US dollars in all so far."""

    @property
    def votes(self) -> Counter[str]:
        """How many each judge has given."""
        return Counter(pq.read_table(self.out / "votes.parquet")["judge"].to_pylist())


class Story:
    """A run that goes on, command by command, in one directory."""

    def __init__(self, pools: Path, folder: Path) -> None:
        self._pools, self.folder = pools, folder
        self._billed = 0.0

    def go_on(self, name: str, *flags: str, fault: str = "", **variables: str) -> Stage:
        """Run the command once more, with servers of its own."""
        before, faults = len(crash.journal(self.folder)), ("--fault", fault) if fault else ()
        with crash.fakes(self.folder, *USAGE, *faults) as servers:
            environ = servers | SHORT | variables
            status, printed = annotate(self._pools, self.folder / "out", environ, *flags)
            self._billed += billed(servers)[False]
        shutil.copytree(self.folder / "out", self.folder / name)
        calls = crash.journal(self.folder)[before:]
        print(f"{name}: exit {status}, ${self._billed:.6f}\n{printed}")
        return Stage(status, printed, self.folder / name, calls, self._billed)


@pytest.fixture(scope="module")
def story(pools: Path, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(pools, tmp_path_factory.mktemp("story"))


@pytest.fixture(scope="module")
def pilot(story: Story) -> Stage:
    return story.go_on("pilot", "--pilot", "5")


@pytest.fixture(scope="module")
def capped(story: Story, pilot: Stage, plain: Plain) -> Stage:
    return story.go_on("capped", "--max-usd", str(cap_of(plain)))


@pytest.fixture(scope="module")
def locked_out(story: Story, capped: Stage) -> Stage:
    limits = {judge: {"rpm": 1e6, "concurrency": 8} for judge in crash.DEFAULT_JUDGES}
    variables = {"ANTHROPIC_API_KEY": WRONG_KEY, "TEST_OPTION_LIMITS": json.dumps(limits)}
    return story.go_on("locked_out", **variables)


@pytest.fixture(scope="module")
def forsaken(story: Story, locked_out: Stage) -> Stage:
    fault = "no_model:provider=anthropic"
    return story.go_on("forsaken", "--allow-missing-judges", fault=fault)


@pytest.fixture(scope="module")
def whole(story: Story, forsaken: Stage) -> Stage:
    return story.go_on("whole", "--max-usd", "5")


def cap_of(plain: Plain) -> float:
    """Leave after the pilot less than any one judge still costs, so that none can end first."""
    return round(0.3 * plain.dollars, 4)


def test_a_pilot_tells_what_the_rest_will_cost(pilot: Stage, plain: Plain) -> None:
    assert pilot.status == 0, pilot.printed
    assert len((pilot.out / "annotated.jsonl").read_text().splitlines()) == 5
    assert summary(pilot.out)["dollars"] == exactly(pilot.billed)
    spans = re.findall(r"\$([\d.]+) \[\$([\d.]+), \$([\d.]+)\]", pilot.printed)[::2]  # online
    expected, low, high = [sum(map(float, amounts)) for amounts in zip(*spans, strict=True)]
    rest = plain.dollars - pilot.billed
    assert low <= rest <= high
    assert expected == pytest.approx(rest, rel=0.1)


def test_a_cap_is_never_exceeded(pilot: Stage, capped: Stage, plain: Plain) -> None:
    """Also by what was spent before it was set."""
    assert capped.status == 3, capped.printed
    assert 0.8 * cap_of(plain) < capped.billed <= cap_of(plain)
    assert summary(capped.out)["dollars"] == exactly(capped.billed - pilot.billed)
    shown = re.findall(r"\$([\d.]+) of \$([\d.]+)", capped.printed)[-1]
    assert pilot.billed < float(shown[0]) <= float(shown[1]) == cap_of(plain)
    assert "is used up" in capped.printed.partition("stopped: ")[2]
    assert summary(capped.out)["dollars_in_all"] == exactly(capped.billed)
    missing = failures(capped.out)
    assert capped.votes.total() + len(missing) == 3 * REQUESTS
    assert all("not asked: the budget of" in f["reason"] for f in missing)
    assert {f["judge"] for f in missing} <= set(summary(capped.out)["disabled"])
    assert "the budget of" in capped.printed
    assert {call["status"] for call in pilot.calls + capped.calls} == {200}


def test_a_wrong_key_stops_the_run_and_is_not_shown(capped: Stage, locked_out: Stage) -> None:
    assert locked_out.status == 1, locked_out.printed
    *_, last = locked_out.printed.splitlines()
    assert last.startswith(f"zelo-ray: {ANTHROPIC}: ")
    assert "ANTHROPIC_API_KEY" in last
    assert sum(line.startswith("zelo-ray: ") for line in locked_out.printed.splitlines()) == 1
    refused = [call for call in locked_out.calls if call["provider"] == "anthropic"]
    assert 0 < len(refused) < REQUESTS - capped.votes[ANTHROPIC]
    assert not any(call["status"] == 200 for call in refused)
    assert "secret-key" not in locked_out.printed
    assert holding(locked_out.out, b"secret-key") == []


def test_a_run_goes_on_without_a_judge_if_it_may(capped: Stage, forsaken: Stage) -> None:
    assert forsaken.status == 3, forsaken.printed
    assert len(pq.read_table(forsaken.out / "scores.parquet")) == QUERIES * 4
    left = REQUESTS - capped.votes[ANTHROPIC]
    assert forsaken.votes == {
        OPENAI: REQUESTS,
        GEMINI: REQUESTS,
        ANTHROPIC: capped.votes[ANTHROPIC],
    }
    missing = failures(forsaken.out)
    assert len(missing) == left > 0
    assert {failure["judge"] for failure in missing} == {ANTHROPIC}
    assert all("no such model" in failure["reason"] for failure in missing)
    assert list(summary(forsaken.out)["disabled"]) == [ANTHROPIC]


def test_a_run_that_was_stopped_in_every_way_ends_as_a_plain_one(
    story: Story, forsaken: Stage, whole: Stage, plain: Plain
) -> None:
    """It paid once for each answer, under a higher cap, and its results are the same bytes."""
    assert whole.status == 0, whole.printed
    assert whole.billed == exactly(plain.dollars)
    assert summary(whole.out)["dollars_in_all"] == exactly(plain.dollars)
    assert summary(whole.out)["dollars"] == exactly(plain.dollars - forsaken.billed)
    assert crash.outputs(whole.out) == plain.outputs
    answered = Counter(e["sha"] for e in crash.journal(story.folder) if e["status"] == 200)
    assert len(answered) == 3 * REQUESTS
    assert set(answered.values()) == {1}


# Batches


@dataclass(frozen=True)
class Interrupted:
    """A run whose batches were on their way when it was interrupted; then they were cancelled."""

    fakes: Fakes
    environ: dict[str, str]
    folder: Path
    status: int
    printed: str
    leaked: list[Path]
    """Files of Ray's own that held a key or a text."""
    listed: str
    answered: int
    """Requests whose batch had ended before it was cancelled."""
    cancelled: str

    @property
    def out(self) -> Path:
        return self.folder / "out"


@pytest.fixture(scope="module")
def interrupted(pools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Interrupted]:
    """Its batches end only when they are cancelled; those that follow take moments.

    They would take so long that none has answered a request by then, however slow the machine is:
    one answer would show that its judge gives judgments, which then needs no small batch for that.
    """
    folder = tmp_path_factory.mktemp("away")
    out = folder / "out"
    with (
        tempfile.TemporaryDirectory(prefix="zs-", dir="/tmp") as short,
        Fakes(
            journal=folder / "journal.jsonl",
            cached=0.3,
            thinking=40,
            batch_seconds=1e9,
        ) as fakes,
    ):
        environ = crash.environment(fakes.urls) | SHORT
        there = {"TMPDIR": short}  # where Ray's own files lie
        process = crash.annotate(
            *(pools, out, environ | there), *QUICKLY, "--executor", "ray", own_group=True
        )
        await_records(out, 3, process)
        assert process.poll() is None, crash.finish(process)[1]
        (rays,) = Path(short).glob("zelo-*")
        assert list(rays.rglob("gcs_server*")), "these are not Ray's logs"
        leaked = holding(rays, KEY) + holding(rays, TEXT.encode())
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
        status, printed = crash.finish(process)
        listed, answered = away(out, environ), len(lines(folder))
        cancelled = away(out, environ, "--cancel")
        fakes.store.seconds = 3.0
        yield Interrupted(
            fakes, environ, folder, status, printed, leaked, listed, answered, cancelled
        )


@pytest.mark.ray
def test_batches_outlive_an_interrupt(interrupted: Interrupted) -> None:
    assert interrupted.status == 1, interrupted.printed
    assert "batches stay at their providers" in interrupted.printed
    assert "run the same command again to resume" in interrupted.printed
    states = ("in_progress", "in_progress", "")
    for judge, state in zip(crash.DEFAULT_JUDGES, states, strict=True):
        (row,) = [line for line in interrupted.listed.splitlines() if line.startswith(judge)]
        assert state in row
    assert interrupted.answered == 0
    assert interrupted.leaked == []


@pytest.mark.ray
@pytest.mark.nightly
def test_a_run_cancelled_and_killed_among_its_batches_ends_as_one_online(
    interrupted: Interrupted, pools: Path, plain: Plain
) -> None:
    environ, fakes, out = interrupted.environ, interrupted.fakes, interrupted.out
    process = crash.annotate(pools, out, environ, *QUICKLY)
    await_batches(fakes, 3 + random.randint(1, 3), process)
    time.sleep(3.2 * random.random())  # up to the end of the batches
    assert process.poll() is None, crash.finish(process)[1]
    crash.kill_tree(process)
    states = Counter(part.state for part in Parts(str(out)))
    status, printed = crash.finish(crash.annotate(pools, out, environ, *QUICKLY))
    assert status == 0, printed
    assert billed(environ) == {False: 0.0, True: exactly(plain.dollars / 2)}
    answers = Counter(entry["custom_id"] for entry in lines(interrupted.folder))
    assert len(answers) == 3 * REQUESTS
    assert set(answers.values()) == {1}
    # Of each judge: the one that was cancelled, a small one that shows what it gives, and the rest.
    assert len(fakes.store.batches) == 9, list(fakes.store.batches.values())
    ended = Counter(part.state for part in Parts(str(out)))
    collected = away(out, environ)
    assert collected.count("collected") == ended["harvested"] == 9
    assert set(ended) <= {"harvested", "void"}
    assert {name: (out / name).read_bytes() for name in JUDGMENTS} == {
        name: plain.outputs[name] for name in JUDGMENTS
    }
    said = interrupted.printed + interrupted.listed + interrupted.cancelled + printed + collected
    assert KEY.decode() not in said
    assert TEXT not in said
    assert holding(out, KEY) == []
    print(f"killed with {dict(states)}\n{said}")
