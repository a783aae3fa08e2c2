"""A server that goes away and comes back: what that costs, and that nothing is lost by it."""

import asyncio
import re
import threading
from collections import Counter
from contextlib import contextmanager

import pytest

from tests.fakes import Fakes, Fault
from tests.helpers.builders import ask, key_for, options_of, pool_of
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.online import OnlineClient
from zelo_ray.providers import build_panel

POOLS = [pool_of(range(8), query_id=f"q{i}", query=f"question {i}?") for i in range(6)]
REQUESTS = 6 * 28
KIND = ("503", "500", "504", "drop", "not_json")


@contextmanager
def outage(fakes, faults, *, after, seconds):
    """Let faults strike all calls for some seconds, once so many were answered."""
    ended = threading.Event()

    def strike():
        while len(fakes.journal) < after and not ended.wait(0.001):
            pass
        fakes.faults = faults
        ended.wait(seconds)
        fakes.faults = []

    striking = threading.Thread(target=strike)
    striking.start()
    try:
        yield
    finally:
        ended.set()
        striking.join()


@pytest.mark.parametrize(
    ("kind", "slots"), [*((kind, 16) for kind in KIND), ("503", 1), ("drop", 1), ("500", 2)]
)
def test_two_minutes_without_an_answer_cost_few_calls_and_no_request(
    environ, tmp_path, monkeypatch, kind, slots
):
    with Fakes(["openai"], latency=0.01) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        limits = {"openai:gpt-6-luna": {"concurrency": slots}}
        with outage(fakes, [Fault(kind)], after=40, seconds=1.2):
            asker = ask(POOLS, tmp_path, key_for(environ, "openai"), limits=limits)
    assert asker.stopped == ""
    assert {row.status for row in asker.books} == {"ok"}
    assert len(asker.books) == REQUESTS
    in_vain = sum(entry["outcome"] == kind for entry in fakes.journal)
    assert 3 <= in_vain <= 16 + 20  # what was in flight, what that led to, and the probes


@pytest.mark.parametrize("slots", [1, 3, 32])
def test_two_minutes_without_an_answer_cost_nothing_where_one_request_waits(
    environ, tmp_path, monkeypatch, slots
):
    with Fakes(["openai"], latency=0.01) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        fields = {"limits": {"openai:gpt-6-luna": {"concurrency": slots}}, "protocol": "best-of"}
        with outage(fakes, [Fault("503")], after=1, seconds=1.2):
            asker = ask([pool_of((0, 1, 2))], tmp_path, key_for(environ, "openai"), **fields)
    assert [row.status for row in asker.books] == ["ok", "ok"]
    assert fakes.outcomes["503"] < 12


def test_a_server_that_loads_its_model_first_is_waited_for(environ, tmp_path):
    with Fakes(["openai"], faults=[Fault("503", total=5)]) as fakes:
        name = f"openai:gpt-6-luna@{fakes.urls['openai']}"
        asker = ask(
            *(POOLS[:2], tmp_path, key_for(environ, "openai")),
            judges=[name],
            api_key_env={name: "OPENAI_API_KEY"},
        )
    assert asker.stopped == ""
    assert {row.status for row in asker.books} == {"ok"}
    outcomes = [entry["outcome"] for entry in fakes.journal]
    assert outcomes[:6] == ["503"] * 5 + ["ok"]  # each goes alone
    first = fakes.journal[5]
    assert all(entry["arrived"] >= first["finished"] for entry in fakes.journal[6:])


def test_a_server_that_refuses_connections_costs_nothing(environ, tmp_path, monkeypatch):
    clock = Clock(speed=20.0)
    with Fakes(["openai"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.urls["openai"])
        port = int(server.url.rpartition(":")[2])
        environ = key_for(environ, "openai")
        limits = {"openai:gpt-6-luna": {"concurrency": 16, "rpm": 1e6}}
        options = options_of(out=str(tmp_path), limits=limits, attempts=1)
        panel = build_panel(options.judges, options.judge_options, environ)

        async def run():
            ledger = Ledger(tmp_path, "run")
            asker = OnlineClient(
                options, panel, panel, ledger=ledger, environ=environ, run_id="run", clock=clock
            )
            await asyncio.gather(*map(asker.ask_about, POOLS[:3]))
            server.__exit__()
            waiting = [asyncio.create_task(asker.ask_about(pool)) for pool in POOLS[3:]]
            (tally,) = asker.tallies.values()
            while tally.retries < 6 and "failed" not in tally.statuses:  # some are probes
                await asyncio.sleep(0.01)
            with Fakes(["openai"], port=port):
                await asyncio.gather(*waiting)
            server.__enter__()
            await asker.aclose()
            ledger.close()
            return tally

        tally = asyncio.run(run())
    assert tally.statuses == {"ok": REQUESTS}
    assert tally.retries < 16 + 20
    assert tally.unsettled == 0.0


def test_a_judge_that_never_comes_back_is_given_up_and_nothing_is_kept_of_it(
    fakes, environ, tmp_path
):
    fakes.faults = [Fault("503")]
    asker = ask(POOLS, tmp_path, key_for(environ, "openai"))
    assert "503" in asker.stopped
    assert re.search(r"nothing else for \d minutes", asker.stopped)  # hurried ones, of 0.6 s
    assert asker.books == []
    assert len(fakes.journal) < 50
    fakes.faults = []
    again = ask(POOLS, tmp_path, key_for(environ, "openai"))
    assert {row.status for row in again.books} == {"ok"}


class OfPrompt(Fault):
    """A fault that strikes every sixth prompt, each time that it is sent."""

    def strikes(self, provider, endpoint, seed, sha, seen):
        return int(sha[:4], 16) % 6 == 0


@pytest.mark.parametrize("slots", [1, 2, 32])
@pytest.mark.parametrize("kind", ["500", "503"])
def test_prompts_that_never_pass_do_not_hold_up_the_run(fakes, environ, tmp_path, kind, slots):
    fakes.faults = [OfPrompt(kind)]
    limits = {"openai:gpt-6-luna": {"concurrency": slots}}
    keys = key_for(environ, "openai")
    asker = ask(POOLS, tmp_path, keys, limits=limits, attempts=3, clock=Clock(speed=2000.0))
    assert asker.stopped == ""
    statuses = Counter(row.status for row in asker.books)
    assert statuses.total() == REQUESTS
    assert statuses["failed"] > 20
    assert fakes.outcomes[kind] < 20 * statuses["failed"]
