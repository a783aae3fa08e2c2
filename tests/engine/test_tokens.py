"""Tokens of calls before they are made: the most that they can take, and the likely number."""

import pytest

from tests.helpers.builders import judge_of, request_of
from zelo_ray.engine.tokens import Estimates, bound_tokens, measure_request
from zelo_ray.records import Document, Judge, Usage


def test_estimates_learn_bytes_a_token_and_the_length_of_answers():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    assert estimates.expected(4000) == Usage(1320, 300)
    assert estimates.upper_bound(4000) == Usage(4020, 1000)
    for _ in range(200):
        estimates.learn(4000, Usage(820, 100))
    assert abs(estimates.expected(4000).input_tokens - 820) < 10
    assert abs(estimates.expected(4000).output_tokens - 100) < 10
    assert estimates.upper_bound(4000) == Usage(4020, 1000)


def test_a_limit_is_learned_for_each_kind_of_verdict():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    for _ in range(9):
        estimates.learn(4000, Usage(820, 100), "Defence")
    assert estimates.limit_for("Defence") == 1000  # too few to tell
    for _ in range(91):
        estimates.learn(4000, Usage(820, 100), "Defence")
    assert estimates.limit_for("Defence") == 119
    assert estimates.limit_for("RoundScores") == 1000
    assert estimates.limit_for("Defence", cut_at=119) == 1000
    assert estimates.limit_for("Defence", cut_at=1000) == 2000
    for _ in range(5):
        estimates.learn(4000, Usage(820, 119), "Defence", cut=True)
    assert estimates.limit_for("Defence") == 1000  # they have no usual length after all


PROSE = "The quick brown fox jumps over the lazy dog, and nobody minds. "


@pytest.mark.parametrize(
    ("text", "most", "least"),
    [
        (PROSE, 0.65, 0.25),
        ("QWxhZGRpbjpvcGVuIHNlc2FtZQ" * 3, 1.0, 1.0),  # base64 has no words
        ("漢字かな交じり文" * 5, 1.0, 1.0),
        ("snake_case_is_no_word x1y2 f00", 1.0, 0.8),
    ],
)
def test_words_take_a_token_for_two_letters_and_all_else_one_for_a_byte(text, most, least):
    request = request_of("", system=text)
    alone = bound_tokens(request_of("", system=""))
    share = (bound_tokens(request) - alone) / len(text.encode())
    assert least <= share <= most


def test_prompts_are_counted_before_less_than_a_byte_a_token_is_reserved():
    estimates = Estimates(Judge("openai", "m", options={"max_output_tokens": 1000}))
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(4020, 200)
    estimates.learn_prompts([1000] * 9, 9 * 2400)  # too few
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(4020, 200)
    estimates.learn_prompts([1000], 2400)
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(2420, 200)
    estimates.learn_prompts([4000] * 10, 10 * 2400)  # a server that counts every byte
    assert estimates.tight_upper_bound(4000, 2400, 200) == Usage(4020, 200)


def reranking(query, *texts, judge="cohere:m"):
    """What a reranker is asked; an empty prompt, so that all else can be counted."""
    documents = tuple(Document(str(i), text) for i, text in enumerate(texts))
    return request_of("", judge_of(judge), system="", query=query, documents=documents)


def test_a_reranker_may_charge_the_query_with_every_document():
    single, triple = (
        measure_request(reranking("héllo", "a")),
        measure_request(reranking("héllo", "a", "b", "c")),
    )
    assert triple - single == 2 * (6 + 20)
    assert measure_request(reranking("q", "a", "b", judge="openai:m")) == measure_request(
        reranking("q", "a", judge="openai:m")
    )


@pytest.mark.parametrize(
    ("query", "texts", "searches"),
    [
        ("q", ["t"], 1),
        ("q", [""] * 100, 1),
        ("q", ["t"] * 101, 2),
        ("q", ["t"] * 1000, 10),
        ("q", ["t" * 499] * 100, 1),
        ("q", ["t" * 500] * 100, 2),  # each is two parts: the query takes one byte of them
        ("q" * 9999, ["t" * 250] * 100, 1),  # the query takes half of a part at most
        ("q" * 9999, ["t" * 251] * 100, 2),
    ],
)
def test_no_reranker_charges_more_searches(query, texts, searches):
    estimates, size = Estimates(Judge("cohere", "m")), measure_request(reranking(query, *texts))
    assert estimates.upper_bound(size).searches == searches
    assert estimates.upper_bound(size).input_tokens >= size
    assert Estimates(Judge("openai", "m")).upper_bound(9).searches == 0
