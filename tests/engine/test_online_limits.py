"""Asking within limits: budgets, rates, and judges or servers that come to their end."""

import asyncio
import socket

import pytest

from tests.fakes import Fakes, Fault
from tests.helpers.builders import (
    HURRIED,
    MachineBudget,
    OwnCoordination,
    ask,
    key_for,
    options_of,
    pool_of,
)
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.coordinator import Coordinator, LeaseRequest
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.limiter import Account
from zelo_ray.engine.online import OnlineClient
from zelo_ray.protocols import advance, samre
from zelo_ray.providers import build_panel, fingerprint
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Document, Pool

POOL = pool_of()
REQUESTS = 6  # of one judge on a pool of four


def test_what_a_response_without_an_answer_says_it_used_is_in_the_books(fakes, environ, tmp_path):
    fakes.faults = [Fault("malformed_billed", rate=0.5, times=1)]
    asker = ask([POOL], tmp_path, environ)
    billed = [entry["usage"] for entry in fakes.journal if "usage" in entry]
    assert len(billed) > 3 * REQUESTS
    for column, name in (("input_tokens", "input"), ("output_tokens", "output")):
        assert sum(getattr(row, column) for row in asker.books) == sum(u[name] for u in billed)
    lost = [row for row in asker.books if row.status == "failed"]
    assert lost
    assert all(row.dollars > 0 and not row.final for row in lost)


def test_the_limits_are_learned_from_the_headers_and_kept(environ, tmp_path, monkeypatch):
    with Fakes(["openai"], rpm=1200, burst=2) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        pools = [pool_of(range(8), query_id=f"q{i}", query=f"question {i}?") for i in range(3)]
        asker = ask(pools, tmp_path, key_for(environ, "openai"), limits=None, clock=Clock())
        assert fakes.outcomes["throttled"] == 0
        (tally,) = asker.tallies.values()
        assert tally.limits["rpm"] == pytest.approx(1200 * 0.99)
        arrived = sorted(entry["arrived"] for entry in fakes.journal)
        assert len(arrived) / (arrived[-1] - arrived[0]) < 1200 / 60 * 1.05


def test_a_limit_that_is_too_high_is_felt_once_and_for_all(environ, tmp_path, monkeypatch):
    """Gemini tells no limits: the user's are wrong, and the server says so."""
    with Fakes(["gemini"], rpm=600, burst=1) as fakes:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", fakes.urls["gemini"])
        job = {"limits": {"gemini:gemini-3.1-flash-lite": {"rpm": 6000}}, "clock": Clock()}
        asker = ask([pool_of(range(8))], tmp_path, key_for(environ, "gemini"), **job)
        assert {row.status for row in asker.books} == {"ok"}
        assert fakes.outcomes["throttled"] > 0
        assert sum(model["early"] for model in fakes.traffic.models.values()) == 0


def test_an_account_that_gives_nothing_but_429s_ends_the_judge(fakes, environ, tmp_path):
    fakes.faults = [Fault("429")]
    job = {"patience": 30, "limits": {"openai:gpt-6-luna": {"concurrency": 2}}}
    asker = ask([POOL], tmp_path, key_for(environ, "openai"), **job)
    assert asker.stopped.startswith("openai:gpt-6-luna: nothing but 429 ")
    assert "patience" in asker.stopped
    assert asker.books == []
    spared = ask([POOL], tmp_path, key_for(environ, "openai"), allow_missing_judges=True, **job)
    assert spared.stopped == ""
    assert spared.disabled["openai:gpt-6-luna"].code is StopReason.THROTTLED


def test_429s_go_on_for_as_long_as_somebody_of_ours_gets_answers(fakes, environ, tmp_path):
    """Here another run on the cluster, with the same key."""
    fakes.faults = [Fault("429", times=8)]
    shared = OwnCoordination(HURRIED)

    async def run():
        panel, ledger = build_panel(("openai",), {}, environ), Ledger(str(tmp_path), "run")
        options = options_of(out=str(tmp_path), patience=5.0)
        fields = {"ledger": ledger, "environ": environ, "run_id": "run", "coordinator": shared}
        asker = OnlineClient(options, panel, panel, clock=HURRIED, **fields)
        account = Account(f"openai:gpt-6-luna {fingerprint(environ['OPENAI_API_KEY'])}")

        answered = LeaseRequest(account, answered=True)

        async def hear():
            while True:
                await shared.send(Coordinator.lease, answered)
                await asyncio.sleep(0.005)

        hearing = asyncio.create_task(hear())
        await asker.ask_about(pool_of((0, 1)))
        hearing.cancel()
        await asker.aclose()
        ledger.close()
        return asker

    asker = asyncio.run(run())
    assert asker.stopped == ""
    assert fakes.outcomes["429"] >= 8
    assert asker.channels["openai:gpt-6-luna"].permits.answered, "as others are to hear of it"


@pytest.fixture
def dead():
    """The URL of a server at whose port nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


def test_a_dead_server_named_by_its_url_ends_its_judge_after_three_tries(dead, tmp_path):
    judge = f"openai:m@{dead}"
    asker = ask([POOL], tmp_path, {}, judges=(judge,), attempts=1)
    assert asker.stopped.startswith(f"{judge}: connection refused, 3 times in ")
    assert asker.tallies[judge].retries == 2  # by the one request that went ahead
    assert asker.books == []


@pytest.mark.parametrize("fault", ["no_model", "wrong_key"])
def test_a_server_that_knows_no_such_model_or_key_is_asked_once(tmp_path, fault):
    with Fakes(["openai"], key="none", faults=[Fault(fault)]) as fakes:
        judge = f"openai:m@{fakes.urls['openai']}"
        asker = ask([POOL], tmp_path, {}, judges=(judge,))
        assert len(fakes.journal) == 1
    assert asker.stopped.startswith(f"{judge}: ")
    assert asker.books == []


@pytest.mark.parametrize("cap", [0.1, 0.2])
def test_a_budget_buys_whole_debates_not_a_beginning_of_each(tmp_path, cap):
    pools = [
        Pool(
            f"q{i}",
            f"question {i}",
            (Document("a", "x", {"grade": 1}), Document("b", "y", {"grade": 0})),
        )
        for i in range(60)
    ]
    judge = "simulated:judge"
    job = {"judges": (judge,), "protocol": "samre", "max_usd": cap}
    asker = ask(
        pools,
        tmp_path,
        {},
        budget=MachineBudget(cap),
        prices={judge: {"input": 1.0, "output": 1.0}},
        limits={judge: {"concurrency": 4}},
        judge_options={judge: {"latency": 0.002, "noise": 0.0}},
        clock=Clock(),  # the budget goes by the machine's: in a hurry calls give up before it can
        **job,
    )
    panel, options = asker.job
    ledger, disabled = Ledger(str(tmp_path)), {judge: Disabled(StopReason.BUDGET, "over")}
    steps = [
        advance(samre.PROTOCOL.rounds(pool, panel, options), ledger, disabled) for pool in pools
    ]
    held = sum(bool(step.judgments) for step in steps)
    assert 100 < len(asker.books) < 60 * 8
    assert held > 0.8 * len(asker.books) / 8
