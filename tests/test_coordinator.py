"""The coordinator of a cluster's runs, without Ray around it."""

import pytest

from zelo_ray.engine.bookkeeping import Tally
from zelo_ray.engine.coordinator import CallCost, LeaseRequest
from zelo_ray.engine.limiter import Account
from zelo_ray.ray import coordinator as module
from zelo_ray.ray.coordinator import ActorReport, Coordinator, Run
from zelo_ray.reasons import Disabled, StopReason

FIRST, SECOND = Run("first", cap=1.0), Run("second", cap=1.0, spent=0.5)


def request_for(calls, dollars, *, charged=0.0, reserved=0.0, limits=None):
    costs = [CallCost({"rpm": 1}, dollars)] * calls
    return LeaseRequest(
        Account("a", limits or {}), costs, {}, {}, False, "spender", charged, reserved
    )


def granted(coordinator, run, calls, dollars, **fields):
    return len(coordinator.lease(run, request_for(calls, dollars, **fields)).delays)


def begun(*runs):
    coordinator = Coordinator()
    assert all(coordinator.begin(run) for run in runs)
    return coordinator


def test_each_run_has_its_budget_and_all_share_the_limits():
    coordinator = begun(FIRST, SECOND)
    assert granted(coordinator, FIRST, 9, 0.2) == 5
    assert granted(coordinator, SECOND, 9, 0.2) == 2
    coordinator = begun(FIRST, SECOND)
    assert granted(coordinator, FIRST, 9, 0.01, limits={"rpm": 60}) >= 1
    assert granted(coordinator, SECOND, 9, 0.01, limits={"rpm": 60}) == 0


def test_one_that_was_restarted_grants_no_money_until_all_spenders_have_reported(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    coordinator = Coordinator()
    assert granted(coordinator, FIRST, 1, 0.2, charged=0.7, reserved=0.2) == 0
    assert granted(coordinator, Run("uncapped"), 1, 0.2) == 1
    now += 2.1
    assert granted(coordinator, FIRST, 9, 0.02, charged=0.7, reserved=0.2) == 5


def test_the_last_run_that_leaves_ends_it_and_no_other_begins_then():
    coordinator = begun(FIRST, SECOND)
    assert not coordinator.leave(FIRST)
    coordinator.report(FIRST, ActorReport("actor", {}))  # too late: it is not taken in again
    assert coordinator.leave(SECOND)
    assert not coordinator.begin(FIRST)


def test_a_run_that_was_not_heard_of_for_a_day_keeps_none_alive(monkeypatch):
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    coordinator = begun(FIRST, SECOND)
    now += 90_000.0
    coordinator.begin(third := Run("third"))
    assert coordinator.leave(third)


def test_what_one_actor_reports_all_of_its_run_learn():
    coordinator = begun(FIRST, SECOND)
    gone = {"openai:m": Disabled(StopReason.FATAL, "no such model")}
    coordinator.report(FIRST, ActorReport("a", {"openai:m": Tally(answered=2)}, disabled=gone))
    report = ActorReport("b", {"openai:m": Tally(answered=3)}, stopped="enough")
    assert coordinator.report(FIRST, report) == ("enough", gone)
    tallies, stopped, disabled = coordinator.read_figures(FIRST)
    assert (tallies["openai:m"].answered, stopped, disabled) == (5, "enough", gone)
    assert coordinator.read_figures(SECOND) == ({}, "", {})


@pytest.mark.parametrize("answers", [0, 1])
def test_an_actor_that_dies_again_and_again_without_an_answer_is_given_up(answers):
    coordinator, births = begun(FIRST), []
    for birth in range(12):
        tally = Tally(answered=birth * answers)
        coordinator.report(FIRST, ActorReport("a", {"openai:m": tally}))
        births.append(coordinator.register_actor(FIRST, ["openai:m"], 2))
    assert births == [True] * 12 if answers else births == [True] * 6 + [False] * 6
