"""Rerankers behind HTTP: the real client against a loopback server, on which all goes wrong."""

import pytest

from tests.fakes.rerank import Rerankers, pool, rank
from tests.helpers.builders import MachineBudget
from zelo_ray.options import Price
from zelo_ray.providers.pricing import price
from zelo_ray.records import Document, Judge, Pool, Usage

POOL = pool()
WORTHS = {"q1": {"d0": 0.5, "d1": 3.0, "d2": 1.25, "d3": -2.0}}


@pytest.fixture
def server():
    with Rerankers() as server:
        yield server


@pytest.fixture
def ask(server, tmp_path, monkeypatch):
    """Ask a reranker about pools, each time with a new ledger, at the servers of all providers."""
    environ = server.point(monkeypatch)
    outs = iter(range(99))

    def asked(name="jina:m", pools=(POOL,), faults=(), out=None, **fields):
        server.faults = [*faults]
        server.journal.clear()
        place = tmp_path / (out or f"{next(outs)}")
        return rank(pools, place, {**environ, **fields.pop("environ", {})}, name, **fields)

    return asked


def test_scores_come_back_to_the_documents_that_they_are_of(server, ask):
    for name in ("zeroentropy", "cohere", "voyage", "jina"):
        found = ask(f"{name}:some-model")
        assert found.scores == WORTHS
        (call,) = server.journal
        body, most = call["body"], "top_k" if name == "voyage" else "top_n"
        assert (call["name"], call["key"], body["model"]) == (name, server.key, "some-model")
        assert (body["query"], len(body["documents"]), body[most]) == (POOL.query, 4, 4)
        assert body.get("truncation") is (False if name == "voyage" else None)
        (row,) = found.books
        assert (row.input_tokens > 0, row.searches == 1) == (name != "cohere", name == "cohere")


# Faults


def test_a_429_is_waited_for_and_a_500_tried_again(ask):
    # A third failure that is a 503 would hold calls back, and a server that has answered nothing
    # for 3 minutes is given up: 2 s of this clock, which a busy machine takes.
    faults = [(429, {"Retry-After": "0.2"}), 503, 500, "drop", 408, 409]
    found = ask(faults=faults, attempts=8)
    (tally,) = found.asker.tallies.values()
    assert (found.scores, tally.throttled, tally.retries) == (WORTHS, 1, 6)
    assert [row.attempts for row in found.books] == [7]
    found = ask(faults=[(429, {"Retry-After": "600"})])
    assert "10 minutes" in found.asker.disabled["jina:m"].message


def test_what_a_server_refuses_is_a_failure_of_that_query(server, ask):
    for status, ends, reason in (
        (400, "failed", "jina:m: 400: something is wrong"),
        (413, "failed", "jina:m: 413: something is wrong"),
        ((422, '"too long for it"'), "failed", "jina:m: 422: too long for it"),
        (498, "filtered", ""),
    ):
        found = ask("cohere:m" if status == 498 else "jina:m", faults=[status])
        failure = found.failures["q1"]
        assert (failure.status, failure.attempts, found.asker.disabled) == (ends, 1, {})
        assert failure.doc_ids == ("d0", "d1", "d2", "d3")
        assert reason in failure.reason
    server.said = f"cannot read {POOL.documents[0].content}, sorry"
    assert ask(faults=[422]).failures["q1"].reason == "jina:m: 422", "it repeats no document"


def test_a_wrong_key_or_model_or_no_server_ends_it(server, ask):
    wrong = {"JINA_API_KEY": "the-wrong-key-of-someone"}
    found = ask(pools=[pool(query_id=f"q{i}") for i in range(3)], environ=wrong)
    assert "set JINA_API_KEY" in found.asker.disabled["jina:m"].message
    assert "the-wrong-key" not in str(found.asker.disabled) + str(found.failures)
    assert not found.books
    found = ask(faults=[404])
    assert "no such model or address" in found.asker.disabled["jina:m"].message
    server.stop()
    found = ask(attempts=1)
    assert ("connection refused" in found.asker.stopped, found.books) == (True, [])


