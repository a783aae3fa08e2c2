"""The coordinator of a cluster's runs and the budgets that it keeps, without Ray around them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zelo_ray.engine.budget import Budget, Holder
from zelo_ray.engine.coordinator import (
    CallCost,
    CoordinatedRun,
    Coordinator,
    LeaseRequest,
    RunMemory,
    WorkerReport,
)
from zelo_ray.engine.limiter import Account
from zelo_ray.engine.tally import Tally
from zelo_ray.reasons import Disabled, StopReason

FIRST, SECOND = CoordinatedRun("first", cap=1.0), CoordinatedRun("second", cap=1.0, spent=0.5)
GONE = {"openai:m": Disabled(StopReason.FATAL, "no such model")}


def lease(coordinator, run, calls, dollars, *, name="a", limits=None, **fields):
    costs = [CallCost({"rpm": 1}, dollars)] * calls
    account, fields = Account(name, limits or {}), {"budget_holder": "spender", **fields}
    return coordinator.lease(run, LeaseRequest(account, costs, **fields))


def granted(*given, **fields):
    return len(lease(*given, **fields).delays)


def begun(*runs):
    coordinator = Coordinator()
    for run in runs:
        coordinator.begin(run)
    return coordinator


class StoppedClock:
    """A clock that goes on when it is told to."""

    seconds = 1000.0

    def now(self):
        return self.seconds


# Money


def test_money_is_granted_in_order_and_comes_back():
    budget = Budget(1.0, spent=0.0)
    assert budget.reserve("a", 0.0, 0.0, [0.4, 0.4, 0.4], now=0) == 2
    assert budget.reserve("b", 0.0, 0.0, [0.4], now=0) == 0
    assert not budget.is_exhausted(now=0)
    assert budget.reserve("a", 0.1, 0.4, [], now=1) == 0  # a call has ended that cost 0.1
    assert budget.reserve("b", 0.0, 0.0, [0.4], now=1) == 1


def test_it_is_exhausted_when_nothing_can_come_back():
    budget = Budget(1.0, spent=0.9)
    assert budget.reserve("a", 0.0, 0.0, [0.05], now=0) == 1
    assert budget.reserve("a", 0.05, 1e-17, [0.2], now=1) == 0
    assert budget.is_exhausted(now=1)
    assert budget.spent == pytest.approx(0.95)


def test_what_a_dead_holder_had_reserved_counts_as_spent():
    budget = Budget(1.0, spent=0.0)
    budget.reserve("dead", 0.0, 0.0, [0.7], now=0)
    assert budget.reserve("b", 0.0, 0.0, [0.5], now=60) == 0
    assert budget.is_exhausted(now=60)
    assert budget.reserve("b", 0.0, 0.0, [0.3], now=60) == 1


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 0.3), st.floats(0, 1)), max_size=60),
    st.floats(0, 0.5),
)
def test_no_order_of_calls_exceeds_the_cap(calls, before):
    budget, settled, reserved = Budget(1.0, before), [0.0] * 3, [0.0] * 3
    open_calls = [[], [], []]
    for now, (who, want, share) in enumerate(calls):
        if open_calls[who] and share < 0.5:
            amount = open_calls[who].pop()
            reserved[who] -= amount
            settled[who] += amount * share
        if budget.reserve(str(who), settled[who], reserved[who], [want], now):
            open_calls[who].append(want)
            reserved[who] += want
        assert before + sum(settled) + sum(reserved) <= 1.0 + 1e-9


# Leases


def test_each_run_has_its_budget_and_all_share_the_limits_of_an_account():
    coordinator = begun(FIRST, SECOND)
    assert granted(coordinator, FIRST, 9, 0.2) == 5
    assert granted(coordinator, SECOND, 9, 0.2) == 2
    coordinator = begun(FIRST, SECOND)
    assert granted(coordinator, FIRST, 9, 0.01, limits={"rpm": 60}) >= 1
    assert granted(coordinator, SECOND, 9, 0.01, limits={"rpm": 60}) == 0
    assert granted(coordinator, SECOND, 9, 0.01, limits={"rpm": 60}, name="another") >= 1


def test_calls_need_a_place_and_money_and_keep_no_money_without_a_place():
    coordinator, budget = Coordinator(), Budget(1.0, 0.0)
    coordinator.begin(FIRST, budget)
    count = granted(coordinator, FIRST, 10, 0.2, limits={"rpm": 60})
    assert 1 <= count <= 2  # of one a second, in the second that a lease looks ahead
    assert budget.reserved == pytest.approx(0.2 * count)
    fields = {"name": "b", "budget_holder": "b", "limits": {"rpm": 6000}}
    second = lease(coordinator, FIRST, 10, 0.5, **fields)
    assert (len(second.delays), second.exhausted, second.again) == (1, False, 0.2)
    coordinator.begin(SECOND, Budget(1.0, 0.9))
    assert lease(coordinator, SECOND, 10, 0.5, **fields).exhausted


def test_what_costs_nothing_goes_also_when_more_than_the_cap_is_spent():
    coordinator = begun(FIRST)
    assert granted(coordinator, FIRST, 3, 0.0, charged=1.5, limits={"rpm": 6000}) == 3
    assert granted(coordinator, FIRST, 3, 0.01, charged=1.5) == 0


# One that was made anew


def test_one_that_was_made_anew_grants_no_money_until_all_is_known():
    clock = StoppedClock()
    coordinator = Coordinator(clock)
    assert granted(coordinator, CoordinatedRun("uncapped"), 1, 0.2) == 1
    for _ in range(2):  # however long the driver takes
        assert granted(coordinator, FIRST, 1, 0.2, charged=0.5, reserved=0.2) == 0
        clock.seconds += 60.0
    known = {"spender": Holder(0.1, 0.9), "dead": Holder(0.2, 0)}
    coordinator.read_figures(FIRST, RunMemory(holders=known))
    assert granted(coordinator, FIRST, 1, 0.02, charged=0.5, reserved=0.2) == 0
    clock.seconds += 2.1
    assert granted(coordinator, FIRST, 9, 0.02, charged=0.5, reserved=0.2) == 5


def test_it_learns_what_workers_had_reported_that_are_gone():
    coordinator = begun(FIRST)
    report = WorkerReport("a", {"openai:m": Tally(answered=2, in_flight=1)}, "enough", GONE)
    coordinator.report(FIRST, report)
    granted(coordinator, FIRST, 1, 0.2, charged=0.5)
    _, memory = coordinator.read_figures(FIRST, RunMemory())
    assert memory.reports == {"a": report}
    (tallies, *orders), again = Coordinator().read_figures(FIRST, memory)
    assert (tallies["openai:m"].answered, tallies["openai:m"].in_flight) == (2, 0)
    assert orders == ["enough", GONE]
    (holder,) = again.holders.values()
    assert (holder.charged, holder.reserved) == (0.5, 0.2)


def test_ended_runs_are_forgotten_and_a_silent_one_is_learned_of_anew():
    clock = StoppedClock()
    coordinator = Coordinator(clock)
    ended, silent, long = CoordinatedRun("ended"), CoordinatedRun("silent"), CoordinatedRun("long")
    for run in (ended, silent, long):
        coordinator.begin(run)
        coordinator.report(run, WorkerReport("a", {"openai:m": Tally(answered=2)}, "enough"))
    _, memory = coordinator.read_figures(silent, RunMemory())
    for number in range(9):
        clock.seconds += 400.0
        coordinator.register_worker(long, ["openai:m"], 1)  # it goes on
        coordinator.begin(CoordinatedRun(f"later {number}"))
    assert coordinator.read_figures(ended, RunMemory())[0] == ({}, "", {})
    (tallies, *_), _ = coordinator.read_figures(silent, memory)
    assert tallies["openai:m"].answered == 2
    assert coordinator.read_figures(long, RunMemory())[0][1] == "enough"


# Reports


def test_what_one_worker_reports_all_of_its_run_learn():
    coordinator = begun(FIRST, SECOND)
    coordinator.report(FIRST, WorkerReport("a", {"openai:m": Tally(answered=2)}, disabled=GONE))
    report = WorkerReport("b", {"openai:m": Tally(answered=3)}, stopped="enough")
    assert coordinator.report(FIRST, report) == ("enough", GONE)
    (tallies, *orders), _ = coordinator.read_figures(FIRST, RunMemory())
    assert tallies["openai:m"].answered == 5
    assert orders == ["enough", GONE]
    assert coordinator.read_figures(SECOND, RunMemory())[0] == ({}, "", {})


@pytest.mark.parametrize("answers", [0, 1])
def test_a_worker_that_dies_again_and_again_without_an_answer_is_given_up(answers):
    coordinator, starts = begun(FIRST), []
    for start in range(12):
        tally = Tally(answered=start * answers)
        coordinator.report(FIRST, WorkerReport("a", {"openai:m": tally}))
        starts.append(coordinator.register_worker(FIRST, ["openai:m"], 2))
    assert starts == [True] * 12 if answers else starts == [True] * 6 + [False] * 6


def test_workers_of_a_later_sweep_are_no_deaths():
    coordinator = begun(FIRST)
    for sweep in (1, 2, 3):
        for _ in range(8):
            assert coordinator.register_worker(FIRST, ["openai:m"], 8, sweep)
