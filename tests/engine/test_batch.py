"""Batches through the real SDKs, against providers that lose, expire, cancel and cut them short."""

import asyncio
import socket
from collections import Counter

import pytest

from tests.fakes import Fakes, Fault
from tests.helpers import builders
from tests.helpers.builders import THREE, ask, key_for, pool_of, send_away
from tests.helpers.crash import URLS
from zelo_ray.engine.batch import BatchClient
from zelo_ray.engine.batch.parts import BatchPart, Parts
from zelo_ray.engine.clock import Clock
from zelo_ray.engine.coordinator import LocalCoordination
from zelo_ray.engine.job import Job
from zelo_ray.engine.ledger import Ledger
from zelo_ray.engine.worker import ask_in_batches
from zelo_ray.protocols import advance, zelo
from zelo_ray.providers import Batch, Batches, Fatal, build_panel
from zelo_ray.reasons import Disabled, StopReason
from zelo_ray.records import Answer, Grade, Usage

POOLS = [pool_of(range(6), query_id=f"q{i}", query=f"question {i}?") for i in range(4)]
REQUESTS = 4 * 15  # of one judge


def votes(job, out, pools=POOLS):
    panel, options = job
    ledger = Ledger(str(out))
    steps = [advance(zelo.rounds(pool, panel, options), ledger) for pool in pools]
    assert not any(step.missing for step in steps)
    return [vote for step in steps for vote in step.judgments], [
        failure for step in steps for failure in step.failures
    ]


def carried(fakes):
    """How often each request has travelled in a batch."""
    return Counter(e["custom_id"] for e in fakes.journal if e["endpoint"] == "line")


def test_a_run_goes_on_without_a_judge_that_was_lost(fakes, environ, tmp_path):
    job = {"judges": ("openai", "gemini"), "calls_per_document": 3}
    (gemini,) = build_panel(("gemini",), {}, environ)
    gone = {gemini.name: Disabled(StopReason.FATAL, "no such model")}
    (away,) = send_away(POOLS, tmp_path, environ, disabled=gone, **job).values()
    assert away.stopped == ""
    panel, options = away.job
    rounds = [zelo.rounds(pool, panel, options) for pool in POOLS]
    steps = [advance(each, Ledger(str(tmp_path)), gone) for each in rounds]
    assert not any(step.missing for step in steps)
    grades = [each for step in steps for each in step.judgments if isinstance(each, Grade)]
    assert len(grades) == sum(len(pool.documents) for pool in POOLS)


