"""Asking: real SDKs against loopback servers on which everything goes wrong that can."""

import asyncio
import errno
import gc
import re
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from scipy.stats import kendalltau

from tests.fakes import Fakes, Fault
from tests.helpers.builders import (
    HURRIED,
    THREE,
    ask,
    ask_apart,
    graded_pools,
    judge_of,
    key_for,
    missing,
    options_of,
    pool_of,
    settled,
    stored,
    two_speeds,
    verdict,
)
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.ledger import Ledger, read_rows, writing
from zelo_ray.engine.online import OnlineClient
from zelo_ray.engine.tally import Tally, sum_over_sweeps
from zelo_ray.errors import PanelError
from zelo_ray.protocols import Progress, advance, zelo
from zelo_ray.providers import PROVIDERS, Provider, build_panel
from zelo_ray.records import Answer, Usage

POOL = pool_of()
REQUESTS = 6  # of one judge on a pool of four


# All is well


@pytest.mark.parametrize("provider", THREE)
def test_scores_recover_the_order_of_the_worth(fakes, environ, tmp_path, provider):
    worths = [3.1, 0.2, 2.2, 1.4, 0.9, 2.7, 1.9, 0.5, 3.6, 1.1, 2.4, 0.0]
    pool = pool_of(worths)
    asker = ask([pool], tmp_path, key_for(environ, provider))
    assert asker.stopped == ""
    step = settled(asker, pool, tmp_path)
    assert not step.failures
    assert len(step.judgments) == len(fakes.journal) == len(asker.books) == 48
    assert {vote.swapped for vote in step.judgments} == {True, False}
    (fit,) = zelo.fit([step.judgments], asker.job[1])
    scores = {score.doc_id: score.score for score in fit.scores}
    tau = kendalltau([scores[f"d{i}"] for i in range(12)], worths).statistic
    assert tau > 0.9
    (tally,) = asker.tallies.values()
    assert (tally.answered, tally.known, tally.statuses) == (48, 0, {"ok": 48})
    assert tally.input_tokens == sum(entry["input_tokens"] for entry in fakes.journal)
    assert tally.output_tokens == sum(entry["output_tokens"] for entry in fakes.journal)
    assert tally.dollars == pytest.approx(sum(row.dollars for row in asker.books)) != 0
    assert {row.run_id for row in asker.books} == {"run"}


def test_a_run_that_is_repeated_asks_nothing(fakes, environ, tmp_path):
    first = ask([POOL], tmp_path, environ)
    sent = len(fakes.journal)
    again = ask([POOL], tmp_path, environ, run_id="again")
    assert len(fakes.journal) == sent
    assert again.books == first.books
    for tally in again.tallies.values():
        assert tally == Tally(known=REQUESTS, queries=1)


@pytest.mark.parametrize("fields", [{}, {"calls_per_document": 3}])
def test_what_is_known_is_counted_by_judge_and_never_too_much(tmp_path, fields):
    """A run that goes on counts what each judge said, though pools wait for the other."""
    pools = graded_pools(8)
    options, panel = two_speeds(tmp_path, **fields)
    planned = Counter()
    for pool in pools:
        planned.update(zelo.count(pool, panel, options))
    ask_apart(pools, options, panel, enough=70)
    before = Counter(row.judge for row in read_rows(str(tmp_path)))

    def look(tallies):
        assert all(t.known + t.answered <= planned[name] for name, t in tallies.items())

    sweeps, ledger = {name: {} for name in planned}, None
    for sweep in (1, 2, 3):  # until nothing waits for another judge's words
        told = {"run_id": "rest", "look": look, "again": sweep > 1}
        for name, tally in ask_apart(pools, options, panel, **told).items():
            sweeps[name][sweep] = tally
        ledger = Ledger(str(tmp_path))
        rounds = [zelo.rounds(pool, panel, options) for pool in pools]
        if not any(advance(each, ledger).missing for each in rounds):
            break
    after = {name: sum_over_sweeps(each) for name, each in sweeps.items()}
    assert {name: tally.known for name, tally in after.items()} == before
    assert {name: tally.known + tally.answered for name, tally in after.items()} == planned


