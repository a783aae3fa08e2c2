"""Rerankers behind HTTP: the real client against a loopback server, on which all goes wrong."""

import re

import pytest

from tests.builders import MachineBudget
from tests.fakes.rerank import Rerankers, pool, rank, worth
from zelo_ray.options import Price
from zelo_ray.providers.pricing import price
from zelo_ray.reasons import StopReason
from zelo_ray.records import Document, Judge, Pool, Usage

POOL = pool()
WORTHS = {"d0": 0.5, "d1": 3.0, "d2": 1.25, "d3": -2.0}
HOSTED = ("zeroentropy", "cohere", "voyage", "jina")


@pytest.fixture
def server():
    with Rerankers() as server:
        yield server


@pytest.fixture
def environ(server, monkeypatch):
    return server.point(monkeypatch)


@pytest.mark.parametrize("name", HOSTED)
def test_scores_come_back_to_the_documents_that_they_are_of(server, environ, tmp_path, name):
    found = rank([POOL], tmp_path, environ, f"{name}:some-model")
    assert found.scores == {"q1": WORTHS}
    (call,) = server.journal
    body = call["body"]
    assert (call["name"], call["key"], body["model"]) == (name, server.key, "some-model")
    assert (body["query"], len(body["documents"])) == (POOL.query, 4)
    assert body["top_k" if name == "voyage" else "top_n"] == 4
    (row,) = found.books
    told = {"input_tokens": row.input_tokens > 0, "searches": row.searches == 1}
    assert told == {"input_tokens": name != "cohere", "searches": name == "cohere"}


def test_voyage_is_told_to_cut_nothing(server, environ, tmp_path):
    rank([POOL], tmp_path, environ, "voyage")
    assert server.journal[0]["body"]["truncation"] is False


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("vllm=rerank:m@{}/vllm/v1", {}),
        ("tei=rerank:m@{}/tei", {"documents_field": "texts", "extra_body": {"raw_scores": True}}),
    ],
)
def test_a_server_named_by_its_url_needs_no_key(server, tmp_path, spec, options):
    name = spec.partition("=")[0]
    fields = {"reranker_options": {name: options}}
    found = rank([POOL], tmp_path, {}, spec.format(server.url), **fields)
    assert found.scores == {"q1": WORTHS}
    assert server.journal[0]["key"] == ""
    assert server.journal[0]["body"].get("raw_scores", False) is (name == "tei")


def test_a_server_that_takes_few_documents_gets_few(server, tmp_path):
    worths = [float(i % 50) for i in range(70)]
    options = {"documents_field": "texts", "documents": 32}
    spec, fields = f"t=rerank:m@{server.url}/tei", {"reranker_options": {"t": options}}
    found = rank([pool(worths)], tmp_path, {}, spec, **fields)
    assert list(found.scores["q1"].values()) == worths
    assert [len(call["body"]["texts"]) for call in server.journal] == [32, 32, 6]


def test_its_own_key_is_sent_to_a_server_named_by_its_url(server, tmp_path):
    spec, environ = f"c=cohere:m@{server.url}/cohere", {"MINE": server.key, "CO_API_KEY": "other"}
    found = rank([POOL], tmp_path, environ, spec, api_key_env={"c": "MINE"})
    assert found.scores == {"q1": WORTHS}


def test_a_second_run_asks_nothing(server, environ, tmp_path):
    pools = [pool(query_id=f"q{i}") for i in range(5)]
    first = rank(pools, tmp_path, environ, "cohere:m")
    again = rank(pools, tmp_path, environ, "cohere:m", run_id="again")
    assert len(server.journal) == 5
    assert again.scores == first.scores
    rank(pools, tmp_path, environ, "cohere:other", run_id="third")
    assert len(server.journal) == 10


def test_a_429_is_waited_for_and_a_500_tried_again(server, environ, tmp_path):
    server.faults = [(429, {"Retry-After": "0.2"}), 500, "drop", 503, 408, 409]
    found = rank([POOL], tmp_path, environ, "jina:m", attempts=8)
    assert found.scores == {"q1": WORTHS}
    (tally,) = found.asker.tallies.values()
    assert (tally.throttled, tally.retries) == (1, 6)
    assert [row.attempts for row in found.books] == [7]


def test_what_a_429_asks_to_wait_is_read(server, environ, tmp_path):
    server.faults = [(429, {"Retry-After": "600"})]
    found = rank([POOL], tmp_path, environ, "jina:m")
    assert "asks us to wait 10 minutes" in found.asker.disabled["jina:m"].message


@pytest.mark.parametrize("body", ['"slow down"', '["slow down"]', "7", "null", "no JSON"])
def test_an_error_is_known_by_its_status_whatever_its_body_is(server, environ, tmp_path, body):
    server.faults = [(429, body), (503, body), (424, body)]
    found = rank([POOL], tmp_path, environ, "jina:m")
    assert found.scores == {"q1": WORTHS}
    (tally,) = found.asker.tallies.values()
    assert (tally.throttled, tally.retries) == (1, 3)
    server.faults = [(401, body)]
    found = rank([POOL], tmp_path / "other", environ, "jina:m")
    assert "set JINA_API_KEY" in found.asker.disabled["jina:m"].message