@pytest.mark.parametrize("provider", THREE)
def test_a_provider_that_cannot_be_reached_holds_no_batch_to_look_for(
    environ, tmp_path, monkeypatch, provider
):
    """To look for one would go on for ever."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        monkeypatch.setenv(URLS[provider], f"http://127.0.0.1:{bound.getsockname()[1]}")
        (away,) = send_away(POOLS, tmp_path, key_for(environ, provider)).values()
    assert [reason.code for reason in away.disabled.values()] == [StopReason.NO_BATCH]
    assert away.stopped.endswith(": connection refused")
    assert [part.state for part in Parts(str(tmp_path))] == ["void"]


@pytest.mark.parametrize("provider", THREE)
def test_batches_give_what_calls_give_at_half_the_price(fakes, environ, tmp_path, provider):
    mine = key_for(environ, provider)
    online = ask(POOLS, tmp_path / "online", mine)
    (away,) = send_away(POOLS, tmp_path / "away", mine).values()
    assert away.stopped == ""
    assert votes(away.job, tmp_path / "away") == votes(online.job, tmp_path / "online")
    assert len(away.books) == REQUESTS
    assert sum(row.dollars for row in away.books) == pytest.approx(
        sum(row.dollars for row in online.books) / 2
    )
    (name,) = {row.batch for row in away.books}
    (part,) = Parts(str(tmp_path / "away"))
    assert (part.batch, part.state, part.requests, part.keys) == (name, "harvested", REQUESTS, [])
    (tally,) = away.tallies.values()
    assert (tally.answered, tally.batched, tally.statuses) == (REQUESTS, 0, {"ok": REQUESTS})
    again = send_away(POOLS, tmp_path / "away", mine, run_id="again")[provider]
    assert again.tallies[again.job[0][0].name].known == REQUESTS
    assert set(carried(fakes).values()) == {1}


@pytest.mark.parametrize("provider", THREE)
def test_parts_are_split_by_requests_bytes_and_enqueued_tokens(
    fakes, environ, tmp_path, provider, monkeypatch
):
    mine = key_for(environ, provider)
    judge = send_away([], tmp_path / "none", mine)[provider].job[0][0]
    tokens = 10 * 400
    limits = {judge.name: {"rpm": 1, "enqueued_tokens": tokens}}
    away = send_away(POOLS, tmp_path, mine, limits=limits)[provider]
    assert away.stopped == ""
    parts = list(Parts(str(tmp_path)))
    assert len(parts) > 3
    assert all(part.tokens <= tokens for part in parts)
    assert set(carried(fakes).values()) == {1}
    assert len(votes(away.job, tmp_path)[0]) == REQUESTS


def test_an_unknown_queue_limit_is_learned(environ, tmp_path, monkeypatch):
    with Fakes(["openai"], enqueued_tokens=8000) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        away = send_away(POOLS, tmp_path, key_for(environ, "openai"))["openai"]
        assert away.stopped == ""
        assert len(votes(away.job, tmp_path)[0]) == REQUESTS
        assert len(fakes.store.batches) > 3


@pytest.mark.parametrize("provider", THREE)
def test_what_a_batch_did_not_answer_is_sent_again(fakes, environ, tmp_path, provider):
    fakes.faults = [Fault("batch_expired", total=1)]
    away = send_away(POOLS, tmp_path, key_for(environ, provider))[provider]
    assert away.stopped == ""
    found, failures = votes(away.job, tmp_path)
    assert (len(found), failures) == (REQUESTS, [])
    first, second = fakes.store.batches.values()
    assert first.total == REQUESTS
    assert 0 < second.total <= REQUESTS
    assert sum(row.dollars for row in away.books) == pytest.approx(booked(fakes))
    twice = [row for row in away.books if row.attempts == 2]
    assert len(twice) == second.total


def booked(fakes):
    """Dollars by the fakes' own books and the prices of November 2026."""
    prices = {
        "gpt-6-luna": (0.10, 0.50, 0.01),
        "claude-haiku-5-5": (0.10, 0.50, 0.01),
        "gemini-3.1-flash-lite": (0.25, 1.50, 0.025),
    }
    total = 0.0
    for (_, model, in_batch), sums in fakes.books().items():
        into, out, cached = prices[model]
        fresh = sums["input"] - sums["cached"] - sums["cache_write"]
        write = sums["cache_write"] * into * 1.25
        dollars = fresh * into + sums["cached"] * cached + write + sums["output"] * out
        total += dollars / 1e6 * (0.5 if in_batch else 1)
    return total


@pytest.mark.parametrize("provider", THREE)
def test_lines_that_fail_end_as_calls_that_fail(fakes, environ, tmp_path, provider):
    fakes.faults = [
        Fault("bad_request", rate=0.1),
        Fault("refusal" if provider != "gemini" else "filtered", rate=0.1),
        Fault("prose", rate=0.4),
        Fault("500", rate=0.2, times=1),
    ]
    mine = key_for(environ, provider)
    away = send_away(POOLS, tmp_path, mine)[provider]
    assert away.stopped == ""
    found, failures = votes(away.job, tmp_path)
    assert len(found) + len(failures) == REQUESTS
    statuses = Counter(failure.status for failure in failures)
    assert set(statuses) >= {"failed", "refused" if provider != "gemini" else "filtered", "invalid"}
    invalid = [row for row in away.books if row.status == "invalid"]
    assert {row.final for row in invalid} == {True, False}
    assert all(row.attempts >= 2 for row in invalid if row.final)
    assert sum(row.dollars for row in away.books) == pytest.approx(booked(fakes))


@pytest.mark.parametrize(
    ("job", "bad", "recorded"),
    [
        (
            {"protocol": "graded", "criteria": ("right", "new")},
            {"right": {"reason": "none", "grade": 7}},
            "CriteriaGrading:right,new",
        ),
        ({"protocol": "listwise-votes"}, {"order": [1, 1, 2]}, "GroupOrder:3"),
    ],
)
def test_answers_are_checked_by_the_model_of_their_own_requests(
    environ, tmp_path, job, bad, recorded
):
    pools = [pool_of(range(3), query_id=f"q{i}", query=f"question {i}?") for i in range(4)]
    with Fakes(["openai"], judge=lambda *_: bad) as fakes:
        mine = {"OPENAI_API_KEY": fakes.key, "OPENAI_BASE_URL": fakes.urls["openai"]}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in mine.items():
                patch.setenv(name, value)
            given = {"judges": ("openai:gpt-6-luna",), "limits": {}, **job}
            away = send_away(pools, tmp_path, mine, **given)["openai"]
    assert {row.status for row in away.books} == {"invalid"}
    assert {row.final for row in away.books} == {True, False}, "each was asked again"
    assert all(part.verdict.startswith(recorded) for part in Parts(str(tmp_path)))


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("fault", [Fault("create_lost", total=1), Fault("create_500", total=2)])
def test_a_creation_that_failed_is_looked_for_before_it_is_tried_again(
    fakes, environ, tmp_path, provider, fault
):
    fakes.faults = [fault]
    away = send_away(POOLS, tmp_path, key_for(environ, provider))[provider]
    assert away.stopped == ""
    assert len(fakes.store.batches) == 1
    assert len(votes(away.job, tmp_path)[0]) == REQUESTS


