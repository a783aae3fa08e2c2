"""The lean protocol through servers, batches, budgets and kills, on one ledger."""

from collections import Counter

import pytest

from tests.builders import (
    MachineBudget,
    Shelf,
    ask,
    ask_apart,
    graded_pools,
    key_for,
    lines_of,
    pool_of,
    send_away,
    two_speeds,
)
from zelo_ray.engine.batch.parts import Parts
from zelo_ray.engine.bookkeeping import budget_used_up
from zelo_ray.engine.build_results import build_results_from_steps
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.learning import learn_judges
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.write_results import write_results
from zelo_ray.protocols import advance, lean

POOLS = [
    pool_of([(5 * place + i) % 14 / 4 for place in range(14)], f"q{i}", f"question {i}?")
    for i in range(3)
]
JOB = {"protocol": "lean", "until_loss": 0.0}


def came_to(job, out, pools=POOLS, disabled=None):
    """What each pool comes to, from the ledger alone."""
    panel, options = job
    ledger = Ledger(str(out))
    return [advance(lean.rounds(pool, panel, options), ledger, disabled) for pool in pools]


def told(steps):
    """The judgments without their reasons, in their order."""
    assert not any(step.missing for step in steps)
    return [
        (one.query_id, one.judge, getattr(one, "grade", None), getattr(one, "preference", None))
        for step in steps
        for one in step.judgments
    ]


def sent(fakes):
    return Counter(e["custom_id"] for e in fakes.journal if e["endpoint"] == "line")


def test_batches_bring_what_calls_bring_in_two_rounds(fakes, environ, tmp_path):
    mine = key_for(environ, "openai")
    online = ask(POOLS, tmp_path / "online", mine, **JOB)
    (away,) = send_away(POOLS, tmp_path / "away", mine, **JOB).values()
    assert away.stopped == ""
    assert told(came_to(away.job, tmp_path / "away")) == told(
        came_to(online.job, tmp_path / "online")
    )
    states = [part.state for part in Parts(str(tmp_path / "away"))]
    assert states == ["harvested"] * 3  # votes and grades, and then the later votes
    assert set(sent(fakes).values()) == {1}


@pytest.mark.parametrize("enough", [None, 30, 110])
def test_interrupted_or_not_nothing_is_asked_twice_and_the_same_comes_out(tmp_path, enough):
    """As on Ray, where judges are asked apart: a later round waits for all of them."""
    pools = graded_pools(5, documents=12)
    options, panel = two_speeds(tmp_path / "out", protocol="lean", until_loss=0.0)
    if enough:
        ask_apart(pools, options, panel, enough=enough)
    for sweep in (1, 2, 3):
        ask_apart(pools, options, panel, run_id="rest", again=sweep > 1)
        steps = came_to((panel, options), tmp_path / "out", pools)
        if not any(step.missing for step in steps):
            break
    assert sweep == 2
    asked = Counter(row.key for row in read_rows(str(tmp_path / "out")))
    assert set(asked.values()) == {1}
    planned = sum(sum(lean.count(pool, panel, options).values()) for pool in pools)
    assert 3.5 * 12 * 5 < asked.total() <= planned
    straight, _ = two_speeds(tmp_path / "straight", protocol="lean", until_loss=0.0)
    for _ in range(2):
        ask_apart(pools, straight, panel)
    assert told(steps) == told(came_to((panel, straight), tmp_path / "straight", pools))


def test_a_budget_that_ends_in_a_later_round_leaves_scores_of_every_pool_that_was_begun(tmp_path):
    pools, judge = graded_pools(20, documents=12), "simulated:judge"
    job = {
        "judges": (judge,),
        "prices": {judge: {"input": 1.0, "output": 1.0}},
        "limits": {judge: {"concurrency": 4}},
        "judge_options": {judge: {"latency": 0.001}},
        **JOB,
    }
    whole = ask(pools, tmp_path / "whole", {}, clock=Clock(), **job)
    panel, options = whole.job
    first = sum(len(advance(lean.rounds(p, panel, options), Shelf()).missing) for p in pools)
    cap = sum(row.dollars for row in whole.books) * (0.5 + 0.5 * first / len(whole.books))
    out = tmp_path / "out"
    asker = ask(pools, out, {}, budget=MachineBudget(cap), max_usd=cap, clock=Clock(), **job)
    assert sum(row.dollars for row in asker.books) <= cap
    steps = came_to(asker.job, out, pools, {judge: budget_used_up(cap)})
    late = [step for step in steps if step.failures]
    assert 0 < len(late) < len(steps)
    block = build_results_from_steps(lines_of(pools), steps, asker.job[1])
    write_results([block], asker.job[1], judgments_only=True)
    learned = learn_judges(asker.job[1].model_copy(update={"out": str(out)}), None)
    summary = write_results(
        [build_results_from_steps(lines_of(pools), steps, asker.job[1], learned)], asker.job[1]
    )
    heard = {one.query_id: len(step.judgments) for step in steps for one in step.judgments}
    begun = {query_id for query_id, count in heard.items() if count >= first / len(pools)}
    assert len(begun) > len(pools) / 2
    assert begun.isdisjoint(summary.unscored)
    assert summary.scored == 12 * (20 - len(summary.unscored))
