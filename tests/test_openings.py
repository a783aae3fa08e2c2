"""Prompt caches: who goes first, what is marked to be kept, and what it saves, as billed."""

import asyncio
from dataclasses import replace

import pytest

from tests.builders import THREE, ask, key_for, missing, options_of
from tests.fakes import Fault
from tests.fakes.caches import Caches
from zelo_ray.engine.clock import CLOCK, Clock
from zelo_ray.engine.ledger import read_rows
from zelo_ray.engine.prompt_cache import PromptCacheScheduler
from zelo_ray.providers import build_panel
from zelo_ray.records import Document, Pool

WORDS = "a word of many " * 1200
"""Some 4,500 tokens, which all three providers keep."""
POOL = Pool("q", "which?", tuple(Document(f"d{i}", f"{i} [[worth={i}]] {WORDS}") for i in range(8)))
LONG = {"document_tokens": 6000, "cycles": 2}


def requests_of(*names, pool=POOL, **fields):
    return missing(pool, build_panel(names, {}, {}), options_of(**LONG, **fields))


# Who goes first


def run_all(requests, openings):
    """In which order requests go, and how many begin before the first answer has come."""
    began, first = [], []

    async def go(request):
        async with openings.wait_turn(request) as go_on:
            began.append(request)
            await asyncio.sleep(0.01)
            first[:] = first or [len(began)]
            go_on(True)

    async def everything():
        await asyncio.wait_for(asyncio.gather(*(go(request) for request in requests)), 20)

    asyncio.run(everything())
    return began, first[0]


def test_one_of_those_that_begin_alike_goes_first():
    requests = requests_of("openai:gpt-6-luna")
    began, at_once = run_all(requests, PromptCacheScheduler(requests))
    assert sorted(r.key for r in began) == sorted(r.key for r in requests)
    assert at_once == len({request.user[: request.prefix_ends[-1]] for request in requests})


@pytest.mark.parametrize("name", ["offline:bm25", "openai:m@http://127.0.0.1:1/v1"])
def test_nobody_waits_where_no_cache_would_help(name):
    requests = requests_of(name)
    openings = PromptCacheScheduler(requests)
    assert run_all(requests, openings)[1] == len(requests)
    assert {openings.keep_useful_openings(request).prefix_ends for request in requests} == {()}


def test_nobody_waits_for_a_beginning_that_is_too_short_to_be_kept():
    pool = Pool("q", "which?", tuple(Document(f"d{i}", f"short {i}") for i in range(8)))
    requests = requests_of("openai:gpt-6-luna", pool=pool)
    assert run_all(requests, PromptCacheScheduler(requests))[1] == len(requests)


def test_those_that_wait_go_on_whatever_becomes_of_the_first():
    requests = requests_of("openai:gpt-6-luna")
    openings, went = PromptCacheScheduler(requests), []

    async def fails(request):
        async with openings.wait_turn(request):
            went.append(request)
            raise OSError

    async def everything():
        tasks = [asyncio.create_task(fails(request)) for request in requests]
        await asyncio.sleep(0)
        tasks[-1].cancel()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    asyncio.run(everything())
    assert [r.key for r in requests if r not in went] in ([], [requests[-1].key])


def test_if_the_first_is_not_answered_one_other_goes_first():
    """Released together, each would pay for writing the same beginning."""
    first, *_ = requests_of("openai:gpt-6-luna")
    requests = [replace(first, repeat=n) for n in range(5)]
    openings, order = PromptCacheScheduler(requests), []

    async def go(request):
        async with openings.wait_turn(request) as go_on:
            order.append("begins")
            await asyncio.sleep(0.01)
            go_on("ends" in order)
            order.append("ends")
            await asyncio.sleep(0.05)  # as one that waits to be sent again

    async def everything():
        await asyncio.wait_for(asyncio.gather(*(go(request) for request in requests)), 20)

    asyncio.run(everything())
    assert order == [*["begins", "ends"] * 2, *["begins"] * 3, *["ends"] * 3]


def test_nobody_waits_long_for_a_first_that_hangs():
    requests = requests_of("openai:gpt-6-luna")
    openings, went = PromptCacheScheduler(requests, Clock(speed=1000)), []

    async def go(request):
        async with openings.wait_turn(request):
            went.append(request)
            await asyncio.sleep(0.5)

    async def everything():
        tasks = [asyncio.create_task(go(request)) for request in requests]
        await asyncio.sleep(0.2)
        assert len(went) == len(requests)
        await asyncio.gather(*tasks)

    asyncio.run(everything())