@pytest.mark.parametrize("provider", THREE)
def test_results_that_break_off_are_fetched_again_and_kept_once(fakes, environ, tmp_path, provider):
    fakes.faults = [Fault("results_cut", total=1), Fault("prose", rate=0.2)]
    away = send_away(POOLS, tmp_path, key_for(environ, provider))[provider]
    assert away.stopped == ""
    votes(away.job, tmp_path)
    kept = Counter((row.key, row.batch) for row in away.books)
    assert set(kept.values()) == {1}


def test_a_batch_of_somebody_else_is_not_taken_for_ours(fakes, environ, tmp_path):
    """Anthropic keeps no mark; another program's batch of the same size lies there already."""
    mine = key_for(environ, "anthropic")
    others = [pool_of(range(6), query_id=f"x{i}", query=f"other {i}?") for i in range(4)]
    send_away(others, tmp_path / "other", mine)
    fakes.faults = [Fault("create_500", total=1)]  # not created: so the other is a candidate
    away = send_away(POOLS, tmp_path / "mine", mine)["anthropic"]
    assert away.stopped == ""
    assert len(votes(away.job, tmp_path / "mine")[0]) == REQUESTS
    assert len(fakes.store.batches) == 2
    assert Counter(part.state for part in Parts(str(tmp_path / "mine"))) == {
        "harvested": 1,
        "void": 1,
    }


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("fault", ["wrong_key", "no_model"])
def test_a_fatal_error_stops_the_judge_at_once(fakes, environ, tmp_path, provider, fault):
    if provider == "gemini" and fault == "no_model":
        fakes.faults = [Fault("no_model", endpoint="create")]
    elif fault == "wrong_key":
        environ = dict.fromkeys(environ, "another-key-for-tests")
    else:
        fakes.faults = [Fault("no_model", endpoint="create")]
    away = send_away(POOLS, tmp_path, key_for(environ, provider))[provider]
    assert provider in away.stopped
    assert not fakes.store.batches
    assert "another-key" not in away.stopped


def test_batches_that_always_fail_stop_the_judge(fakes, environ, tmp_path):
    fakes.faults = [Fault("batch_failed", message="The file is damaged.")]
    away = send_away(POOLS, tmp_path, key_for(environ, "openai"))["openai"]
    assert "The file is damaged" in away.stopped
    assert len(fakes.store.batches) == 3


def test_a_creation_of_which_nothing_is_known_when_the_run_stops_stays_open(
    fakes, environ, tmp_path, monkeypatch
):
    """Whoever stops before looking for the batch must not say that there is none."""
    fakes.faults = [Fault("create_lost", total=1)]
    mine = key_for(environ, "openai")

    class Impatient(BatchClient):
        async def run(self, pools):
            async def stop():
                while not fakes.store.batches:
                    await asyncio.sleep(0.05)
                self.stop("enough")

            await asyncio.gather(super().run(pools), stop())

    with monkeypatch.context() as patch:
        patch.setattr(builders, "BatchClient", Impatient)
        ended = send_away(POOLS, tmp_path, mine, clock=Clock())
        assert ended["openai"].stopped == "enough"
    assert [part.state for part in Parts(str(tmp_path))] == ["intended"]
    away = send_away(POOLS, tmp_path, mine, run_id="again")["openai"]
    assert len(votes(away.job, tmp_path)[0]) == REQUESTS
    assert len(fakes.store.batches) == 1


