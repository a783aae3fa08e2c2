"""Money, whatever order answers, failures, cancellations and the loss of a coordinator come in."""

import asyncio
import random
import sys
import tempfile
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.builders import HURRIED, OwnCoordination, judge_of, options_of, pool_of, verdict
from zelo_ray.engine.budget import Budget
from zelo_ray.engine.coordinator import Coordinator, RunMemory
from zelo_ray.engine.exposure import sum_exposure
from zelo_ray.engine.ledger import Ledger, read_rows
from zelo_ray.engine.online import OnlineClient
from zelo_ray.providers import PROVIDERS, Provider, Refused, Retry, RetryKind
from zelo_ray.records import Answer, Usage

PRICES = {"odd:m": {"input": 1.0, "output": 10.0}}  # dollars a million tokens
POOLS = [pool_of(range(4), query_id=f"q{i}", query=f"question {i}?") for i in range(4)]
OUTCOMES = ("ok", "ok", "ok", "late", "unreached", "away", "lost", "refused", "prose", "billed")


class Watched(Budget):
    """A budget that remembers the most that was ever charged and reserved."""

    most = 0.0

    def reserve(self, *given):
        count = super().reserve(*given)
        self.most = max(self.most, self.spent + self.reserved)
        return count


class Server:
    """A provider that does one thing after another, and keeps its own books."""

    def __init__(self, seed):
        self.chance, self.billed, self.in_flight = random.Random(seed), 0.0, 0

    def bill(self, request):
        """Bill any prompt that its bytes allow, and any answer within the limit."""
        used = Usage(
            self.chance.randint(1, len(request.user)),
            self.chance.randint(1, request.output_limit or 4096),
        )
        self.billed += (used.input_tokens + 10 * used.output_tokens) / 1e6
        return used

    async def send(self, request):
        self.in_flight += 1
        outcome = self.chance.choice(OUTCOMES)
        try:
            if outcome == "late" or self.chance.random() < 0.3:
                used = self.bill(request)  # and then it may be cancelled
                await asyncio.sleep(self.chance.random() / 50)
                if outcome == "late":
                    raise Retry("no answer within 1 s", name="odd:m", unsettled=True)
                return Answer("ok", verdict(0.5), used, "m")
            if outcome == "refused":
                raise Refused("400: no", name="odd:m")
            if outcome == "billed":
                raise Retry("no answer", name="odd:m", billed=self.bill(request))
            if outcome in ("unreached", "away", "lost"):
                kind = {"unreached": RetryKind.UNREACHED, "away": RetryKind.UNAVAILABLE}
                raise Retry(outcome, name="odd:m", kind=kind.get(outcome, RetryKind.OTHER))
            text = "I cannot say." if outcome == "prose" else verdict(0.5)
            return Answer("ok", text, self.bill(request), "m")
        finally:
            self.in_flight -= 1

    async def aclose(self):
        pass


@pytest.fixture(scope="module")
def odd():
    """A provider whose connection is whatever server a test gives it."""
    place = SimpleNamespace(server=None)
    provider = Provider(connect=lambda _: place.server, models=("m",), concurrency=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PROVIDERS, "odd", "odd")
        patch.setitem(sys.modules, "odd", SimpleNamespace(PROVIDER=provider))
        patch.setattr("zelo_ray.engine.coordinator.Budget", Watched)
        yield place


async def run(server, out, cap, cancel, lose):
    """Ask all pools; cancel some of them, and lose the coordinator, after so many turns."""
    budget = Watched(cap, 0.0)
    coordination, judges = OwnCoordination(HURRIED, budget), (judge_of("odd:m"),)
    options = options_of(out=out, prices=PRICES, max_usd=cap, keep_asking=True)
    ledger = Ledger(out, "run")
    given = {"ledger": ledger, "environ": {}, "run_id": "run", "coordinator": coordination}
    client = OnlineClient(options, judges, judges, clock=HURRIED, **given)
    asking = [asyncio.create_task(client.ask_about(pool)) for pool in POOLS]
    budgets, turn = [budget], 0
    while not all(task.done() for task in asking):
        assert client.tallies["odd:m"].in_flight >= server.in_flight
        await client.report_spending()
        if turn in cancel:
            asking[cancel.index(turn) % len(asking)].cancel()
        if turn == lose:  # its driver remembers, and makes it anew
            _, memory = await coordination.send(Coordinator.read_figures, RunMemory())
            coordination._coordinator = fresh = Coordinator(HURRIED)
            fresh.read_figures(coordination.run, memory)
            budgets.append(fresh._state(coordination.run).budget)
        turn += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*asking, return_exceptions=True)
    await client.report_spending()
    tally = client.tallies["odd:m"]
    await client.aclose()
    ledger.close()
    return tally, budgets


@given(
    seed=st.integers(0, 2**32),
    cap=st.sampled_from([0.02, 0.05, 0.15, 1.0]),
    cancel=st.lists(st.integers(0, 60), max_size=3, unique=True),
    lose=st.one_of(st.none(), st.integers(0, 60)),
)
@settings(max_examples=25, deadline=None)
def test_no_order_of_events_exceeds_the_cap_or_leaves_money_reserved(odd, seed, cap, cancel, lose):
    server = odd.server = Server(seed)
    with tempfile.TemporaryDirectory() as out:
        tally, budgets = asyncio.run(run(server, out, cap, cancel, lose))
        known = sum(row.dollars for row in read_rows(out))
        assert sum_exposure(out) == pytest.approx(tally.unsettled)
    assert max(budget.most for budget in budgets) <= cap + 1e-9
    assert budgets[-1].reserved == pytest.approx(0.0, abs=1e-9)
    assert tally.in_flight == tally.waiting == 0
    # An answer that was being kept when its call was cancelled counts twice.
    most = known + tally.unsettled + 1e-9
    assert known - 1e-9 <= server.billed <= budgets[-1].spent + 1e-9 <= most + 1e-9
    assert cancel or budgets[-1].spent == pytest.approx(known + tally.unsettled)
