"""Dollars: by hand from the price lists of November 2026, and against the table's arithmetic."""

from datetime import UTC, datetime
from random import Random

import genai_prices
import pytest
from genai_prices.data import providers as listed

from zelo_ray.options import Price
from zelo_ray.providers import anthropic, gemini, openai
from zelo_ray.providers.pricing import find_unpriced, highest_price, price, table_version
from zelo_ray.records import Judge, Usage

LUNA = Judge("openai", "gpt-6-luna")
HAIKU = Judge("anthropic", "claude-haiku-5-5")
LITE = Judge("gemini", "gemini-3.1-flash-lite")
SONNET = Judge("anthropic", "claude-sonnet-5-5")
FLASH = Judge("gemini", "gemini-3.8-flash")
OWN_SERVER = Judge("openai", "qwen3", "http://127.0.0.1:8000/v1")
NOVEMBER = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
JANUARY = datetime(2027, 1, 1, 0, 1, tzinfo=UTC).timestamp()

RICH = Usage(10_000, 2000, cached_tokens=4000, cache_write_tokens=1000, thinking_tokens=1500)
"""5,000 plain tokens of input, 4,000 read from a cache, 1,000 written to it; 2,000 of output."""


@pytest.mark.parametrize(
    ("judge", "dollars"),
    [
        # 5,000 x 0.10 + 4,000 x 0.01 + 1,000 x 0.125 + 2,000 x 0.50, in millionths
        (LUNA, 1665e-6),
        (HAIKU, 1665e-6),
        # 6,000 x 0.25, since writing a cache has no price of its own, + 4,000 x 0.025 + 2,000 x 1.5
        (LITE, 4600e-6),
        # 5,000 x 2 + 4,000 x 0.10 + 1,000 x 2.50 + 2,000 x 10
        (SONNET, 32_900e-6),
    ],
)
def test_a_call_by_hand_online_and_in_a_batch(judge, dollars):
    assert price(judge, RICH) == pytest.approx(dollars, rel=1e-12)
    assert price(judge, RICH, batch=True) == pytest.approx(dollars / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("judge", "input_tokens", "dollars"),
    [
        (HAIKU, 100_000, 100_000 * 0.10e-6 + 1000 * 0.50e-6),
        (HAIKU, 100_001, 100_001 * 0.50e-6 + 1000 * 2.50e-6),
        (LUNA, 272_000, 272_000 * 0.10e-6 + 1000 * 0.50e-6),
        (LUNA, 272_001, 272_001 * 0.20e-6 + 1000 * 0.75e-6),
    ],
)
def test_a_long_prompt_is_dearer_as_a_whole(judge, input_tokens, dollars):
    usage = Usage(input_tokens, 1000)
    assert price(judge, usage) == pytest.approx(dollars, rel=1e-12)
    assert price(judge, usage, batch=True) == pytest.approx(dollars / 2, rel=1e-12)


def test_a_price_that_changes_is_that_of_the_moment():
    usage = Usage(1000, 1000)
    assert price(FLASH, usage, at=NOVEMBER) == pytest.approx(4.5e-3, rel=1e-12)
    assert price(FLASH, usage, at=JANUARY) == pytest.approx(9.0e-3, rel=1e-12)
    assert price(FLASH, usage, at=NOVEMBER) == pytest.approx(4.5e-3, rel=1e-12)