def test_nobody_waits_through_the_retries_of_the_first(fakes, environ, tmp_path):
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

    asker = ask([POOL], tmp_path, key_for(environ, "openai"), clock=Patient(), **LONG)
    assert asker.stopped == ""
    asked = [call["sha"] for call in fakes.journal]
    assert len(asked) == wanted + 1
    assert asked[0] == asked[-1]


def test_only_beginnings_that_several_requests_have_are_to_be_kept():
    requests = requests_of("anthropic:claude-haiku-5-5")
    openings = PromptCacheScheduler(requests)
    ends = [request.user[: request.prefix_ends[-1]] for request in requests]
    for request, end in zip(requests, ends, strict=True):
        assert bool(openings.keep_useful_openings(request).prefix_ends) == (ends.count(end) > 1)
        assert openings.keep_useful_openings(request).key == request.key


# What is billed


@pytest.mark.parametrize("provider", THREE)
def test_a_cache_that_is_billed_as_documented_spares_what_is_shared(
    fakes, environ, tmp_path, provider
):
    fakes.caches = Caches()
    asker = ask([POOL], tmp_path, key_for(environ, provider), **LONG)
    assert asker.stopped == ""
    rows = list(read_rows(str(tmp_path)))
    assert {row.status for row in rows} == {"ok"}
    cached = sum(row.cached_tokens for row in rows)
    assert sum(tally.cached_tokens for tally in asker.tallies.values()) == cached
    assert cached > 0.1 * sum(row.input_tokens for row in rows)


TEAM = "What counts, in our own words. " * 600
"""Some 4,600 tokens of instructions."""


def written(out):
    """Tokens that each reply was billed for writing into the cache."""
    return [row.cache_write_tokens for row in read_rows(str(out)) if row.cache_write_tokens > 2000]


def test_long_instructions_are_written_to_a_cache_once_for_all_queries(fakes, environ, tmp_path):
    fakes.caches = Caches()
    for name in ("q1", "q2", "q3"):
        pool = Pool(name, f"which of {name}?", tuple(Document(f"d{i}", f"x{i}") for i in range(4)))
        judge = key_for(environ, "anthropic")
        asker = ask([pool], tmp_path, judge, protocol="graded", instructions=TEAM)
        assert asker.stopped == ""
    assert len(written(tmp_path)) == 1


def test_a_first_call_that_fails_has_others_write_no_beginning_each(fakes, environ, tmp_path):
    fakes.caches, fakes.latency = Caches(), 0.3
    fakes.faults = (Fault("503", total=1),)
    pool = Pool("q", "which?", tuple(Document(f"d{i}", f"x{i}") for i in range(12)))
    judge = key_for(environ, "anthropic")
    asker = ask([pool], tmp_path, judge, protocol="graded", instructions=TEAM, clock=CLOCK)
    assert asker.stopped == ""
    assert len(list(read_rows(str(tmp_path)))) == 12
    assert len(written(tmp_path)) <= 2


def test_bodies_without_a_shared_beginning_are_what_they_were():
    from zelo_ray.providers.anthropic.connection import build_body as messages
    from zelo_ray.providers.openai.connection import build_body as chat

    (request, *_) = requests_of("anthropic:claude-haiku-5-5")
    plain = PromptCacheScheduler([request]).keep_useful_openings(request)
    assert messages(plain)["messages"][0]["content"] == request.user
    blocks = messages(request)["messages"][0]["content"]
    assert "".join(block["text"] for block in blocks) == request.user
    assert ["cache_control" in block for block in blocks] == [True, True, False]
    (kept,) = messages(request)["system"]
    assert (kept["text"], messages(plain)["system"]) == (request.system, request.system)
    (request, *_) = requests_of("openai:gpt-6-luna")
    assert "prompt_cache_key" not in chat(
        PromptCacheScheduler([request]).keep_useful_openings(request), cached=True
    )
    assert chat(request, cached=True)["prompt_cache_key"]
    assert "prompt_cache_key" not in chat(request, cached=False)
