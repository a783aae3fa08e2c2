"""How often batches are sent before a cap has bought all of them."""

import pytest

from zelo_ray.engine.waves import Reserve, count_waves, reserve_for_batches
from zelo_ray.records import Judge, Usage


@pytest.mark.parametrize(
    ("room", "expected"),
    [(10.0, 1), (9.99, 2), (1.5, 3), (1.01, 8), (0.9, None), (0.0, None)],
)
def test_each_wave_sends_what_the_last_gave_back(room, expected):
    """All costs 1, and holds 10 at first and 2 when answers are known."""
    assert count_waves(room, 1.0, Reserve(10.0, 2.0)) == expected


def test_a_batch_holds_a_token_a_byte_and_the_limit_until_answers_are_known():
    """At the price of what is written to a cache, which is the dearest."""
    judge = Judge("openai", "gpt-6-luna", options={"max_output_tokens": 1000})
    held = reserve_for_batches(judge, 10, 3980.0, Usage(1000, 100), {})
    assert held.first == pytest.approx(10 * 0.5 * (4000 * 0.125e-6 + 1000 * 0.50e-6))
    assert held.later == pytest.approx(10 * 0.5 * (1820 * 0.125e-6 + 250 * 0.50e-6))
