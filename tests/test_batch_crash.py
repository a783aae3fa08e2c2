"""Batches of a run that is killed at every step between a plan and its last result."""

import json
import subprocess
import sys
from collections import Counter

import pytest

from tests.batchrun import POINTS
from tests.crash import ROOT, fakes, journal, write_pools
from zelo_ray.batch.parts import Parts
from zelo_ray.ledger import read_rows

JUDGES = {
    "openai": "openai:gpt-6-luna",
    "anthropic": "anthropic:claude-haiku-5-5",
    "gemini": "gemini:gemini-3.1-flash-lite",
}
EVENTS = (
    "file_received",
    "create_received",
    "created",
    "results_half",
)
REQUESTS = 5 * 15


def start(tmp_path, environ, judge, point=""):
    command = [sys.executable, "-m", "tests.batchrun", str(tmp_path / "pools.jsonl")]
    command += [str(tmp_path / "out"), judge, str(tmp_path / "pid")]
    return subprocess.run(
        command + ([point] if point else []),
        cwd=ROOT,
        env=environ,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )


def verdicts(out):
    """What the ledger says in the end, by key; each answer is in it once."""
    rows = [row for row in read_rows(str(out)) if row.final and row.status == "ok"]
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: (row.status, row.text) for row in rows}


def check(tmp_path, environ, provider, first):
    """Run on until it ends by itself; no batch was submitted twice, and no result is lost."""
    judge = JUDGES[provider]
    assert first.returncode == -9, first.stderr
    last = start(tmp_path, environ, judge)
    assert last.returncode == 0, last.stderr
    said = [entry for entry in journal(tmp_path) if entry["endpoint"] == "line"]
    carried = Counter(entry["custom_id"] for entry in said)
    assert len(carried) == REQUESTS
    assert set(carried.values()) == {1}, "a request was answered, and billed, twice"
    assert len(verdicts(tmp_path / "out")) == REQUESTS
    paid = [row for row in read_rows(str(tmp_path / "out")) if row.status != "failed"]
    assert len(paid) == len(said)
    assert {part.state for part in Parts(str(tmp_path / "out"))} <= {"harvested", "void"}
    told = last.stdout + last.stderr + first.stdout + first.stderr
    assert "a-key-for-tests-only" not in told


@pytest.mark.parametrize("provider", JUDGES)
@pytest.mark.parametrize("point", POINTS)
def test_killed_between_two_calls(tmp_path, provider, point):
    write_pools(tmp_path / "pools.jsonl", queries=5, documents=6)
    with fakes(tmp_path) as environ:
        first = start(tmp_path, environ, JUDGES[provider], point)
        check(tmp_path, environ, provider, first)


@pytest.mark.parametrize("provider", JUDGES)
@pytest.mark.parametrize("event", EVENTS)
def test_killed_within_a_call(tmp_path, provider, event):
    if (provider, event) == ("anthropic", "file_received"):
        pytest.skip("Anthropic takes no file")
    write_pools(tmp_path / "pools.jsonl", queries=5, documents=6)
    with fakes(tmp_path, "--kill", f"{event}:1:{tmp_path / 'pid'}") as environ:
        first = start(tmp_path, environ, JUDGES[provider])
        check(tmp_path, environ, provider, first)


def test_killed_twice_while_it_adopts(tmp_path):
    """The second run dies as well, while it looks for the batch of the first."""
    write_pools(tmp_path / "pools.jsonl", queries=5, documents=6)
    kill = ("--kill", f"listed:1:{tmp_path / 'pid'}")
    with fakes(tmp_path, *kill) as environ:
        first = start(tmp_path, environ, JUDGES["anthropic"], "before id")
        assert first.returncode == -9
        second = start(tmp_path, environ, JUDGES["anthropic"])
        check(tmp_path, environ, "anthropic", second)


def test_the_ledger_of_batches_is_read_with_nothing_of_ours(tmp_path):
    write_pools(tmp_path / "pools.jsonl", queries=2, documents=4)
    with fakes(tmp_path) as environ:
        assert start(tmp_path, environ, JUDGES["openai"]).returncode == 0
    (record,) = (tmp_path / "out" / "batches").glob("*.json")
    part = json.loads(record.read_text())
    assert part["state"] == "harvested"
    (segment,) = (tmp_path / "out" / "replies").glob("*.jsonl")
    rows = [json.loads(line) for line in segment.read_text().splitlines()]
    assert {row["batch"] for row in rows} == {part["batch"]}