def test_what_the_wire_says_becomes_dollars():
    """Input totals are inclusive at OpenAI and Gemini, not at Anthropic; thinking is not at Gemini.

    Each response tells of 5,000 plain tokens, 4,000 from a cache, 1,000 written to one where that
    is told, and 2,000 of output, of which 1,500 are thinking.
    """
    completion = {
        "choices": [{"message": {"content": "{}"}}],
        "usage": {
            "prompt_tokens": 10_000,
            "completion_tokens": 2000,
            "prompt_tokens_details": {"cached_tokens": 4000, "cache_write_tokens": 1000},
            "completion_tokens_details": {"reasoning_tokens": 1500},
        },
    }
    message = {
        "model": "m",
        "content": [{"type": "text", "text": "{}"}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": 5000,
            "cache_creation_input_tokens": 1000,
            "cache_read_input_tokens": 4000,
            "output_tokens": 2000,
            "output_tokens_details": {"thinking_tokens": 1500},
        },
    }
    generated = {
        "candidates": [{"content": {"parts": [{"text": "{}"}]}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": 9000,
            "cachedContentTokenCount": 4000,
            "candidatesTokenCount": 500,
            "thoughtsTokenCount": 1500,
        },
    }
    assert price(LUNA, openai.read_answer(completion).usage) == pytest.approx(1665e-6)
    assert price(HAIKU, anthropic.read_answer(message).usage) == pytest.approx(1665e-6)
    # 5,000 x 0.25 + 4,000 x 0.025 + 2,000 x 1.5
    assert price(LITE, gemini.read_answer(generated).usage) == pytest.approx(4350e-6)


def oracle(provider_id, model, usage, at, context=None):
    """The table's own arithmetic, and the prices that it took."""
    counts = genai_prices.Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens or None,
        cache_write_tokens=usage.cache_write_tokens or None,
    )
    moment = datetime.fromtimestamp(at, UTC)
    return genai_prices.calc_price(
        counts,
        model,
        provider_id=provider_id,
        genai_request_timestamp=moment,
        price_context=context,
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "models"),
    [("openai", "openai", 80), ("anthropic", "anthropic", 25), ("gemini", "google", 60)],
)
def test_every_model_of_the_table_costs_what_the_table_reckons(ours, theirs, models):
    rng, priced = Random(theirs), 0
    provider = next(each for each in listed if each.id == theirs)
    for model in (each.id for each in provider.models):
        judge = Judge(ours, model)
        if find_unpriced([judge]):
            continue
        priced += 1
        for at in (NOVEMBER, JANUARY):
            total = int(10 ** rng.uniform(0, 6))
            cached, written = rng.randint(0, total // 2), rng.randint(0, total // 2)
            usage = Usage(total, rng.randint(0, 3000), cached, written)
            standard = oracle(theirs, model, usage, at)
            assert price(judge, usage, at=at) == pytest.approx(float(standard.total_price))
            in_batch = oracle(theirs, model, usage, at, {"processing": "batch"})
            half = in_batch.model_price == standard.model_price  # it knows no rate for batches
            expected = float(in_batch.total_price) * (0.5 if half else 1.0)
            assert price(judge, usage, batch=True, at=at) == pytest.approx(expected)
    assert priced >= models


@pytest.mark.parametrize(
    "judge",
    [
        Judge("openai", "no-such-model"),
        Judge("gemini", "gpt-6-luna"),
        Judge("openai", "whisper-1"),  # charged by the minute
        Judge("openai", "text-embedding-3-small"),  # has no output
    ],
)
def test_a_price_that_is_not_known_is_not_zero(judge):
    assert price(judge, Usage(1000, 1000)) is None
    assert price(judge, Usage(1000, 1000), batch=True) is None


def test_a_model_that_is_free_of_charge_is():
    assert price(Judge("gemini", "gemma-4-31b-it"), Usage(1000, 1000)) == 0.0


def test_a_server_named_by_its_url_has_a_price_of_its_own():
    assert price(Judge("openai", "gpt-6-luna", "http://127.0.0.1/v1"), Usage(1, 1)) is None


def test_judges_of_this_process_cost_nothing_unless_they_are_given_a_price():
    for judge in (Judge("offline", "bm25"), Judge("simulated", "a")):
        assert price(judge, Usage(1000, 1000)) == 0.0
        given = {judge.name: Price(input=1, output=2)}
        assert price(judge, Usage(1000, 1000), given) == pytest.approx(3e-3)


@pytest.mark.parametrize("judge", [LUNA, OWN_SERVER, Judge("gemini", "no-such-model")])
def test_a_price_of_the_users_own_wins(judge):
    given = {judge.name: Price(input=3, output=7, cached=0.5, cache_write=4, batch=0.25)}
    # 5,000 x 3 + 4,000 x 0.5 + 1,000 x 4 + 2,000 x 7
    assert price(judge, RICH, given) == pytest.approx(35_000e-6, rel=1e-12)
    assert price(judge, RICH, given, batch=True) == pytest.approx(8_750e-6, rel=1e-12)


def test_a_price_without_caches_takes_them_as_input_and_batches_as_half():
    given = {LUNA.name: Price(input=3, output=7)}
    assert price(LUNA, RICH, given) == pytest.approx(44_000e-6, rel=1e-12)
    assert price(LUNA, RICH, given, batch=True) == pytest.approx(22_000e-6, rel=1e-12)
    assert price(LUNA, RICH, {LUNA.name: Price(input=0, output=0)}) == 0.0


def test_a_written_cache_costs_more_at_anthropic_by_own_prices_too():
    """Breakpoints are set there, and a cap must hold whatever is written."""
    given = {HAIKU.name: Price(input=4, output=0)}
    written = Usage(1000, 0, cache_write_tokens=1000)
    assert price(HAIKU, written, given) == pytest.approx(5e-3)
    assert highest_price(HAIKU, Usage(1000, 0), given) == pytest.approx(5e-3)


def test_the_judges_without_a_price_are_named():
    panel = (LUNA, OWN_SERVER, Judge("offline", "bm25"), Judge("openai", "no-such-model"))
    assert find_unpriced(panel) == [OWN_SERVER.name, "openai:no-such-model"]
    assert find_unpriced(panel, {OWN_SERVER.name: Price(input=0, output=0)}) == [
        "openai:no-such-model"
    ]


@pytest.mark.parametrize("usage", [Usage(10, 5, cached_tokens=20), Usage(1, 5, cached_tokens=2)])
def test_counts_that_make_no_sense_have_no_price_and_raise_nothing(usage):
    assert price(LUNA, usage) is None
    assert price(LUNA, usage, {LUNA.name: Price(input=3, output=7)}) is None


def test_the_price_table_has_a_version_and_says_for_whom_it_was_not_used():
    assert table_version().startswith("genai-prices 0.2.")
    given = {LUNA.name: Price(input=0, output=0)}
    assert table_version(given) == f"{table_version()}; the job's own for openai:gpt-6-luna"
