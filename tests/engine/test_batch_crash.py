"""Batches of a run that is killed at every step between a plan and its last result."""

import json
import os
from collections import Counter
from itertools import product

import pytest

from tests.fakes.__main__ import Killer
from tests.helpers.batchrun import POINTS, run
from tests.helpers.crash import write_pools
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.ledger import read_rows

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


def kills(moments):
    """Each provider at each moment."""
    return [
        each
        for each in product(JUDGES, moments)
        if each != ("anthropic", "file_received")  # Anthropic takes no file
    ]


def start(tmp_path, environ, judge, point=""):
    return run(tmp_path, {**os.environ, **environ}, judge, point)


def verdicts(out):
    """What the ledger says in the end, by key; each answer is in it once."""
    rows = [row for row in read_rows(str(out)) if row.final and row.status == "ok"]
    assert len({row.key for row in rows}) == len(rows)
    return {row.key: (row.status, row.text) for row in rows}


def check(tmp_path, fakes, environ, provider, first):
    """Run on until it ends by itself; no batch was submitted twice, and no result is lost."""
    judge = JUDGES[provider]
    assert first.status == -9, first.said
    last = start(tmp_path, environ, judge)
    assert last.status == 0, last.said
    said = [entry for entry in fakes.journal if entry["endpoint"] == "line"]
    carried = Counter(entry["custom_id"] for entry in said)
    assert len(carried) == REQUESTS
    assert set(carried.values()) == {1}, "a request was answered, and billed, twice"
    assert len(verdicts(tmp_path / "out")) == REQUESTS
    paid = [row for row in read_rows(str(tmp_path / "out")) if row.status != "failed"]
    assert len(paid) == len(said)
    assert {part.state for part in Parts(str(tmp_path / "out"))} <= {"harvested", "void"}
    assert fakes.key not in first.said + last.said


@pytest.mark.parametrize(("provider", "point"), kills(POINTS))
def test_killed_between_two_calls(tmp_path, fakes, environ, provider, point):
    write_pools(tmp_path / "pools.jsonl", queries=5, documents=6)
    first = start(tmp_path, environ, JUDGES[provider], point)
    check(tmp_path, fakes, environ, provider, first)


@pytest.mark.parametrize(("provider", "event"), kills(EVENTS))
def test_killed_within_a_call(tmp_path, fakes, environ, provider, event):
    write_pools(tmp_path / "pools.jsonl", queries=5, documents=6)
    fakes.on_event = Killer([f"{event}:1:{tmp_path / 'pid'}"])
    first = start(tmp_path, environ, JUDGES[provider])
    check(tmp_path, fakes, environ, provider, first)


def test_killed_twice_while_it_adopts(tmp_path, fakes, environ):
    """The second run dies as well, while it looks for the batch of the first."""
    write_pools(tmp_path / "pools.jsonl", queries=5, documents=6)
    fakes.on_event = Killer([f"listed:1:{tmp_path / 'pid'}"])
    first = start(tmp_path, environ, JUDGES["anthropic"], "before id")
    assert first.status == -9
    second = start(tmp_path, environ, JUDGES["anthropic"])
    check(tmp_path, fakes, environ, "anthropic", second)


def test_the_ledger_of_batches_is_read_with_nothing_of_ours(tmp_path, environ):
    write_pools(tmp_path / "pools.jsonl", queries=2, documents=4)
    assert start(tmp_path, environ, JUDGES["openai"]).status == 0
    (record,) = (tmp_path / "out" / "batches").glob("*.json")
    part = json.loads(record.read_text())
    assert part["state"] == "harvested"
    (segment,) = (tmp_path / "out" / "replies").glob("*.jsonl")
    rows = [json.loads(line) for line in segment.read_text().splitlines()]
    assert {row["batch"] for row in rows} == {part["batch"]}
