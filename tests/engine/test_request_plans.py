"""Replies are found by plans that runs keep, and results do not depend on whether there are any."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.builders import ask, graded_pools, write_graded
from zelo_ray.engine import request_plans
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.request_plans import FOLDER, RequestPlans
from zelo_ray.engine.sweeps import ResultsBuilder
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.protocols import advance, load_protocol, texts
from zelo_ray.protocols.progress import PlanError

JUDGES = ("simulated:one", "simulated:two", "simulated:three")
TROUBLE = {"simulated:one": {"refusals": 0.1}, "simulated:two": {"invalid": 0.1}}
CASES = {
    "zelo": {},
    "in turn": {"votes": "one"},
    "repeated": {"repeats": 3},
    "instructed": {"instructions": "Short texts first.", "show_metadata": ("grade",)},
    "graded": {"protocol": "graded", "repeats": 2},
    "zelo and grades": {"calls_per_document": 4},
}


class Run:
    """A run of free judges over some pools that lie in a file, and its results."""

    def __init__(self, folder, **fields):
        path = write_graded(folder / "in.jsonl", graded_pools(5, 6))
        self.lines = [*read_lines(str(path), LineLimits())]
        self.fields = {"judges": JUDGES, "judge_options": TROUBLE, **fields}
        self.out = folder / "out"
        self.plans = self.out / FOLDER / "replies"
        self.ask()

    def ask(self, **fields):
        pools = [line.pool for line in self.lines]
        self.panel, self.options = ask(pools, self.out, {}, **self.fields, **fields).job

    def actor(self):
        return ResultsBuilder(Job(self.options, tuple(self.panel), "run", frozenset()), None)

    def settle(self):
        return self.actor().build(self.lines)

    def settle_without(self):
        shutil.rmtree(self.out / FOLDER)
        return self.settle()

    def find(self):
        return RequestPlans(self.options).find([line.pool for line in self.lines], self.panel)


def rows_of(table):
    """The rows as text, in which NaN equals NaN."""
    return repr(table.to_pylist())


def forbid(*_):
    raise AssertionError("a prompt was rendered")


@pytest.mark.parametrize("case", CASES)
def test_results_take_no_prompt_and_are_the_same_without_plans(tmp_path, monkeypatch, case):
    run = Run(tmp_path, **CASES[case])
    with monkeypatch.context() as patch:
        patch.setattr(texts, "_rendered", forbid)
        found = run.settle()
    assert found["missing"].to_pylist() == [0] * 5
    assert any(found["failures"].to_pylist())
    assert rows_of(found) == rows_of(run.settle_without())


@pytest.mark.parametrize("case", CASES)
def test_no_two_requests_about_a_pool_have_one_item(tmp_path, case):
    run = Run(tmp_path, **CASES[case])
    keys = {row.key for row in read_rows(str(run.out))}
    plans = [pool.plan for pool in run.find()]
    assert {key for plan in plans for key, _ in plan.values()} == keys
    if case != "repeated":  # of which the third is the first once more, with another number
        assert sum(map(len, plans)) == len(keys)


CHANGES = {
    "an option": {"options": {"document_tokens": 900}},
    "the seed": {"options": {"seed": 1}},
    "an option of a judge": {"judge": {"noise": 0.7}},
    "a query": {"pool": {"query": "another"}},
    "a field of the query": {"pool": {"about": {"narrative": "more"}}},
    "a document": {"pool": {"documents": ()}},
    "the code": {"code": "another"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_plan_is_of_all_that_requests_follow_from(tmp_path, monkeypatch, change):
    run = Run(tmp_path)
    (first, *_), changed = run.find(), CHANGES[change]
    assert first.plan
    options = run.options.model_copy(update=changed.get("options", {}))
    judges = [
        replace(judge, options={**judge.options, **changed.get("judge", {})}) for judge in run.panel
    ]
    if "code" in changed:
        monkeypatch.setattr(request_plans, "digest_code", lambda: changed["code"])
    pool = replace(first, plan={}, **changed.get("pool", {}))
    assert [pool.plan for pool in RequestPlans(options).find([pool], judges)] == [{}]


def test_places_and_the_cap_are_no_part_of_a_plan(tmp_path):
    run = Run(tmp_path)
    copied = shutil.copytree(run.out, tmp_path / "elsewhere")
    moved = run.options.model_copy(
        update={"out": "another", "ledger": str(copied), "max_usd": 7.0, "inputs": ("other",)}
    )
    pools = [line.pool for line in run.lines]
    assert all(pool.plan for pool in RequestPlans(moved).find(pools, run.panel))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    body = bytearray(path.read_bytes())
    body[len(body) // 2] ^= 4
    path.write_bytes(body)


def garble(path: Path) -> None:
    path.write_bytes(b"no plan\n" * 9)


@pytest.mark.parametrize("harm", [cut, flip, garble, Path.unlink])
def test_damaged_plans_change_no_result(tmp_path, harm):
    run = Run(tmp_path)
    for segment in run.plans.glob("*.jsonl"):
        harm(segment)
    found = run.settle()
    assert found["missing"].to_pylist() == [0] * 5
    assert rows_of(found) == rows_of(run.settle_without())


def test_what_a_plan_names_and_the_ledger_has_not_is_rendered(tmp_path):
    run = Run(tmp_path)
    whole = run.settle()
    segment = max((run.out / "replies").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[1:]))
    assert sum(run.settle()["missing"].to_pylist()) == 1
    (pool,) = (p for p in run.find() if lines[0][8:40].decode() in str(p.plan))
    rounds = load_protocol("zelo").rounds(pool, run.panel, run.options)
    with pytest.raises(PlanError):
        advance(rounds, Ledger(str(run.out)))
    segment.write_bytes(b"".join(lines))
    assert rows_of(run.settle()) == rows_of(whole)


OWN = """
from dataclasses import replace
from zelo_ray.protocols import zelo
PROTOCOL = replace(zelo.PROTOCOL, name="own")
"""


def test_a_protocol_of_a_users_keeps_no_plan(tmp_path, monkeypatch):
    (tmp_path / "own_battles.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = Run(tmp_path, protocol="own_battles:PROTOCOL")
    assert len(run.settle()) == 5
    assert not run.plans.exists()
