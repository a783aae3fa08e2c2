"""The coordinator of a cluster's runs, without Ray around it."""

import pytest

from zelo_ray.engine.coordinator import (
    CallCost,
    CoordinatedRun,
    Coordinator,
    LeaseRequest,
    RunMemory,
    WorkerReport,
)
from zelo_ray.engine.limiter import Account
from zelo_ray.engine.tally import Tally, order_tallies
from zelo_ray.reasons import Disabled, StopReason

FIRST, SECOND = CoordinatedRun("first", cap=1.0), CoordinatedRun("second", cap=1.0, spent=0.5)


def request_for(calls, dollars, *, charged=0.0, reserved=0.0, limits=None):
    costs = [CallCost({"rpm": 1}, dollars)] * calls
    return LeaseRequest(
        Account("a", limits or {}), costs, {}, {}, False, "spender", charged, reserved
    )


def granted(coordinator, run, calls, dollars, **fields):
    return len(coordinator.lease(run, request_for(calls, dollars, **fields)).delays)


def begun(*runs):
    coordinator = Coordinator()
    for run in runs:
        coordinator.begin(run)
    return coordinator


def test_each_run_has_its_budget_and_all_share_the_limits():
    coordinator = begun(FIRST, SECOND)
    assert granted(coordinator, FIRST, 9, 0.2) == 5
    assert granted(coordinator, SECOND, 9, 0.2) == 2
    coordinator = begun(FIRST, SECOND)
    assert granted(coordinator, FIRST, 9, 0.01, limits={"rpm": 60}) >= 1
    assert granted(coordinator, SECOND, 9, 0.01, limits={"rpm": 60}) == 0


class StoppedClock:
    """A clock that goes on when it is told to."""

    seconds = 1000.0

    def now(self):
        return self.seconds


def test_one_that_was_made_anew_grants_no_money_until_all_is_known():
    clock = StoppedClock()
    coordinator = Coordinator(clock)
    assert granted(coordinator, CoordinatedRun("uncapped"), 1, 0.2) == 1
    for _ in range(2):  # however long the driver takes
        assert granted(coordinator, FIRST, 1, 0.2, charged=0.5, reserved=0.2) == 0
        clock.seconds += 60.0
    coordinator.read_figures(FIRST, RunMemory(holders={"spender": (0.1, 0.9), "dead": (0.2, 0)}))
    assert granted(coordinator, FIRST, 1, 0.02, charged=0.5, reserved=0.2) == 0
    clock.seconds += 2.1
    assert granted(coordinator, FIRST, 9, 0.02, charged=0.5, reserved=0.2) == 5


def test_what_actors_had_reported_that_are_gone_is_told_to_one_that_was_made_anew():
    coordinator = begun(FIRST)
    gone = {"openai:m": Disabled(StopReason.FATAL, "no such model")}
    report = WorkerReport("a", {"openai:m": Tally(answered=2, in_flight=1)}, "enough", gone)
    coordinator.report(FIRST, report)
    granted(coordinator, FIRST, 1, 0.2, charged=0.5)
    _, memory = coordinator.read_figures(FIRST, RunMemory())
    assert memory == RunMemory({"a": report}, {"spender": (0.5, 0.2)})
    (tallies, stopped, disabled), again = Coordinator().read_figures(FIRST, memory)
    assert (tallies["openai:m"].answered, stopped, disabled) == (2, "enough", gone)
    assert tallies["openai:m"].in_flight == 0
    assert again.holders == memory.holders


def test_what_costs_nothing_goes_also_when_more_than_the_cap_is_spent():
    coordinator = begun(FIRST)
    assert granted(coordinator, FIRST, 3, 0.0, charged=1.5, limits={"rpm": 6000}) == 3
    assert granted(coordinator, FIRST, 3, 0.01, charged=1.5) == 0


def test_what_one_actor_reports_all_of_its_run_learn():
    coordinator = begun(FIRST, SECOND)
    gone = {"openai:m": Disabled(StopReason.FATAL, "no such model")}
    coordinator.report(FIRST, WorkerReport("a", {"openai:m": Tally(answered=2)}, disabled=gone))
    report = WorkerReport("b", {"openai:m": Tally(answered=3)}, stopped="enough")
    assert coordinator.report(FIRST, report) == ("enough", gone)
    (tallies, stopped, disabled), _ = coordinator.read_figures(FIRST, RunMemory())
    assert (tallies["openai:m"].answered, stopped, disabled) == (5, "enough", gone)
    assert coordinator.read_figures(SECOND, RunMemory())[0] == ({}, "", {})


@pytest.mark.parametrize("answers", [0, 1])
def test_an_actor_that_dies_again_and_again_without_an_answer_is_given_up(answers):
    coordinator, births = begun(FIRST), []
    for birth in range(12):
        tally = Tally(answered=birth * answers)
        coordinator.report(FIRST, WorkerReport("a", {"openai:m": tally}))
        births.append(coordinator.register_worker(FIRST, ["openai:m"], 2))
    assert births == [True] * 12 if answers else births == [True] * 6 + [False] * 6


def test_figures_come_in_the_order_of_the_panel_whichever_judge_reported_first():
    late_first = {"gemini:n": Tally(answered=1), "gone": Tally(), "openai:m": Tally(answered=2)}
    ordered = order_tallies(late_first, ["openai:m", "not yet", "gemini:n"])
    assert [*ordered] == ["openai:m", "gemini:n", "gone"]
    assert ordered == late_first
