"""A cap that many spend under."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zelo_ray.engine.budget import Budget, Grant


def test_money_is_granted_in_order_and_comes_back():
    budget = Budget(1.0, spent=0.0)
    assert budget.reserve("a", 0.0, 0.0, [0.4, 0.4, 0.4], now=0) == Grant(2, exhausted=False)
    assert budget.reserve("b", 0.0, 0.0, [0.4], now=0) == Grant(0, exhausted=False)
    # one of a's calls has ended and cost 0.1
    assert budget.reserve("a", 0.1, 0.4, [], now=1) == Grant(0, exhausted=False)
    assert budget.reserve("b", 0.0, 0.0, [0.4], now=1) == Grant(1, exhausted=False)


def test_it_is_over_when_nothing_can_come_back():
    budget = Budget(1.0, spent=0.9)
    assert budget.reserve("a", 0.0, 0.0, [0.05], now=0) == Grant(1, exhausted=False)
    assert budget.reserve("b", 0.0, 0.0, [0.2], now=0) == Grant(0, exhausted=False)
    assert budget.reserve("a", 0.05, 1e-17, [0.2], now=1) == Grant(0, exhausted=True)
    assert budget.spent == pytest.approx(0.95)


def test_what_a_dead_spender_held_counts_as_spent():
    budget = Budget(1.0, spent=0.0)
    budget.reserve("dead", 0.0, 0.0, [0.7], now=0)
    assert budget.reserve("b", 0.0, 0.0, [0.5], now=10) == Grant(0, exhausted=False)
    assert budget.reserve("b", 0.0, 0.0, [0.5], now=60) == Grant(0, exhausted=True)
    assert budget.reserve("b", 0.0, 0.0, [0.3], now=60) == Grant(1, exhausted=False)


def test_a_new_one_learns_from_the_spenders_what_the_old_one_knew():
    budget = Budget(1.0, spent=0.2)
    assert budget.reserve("a", 0.3, 0.4, [0.2], now=0) == Grant(0, exhausted=False)
    assert budget.reserve("a", 0.3, 0.4, [0.1], now=0) == Grant(1, exhausted=False)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 0.3), st.floats(0, 1)), max_size=60),
    st.floats(0, 0.5),
)
def test_no_order_of_calls_exceeds_the_cap(calls, before):
    budget, cap = Budget(1.0, before), 1.0
    settled, held = [0.0] * 3, [0.0] * 3
    open_calls = [[], [], []]
    for now, (who, want, share) in enumerate(calls):
        if open_calls[who] and share < 0.5:
            amount = open_calls[who].pop()
            held[who] -= amount
            settled[who] += amount * share
        grant = budget.reserve(str(who), settled[who], held[who], [want], now)
        if grant.count:
            open_calls[who].append(want)
            held[who] += want
        assert before + sum(settled) + sum(held) <= cap + 1e-9