def twins():
    """Two pools of other ids that ask the very same thing."""
    options, panel = options_of(), (judge_of("openai:gpt-6-luna"),)
    pools = [pool_of((0, 1), query_id=f"q{i}") for i in range(9)]
    keys = [missing(pool, panel, options)[0].key for pool in pools]
    return next([pools[i], pools[j]] for i in range(9) for j in range(i) if keys[i] == keys[j])


def test_a_request_that_two_pools_ask_at_once_is_sent_once(fakes, environ, tmp_path):
    pools = twins()
    asker = ask(pools, tmp_path, key_for(environ, "openai"))
    assert len(fakes.journal) == len(asker.books) == 1
    for pool in pools:
        (vote,) = settled(asker, pool, tmp_path).judgments
        assert vote.query_id == pool.query_id


def test_no_more_calls_are_in_flight_than_the_limit(environ, tmp_path, monkeypatch):
    with Fakes(["openai"], latency=0.01) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        limits = {"openai:gpt-6-luna": {"concurrency": 3}}
        ask([pool_of(range(8))], tmp_path, key_for(environ, "openai"), limits=limits)
        assert fakes.peak_in_flight == 3


def test_a_server_named_by_its_url_is_never_sent_a_providers_key(environ, tmp_path):
    with Fakes(["openai"], key="none") as fakes:
        name = f"openai:qwen3@{fakes.urls['openai']}"
        asker = ask([POOL], tmp_path, environ, judges=(name,))
        assert {entry["status"] for entry in fakes.journal} == {200}
    assert {(row.judge, row.dollars) for row in asker.books} == {(name, None)}
    assert asker.tallies[name].unpriced == REQUESTS


def test_an_answer_whose_price_cannot_be_reckoned_is_kept(environ, tmp_path, monkeypatch):
    """A gateway may count more tokens from its cache than in all."""
    with Fakes(["openai"], cached=2.0) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        asker = ask([POOL], tmp_path, key_for(environ, "openai"))
    assert asker.stopped == ""
    assert [row.dollars for row in asker.books] == [None] * REQUESTS


# Trouble that passes


def test_attempts_are_calls(fakes, environ, tmp_path):
    fakes.faults = [Fault("500")]
    pool = pool_of((0, 1))  # of more requests in a row without an answer the judge is to blame
    asker = ask([pool], tmp_path, key_for(environ, "openai"), attempts=3)
    assert len(fakes.journal) == 3
    (row,) = asker.books
    assert (row.status, row.attempts, row.dollars) == ("failed", 3, 0.0)
    assert "500" in row.reason
    step = settled(asker, pool, tmp_path)
    assert len(step.failures) == 1
    assert not step.judgments


def run_briefly(work):
    """Run a coroutine that ends soon, or else fail."""

    async def briefly():
        async with asyncio.timeout(5):
            return await work

    return asyncio.run(briefly())


def test_a_stop_does_not_wait_for_a_call_that_is_not_in_flight(fakes, environ, tmp_path):
    """A person who interrupts a run waits for calls in flight, not for a two minutes' back-off."""
    fakes.faults = [Fault("503", retry_after=100)]

    async def run():
        panel, ledger = build_panel(("openai",), {}, environ), Ledger(str(tmp_path), "run")
        options = options_of(out=str(tmp_path))
        asker = OnlineClient(options, panel, panel, ledger=ledger, environ=environ, run_id="run")
        filling = asyncio.create_task(asker.ask_about(POOL))
        while asker.tallies["openai:gpt-6-luna"].retries < REQUESTS:
            await asyncio.sleep(0.01)
        asker.stop("interrupted")
        await filling
        await asker.aclose()
        ledger.close()

    run_briefly(run())


# Answers that are none


