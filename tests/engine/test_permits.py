"""Calls that wait for limits and money."""

import asyncio
import time

import pytest

from tests.fakes.rates import Bucket
from tests.helpers.builders import OwnCoordination, runs
from zelo_ray.engine.budget import Budget
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.limiter import Account, Lease
from zelo_ray.engine.permits import PermitClient


class Slow(OwnCoordination):
    """A coordinator far away, on which each lease takes a while; it remembers what it was asked."""

    def __init__(self, clock=CLOCK, budget=None, seconds=0.0):
        super().__init__(clock, budget)
        self.asked, self.seconds = [], seconds

    async def send(self, message, request):
        self.asked.append(request)
        lease = await super().send(message, request)
        await asyncio.sleep(self.seconds)
        return lease


def take(client, rpm=1, dollars=0.0):
    """Wait for a permit for a call that takes so much of the limits, and may cost so much."""
    return client.acquire(CallCost({"rpm": rpm}, dollars))


def client_of(limits=None, coordination=None, **fields):
    return PermitClient(Account("a", limits or {}), coordination or OwnCoordination(), **fields)


@pytest.mark.parametrize("limits", [{}, {"rpm": 1e9}])
@runs
async def test_of_calls_that_may_go_at_once_one_begins_in_a_turn_of_the_loop(limits):
    client, turn, begun = client_of(limits), 0, []

    async def call():
        assert await take(client)
        begun.append(turn)

    calls = [asyncio.create_task(call()) for _ in range(50)]
    while len(begun) < 50:
        await asyncio.sleep(0)
        turn += 1
    await asyncio.gather(*calls)
    assert len(set(begun)) == 50


@runs
async def test_calls_that_come_together_are_leased_together_and_paced():
    coordination = Slow()
    client = client_of({"rpm": 6000}, coordination)
    began = time.monotonic()
    assert all(await asyncio.gather(*(take(client) for _ in range(60))))
    assert time.monotonic() - began > 0.55
    assert len(coordination.asked) <= 3
    client.settle(CallCost({"rpm": 1, "tpm": 100.0}), 0.0, {"tpm": 130.0})
    client.learn_limits({"tpm": 5000.0})
    await take(client)
    last = coordination.asked[-1]
    assert (len(last.calls), last.more, last.reported_limits) == (1, {"tpm": 30.0}, {"tpm": 5000.0})


@runs
async def test_that_an_account_answers_reaches_all():
    coordination = OwnCoordination()
    client, other = client_of({}, coordination), client_of({}, coordination)
    assert await client.pause(0.0) == 0.0
    await asyncio.sleep(0.02)
    assert await other.pause(0.0) >= 0.02
    client.answered = True
    await client.report_spending()
    assert await other.pause(0.0) == 0.0


@pytest.mark.parametrize("moment", [0.52, 0.55])
def test_a_process_that_stood_still_does_not_spend_twice_what_an_idle_account_may(moment):
    """What was due meanwhile goes at once when it goes on, and nothing that was saved up besides.

    A server whose account may spend two seconds' worth at once turns nobody away.
    """
    clock = Clock(speed=5)

    async def run():
        client = client_of({"rpm": 1200}, OwnCoordination(clock), clock=clock)
        bucket, turned_away = Bucket(1200, 2, clock.now()), 0

        async def call():
            nonlocal turned_away
            await take(client)
            turned_away += bool(bucket.wait(1, clock.now()))
            bucket.take(1)

        calls = [asyncio.create_task(call()) for _ in range(120)]
        await clock.sleep(moment)
        clock.pause(3.0)
        await asyncio.gather(*calls)
        assert turned_away == 0

    asyncio.run(run())


@runs
async def test_a_pause_sends_those_who_had_a_turn_back_to_the_queue():
    client, passed = client_of({"rpm": 1200}), []

    async def call():
        await take(client)
        passed.append(time.monotonic())

    calls = [asyncio.create_task(call()) for _ in range(10)]
    await asyncio.sleep(0.12)
    early = len(passed)
    opened = time.monotonic() + 0.5
    await client.pause(0.5)
    await asyncio.gather(*calls)
    late = passed[early:]
    assert 1 <= early < 10
    assert min(late) >= opened - 0.01
    assert max(late) - opened > 0.05 * (len(late) - 2)  # paced, not all at once