def test_a_string_may_be_the_message(server, environ, tmp_path):
    server.faults = [(422, '"too long for it"')]
    failure = rank([POOL], tmp_path, environ, "jina:m").failures["q1"]
    assert failure.reason == "jina:m: 422: too long for it"


def test_a_word_that_a_server_takes_none_of_is_filtered(server, environ, tmp_path):
    server.faults = [498]
    found = rank([POOL], tmp_path, environ, "cohere:m")
    assert (found.failures["q1"].status, found.asker.disabled) == ("filtered", {})


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_a_server_refuses_is_a_failure_of_that_query(server, environ, tmp_path, status):
    server.faults = [status]
    found = rank([POOL], tmp_path, environ, "jina:m")
    failure = found.failures["q1"]
    assert (failure.status, failure.attempts, found.asker.disabled) == ("failed", 1, {})
    assert failure.reason == f"jina:m: {status}: something is wrong"
    assert failure.doc_ids == ("d0", "d1", "d2", "d3")


def test_a_wrong_key_ends_it_and_is_not_told(server, environ, tmp_path):
    wrong = {**environ, "JINA_API_KEY": "the-wrong-key-of-someone"}
    found = rank([pool(query_id=f"q{i}") for i in range(3)], tmp_path, wrong, "jina:m")
    assert "set JINA_API_KEY" in found.asker.disabled["jina:m"].message
    assert "the-wrong-key" not in str(found.asker.disabled) + str(found.failures)
    assert not found.books


def test_a_model_that_is_not_there_ends_it(server, environ, tmp_path):
    server.faults = [404]
    found = rank([POOL], tmp_path, environ, "jina:m")
    assert "no such model or address" in found.asker.disabled["jina:m"].message


def test_an_error_does_not_repeat_the_documents(server, environ, tmp_path):
    server.faults, server.said = [422], f"cannot read {POOL.documents[0].content}, sorry"
    assert rank([POOL], tmp_path, environ, "jina:m").failures["q1"].reason == "jina:m: 422"