def test_a_queue_full_of_others_batches_is_waited_for_at_the_same_size(
    environ, tmp_path, monkeypatch
):
    """Whoever halves at each refusal ends with batches of one request, and gives up."""
    full = Fault("batch_failed", total=3, code="token_limit_exceeded", message="Enqueued token")
    with Fakes(["openai"], faults=[full]) as fakes:
        monkeypatch.setenv("OPENAI_BASE_URL", fakes.urls["openai"])
        away = send_away(POOLS, tmp_path, key_for(environ, "openai"))["openai"]
        assert away.stopped == ""
        sizes = [batch.total for batch in fakes.store.batches.values()]
        assert sizes[:2] == [REQUESTS, REQUESTS]
        assert len(votes(away.job, tmp_path)[0]) == REQUESTS
        assert min(sizes) >= REQUESTS // 4


def test_a_judge_that_is_lost_while_its_batch_is_created_hangs_nothing(
    fakes, environ, tmp_path, monkeypatch
):
    class Unlucky(BatchClient):
        async def run(self, pools):
            async def disable():
                while not fakes.store.batches:
                    await asyncio.sleep(0.01)
                self.disable_judge("openai:gpt-6-luna", Disabled(StopReason.ERROR, "because"))

            await asyncio.gather(super().run(pools), disable())

    monkeypatch.setattr(builders, "BatchClient", Unlucky)
    away = send_away(POOLS, tmp_path, key_for(environ, "openai"), allow_missing_judges=True)
    assert away["openai"].stopped == ""
    assert len(away["openai"].books) == REQUESTS  # what is paid for is collected


class ApiOfOneBatch:
    """A batch that has ended, whose first line says that there is no money, the others votes."""

    KEEPS_MARKS = True

    def __init__(self, keys):
        self.keys = keys

    async def look(self, batch_id):
        return Batch(batch_id, "completed", ended=True)

    async def results(self, _):
        yield self.keys[0], Fatal("the account's quota is used up")
        for key in self.keys[1:]:
            yield key, Answer("ok", '{"reasoning": "First.", "preference": -1}', Usage(100, 10))

    async def aclose(self):
        pass


def test_a_line_that_stops_the_judge_loses_no_other_answer_of_its_batch(environ, tmp_path):
    panel = build_panel(("openai",), {}, environ)
    keys = [f"{number:032x}" for number in range(2000)]
    options = builders.options_of(
        inputs=("x",), out=str(tmp_path), judges=("openai",), mode="batch"
    )
    part = BatchPart("m", panel[0].name, "Preference", keys, 9, 9, 1.0, 1.0)
    part.state, part.batch, part.requests = "submitted", "b", len(keys)
    Parts(str(tmp_path)).keep(part)
    ledger = Ledger(str(tmp_path), "run")

    async def collect():
        client = BatchClient(
            *(options, panel, panel[0]), ledger=ledger, environ=environ, run_id="run"
        )
        client.api = ApiOfOneBatch(keys)
        await client.run(list)
        return client

    client = asyncio.run(collect())
    assert "quota" in client.stopped
    assert [part.state for part in Parts(str(tmp_path))] == ["harvested"]
    assert sum(map(ledger.has, keys)) == len(keys) - 1


@pytest.mark.parametrize("spared", [True, False])
def test_batches_go_on_without_a_judge_without_key(environ, tmp_path, spared):
    panel = build_panel(("openai", "anthropic"), {}, environ)
    options = builders.options_of(
        inputs=("x",), out=str(tmp_path), mode="batch", allow_missing_judges=spared
    )
    job, coordination = Job(options, panel, "run", frozenset()), LocalCoordination()
    asyncio.run(ask_in_batches(job, panel[0], coordination, {}, list))
    _, stopped, disabled = coordination.read_figures()
    assert "OPENAI_API_KEY" in (disabled[panel[0].name].message if spared else stopped)
    assert bool(disabled) != bool(stopped)


def test_an_error_nobody_foresaw_ends_one_judge(environ, tmp_path, monkeypatch):
    """Its batch is left for a later run, and the others go on."""
    panel = build_panel(("openai",), {}, environ)
    options = builders.options_of(
        inputs=("x",), out=str(tmp_path), mode="batch", allow_missing_judges=True, batch_poll=0.01
    )
    part = BatchPart("m", panel[0].name, "Preference", ["0" * 32], state="submitted", batch="b")
    Parts(str(tmp_path)).keep(part)
    monkeypatch.setattr(Batches, "look", None)
    job, coordination = Job(options, panel, "run", frozenset()), LocalCoordination()
    asyncio.run(ask_in_batches(job, panel[0], coordination, environ, list))
    _, stopped, disabled = coordination.read_figures()
    assert not stopped
    assert "unexpected TypeError" in disabled[panel[0].name].message
    assert [part.is_open for part in Parts(str(tmp_path))] == [True]
