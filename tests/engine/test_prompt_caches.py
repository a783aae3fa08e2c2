"""Prompt caches: who goes first, what is marked to be kept, and what it saves, as billed."""

import asyncio
from dataclasses import replace

import pytest

from tests.fakes import Fault
from tests.fakes.caches import Caches
from tests.helpers.builders import THREE, ask, key_for, missing, options_of
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.prompt_cache import PromptCacheScheduler
from zelo_ray.providers import build_panel
from zelo_ray.records import Document, Pool

LONG = "a word of many " * 1200
"""Some 4,500 tokens, which all three providers keep."""


def pool_of(text="", count=8):
    documents = (Document(f"d{i}", f"{i} [[worth={i}]] {text}") for i in range(count))
    return Pool("q", "which?", tuple(documents))


POOL, OPTIONS = pool_of(LONG), {"document_tokens": 6000, "cycles": 2}


def requests_of(name, pool=POOL):
    return missing(pool, build_panel([name], {}, {}), options_of(**OPTIONS))


def run(requests, scheduler, go):
    """Run ``go(request, go_on)`` for all at once, each when it is its turn; all must end."""

    async def one(request):
        async with scheduler.wait_turn(request) as go_on:
            await go(request, go_on)

    async def everything():
        tasks = (one(request) for request in requests)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    asyncio.run(everything())


def count_first(requests):
    """How many begin before the first answer has come."""
    began, first = [], []

    async def go(request, go_on):
        began.append(request)
        await asyncio.sleep(0.01)
        first.append(len(began))
        go_on(True)

    run(requests, PromptCacheScheduler(requests), go)
    assert sorted(r.key for r in began) == sorted(r.key for r in requests)
    return first[0]


def test_one_of_those_that_begin_alike_goes_first():
    requests = requests_of("openai:gpt-6-luna")
    assert count_first(requests) == len({r.user[: r.prefix_ends[-1]] for r in requests})


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("offline:bm25", POOL),
        ("openai:m@http://127.0.0.1:1/v1", POOL),
        ("openai:gpt-6-luna", pool_of()),  # too short to be kept
    ],
)
def test_nobody_waits_where_no_cache_would_help(name, pool):
    requests = requests_of(name, pool)
    assert count_first(requests) == len(requests)


def test_after_an_unanswered_first_another_goes_first():
    """Released together, each would pay for writing the same beginning."""
    first, *_ = requests_of("openai:gpt-6-luna")
    requests, order = [replace(first, repeat=n) for n in range(5)], []

    async def go(_, go_on):
        order.append("begins")
        await asyncio.sleep(0.01)
        go_on("ends" in order)
        order.append("ends")
        await asyncio.sleep(0.05)  # as one that waits to be sent again

    run(requests, PromptCacheScheduler(requests), go)
    assert order == [*["begins", "ends"] * 2, *["begins"] * 3, *["ends"] * 3]


def test_nobody_waits_long_for_a_first_that_hangs():
    requests, went, when_ended = requests_of("openai:gpt-6-luna"), [], []

    async def go(request, _):
        went.append(request)
        await asyncio.sleep(0.5)
        when_ended.append(len(went))

    run(requests, PromptCacheScheduler(requests, Clock(speed=1000)), go)
    assert when_ended[0] == len(requests)


def test_nobody_waits_through_retries_of_the_first(fakes, environ, tmp_path):
    """Its first call fails, and it is told to wait; here it waits for all others to be answered."""
    fakes.faults = (Fault("503", total=1, retry_after=101),)
    wanted = len(requests_of("openai:gpt-6-luna"))

    class Patient(Clock):
        async def wait_for(self, event, seconds):
            ended = asyncio.ensure_future(event)
            for _ in range(2000):
                if ended.done() or (seconds > 100 and len(fakes.journal) >= wanted):
                    break
                await asyncio.sleep(0.01)
            ended.cancel()

    asker = ask([POOL], tmp_path, key_for(environ, "openai"), clock=Patient(), **OPTIONS)
    assert asker.stopped == ""
    asked = [call["sha"] for call in fakes.journal]
    assert (len(asked), asked[0]) == (wanted + 1, asked[-1])


def test_only_beginnings_that_are_shared_are_kept():
    requests = requests_of("anthropic:claude-haiku-5-5")
    openings = PromptCacheScheduler(requests)
    ends = [request.user[: request.prefix_ends[-1]] for request in requests]
    for request, end in zip(requests, ends, strict=True):
        kept = openings.keep_useful_beginnings(request)
        assert (bool(kept.prefix_ends), kept.key) == (ends.count(end) > 1, request.key)


# What is billed


@pytest.mark.parametrize("provider", THREE)
def test_a_cache_spares_what_is_shared(fakes, environ, tmp_path, provider):
    fakes.caches = Caches()
    asker = ask([POOL], tmp_path, key_for(environ, provider), **OPTIONS)
    rows = list(read_rows(str(tmp_path)))
    assert (asker.stopped, {row.status for row in rows}) == ("", {"ok"})
    cached = sum(row.cached_tokens for row in rows)
    assert sum(tally.cached_tokens for tally in asker.tallies.values()) == cached
    assert cached > 0.1 * sum(row.input_tokens for row in rows)


@pytest.mark.parametrize("failing", [False, True])
def test_long_instructions_are_written_once(fakes, environ, tmp_path, failing):
    fakes.caches, fakes.latency = Caches(), 0.3 * failing
    fakes.faults = (Fault("503", total=1),) * failing
    team = "What counts, in our own words. " * 600  # some 4,600 tokens of instructions
    options = {"protocol": "graded", "instructions": team, "clock": CLOCK}
    for pool in [replace(pool_of(count=6), query_id=f"q{n}") for n in range(2)]:
        asker = ask([pool], tmp_path, key_for(environ, "anthropic"), **options)
        assert asker.stopped == ""
    written = [row for row in read_rows(str(tmp_path)) if row.cache_write_tokens > 2000]
    assert 1 <= len(written) <= 1 + failing
