"""Caps that hold by the servers' own books, whatever lengths texts take in mid-run; without Ray."""

from collections import Counter

import pytest

from tests.fakes import Fakes, Fault
from tests.fakes.lengths import Lengths
from tests.helpers.builders import MachineBudget, ask, pool_of, send_away
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.exposure import sum_exposure
from zelo_ray.engine.ledger import read_rows

DOLLARS = {"input": 0.10e-6, "output": 0.50e-6}
POOLS = [
    pool_of(range(8), query_id=f"q{i}", query=f"What is to be said of number {i}?")
    for i in range(12)
]
REQUESTS = 12 * 28
SOON = Clock(speed=5.0)
"""Where it does not matter in how many rounds of batches money is spent."""
OPENAI = {"OPENAI_API_KEY": "a-key-for-tests-only"}


def billed(fakes):
    """US dollars by the server's own books."""
    return sum(
        (sums["input"] * DOLLARS["input"] + sums["output"] * DOLLARS["output"])
        * (0.5 if batch else 1.0)
        for (_, _, batch), sums in fakes.books().items()
    )


@pytest.fixture
def server(monkeypatch):
    """Starts OpenAI's fake with texts of some lengths."""
    running = []

    def start(*faults, **lengths):
        fakes = Fakes(["openai"], faults=list(faults), lengths=Lengths(**lengths)).__enter__()
        running.append(fakes)
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        return fakes

    yield start
    for fakes in running:
        fakes.__exit__(None, None, None)


def away(out, cap, **fields):
    # In the machine's time: what waits for money waits for the server, which has no other.
    job = {
        "budget": MachineBudget(cap),
        "max_usd": cap,
        "clock": Clock(),
        "batch_poll": 0.05,
        **fields,
    }
    return send_away(POOLS, out, OPENAI, **job)["openai"]


ATTACKS = {
    "short then long": {"output": 20, "later": 2000, "turn": 40},
    "long-tailed": {"output": 60, "sd": 1.0},
    "a token a byte": {"output": 30, "bytes_per_token": 1.0},
}


@pytest.mark.parametrize("lengths", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("cap", [0.01, 0.06])
def test_a_cap_holds_in_batches_though_answers_change(server, tmp_path, lengths, cap):
    fakes = server(**lengths)
    batcher = away(tmp_path, cap, clock=SOON)
    assert batcher.stopped == ""
    assert 0 < billed(fakes) <= cap
    assert sum(row.dollars for row in read_rows(str(tmp_path))) == pytest.approx(billed(fakes))


def test_a_cap_takes_few_rounds_of_batches(server, tmp_path):
    """What comes home teaches how long answers get, so that more is sent for the same money."""
    fakes = server(output=120, sd=0.2)
    cap = 1.5 * REQUESTS * 0.5 * (494 * DOLLARS["input"] + 122 * DOLLARS["output"])
    batcher = away(tmp_path, cap)
    assert batcher.disabled == {}
    assert sum(tally.answered for tally in batcher.tallies.values()) == REQUESTS
    assert billed(fakes) <= cap
    assert len(fakes.store.batches) <= 4


def test_what_a_learned_limit_cut_off_is_asked_again_with_the_judges_own(server, tmp_path):
    fakes = server(output=20, later=400, turn=110)
    batcher = away(tmp_path, 0.06, clock=SOON)
    assert batcher.disabled == {}
    rows = list(read_rows(str(tmp_path)))
    cut = [row for row in rows if row.status == "truncated"]
    assert cut
    assert not any(row.final for row in cut)
    assert {row.limit for row in rows} == {64, 2048}
    ended = Counter(row.key for row in rows if row.final)
    assert len(ended) == REQUESTS
    assert set(ended.values()) == {1}
    assert billed(fakes) <= 0.06


def test_a_server_that_ignores_limits_is_asked_nothing_more(server, tmp_path):
    fakes = server(output=20, later=9000, turn=100, ignore_limits=True)
    cap = 0.4
    asker = ask(
        POOLS,
        tmp_path,
        OPENAI,
        budget=MachineBudget(cap),
        max_usd=cap,
        limits={"openai:gpt-6-luna": {"concurrency": 4}},
    )
    assert "an answer of 9,0" in asker.stopped
    assert "--max-usd cannot be kept" in asker.stopped
    assert sum(entry.get("output_tokens", 0) > 2048 for entry in fakes.journal) <= 4


def test_a_call_that_our_patience_ended_counts_as_spent(server, tmp_path):
    fakes = server(Fault("timeout_billed", total=3))
    cap = 0.4
    till = MachineBudget(cap)
    asker = ask(POOLS[:1], tmp_path, OPENAI, budget=till, max_usd=cap, timeout=0.5)
    assert asker.stopped == ""
    known = sum(row.dollars for row in asker.books)
    unknown = sum_exposure(str(tmp_path))
    (tally,) = asker.tallies.values()
    assert tally.unsettled == pytest.approx(unknown)
    assert known < billed(fakes) <= known + unknown