@runs
async def test_what_was_leased_before_a_pause_waits_for_its_end():
    client = client_of({"rpm": 1e6}, Slow(seconds=0.05))
    calls = [asyncio.create_task(take(client)) for _ in range(20)]
    await asyncio.sleep(0.03)  # until the lease is on its way
    await client.pause(30.0)
    await asyncio.sleep(0.2)  # it has come
    assert not any(call.done() for call in calls)
    client.close()
    assert not any(await asyncio.gather(*calls))


@runs
async def test_a_closed_client_lets_nobody_wait():
    client = client_of({"rpm": 1})
    waiting = [asyncio.create_task(take(client)) for _ in range(3)]
    await asyncio.sleep(0.05)
    client.close()
    assert await asyncio.wait_for(asyncio.gather(*waiting), 1) == [False] * 3
    assert not await take(client)


class Grants:
    """A coordinator that grants what was agreed: how many calls, and whether it was the last."""

    capped = True

    def __init__(self, *grants):
        self.grants, self.asked = list(grants), []

    async def send(self, _, request):
        wants = [call.dollars for call in request.calls]
        self.asked.append((request.charged, request.reserved, wants))
        count, over = self.grants.pop(0)
        return Lease((0.0,) * count, 0.2, {}, exhausted=over)


@runs
async def test_it_tells_what_was_spent_and_waits_for_what_may_come_back():
    coordination = Grants((2, False), (0, False), (1, False))
    client = client_of({}, coordination)
    both = await asyncio.gather(take(client, dollars=0.2), take(client, dollars=0.2))
    assert both == [True, True]
    client.settle(CallCost(dollars=0.2), 0.05)
    assert await take(client, dollars=0.3)
    assert coordination.asked[1] == (0.05, pytest.approx(0.2), [0.3])
    assert len(coordination.asked) == 3


@runs
async def test_when_the_budget_is_over_everyone_is_sent_away():
    client = client_of({}, Grants((1, False), (0, True)))
    taken = await asyncio.gather(*(take(client, dollars=0.1) for _ in range(3)))
    assert taken == [True, False, False]
    assert client.exhausted


@pytest.mark.parametrize("moment", [0, 0.01, 0.05], ids=["queued", "asked for", "delayed"])
@runs
async def test_a_call_that_is_cancelled_gives_its_money_back(moment):
    budget = Budget(1.0, 0.0)
    client = client_of({"rpm": 66}, Slow(budget=budget, seconds=0.03))
    call = asyncio.create_task(take(client, dollars=0.2))
    await asyncio.sleep(moment)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.sleep(0.05)
    await client.report_spending()
    assert budget.reserved == pytest.approx(0.0)


@runs
async def test_a_pause_keeps_no_money_of_those_who_wait_for_its_end():
    budget = Budget(1.0, 0.0)
    client = client_of({"rpm": 66}, OwnCoordination(budget=budget))
    call = asyncio.create_task(take(client, dollars=0.2))
    await asyncio.sleep(0.05)
    await client.report_spending()
    assert budget.reserved == pytest.approx(0.2)
    await client.pause(30.0)
    await asyncio.sleep(1.0)
    await client.report_spending()
    assert budget.reserved == pytest.approx(0.0)
    client.close()
    assert not await call


@runs
async def test_a_lease_that_fails_is_told_to_those_who_wait_and_the_next_call_tries_again():
    coordination = OwnCoordination()
    client = client_of({"rpm": 6000}, coordination)

    async def fails(*_):
        raise ValueError("the limits are gone")

    coordination.send = fails
    first = await asyncio.gather(*(take(client) for _ in range(3)), return_exceptions=True)
    assert [str(error) for error in first] == ["the limits are gone"] * 3
    del coordination.send
    assert await take(client)