FAULTS = {
    "refusal": "refused",
    "filtered": "filtered",
    "truncated": "truncated",
    "out_of_range": "invalid",
    "prose": "invalid",
    "missing_field": "invalid",
    "filtered_prompt": "filtered",
    **dict.fromkeys(("bad_request", "too_long", "413", "422"), "failed"),
    **dict.fromkeys(("drop", "timeout", "malformed", "not_json"), "failed"),
    **dict.fromkeys(("408", "409", "429", "500", "502", "503", "504", "529"), "failed"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_failure_becomes_a_vote(fakes, environ, tmp_path, fault):
    rate = 0.95 if fault == "429" else 0.4  # waiting for one's turn is a tenth of an attempt
    fakes.faults = [Fault(fault, rate=rate, retry_after=0.001)]
    pool, environ = pool_of(range(6)), key_for(environ, "openai")
    timeout = 1.0 if fault == "timeout" else 60.0  # a busy machine is slow to answer
    asker = ask([pool], tmp_path, environ, attempts=1, timeout=timeout, reasks=0)
    assert asker.stopped == ""
    step = settled(asker, pool, tmp_path)
    assert len(step.judgments) + len(step.failures) == 15
    assert {failure.status for failure in step.failures} == {FAULTS[fault]}
    assert all(failure.reason for failure in step.failures)
    assert step.judgments
    for vote in step.judgments:  # the later document is worth more
        assert vote.preference > 0
    good = {row.key for row in asker.books if row.status == "ok"}
    assert {vote.key for vote in step.judgments} == good


@pytest.mark.parametrize(
    "fault", ["wrong_key", "unpaid", "forbidden", "no_model", "no_quota", "unsupported"]
)
def test_what_a_person_must_mend_stops_the_run_and_is_kept_as_nothing(
    fakes, environ, tmp_path, fault
):
    fakes.faults = [Fault(fault)]
    asker = ask([POOL, pool_of(query_id="q2")], tmp_path, key_for(environ, "openai"))
    assert "openai:gpt-6-luna" in asker.stopped
    assert "\n" not in asker.stopped
    assert asker.books == []
    step = settled(asker, POOL, tmp_path)
    assert len(step.missing) == REQUESTS
    fakes.faults = []
    assert len(ask([POOL], tmp_path, key_for(environ, "openai")).books) == REQUESTS


@pytest.mark.parametrize("provider", THREE)
def test_a_wrong_key_stops_with_its_variable_and_without_itself(fakes, environ, tmp_path, provider):
    wrong = "sk-a-wrong-key-0123456789"
    name = f"{provider.upper()}_API_KEY"
    asker = ask([POOL], tmp_path, {name: wrong})
    assert name in asker.stopped
    assert wrong not in asker.stopped
    assert asker.stopped.count(next(iter(asker.tallies))) == 1
    assert stored(tmp_path) == []


@pytest.mark.parametrize("key", ["two words", "a key with a line\nbreak", "schlüssel"])
def test_a_key_that_cannot_be_one_is_an_error_before_anything_is_asked(tmp_path, key):
    with pytest.raises(PanelError, match="OPENAI_API_KEY") as caught:
        ask([POOL], tmp_path, {"OPENAI_API_KEY": key})
    assert key not in str(caught.value)


@pytest.mark.parametrize("reasks", [0, 1, 2])
def test_an_unreadable_answer_is_asked_for_again_so_often_and_no_more(
    fakes, environ, tmp_path, reasks
):
    fakes.faults = [Fault("out_of_range")]
    asker = ask([POOL], tmp_path, key_for(environ, "openai"), reasks=reasks)
    assert len(fakes.journal) == len(asker.books) == REQUESTS * (1 + reasks)
    failures = settled(asker, POOL, tmp_path).failures
    assert {failure.status for failure in failures} == {"invalid"}
    assert "preference" in failures[0].reason


def test_a_refusal_is_not_asked_for_again(fakes, environ, tmp_path):
    fakes.faults = [Fault("refusal")]
    asker = ask([POOL], tmp_path, key_for(environ, "openai"))
    again = ask([POOL], tmp_path, key_for(environ, "openai"), run_id="again", retry=("failed",))
    assert len(fakes.journal) == REQUESTS
    assert again.books == asker.books
    fakes.faults = []
    ask([POOL], tmp_path, key_for(environ, "openai"), run_id="third", retry=("refused",))
    assert len(fakes.journal) == 2 * REQUESTS
    assert len(settled(asker, POOL, tmp_path).judgments) == REQUESTS


def test_pools_whose_protocol_breaks_down_hold_up_no_other(tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("a protocol of a user's own")

    monkeypatch.setattr(Progress, "step", broken)
    judge = "simulated:judge"
    options = options_of(judges=(judge,), limits={judge: {"concurrency": 1}})
    panel = build_panel(options.judges, {}, {})

    async def run():
        asker = OnlineClient(
            *(options, panel, panel), ledger=Ledger(str(tmp_path), "r"), environ={}, run_id="r"
        )
        fills = (asker.ask_about(pool_of(query_id=f"q{n}")) for n in range(9))
        try:
            return await asyncio.wait_for(asyncio.gather(*fills, return_exceptions=True), 60)
        finally:
            await asker.aclose()

    assert [type(each) for each in asyncio.run(run())] == [RuntimeError] * 9


# The ledger in trouble


def test_replies_that_cannot_be_kept_stop_the_run_and_are_not_seen(
    fakes, environ, tmp_path, monkeypatch
):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing, "_sync", full)
    limits = {"openai:gpt-6-luna": {"concurrency": 2}}
    asker = ask([pool_of(range(8))], tmp_path, key_for(environ, "openai"), limits=limits)
    assert "the disk is full; make room and run again" in asker.stopped
    assert asker.books == []
    assert len(fakes.journal) < 28
    assert not settled(asker, pool_of(range(8)), tmp_path).judgments


# A provider that does what the fakes cannot


@pytest.fixture
def odd(monkeypatch, tmp_path):
    """Ask one judge whose provider answers as the test says; return what came of it."""

    def run(send, clock=HURRIED, **fields):
        async def aclose():
            pass

        connection = SimpleNamespace(send=send, aclose=aclose)
        provider = Provider(connect=lambda _: connection, models=("m",), concurrency=4)
        monkeypatch.setitem(PROVIDERS, "odd", "odd")
        monkeypatch.setitem(sys.modules, "odd", SimpleNamespace(PROVIDER=provider))
        judge = (judge_of("odd:m"),)

        async def fill():
            options, ledger = options_of(out=str(tmp_path), **fields), Ledger(str(tmp_path), "run")
            given = {"ledger": ledger, "environ": {}, "run_id": "run", "clock": clock}
            asker = OnlineClient(options, judge, judge, **given)
            await asker.ask_about(pool_of((0, 1)))
            ledger.close()
            return asker

        try:
            asker = run_briefly(fill())
        finally:
            gc.collect()  # what a task died of is told here and now
        asker.books = list(read_rows(str(tmp_path)))
        asker.job = judge, options_of()
        return asker

    return run


def test_an_unexpected_error_stops_the_run_and_its_text_is_not_told(odd):
    async def send(request):
        raise RuntimeError(f"sk-a-key {request.user}")

    asker = odd(send)
    assert re.fullmatch(r"odd:m: .*RuntimeError.*test_online.*\d+", asker.stopped)
    assert asker.books == []


@pytest.mark.parametrize(
    "text",
    [verdict(0.5, "\ud83d").replace(r"\ud83d", "\ud83d"), '{"reasoning": "\ud83d', "\udc80"],
    ids=["in a verdict", "where it breaks off", "alone"],
)
def test_an_answer_with_half_a_character_in_it_is_kept_as_unreadable(odd, text):
    async def send(_):
        return Answer("ok", text, Usage(100, 10), "m")

    asker = odd(send)
    assert {row.status for row in asker.books} == {"invalid"}
    assert asker.books[0].input_tokens == 100
    assert asker.stopped == ""


# In the eyes of others


@pytest.mark.parametrize("provider", THREE)
def test_an_independent_server_finds_no_fault_with_how_we_retry(
    llmock, tmp_path, monkeypatch, provider
):
    """It looks for an ignored Retry-After, a storm of retries, a fatal error tried again."""
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v1beta")  # it knows no other
    llmock.rate_limit(times=3, retry_after=0.2).fail(503, times=2).fail(500, times=1)
    keys = key_for(llmock.env() | {"GEMINI_API_KEY": "k"}, provider)
    asker = ask([POOL], tmp_path, keys, clock=Clock())
    (tally,) = asker.tallies.values()
    assert (asker.stopped, tally.answered, tally.retries) == ("", REQUESTS, 6)
    assert "failed" not in tally.statuses
    llmock.assert_resilient()