SPOILT = {
    "a missing one": (lambda rows: rows[1:], "1 of 4 documents without a score"),
    "one twice": (lambda rows: [*rows, rows[0]], "two scores for document 1"),
    "one too many": (
        lambda rows: [*rows, {"index": 4, "relevance_score": 0.1}],
        "a score for document 4 of 4",
    ),
    "before the first": (
        lambda rows: [*rows, {"index": -1, "relevance_score": 0.1}],
        "a score for document -1 of 4",
    ),
    "NaN": (
        lambda rows: [{**row, "relevance_score": float("nan")} for row in rows],
        "score of nan",
    ),
    "text": (
        lambda rows: [{**row, "relevance_score": "0.5"} for row in rows],
        "a score of type str",
    ),
    "true": (
        lambda rows: [{**row, "relevance_score": True} for row in rows],
        "a score of type bool",
    ),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_scores_that_are_none_are_asked_again_and_then_a_failure(server, environ, tmp_path, kind):
    server.spoil, says = SPOILT[kind]
    found = rank([POOL], tmp_path, environ, "jina:m")
    failure = found.failures["q1"]
    assert (failure.status, failure.attempts) == ("invalid", 2)
    assert says in failure.reason
    assert not found.scores
    assert all(row.input_tokens for row in found.books)  # both were billed


@pytest.mark.parametrize("text", ["<html>busy</html>", "{}", "[]", '{"results": [7]}', "null"])
def test_a_response_without_rows_is_tried_again(server, environ, tmp_path, text):
    server.faults = [text]
    assert rank([POOL], tmp_path, environ, "jina:m").scores == {"q1": WORTHS}
    assert len(server.journal) == 2


def test_a_server_that_is_gone_ends_the_reranker(server, environ, tmp_path, monkeypatch):
    server.stop()
    found = rank([POOL], tmp_path, environ, "jina:m", attempts=1)
    assert re.match("jina:m: connection refused, .*; check the network", found.asker.stopped)
    assert found.books == []


def test_a_large_pool_is_asked_in_parts_and_stands_or_falls_together(server, environ, tmp_path):
    large = pool([float(i % 97) for i in range(2500)])
    found = rank([large], tmp_path, environ, "cohere:m")
    assert [len(call["body"]["documents"]) for call in server.journal] == [1000, 1000, 500]
    assert found.scores["q1"] == {d.id: worth(d.content) for d in large.documents}
    server.faults = [400]
    found = rank([large], tmp_path / "other", environ, "cohere:m")
    assert not found.scores
    assert len(found.failures["q1"].doc_ids) == 2500


def test_no_document_is_cut_unless_it_is_asked_for(server, environ, tmp_path):
    long = Pool("q1", "what?", (Document("d0", "word " * 5000), Document("d1", "short")))
    rank([long], tmp_path, environ, "cohere:m")
    assert server.journal[0]["body"]["documents"] == [d.content for d in long.documents]
    rank([long], tmp_path / "cut", environ, "cohere:m", document_tokens=100)
    assert [len(text) for text in server.journal[1]["body"]["documents"]] == [393, 5]


# Money


def test_tokens_have_a_list_price(server, environ, tmp_path):
    (row,) = rank([POOL], tmp_path, environ, "voyage:rerank-2.5").books
    assert row.dollars == pytest.approx(row.input_tokens * 0.05e-6) != 0


def test_searches_are_in_the_books_at_their_price(server, environ, tmp_path):
    prices = {"cohere:m": {"search": 2.0}}
    books = rank([POOL], tmp_path, environ, "cohere:m", prices=prices).books
    assert [row.dollars for row in books] == [0.002]


def test_searches_have_the_price_that_is_given():
    judge, given = Judge("cohere", "m"), {"cohere:m": Price(search=2.5)}
    assert price(judge, Usage(searches=3), given) == pytest.approx(0.0075)
    assert price(judge, Usage(input_tokens=900), given) == pytest.approx(0.0025)  # one at least
    assert price(judge, Usage(searches=3)) is None
    assert price(Judge("zeroentropy", "zerank-2", "http://h"), Usage(9)) is None


def test_an_unknown_price_is_not_zero(server, environ, tmp_path):
    (row,) = rank([POOL], tmp_path, environ, "jina:m").books
    assert row.dollars is None


def test_a_budget_holds(server, environ, tmp_path):
    pools, cap = [pool(query_id=f"q{i}") for i in range(40)], 2.0
    fields = {"max_usd": cap, "prices": {"jina:m": {"input": 1000.0, "output": 0}}}
    found = rank(pools, tmp_path, environ, "jina:m", budget=MachineBudget(cap), **fields)
    assert 0 < sum(row.dollars for row in found.books) <= cap
    assert 0 < len(found.scores) < 40
    assert len(found.scores) + len(found.failures) == 40
    assert found.asker.disabled["jina:m"].code is StopReason.BUDGET


WIDE = [
    Pool(f"q{i}", f"query {i} " + "word " * 400, tuple(Document(f"d{j}", "text") for j in range(n)))
    for i, n in enumerate([1000, 1, 350, 20, 100, 101] * 3)
]
LONG = [
    Pool(f"q{i}", "query", tuple(Document(f"d{j}", f"{i} " + "x" * 3000) for j in range(n)))
    for i, n in enumerate([150, 1, 40] * 4)
]


@pytest.mark.parametrize("token_bytes", [1, 4])
@pytest.mark.parametrize("pools", [WIDE, LONG], ids=["wide", "long"])
@pytest.mark.parametrize(
    ("spec", "price", "cap"),
    [
        ("cohere:m", {"search": 2.0}, 0.05),
        ("voyage:m", {"input": 0.05, "output": 0}, 0.2),
    ],
)
def test_a_budget_holds_for_large_pools(
    server, environ, tmp_path, spec, price, cap, pools, token_bytes
):
    server.token_bytes = token_bytes
    fields = {"max_usd": cap, "prices": {spec: price}}
    found = rank(pools, tmp_path, environ, spec, budget=MachineBudget(cap), **fields)
    assert 0 < sum(row.dollars for row in found.books) <= cap + 1e-9
    assert len(found.scores) + len(found.failures) == len(pools)


def test_a_search_that_a_server_does_not_tell_of_has_its_price(server, environ, tmp_path):
    server.told = lambda fields: {}
    pools, prices = [pool([1.0] * 101)], {"cohere:m": {"search": 2.0}}
    (row,) = rank(pools, tmp_path, environ, "cohere:m", prices=prices).books
    assert (row.dollars, row.searches) == (pytest.approx(0.004), 2)
    prices = {"jina:m": {"input": 1.0, "output": 0.0}}
    (row,) = rank([POOL], tmp_path / "jina", environ, "jina:m", prices=prices).books
    assert row.dollars is None  # tokens have a price, and nobody knows how many they are


@pytest.mark.parametrize(
    ("told", "searches"),
    [
        ({"meta": {"billed_units": {"search_units": 3}}}, 3),
        ({"meta": {"billed_units": {"search_units": 2.5}}}, 3),
        ({"meta": {"billed_units": {"search_units": float("inf")}}}, 1),
        ({"meta": [], "usage": "none"}, 1),
    ],
)
def test_gateways_may_bill_as_cohere_does(server, tmp_path, told, searches):
    server.told = lambda fields: told
    spec, fields = f"v=rerank:m@{server.url}/vllm/v1", {"prices": {"v": {"search": 2.0}}}
    found = rank([POOL], tmp_path, {}, spec, **fields)
    assert found.scores == {"q1": WORTHS}
    assert [row.dollars for row in found.books] == [pytest.approx(searches * 0.002)]
