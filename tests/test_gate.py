"""Calls that queue for limits and money."""

import asyncio
import time

import pytest

from tests.builders import judge_of, request_of
from zelo_ray.engine.budget import Grant
from zelo_ray.engine.budget_client import BudgetClient
from zelo_ray.engine.limiter import Account, Lease
from zelo_ray.engine.limiter_client import LimiterClient
from zelo_ray.engine.quota import OwnQuota
from zelo_ray.engine.tokens import Bound, Estimates, bound_tokens, measure_request
from zelo_ray.records import Document, Judge, Usage


class Recorded(OwnQuota):
    """A quota that remembers what it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    async def lease(self, want):
        self.asked.append((len(want.costs), dict(want.more), dict(want.told)))
        return await super().lease(want)


def test_without_limits_nobody_is_asked():
    async def run():
        quota = Recorded()
        gate = LimiterClient(Account("a"), quota)
        assert await gate.admit({"rpm": 1})
        assert quota.asked == []

    asyncio.run(run())


def test_calls_that_come_together_are_leased_together_and_paced():
    async def run():
        quota = Recorded()
        gate = LimiterClient(Account("a", {"rpm": 6000}), quota)
        began = time.monotonic()
        assert all(await asyncio.gather(*(gate.admit({"rpm": 1}) for _ in range(60))))
        assert time.monotonic() - began > 0.55
        assert len(quota.asked) <= 3
        gate.correct({"rpm": 1, "tpm": 100.0}, {"tpm": 130.0})
        gate.learn_limits({"tpm": 5000.0})
        await gate.admit({"rpm": 1})
        assert quota.asked[-1] == (1, {"tpm": 30.0}, {"tpm": 5000.0})

    asyncio.run(run())


def test_that_an_account_answers_is_told_to_all_and_not_for_each_answer():
    async def run():
        class Told(OwnQuota):
            heard = 0

            async def record_answer(self, account):
                self.heard += 1
                await super().record_answer(account)

        account, quota = Account("a", {"rpm": 6000}), Told()
        gate, other = LimiterClient(account, quota), LimiterClient(account, quota)
        assert await gate.pause(0.0) == 0.0
        await asyncio.sleep(0.02)
        assert await other.pause(0.0) >= 0.02
        for _ in range(100):
            gate.record_answer()
        await asyncio.sleep(0)
        assert quota.heard == 1
        assert await other.pause(0.0) == 0.0

    asyncio.run(run())


def test_a_pause_sends_those_who_had_a_turn_back_to_the_queue():
    async def run():
        gate = LimiterClient(Account("a", {"rpm": 1200}), OwnQuota())
        passed = []

        async def call(i):
            await gate.admit({"rpm": 1})
            passed.append((i, time.monotonic()))

        calls = [asyncio.create_task(call(i)) for i in range(10)]
        await asyncio.sleep(0.12)
        early = len(passed)
        await gate.pause(0.5)
        opened = time.monotonic() + 0.5
        await asyncio.gather(*calls)
        late = [at for _, at in passed[early:]]
        assert 1 <= early < 10
        assert min(late) >= opened - 0.01
        assert max(late) - min(late) > 0.05 * (len(late) - 2)  # paced, not all at once

    asyncio.run(run())


def test_a_closed_gate_lets_nobody_wait():
    async def run():
        gate = LimiterClient(Account("a", {"rpm": 1}), OwnQuota())
        waiting = [asyncio.create_task(gate.admit({"rpm": 1})) for _ in range(3)]
        await asyncio.sleep(0.05)
        gate.close()
        assert await asyncio.wait_for(asyncio.gather(*waiting), 1) == [False] * 3
        assert not await gate.admit({"rpm": 1})

    asyncio.run(run())


def test_a_day_that_is_used_up_closes_the_gate():
    async def run():
        gate = LimiterClient(Account("a", {"rpd": 5}), OwnQuota())
        passed = await asyncio.gather(*(gate.admit({"rpd": 1}) for _ in range(20)))
        assert sum(passed) == 5
        assert gate.spent_day

    asyncio.run(run())


class Cap:
    """A till that grants what was agreed."""

    def __init__(self, *grants):
        self.grants, self.asked = list(grants), []

    async def reserve(self, spender, settled, held, wants):
        self.asked.append((settled, held, list(wants)))
        return self.grants.pop(0)


def test_a_purse_without_a_till_knows_no_cap():
    async def run():
        purse = BudgetClient("a", None)
        assert not purse.capped
        assert await purse.take(1e9)
        purse.give_back(1e9, 1.0)

    asyncio.run(run())


def test_a_purse_tells_what_was_spent_and_waits_for_what_may_come_back():
    async def run():
        till = Cap(Grant(2, over=False), Grant(0, over=False), Grant(1, over=False))
        purse = BudgetClient("a", till)
        assert await asyncio.gather(purse.take(0.2), purse.take(0.2)) == [True, True]
        purse.give_back(0.2, 0.05)
        assert await purse.take(0.3)
        assert till.asked[1] == (0.05, pytest.approx(0.2), [0.3])
        assert len(till.asked) == 3

    asyncio.run(run())


def test_a_purse_that_is_over_sends_everyone_away():
    async def run():
        purse = BudgetClient("a", Cap(Grant(1, over=False), Grant(0, over=True)))
        taken = await asyncio.gather(purse.take(0.1), purse.take(0.1), purse.take(0.1))
        assert taken == [True, False, False]
        assert purse.over

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


def test_no_limit_is_so_low_that_nothing_can_be_said():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    for _ in range(50):
        estimates.learn(4000, Usage(820, 3), "Order")
    assert estimates.limit_for("Order") == 64


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
    alone = bound_tokens(request_of("", system="")).tokens
    share = (bound_tokens(request).tokens - alone) / len(text.encode())
    assert least <= share <= most


def test_prompts_are_counted_before_less_than_a_byte_a_token_is_reserved():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    bound, other = Bound(7, 1800, 600), Bound(8, 1800, 600)
    assert estimates.tight_upper_bound(4000, bound, 200) == Usage(4020, 200)
    estimates.learn_prompts(7, [1000] * 9, 9 * 2400)  # too few
    assert estimates.tight_upper_bound(4000, bound, 200) == Usage(4020, 200)
    estimates.learn_prompts(7, [*range(1000, 1010)], 10 * 2400)
    assert estimates.tight_upper_bound(4000, bound, 200) == Usage(1620, 200)
    assert estimates.tight_upper_bound(4000, other, 200) == Usage(2420, 200)
    estimates.learn_prompts(0, [900] * 10, 10 * 2400)  # of prompts that open in several ways
    assert estimates.tight_upper_bound(4000, other, 200) == Usage(2420, 200)
    estimates.learn_prompts(7, [4000] * 10, 10 * 2400)  # a server that counts every byte
    assert estimates.tight_upper_bound(4000, other, 200) == Usage(4020, 200)


def reranking(query, *texts, judge="cohere:m"):
    """What a reranker is asked; an empty prompt, so that all else can be counted."""
    documents = tuple(Document(str(i), text) for i, text in enumerate(texts))
    return request_of("", judge_of(judge), system="", query=query, documents=documents)


def test_a_reranker_may_charge_the_query_with_every_document():
    one, three = (
        measure_request(reranking("héllo", "a")),
        measure_request(reranking("héllo", "a", "b", "c")),
    )
    assert three - one == 2 * (6 + 20)
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


def test_a_reranker_writes_nothing_and_teaches_how_it_counts_input():
    estimates = Estimates(Judge("voyage", "m"))
    assert (estimates.expected(4000).output_tokens, estimates.upper_bound(4000).output_tokens) == (
        0,
        0,
    )
    for _ in range(200):
        estimates.learn(4000, Usage(620))
    assert abs(estimates.expected(4000).input_tokens - 620) < 10


def test_an_answer_without_output_says_nothing_of_the_length_of_answers():
    estimates = Estimates(Judge("openai", "m"))
    estimates.learn(4000, Usage(820))
    assert estimates.expected(4000).output_tokens == 300


def test_a_lease_is_kept_for_those_who_want_to_see_the_limits():
    async def run():
        gate = LimiterClient(Account("a", {"rpm": 600}), OwnQuota())
        await gate.admit({"rpm": 1})
        assert isinstance(gate.lease, Lease)
        assert gate.lease.rates == {"rpm": pytest.approx(594)}

    asyncio.run(run())


class Far(OwnQuota):
    """A quota far away, on which each lease takes a while."""

    def __init__(self, rpm=1e6):
        super().__init__()
        self.asked, self.rpm = [], rpm

    async def lease(self, want):
        self.asked.append(want)
        await asyncio.sleep(0.02)
        return await super().lease(want)


async def rested(quota, **limits):
    """A gate whose account has been at rest for longer than it can save up."""
    gate = LimiterClient(Account("a", limits), quota)
    await gate.admit({"rpm": 1})
    await asyncio.sleep(1.1)
    await gate.admit({"rpm": 1})
    return gate


def test_far_below_the_limits_leave_is_in_hand_and_nobody_waits():
    async def run():
        gate = await rested(quota := Far(), rpm=1e6)
        await asyncio.gather(*(gate.admit({"rpm": 1}) for _ in range(100)))
        before, waits = len(quota.asked), 0
        for _ in range(300):
            call = asyncio.create_task(gate.admit({"rpm": 1}))
            await asyncio.sleep(0.001)
            waits += not call.done()
            assert await call
        assert waits < 30  # each would wait for 20 ms, without leave in hand
        assert len(quota.asked) - before < 60

    asyncio.run(run())


def test_what_is_leased_ahead_and_not_used_is_given_back():
    async def run():
        gate = await rested(quota := Far(), rpm=6000)
        await asyncio.gather(*(gate.admit({"rpm": 1}) for _ in range(20)))
        ahead = gate.lease.ready
        assert ahead > 0
        await asyncio.sleep(0.3)  # what was in hand is too old
        await gate.admit({"rpm": 1})
        assert quota.asked[-1].more["rpm"] == -ahead

    asyncio.run(run())


def test_leave_in_hand_counts_what_a_call_really_takes():
    async def run():
        gate = await rested(quota := Far(), rpm=6000, tpm=1e9)
        cheap, dear = {"rpm": 1, "tpm": 10.0}, {"rpm": 1, "tpm": 25.0}
        await asyncio.gather(*(gate.admit(cheap) for _ in range(20)))
        assert gate.lease.ready > 2
        await gate.admit(dear)
        await gate.pause(0.0)  # gives the rest back
        await gate.admit(cheap)
        told = quota.asked[-1].more
        left = -told["rpm"] - 2  # the dear one took three, of which it used one
        assert told["tpm"] == pytest.approx(-5 - 10 * left)

    asyncio.run(run())


def test_a_call_many_times_as_large_is_leased_for_by_itself():
    async def run():
        gate = await rested(quota := Far(), rpm=6000, tpm=1e9)
        await asyncio.gather(*(gate.admit({"rpm": 1, "tpm": 10.0}) for _ in range(20)))
        await gate.admit({"rpm": 1, "tpm": 50_000.0})
        assert {"rpm": 1, "tpm": 50_000.0} in quota.asked[-1].costs

    asyncio.run(run())


def test_what_was_leased_before_a_pause_waits_for_its_end():
    async def run():
        gate = await rested(quota := Far(), rpm=1e6)
        await asyncio.gather(*(gate.admit({"rpm": 1}) for _ in range(50)))
        asked = len(quota.asked)
        while len(quota.asked) == asked:  # until a lease is on its way
            await gate.admit({"rpm": 1})
        await gate.pause(30.0)
        gate.lease = None
        await asyncio.sleep(0.1)  # it has come
        calls = [asyncio.create_task(gate.admit({"rpm": 1})) for _ in range(20)]
        await asyncio.sleep(0.1)
        assert not any(call.done() for call in calls)
        gate.close()
        assert not any(await asyncio.gather(*calls))

    asyncio.run(run())


def test_a_lease_that_fails_is_tried_again_by_the_next_call():
    async def run():
        quota = Far()
        gate = await rested(quota, rpm=6000)
        lease, quota.lease = quota.lease, fails
        first = asyncio.create_task(gate.admit({"rpm": 7}))
        await asyncio.sleep(0.4)
        quota.lease = lease
        second = asyncio.create_task(gate.admit({"rpm": 1}))
        assert await asyncio.gather(first, second) == [True, True]

    async def fails(want):
        raise ValueError("the limits are gone")

    asyncio.run(run())


def test_near_a_limit_nothing_is_leased_ahead():
    async def run():
        gate = LimiterClient(Account("a", {"rpm": 6000}), quota := Far())
        await asyncio.gather(*(gate.admit({"rpm": 1}) for _ in range(150)))
        assert gate.lease.ready == 0
        assert any(want.ahead for want in quota.asked)

    asyncio.run(run())
