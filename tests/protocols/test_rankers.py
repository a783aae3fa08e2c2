"""What rerankers are asked, and what their replies come to."""

import json
import math

import pytest
from pydantic import ValidationError

from tests.fakes.rerank import pool, rank, worth
from tests.helpers.builders import judge_of, options_of, play
from zelo_ray.protocols.rankers import RANKERS, order_of

JUDGE = judge_of("cohere:m")
OPTIONS = options_of()
SMALL = pool()


def large(count):
    """A pool whose best document stands last."""
    return pool([float(i) for i in range(count)])


def drive(protocol, pool, answer, options=OPTIONS, judge=JUDGE):
    """Answer every request until the protocol ends; return its step and the requests."""
    step, asked = play(protocol, options, pool, [judge], answer)
    return step, [request for requests in asked for request in requests]


def scores(request):
    return (json.dumps({"scores": [worth(d.content) for d in request.documents]}),)


def order(request):
    worths = [worth(d.content) for d in request.documents]
    best = sorted(range(len(worths)), key=lambda i: -worths[i])
    return (json.dumps({"order": [i + 1 for i in best]}),)


# Scores


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"scores": [1, 2, 3]}', "3 scores for 4 documents"),
        ('{"scores": [1, 2, 3, 4, 5]}', "5 scores for 4 documents"),
        ('{"scores": []}', "0 scores for 4 documents"),
        ('{"scores": [1, 2, 3, NaN]}', "finite"),
        ('{"scores": [1, 2, 3, true]}', "number"),
    ],
)
def test_anything_but_a_finite_number_a_document_fails_the_pool(text, says):
    step, _ = drive(RANKERS["rerank"], SMALL, lambda request: (text,))
    (failure,) = step.failures
    assert failure.status == "invalid"
    assert says in failure.reason


def test_a_judge_that_takes_few_documents_at_once_gets_several_requests():
    few = judge_of("cohere:m", documents=3)
    step, asked = drive(RANKERS["rerank"], large(7), scores, judge=few)
    assert [len(request.documents) for request in asked] == [3, 3, 1]
    assert RANKERS["rerank"].count(large(7), [few], OPTIONS) == {few.name: 3}
    assert [ranked.score for ranked in step.judgments] == [float(i) for i in range(7)]


# Windows


@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 30, 31, 100])
def test_the_best_documents_come_from_anywhere(count):
    step, asked = drive(RANKERS["listwise"], large(count), order)
    found = sorted(step.judgments, key=lambda ranked: -ranked.score)
    best = [f"d{count - 1 - i}" for i in range(min(10, count))]
    assert [ranked.doc_id for ranked in found[:10]] == best
    assert sorted(ranked.score for ranked in found) == [float(i) for i in range(count)]
    windows = 0 if count == 1 else 1 + max(0, math.ceil((count - 20) / 10))
    assert len(asked) == windows
    assert RANKERS["listwise"].count(large(count), [JUDGE], OPTIONS) == {JUDGE.name: windows}


@pytest.mark.parametrize(
    "said", [[1, 2, 3], [1, 2, 3, 3], [0, 1, 2, 3], [1, 2, 3, 5], [], [4, 3, 2, 1, 1]]
)
def test_only_a_permutation_is_an_order(said):
    text = json.dumps({"order": said})
    with pytest.raises(ValidationError):
        order_of(4).model_validate_json(text)
    step, _ = drive(RANKERS["listwise"], SMALL, lambda request: (text,))
    (failure,) = step.failures
    assert (failure.status, step.judgments) == ("invalid", ())
    assert "not each number from 1 to 4 once" in failure.reason


def test_a_window_that_fails_ends_the_pool_and_asks_no_more():
    said = []

    def answer(request):
        said.append(request)
        return ("no", "ok") if len(said) == 2 else order(request)

    step, asked = drive(RANKERS["listwise"], large(100), answer)
    assert len(asked) == 2
    assert (len(step.failures), step.judgments) == (1, ())


# Language models, asked


def knows(system, user, schema, model):
    """The right answer to both kinds of question, from what the documents say."""
    parts = user.split("[document ")[1:]
    worths = [worth(part) for part in parts]
    if "order" in schema["properties"]:
        return {"order": [i + 1 for i in sorted(range(len(parts)), key=lambda i: -worths[i])]}
    return {"reasoning": "it says so", "relevance": round(worths[0])}


@pytest.mark.parametrize("name", ["listwise", "pointwise"])
@pytest.mark.parametrize(
    "judge", ["openai:gpt-6-luna", "anthropic:claude-haiku-5-5", "gemini:gemini-3.1-flash-lite"]
)
def test_a_language_model_orders_a_pool(fakes, environ, tmp_path, name, judge):
    fakes.judge = knows
    spec, pools = f"{name}:{judge}", [large(25)]
    found = rank(pools, tmp_path, environ, spec)
    best = sorted(found.scores["q1"], key=lambda doc_id: -found.scores["q1"][doc_id])
    assert best[:10] == [f"d{i}" for i in range(24, 14, -1)]
    assert len(fakes.journal) == (2 if name == "listwise" else 25)
    rank(pools, tmp_path, environ, spec, run_id="again")
    assert len(fakes.journal) == (2 if name == "listwise" else 25)
    assert sum(row.dollars for row in found.books) > 0
