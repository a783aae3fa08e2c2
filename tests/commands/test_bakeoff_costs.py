"""What a query takes a ranker in time and money, from the replies about it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers.builders import judge_of, reply_to
from zelo_ray.options import Price
from zelo_ray.rerankers.ranking import sum_replies

JUDGE = judge_of("openai:gpt-6-luna")


def summed(*rounds):
    return sum_replies(rounds, JUDGE, {})


def timed(*seconds, **fields):
    return [reply_to(i, seconds=each, **fields) for i, each in enumerate(seconds)]


def test_requests_of_a_round_go_side_by_side_and_rounds_follow_one_another():
    assert summed(timed(0.2, 0.5, 0.1))["seconds"] == 0.5
    assert summed(timed(0.2), timed(0.5), timed(0.1))["seconds"] == pytest.approx(0.8)


def test_one_reply_without_a_time_leaves_the_query_without_one():
    cost = summed(timed(0.2, 0.0, dollars=0.01))
    assert np.isnan(cost["seconds"])
    assert cost["dollars"] == pytest.approx(0.02)


def test_a_price_that_was_unknown_is_computed_from_tokens_by_the_prices_of_now():
    replies = timed(1.0, dollars=None, input_tokens=1000, output_tokens=100)
    unknown = replace(JUDGE, model="unheard-of")
    assert np.isnan(sum_replies([replies], unknown, {})["dollars"])
    own = {unknown.name: Price(input=2.0, output=10.0)}
    assert sum_replies([replies], unknown, own)["dollars"] == pytest.approx(0.003)