def test_scores_that_are_none_are_asked_again_and_then_a_failure(server, ask):
    def more(**row):
        return lambda rows: [*rows, {"relevance_score": 0.1, **row}]

    def each(value):
        return lambda rows: [{**row, "relevance_score": value} for row in rows]

    for spoil, says in (
        (lambda rows: rows[1:], "1 of 4 documents without a score"),
        (more(index=1), "two scores for document 1"),
        (more(index=4), "a score for document 4 of 4"),
        (more(index=-1), "a score for document -1 of 4"),
        (each(float("nan")), "score of nan"),
        (each("0.5"), "a score of type str"),
        (each(True), "a score of type bool"),
    ):
        server.spoil = spoil
        found = ask()
        failure = found.failures["q1"]
        assert (failure.status, failure.attempts, found.scores) == ("invalid", 2, {})
        assert says in failure.reason
        assert all(row.input_tokens for row in found.books), "both were billed"


# Money


def test_what_is_billed_stands_in_the_books(server, ask):
    (row,) = ask("voyage:rerank-2.5").books
    assert row.dollars == pytest.approx(row.input_tokens * 0.05e-6) != 0
    search = {"prices": {"cohere:m": {"search": 2.0}}}
    assert [row.dollars for row in ask("cohere:m", **search).books] == [0.002]
    assert [row.dollars for row in ask().books] == [None], "an unknown price is not zero"
    judge, given = Judge("cohere", "m"), {"cohere:m": Price(search=2.5)}
    assert price(judge, Usage(searches=3), given) == pytest.approx(0.0075)
    assert price(judge, Usage(input_tokens=900), given) == pytest.approx(0.0025)  # one at least
    assert price(judge, Usage(searches=3)) is None
    assert price(Judge("zeroentropy", "zerank-2", "http://h"), Usage(9)) is None
    server.told = lambda fields: {}
    (row,) = ask("cohere:m", [pool([1.0] * 101)], **search).books
    assert (row.dollars, row.searches) == (pytest.approx(0.004), 2)
    (row,) = ask(prices={"jina:m": {"input": 1.0, "output": 0.0}}).books
    assert row.dollars is None, "nobody knows how many tokens they are"


def sized(query, text, sizes):
    return [
        Pool(
            f"q{i}", f"query {i}{query}", tuple(Document(f"d{j}", f"{i} {text}") for j in range(n))
        )
        for i, n in enumerate(sizes)
    ]


WIDE = sized(" word" * 400, "text", [1000, 1, 350, 20, 100, 101] * 3)
LONG = sized("", "x" * 3000, [150, 1, 40] * 4)


@pytest.mark.parametrize("token_bytes", [1, 4])
@pytest.mark.parametrize("pools", [WIDE, LONG], ids=["wide", "long"])
@pytest.mark.parametrize(
    ("spec", "price", "cap"),
    [("cohere:m", {"search": 2.0}, 0.05), ("voyage:m", {"input": 0.05, "output": 0}, 0.2)],
)
def test_a_budget_holds_for_large_pools(server, ask, spec, price, cap, pools, token_bytes):
    server.token_bytes = token_bytes
    found = ask(spec, pools, max_usd=cap, prices={spec: price}, budget=MachineBudget(cap))
    assert 0 < sum(row.dollars for row in found.books) <= cap + 1e-9
    assert len(found.scores) + len(found.failures) == len(pools)


def test_a_server_named_by_its_url_gets_its_own_key_or_none(server, ask):
    tei = {"documents_field": "texts", "documents": 32, "extra_body": {"raw_scores": True}}
    for spec, options in (
        (f"a=rerank:m@{server.url}/vllm/v1", {}),
        (f"a=rerank:m@{server.url}/tei", tei),
    ):
        assert ask(spec, reranker_options={"a": options}).scores == WORTHS
        assert server.journal[0]["key"] == ""
        assert ("raw_scores" in server.journal[0]["body"]) == bool(options)
    worths = [float(i % 50) for i in range(70)]
    found = ask(spec, [pool(worths)], reranker_options={"a": tei})
    assert list(found.scores["q1"].values()) == worths
    assert [len(call["body"]["texts"]) for call in server.journal] == [32, 32, 6]
    mine = {"MINE": server.key, "CO_API_KEY": "other"}
    found = ask(f"c=cohere:m@{server.url}/cohere", environ=mine, api_key_env={"c": "MINE"})
    assert found.scores == WORTHS
