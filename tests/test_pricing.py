"""Dollars: by hand from the price lists of November 2026."""

import pytest

from tests.builders import THREE
from zelo_ray.pricing import price, table_version
from zelo_ray.providers import module
from zelo_ray.records import Judge, Usage

LUNA = Judge("openai", "gpt-6-luna")


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(), 0.0),
        (Usage(1000), 0.10e-3),
        (Usage(0, 1000), 0.50e-3),
        (Usage(1000, 1000), 0.60e-3),
        (Usage(1000, 0, cached_tokens=1000), 0.01e-3),
        (Usage(1000, 0, cached_tokens=400), 0.06e-3 + 0.004e-3),
        (Usage(0, 1000, thinking_tokens=900), 0.50e-3),  # a part of the output, not on top of it
    ],
)
def test_input_output_and_cache_have_their_prices(usage, dollars):
    assert price(LUNA, usage) == pytest.approx(dollars)


@pytest.mark.parametrize("provider", THREE)
def test_the_default_models_have_prices(provider):
    for model in module(provider).MODELS:
        assert price(Judge(provider, model), Usage(1000, 1000)) > 0


@pytest.mark.parametrize("judge", [Judge("openai", "no-such-model"), Judge("gemini", "gpt-6-luna")])
def test_a_price_that_is_not_known_is_not_zero(judge):
    assert price(judge, Usage(1000, 1000)) is None


def test_a_server_named_by_its_url_has_a_price_of_its_own():
    assert price(Judge("openai", "gpt-6-luna", "http://127.0.0.1/v1"), Usage(1, 1)) is None


def test_judges_of_this_process_cost_nothing():
    assert price(Judge("offline", "bm25"), Usage(1000, 1000)) == 0.0


@pytest.mark.parametrize("usage", [Usage(10, 5, cached_tokens=20), Usage(1, 5, cached_tokens=2)])
def test_counts_that_make_no_sense_have_no_price_and_raise_nothing(usage):
    assert price(LUNA, usage) is None


def test_options_do_not_change_the_price():
    assert price(Judge("openai", "gpt-6-luna", options={"x": 1}), Usage(7, 7)) == price(
        LUNA, Usage(7, 7)
    )


def test_the_price_table_has_a_version():
    assert table_version().startswith("genai-prices 0.2.")
