"""Calls that wait for limits and money."""

import asyncio
import time

import pytest

from tests.builders import HURRIED, OwnCoordination, judge_of, request_of
from tests.fakes.rates import Bucket
from zelo_ray.engine.budget import Budget
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.coordinator import CallCost
from zelo_ray.engine.limiter import Account, Lease
from zelo_ray.engine.permits import PermitClient
from zelo_ray.engine.tokens import Estimates, bound_tokens, measure_request
from zelo_ray.records import Document, Judge, Usage


class Recorded(OwnCoordination):
    """A coordinator that remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    async def lease(self, request):
        asked = (len(request.calls), dict(request.more), dict(request.reported_limits))
        self.asked.append(asked)
        return await super().lease(request)


def take(client, **amounts):
    """Wait for a permit for a call that takes so much of the limits."""
    return client.acquire(CallCost(amounts))


def pay(client, dollars):
    """Wait for a permit for a call that may cost so much."""
    return client.acquire(CallCost(dollars=dollars))


@pytest.mark.parametrize("limits", [{}, {"rpm": 1e9}])
def test_of_calls_that_may_go_at_once_one_begins_in_a_turn_of_the_loop(limits):
    async def run():
        client, turn, begun = PermitClient(Account("a", limits), OwnCoordination()), 0, []

        async def call():
            assert await take(client, rpm=1)
            begun.append(turn)

        calls = [asyncio.create_task(call()) for _ in range(50)]
        while len(begun) < 50:
            await asyncio.sleep(0)
            turn += 1
        await asyncio.gather(*calls)
        assert len(set(begun)) == 50

    asyncio.run(run())


def test_without_limits_nobody_is_asked():
    async def run():
        coordinator = Recorded()
        client = PermitClient(Account("a"), coordinator)
        assert await take(client, rpm=1)
        assert coordinator.asked == []

    asyncio.run(run())


def test_calls_that_come_together_are_leased_together_and_paced():
    async def run():
        coordinator = Recorded()
        client = PermitClient(Account("a", {"rpm": 6000}), coordinator)
        began = time.monotonic()
        assert all(await asyncio.gather(*(take(client, rpm=1) for _ in range(60))))
        assert time.monotonic() - began > 0.55
        assert len(coordinator.asked) <= 3
        client.settle(CallCost({"rpm": 1, "tpm": 100.0}), 0.0, {"tpm": 130.0})
        client.learn_limits({"tpm": 5000.0})
        await take(client, rpm=1)
        assert coordinator.asked[-1] == (1, {"tpm": 30.0}, {"tpm": 5000.0})

    asyncio.run(run())


def test_that_an_account_answers_is_told_to_all_and_not_for_each_answer():
    async def run():
        class Told(OwnCoordination):
            heard = 0

            async def lease(self, request):
                self.heard += request.answered
                return await super().lease(request)

        account, coordinator = Account("a", {"rpm": 6000}), Told()
        client, other = PermitClient(account, coordinator), PermitClient(account, coordinator)
        assert await client.pause(0.0) == 0.0
        await asyncio.sleep(0.02)
        assert await other.pause(0.0) >= 0.02
        for _ in range(100):
            client.record_answer()
        await asyncio.sleep(0)
        assert coordinator.heard == 1
        assert await other.pause(0.0) == 0.0

    asyncio.run(run())


@pytest.mark.parametrize("moment", [0.52, 0.55])
def test_a_process_that_stood_still_does_not_spend_twice_what_an_idle_account_may(moment):
    """What was due meanwhile goes at once when it goes on, and nothing that was saved up besides.

    A server whose account may spend two seconds' worth at once turns nobody away.
    """
    clock = Clock(speed=5)

    async def run():
        client = PermitClient(Account("a", {"rpm": 1200}), OwnCoordination(clock), clock=clock)
        bucket, turned_away = Bucket(1200, 2, clock.now()), 0

        async def call():
            nonlocal turned_away
            await take(client, rpm=1)
            now = clock.now()
            turned_away += bool(bucket.wait(1, now))
            bucket.take(1)

        calls = [asyncio.create_task(call()) for _ in range(120)]
        await clock.sleep(moment)
        clock.pause(3.0)
        await asyncio.gather(*calls)
        assert turned_away == 0

    asyncio.run(run())


def test_a_pause_sends_those_who_had_a_turn_back_to_the_queue():
    async def run():
        client = PermitClient(Account("a", {"rpm": 1200}), OwnCoordination())
        passed = []

        async def call(i):
            await take(client, rpm=1)
            passed.append((i, time.monotonic()))

        calls = [asyncio.create_task(call(i)) for i in range(10)]
        await asyncio.sleep(0.12)
        early = len(passed)
        opened = time.monotonic() + 0.5
        await client.pause(0.5)
        await asyncio.gather(*calls)
        late = [at for _, at in passed[early:]]
        assert 1 <= early < 10
        assert min(late) >= opened - 0.01
        assert max(late) - opened > 0.05 * (len(late) - 2)  # paced, not all at once

    asyncio.run(run())


def test_a_closed_client_lets_nobody_wait():
    async def run():
        client = PermitClient(Account("a", {"rpm": 1}), OwnCoordination())
        waiting = [asyncio.create_task(take(client, rpm=1)) for _ in range(3)]
        await asyncio.sleep(0.05)
        client.close()
        assert await asyncio.wait_for(asyncio.gather(*waiting), 1) == [False] * 3
        assert not await take(client, rpm=1)

    asyncio.run(run())


class Grants:
    """A coordinator that grants what was agreed: how many calls, and whether it was the last."""

    capped = True

    def __init__(self, *grants):
        self.grants, self.asked = list(grants), []

    async def lease(self, request):
        wants = [call.dollars for call in request.calls]
        self.asked.append((request.charged, request.reserved, wants))
        count, over = self.grants.pop(0)
        return Lease((0.0,) * count, 0.2, "budget", {}, exhausted=over)


def test_it_tells_what_was_spent_and_waits_for_what_may_come_back():
    async def run():
        coordinator = Grants((2, False), (0, False), (1, False))
        client = PermitClient(Account("a"), coordinator)
        assert await asyncio.gather(pay(client, 0.2), pay(client, 0.2)) == [True, True]
        client.settle(CallCost(dollars=0.2), 0.05)
        assert await pay(client, 0.3)
        assert coordinator.asked[1] == (0.05, pytest.approx(0.2), [0.3])
        assert len(coordinator.asked) == 3

    asyncio.run(run())


def test_when_the_budget_is_over_everyone_is_sent_away():
    async def run():
        client = PermitClient(Account("a"), Grants((1, False), (0, True)))
        taken = await asyncio.gather(*(pay(client, 0.1) for _ in range(3)))
        assert taken == [True, False, False]
        assert client.exhausted

    asyncio.run(run())


async def reported(budget, client):
    """What a client reports as reserved."""
    await client.report_spending()
    return budget.reserved


@pytest.mark.parametrize("moment", [0, 0.01, 0.05], ids=["queued", "asked for", "delayed"])
def test_a_call_that_is_cancelled_gives_its_money_back(moment):
    class Slow(OwnCoordination):
        async def lease(self, request):
            lease = await super().lease(request)
            await asyncio.sleep(0.03)
            return lease

    async def run():
        budget = Budget(1.0, 0.0)
        client = PermitClient(Account("a", {"rpm": 66}), Slow(budget=budget))
        cost = CallCost({"rpm": 1}, 0.2)
        call = asyncio.create_task(client.acquire(cost))
        await asyncio.sleep(moment)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(0.05)
        assert await reported(budget, client) == pytest.approx(0.0)

    asyncio.run(run())


def test_a_pause_keeps_no_money_of_those_who_wait_for_its_end():
    async def run():
        budget = Budget(1.0, 0.0)
        client = PermitClient(Account("a", {"rpm": 66}), OwnCoordination(budget=budget))
        call = asyncio.create_task(client.acquire(CallCost({"rpm": 1}, 0.2)))
        await asyncio.sleep(0.05)
        assert await reported(budget, client) == pytest.approx(0.2)
        await client.pause(30.0)
        await asyncio.sleep(1.0)
        assert await reported(budget, client) == pytest.approx(0.0)
        client.close()
        assert not await call

    asyncio.run(run())


def test_estimates_learn_bytes_a_token_and_the_length_of_answers():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    assert estimates.expected(4000) == Usage(1320, 300)
    assert estimates.upper_bound(4000) == Usage(4020, 1000)
    for _ in range(200):
        estimates.learn(4000, Usage(820, 100))
    assert abs(estimates.expected(4000).input_tokens - 820) < 10
    assert abs(estimates.expected(4000).output_tokens - 100) < 10
    assert estimates.upper_bound(4000) == Usage(4020, 1000)


def test_a_limit_is_learned_for_each_kind_of_verdict():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    for _ in range(9):
        estimates.learn(4000, Usage(820, 100), "Defence")
    assert estimates.limit_for("Defence") == 1000  # too few to tell
    for _ in range(91):
        estimates.learn(4000, Usage(820, 100), "Defence")
    assert estimates.limit_for("Defence") == 119
    assert estimates.limit_for("RoundScores") == 1000
    assert estimates.limit_for("Defence", cut_at=119) == 1000
    assert estimates.limit_for("Defence", cut_at=1000) == 2000
    for _ in range(5):
        estimates.learn(4000, Usage(820, 119), "Defence", cut=True)
    assert estimates.limit_for("Defence") == 1000  # they have no usual length after all


PROSE = "The quick brown fox jumps over the lazy dog, and nobody minds. "


@pytest.mark.parametrize(
    ("text", "most", "least"),
    [
        (PROSE, 0.65, 0.25),
        ("QWxhZGRpbjpvcGVuIHNlc2FtZQ" * 3, 1.0, 1.0),  # base64 has no words
        ("漢字かな交じり文" * 5, 1.0, 1.0),
        ("snake_case_is_no_word x1y2 f00", 1.0, 0.8),
    ],
)
def test_words_take_a_token_for_two_letters_and_all_else_one_for_a_byte(text, most, least):
    request = request_of("", system=text)
    alone = bound_tokens(request_of("", system=""))
    share = (bound_tokens(request) - alone) / len(text.encode())
    assert least <= share <= most


def test_prompts_are_counted_before_less_than_a_byte_a_token_is_reserved():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(4020, 200)
    estimates.learn_prompts([1000] * 9, 9 * 2400)  # too few
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(4020, 200)
    estimates.learn_prompts([*range(1000, 1010)], 10 * 2400)
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(2420, 200)
    estimates.learn_prompts([4000] * 10, 10 * 2400)  # a server that counts every byte
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(4020, 200)


def reranking(query, *texts, judge="cohere:m"):
    """What a reranker is asked; an empty prompt, so that all else can be counted."""
    documents = tuple(Document(str(i), text) for i, text in enumerate(texts))
    return request_of("", judge_of(judge), system="", query=query, documents=documents)


def test_a_reranker_may_charge_the_query_with_every_document():
    single, triple = (
        measure_request(reranking("héllo", "a")),
        measure_request(reranking("héllo", "a", "b", "c")),
    )
    assert triple - single == 2 * (6 + 20)
    assert measure_request(reranking("q", "a", "b", judge="openai:m")) == measure_request(
        reranking("q", "a", judge="openai:m")
    )


@pytest.mark.parametrize(
    ("query", "texts", "searches"),
    [
        ("q", ["t"], 1),
        ("q", [""] * 100, 1),
        ("q", ["t"] * 101, 2),
        ("q", ["t"] * 1000, 10),
        ("q", ["t" * 499] * 100, 1),
        ("q", ["t" * 500] * 100, 2),  # each is two parts: the query takes one byte of them
        ("q" * 9999, ["t" * 250] * 100, 1),  # the query takes half of a part at most
        ("q" * 9999, ["t" * 251] * 100, 2),
    ],
)
def test_no_reranker_charges_more_searches(query, texts, searches):
    estimates, size = Estimates(Judge("cohere", "m")), measure_request(reranking(query, *texts))
    assert estimates.upper_bound(size).searches == searches
    assert estimates.upper_bound(size).input_tokens >= size
    assert Estimates(Judge("openai", "m")).upper_bound(9).searches == 0


def test_what_was_leased_before_a_pause_waits_for_its_end():
    async def run():
        class Far(OwnCoordination):
            """A coordinator far away, on which each lease takes a while."""

            async def lease(self, request):
                await asyncio.sleep(0.05)
                return await super().lease(request)

        client = PermitClient(Account("a", {"rpm": 1e6}), Far())
        calls = [asyncio.create_task(take(client, rpm=1)) for _ in range(20)]
        await asyncio.sleep(0.03)  # until the lease is on its way
        await client.pause(30.0)
        await asyncio.sleep(0.2)  # it has come
        assert not any(call.done() for call in calls)
        client.close()
        assert not any(await asyncio.gather(*calls))

    asyncio.run(run())


def test_a_lease_that_fails_is_told_to_those_who_wait_and_the_next_call_tries_again():
    async def run():
        coordinator = OwnCoordination()
        client = PermitClient(Account("a", {"rpm": 6000}), coordinator)
        lease, coordinator.lease = coordinator.lease, fails
        first = await asyncio.gather(*(take(client, rpm=1) for _ in range(3)), return_exceptions=1)
        assert [str(error) for error in first] == ["the limits are gone"] * 3
        coordinator.lease = lease
        assert await take(client, rpm=1)

    async def fails(request):
        raise ValueError("the limits are gone")

    asyncio.run(run())


def test_the_last_calls_of_a_day_go_before_all_others_give_up():
    async def run():
        account, ended = Account("a", {"rpm": 60, "rpd": 5}), []
        client = PermitClient(account, OwnCoordination(HURRIED), clock=HURRIED)

        async def call():
            ended.append(await take(client, rpm=1, rpd=1))

        await asyncio.gather(*(call() for _ in range(20)))
        assert ended == [True] * 5 + [False] * 15

    asyncio.run(run())


def test_calls_that_a_pause_sent_back_keep_their_places_in_the_day():
    async def run():
        client = PermitClient(
            Account("a", {"rpm": 600, "rpd": 5}), OwnCoordination(HURRIED), clock=HURRIED
        )
        waiting = [asyncio.create_task(take(client, rpm=1, rpd=1)) for _ in range(5)]
        await asyncio.wait(waiting, return_when="FIRST_COMPLETED")
        await client.pause(20.0)
        assert await asyncio.gather(*waiting) == [True] * 5

    asyncio.run(run())
