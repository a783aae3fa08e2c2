"""Who takes part in a bake-off: names, options, keys; rerankers of the user's own; lexical ones."""

import asyncio
import json
import sys

import pytest

import zelo_ray
from tests.builders import judge_of, request_of
from tests.fakes.rerank import pool, rank
from zelo_ray.errors import OptionError, PanelError
from zelo_ray.options import AnnotateOptions, BakeoffOptions, load_options
from zelo_ray.protocols.rerank import Scores
from zelo_ray.providers import RERANKERS, Refused, Settings, build_panel, load_provider
from zelo_ray.providers.registry import ENCODERS
from zelo_ray.records import Document
from zelo_ray.rerankers import BakeoffRanker, asking_options, build_rankers
from zelo_ray.rerankers.answers import answer_of, failed_answer

KEYS = {"CO_API_KEY": "c", "OPENAI_API_KEY": "o", "JINA_API_KEY": "j"}
POOL = pool()
WORTHS = {"d0": 0.5, "d1": 3.0, "d2": 1.25, "d3": -2.0}

OWN = """
import asyncio
import os
import sys
import threading
import time

import aiohttp
import numpy as np

from tests.fakes.rerank import worth
from zelo_ray import Reranker


class Mine(Reranker):
    def __init__(self, scale=1.0, shift=0):
        self.scale, self.shift = scale, shift

    async def score(self, query, documents):
        await asyncio.sleep(0)
        return [self.scale * worth(text) + self.shift for text in documents]


class Versioned(Mine):
    version = 3


class Plain:
    def score(self, query, documents):
        return np.array([worth(text) for text in documents], dtype=np.float32)


class Called:
    async def __call__(self, query, documents):
        return [worth(text) for text in documents]


def function(query, documents, scale=1.0):
    return [scale * worth(text) for text in documents]


async def asynchronous(query, documents):
    return tuple(worth(text) for text in documents)


made = Mine()
calls = []


async def raises(query, documents):
    calls.append(query)
    if "q2" in query:
        raise RuntimeError("no idea\\nof it " + "x" * 500)
    return [0.0] * len(documents)


def few(query, documents):
    return [0.0]


def nothing(query, documents):
    return None


def hangs(query, documents):
    return asyncio.sleep(60)


def other(question, documents, more):
    return []


class Client:
    def __init__(self):
        self.session = aiohttp.ClientSession()

    async def score(self, query, documents):
        await self.session.close()
        return [worth(text) for text in documents]


class Scoreless:
    pass


class Odd:
    def score(self, question, documents, other):
        return []


busy = threading.Lock()


def alone(query, documents):
    if not busy.acquire(blocking=False):
        raise RuntimeError("two at once")
    time.sleep(0.1)
    busy.release()
    return [0.0] * len(documents)


def decorated(query, documents):
    return asynchronous(query, documents)


def stuck(query, documents):
    calls.append(query)
    time.sleep(2 if len(calls) == 1 else 0)
    return [0.0] * len(documents)


def lazily(query, documents):
    return (1 / 0 for text in documents)


def in_order(query, documents):
    return (worth(text) for text in documents)


def huge(query, documents):
    return [10**400] * len(documents)


def mapping(query, documents):
    return {i: worth(text) for i, text in enumerate(documents)}


def exits(query, documents):
    sys.exit("cannot go on")


async def exits_too(query, documents):
    sys.exit("cannot go on")


async def cancels(query, documents):
    raise asyncio.CancelledError("by no one")


def stops(query, documents):
    return [next(iter(()))]


def interrupts(query, documents):
    raise KeyboardInterrupt


def leaks(query, documents):
    raise RuntimeError("401 for https://h/v1?key=" + os.environ["SOME_API_KEY"])


def repeats(query, documents):
    raise ValueError("cannot read " + documents[0])


class Broken:
    def __init__(self):
        raise ValueError("no such weights")

    def score(self, query, documents):
        return []


number = 7
"""


@pytest.fixture(autouse=True)
def _workplace(tmp_path, monkeypatch):
    """A folder with a module of the user's, where the job is started."""
    folder = tmp_path / "job"
    (folder / "deep").mkdir(parents=True)
    (folder / "own_rerankers.py").write_text(OWN)
    (folder / "deep" / "more.py").write_text(OWN)
    (folder / "script.py").write_text("import sys\nsys.exit('a usage line')")
    (folder / "wave.py").write_text("score = 7")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    yield
    for name in ("own_rerankers", "reranker_more", "wave"):
        sys.modules.pop(name, None)


def options_of(*rerankers, **fields):
    return BakeoffOptions(**{"truth": "t", "out": "o", "rerankers": rerankers, **fields})


def arms(*rerankers, environ=KEYS, **fields):
    return build_rankers(options_of(*rerankers, **fields), environ, run_id="run")


def said(*rerankers, **fields):
    with pytest.raises(PanelError) as caught:
        arms(*rerankers, **fields)
    message = str(caught.value)
    assert "\n" not in message
    return message


# Names


@pytest.mark.parametrize(
    ("spec", "protocol", "judge"),
    [
        ("bm25", "rerank", "offline:bm25"),
        ("offline:likelihood", "rerank", "offline:likelihood"),
        ("cohere:rerank-v4.0-pro", "rerank", "cohere:rerank-v4.0-pro"),
        ("cohere", "rerank", "cohere:rerank-v5.0-pro"),
        ("rerank:m@http://h:8000/v1", "rerank", "rerank:m@http://h:8000/v1"),
        ("cross-encoder:org/model", "rerank", "cross-encoder:org/model"),
        ("listwise:openai:gpt-6-luna", "listwise", "openai:gpt-6-luna"),
        ("pointwise:openai", "pointwise", "openai:gpt-6-luna"),
        ("listwise:openai:q@http://h/v1", "listwise", "openai:q@http://h/v1"),
        ("own_rerankers:Mine", "rerank", "custom:own_rerankers:Mine"),
        ("custom:own_rerankers:Mine", "rerank", "custom:own_rerankers:Mine"),
        ("deep/more.py:Mine", "rerank", "custom:deep/more.py:Mine"),
    ],
)
def test_a_name_says_who_is_asked_and_how(spec, protocol, judge):
    if judge.startswith("cross-encoder"):
        pytest.importorskip("sentence_transformers")
    (arm,) = arms(spec)
    assert (arm.name, arm.protocol, arm.judge.name) == (spec, protocol, judge)


def test_the_original_order_takes_no_judge():
    assert arms("original") == (BakeoffRanker("original", "original", None),)
    options = options_of("original")
    assert asking_options(arms("original")[0], options).judges == ()


def test_a_label_names_an_arm_and_keeps_two_of_a_kind_apart():
    specs = ("a=cohere:m", "b=cohere:m", "with url=rerank:m@http://h/v1", "rerank:n@http://h/v1")
    found = arms(*specs, reranker_options={"b": {"documents": 9}})
    assert [arm.name for arm in found] == ["a", "b", "with url", specs[3]]
    assert found[0].judge.name == found[1].judge.name


@pytest.mark.parametrize(
    ("specs", "says"),
    [
        (("bm52",), "'bm52' (did you mean 'bm25'?); there are original, bm25, charg"),
        (("cohre:rerank-v4",), "No module named 'cohre'; there are original"),
        (("bm25", "bm25"), "bm25 is named twice"),
        (("a=bm25", "a=original"), "a is named twice"),
        (("openai:gpt-6-luna",), "write listwise:openai:gpt-6-luna or poi"),
        (("listwise:offline:bm25",), "a language model of openai, anthropic, gemini"),
        (("listwise:cohere:m",), "a language model of openai"),
        (("offline:tfidf",), "unknown judge offline:tfidf; there are bm25"),
        (("offline",), "one of bm25, chargram, likelihood"),
        (("cross-encoder",), "names no model; write cross-encoder:MODEL"),
        (("rerank:m",), "write rerank:MODEL@http://host"),
        (("cohere:m@http://key:word@h",), "no key in a URL"),
        (("rerank:m@http://h/v1?api-key=1",), "rerank:m: a base URL ends before any ? or #"),
        (("listwise:openai:m@http://h/v1#x",), "openai:m: a base URL ends before any ? or #"),
        (("zeroentropy",), "set ZEROENTROPY_API_KEY"),
        (("own_rerankers:No",), "has no attribute 'No'"),
        (("deep/none.py:Mine",), "deep/none.py:Mine cannot be imported: FileNotFoundError"),
        (("own_rerankers:Scoreless",), "is not a function and has no score"),
        (("own_rerankers:Odd",), "does not accept (query, documents)"),
        (("script:score",), "script:score cannot …SystemExit: a usage line"),
        (("own_rerankers:other",), "does not accept (query, documents)"),
        (("own_rerankers:number",), "is not a function and has no score"),
    ],
)
def test_what_is_no_reranker_is_told_in_one_line(specs, says):
    message = said(*specs)
    assert all(part in message for part in says.split("…"))


@pytest.mark.parametrize("name", [name for name in RERANKERS if name not in ENCODERS])
def test_a_reranker_judges_nothing(name):
    with pytest.raises(PanelError, match="is a reranker, which judges nothing"):
        build_panel((f"{name}:m",), {}, {})


def test_without_names_no_reranker_gets_onto_a_panel():
    panel = build_panel((), {}, {**KEYS, "VOYAGE_API_KEY": "v"})
    assert [judge.provider for judge in panel] == ["openai"]


# AnnotateOptions


def test_options_are_by_the_name_of_the_arm():
    fields = {
        "reranker_options": {"a": {"documents": 10}, "b": {"max_output_tokens": 99}},
        "limits": {"a": {"rpm": 5}},
        "prices": {"b": {"input": 1, "output": 2}, "a": {"search": 2.5}},
        "api_key_env": {"a": "MINE"},
        "num_gpus": {"b": 0.5},
        "seed": 7,
        "document_limit": 9,
        "max_usd": 3.0,
    }
    options = options_of("a=cohere:m", "b=listwise:openai:q", **fields)
    one, other = build_rankers(options, {"MINE": "k", **KEYS}, run_id="run")
    assert one.judge.options == {**load_provider("cohere").options, "documents": 10}
    assert other.judge.options == {**load_provider("openai").options, "max_output_tokens": 99}
    asked = asking_options(one, options)
    assert isinstance(asked, AnnotateOptions)
    assert (asked.protocol, asked.judges, asked.seed) == ("rerank", ("cohere:m",), 7)
    assert (asked.document_limit, asked.max_usd, asked.out) == (9, 3.0, "o")
    assert asked.limits["cohere:m"].rpm == 5
    assert asked.api_key_env == {"cohere:m": "MINE"}
    assert asked.prices["cohere:m"].search == 2.5
    assert list(asking_options(other, options).prices) == ["openai:q"]
    assert asking_options(other, options).limits == {}


@pytest.mark.parametrize(
    "field", ["limits", "prices", "api_key_env", "reranker_options", "num_gpus"]
)
def test_options_for_a_stranger_are_refused(field):
    given = {
        "limits": {},
        "prices": {"search": 1},
        "api_key_env": "X",
        "reranker_options": {},
        "num_gpus": 1,
    }
    says = said("a=bm25", **{field: {"offline:bm25": given[field]}})
    assert says == f"{field}: no reranker 'offline:bm25'; there are a"


def test_options_for_a_mistyped_reranker_name_the_nearest():
    says = said("mine=bm25", reranker_options={"mime": {}})
    assert says.startswith("reranker_options: ")
    assert says.endswith("'mime' (did you mean 'mine'?)")


@pytest.mark.parametrize(
    ("spec", "own", "says"),
    [
        ("cohere", {"documnets": 5}, "'documnets' (did you mean 'documents'…known: documents"),
        ("cohere", {"documents": 0}, "a: reranker_options: documents: …above"),
        ("cohere", {"documents": "many"}, "documents: must be a whole number"),
        ("cohere", {"documents": True}, "documents: must be a whole number"),
        ("cohere", {"max_tokens_per_doc": "many"}, "max_tokens_per_doc: must be"),
        ("voyage", {"truncation": "no"}, "truncation: must be true or false"),
        ("zeroentropy", {"latency": "quick"}, "latency: must be 'fast' or 'slow'"),
        ("rerank:m@http://h", {"extra_body": 7}, "extra_body takes fields"),
        ("cross-encoder:org/m", {"block_size": 0}, "block_size: must be above"),
        ("cross-encoder:org/m", {"max_length": "x"}, "max_length: must be a whole"),
        ("listwise:openai", {"temprature": 0}, "unknown option 'temprature'"),
        ("bm25", {"k1": 1.2}, "unknown option 'k1'; known: none"),
        ("original", {"any": 1}, "has no options"),
        ("own_rerankers:Mine", {"scael": 2}, "unexpected keyword argument 'scael'"),
        ("own_rerankers:Mine", {"scale": {1, 2}}, "not JSON serializable"),
        ("own_rerankers:function", {"scael": 2}, "unexpected keyword argument 'scael'"),
        ("own_rerankers:function", {"query": "q"}, "multiple values for argument 'query'"),
    ],
)
def test_options_that_cannot_be_are_refused(spec, own, says):
    keys = {**KEYS, "VOYAGE_API_KEY": "v", "ZEROENTROPY_API_KEY": "z"}
    message = said(f"a={spec}", reranker_options={"a": own}, environ=keys)
    assert all(part in message for part in says.split("…"))


@pytest.mark.parametrize("spec", ["cohere:m", "listwise:openai:m"])
def test_a_key_that_cannot_be_one_is_told_at_once(spec):
    keys = {"CO_API_KEY": "two words", "OPENAI_API_KEY": "two words"}
    assert "the key contains characters that no key has" in said(spec, environ=keys)


def test_documents_are_whole_but_in_prompts():
    def shown(spec, **fields):
        options = options_of(spec, **fields)
        (arm,) = build_rankers(options, KEYS, run_id="run")
        return asking_options(arm, options).document_tokens

    assert shown("cohere:m") > 2**32
    assert shown("listwise:openai:m") == shown("pointwise:openai:m") == 2000
    for spec in ("cohere:m", "bm25", "listwise:openai:m"):
        assert shown(spec, document_tokens=99) == 99


def test_a_budget_needs_prices():
    says = said("a=jina:m", "bm25", max_usd=1.0)
    assert "--max-usd needs prices, and that of a is unknown" in says
    assert "'a': {input: X, output: X}" in says
    assert arms("a=jina:m", max_usd=1.0, prices={"a": {"search": 1.0}})
    assert arms("bm25", "original", "own_rerankers:Mine", max_usd=1.0)
    own = {"a": {"max_output_tokens": None}}
    assert "limit of output" in said("a=listwise:openai", max_usd=1.0, reranker_options=own)


def test_a_price_says_what_it_is_of():
    for bad in ({"input": 1}, {"output": 1}, {}, {"batch": 1}):
        with pytest.raises(OptionError, match="is missing"):
            load_options(BakeoffOptions, {"truth": "t", "out": "o", "prices": {"a": bad}})


def test_a_class_is_made_only_where_it_is_asked(tmp_path):
    """It may load weights, or open a client on the event loop."""
    assert arms("own_rerankers:Broken")
    assert arms("own_rerankers:Client")
    assert rank([POOL], tmp_path, {}, "own_rerankers:Client").scores == {"q1": WORTHS}


def test_a_file_of_the_users_does_not_stand_in_for_the_librarys():
    with pytest.raises(PanelError, match="has no attribute 'score'"):
        arms("wave:score")


# Of the user's own


NAMES = ["Mine", "Plain", "Called", "function", "asynchronous", "made", "decorated", "in_order"]


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_write_one_works(tmp_path, name):
    found = rank([POOL], tmp_path, {}, f"own_rerankers:{name}")
    assert found.scores == {"q1": WORTHS}
    (row,) = found.books
    assert row.dollars == 0


def test_a_file_may_hold_it_too(tmp_path):
    assert rank([POOL], tmp_path, {}, "deep/more.py:Mine").scores == {"q1": WORTHS}


@pytest.mark.parametrize("name", ["Mine", "function"])
def test_its_options_are_arguments(tmp_path, name):
    spec, own = f"a=own_rerankers:{name}", {"a": {"scale": -2.0}}
    found = rank([POOL], tmp_path, {}, spec, reranker_options=own)
    assert found.scores["q1"] == {doc_id: -2 * value for doc_id, value in WORTHS.items()}


def test_what_it_raises_is_a_failure_of_that_query_alone(tmp_path):
    pools = [pool(query_id=f"q{i}") for i in range(4)]
    found = rank(pools, tmp_path, {}, "own_rerankers:raises")
    assert sorted(found.scores) == ["q0", "q1", "q3"]
    failure = found.failures["q2"]
    assert failure.status == "failed"
    assert failure.reason.startswith("RuntimeError: no idea of it xxx")
    assert len(failure.reason) == 200
    assert found.asker.disabled == {}
    assert len(sys.modules["own_rerankers"].calls) == 4


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("few", "1 scores for 4 documents"),
        ("nothing", "NoneType instead of"),
        ("mapping", "dict instead of scores"),
        ("huge", "a score too large for a floating-point number"),
    ],
)
def test_what_it_returns_must_be_scores(tmp_path, name, says):
    failure = rank([POOL], tmp_path, {}, f"own_rerankers:{name}").failures["q1"]
    assert failure.status == "invalid"
    assert says in failure.reason


def test_one_that_hangs_is_left(tmp_path):
    failure = rank([POOL], tmp_path, {}, "own_rerankers:hangs", timeout=0.6).failures["q1"]
    assert (failure.status, failure.reason) == ("failed", "TimeoutError")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lazily", "ZeroDivisionError: division by zero"),
        ("exits", "SystemExit: cannot go on"),
        ("exits_too", "SystemExit: cannot go on"),
        ("cancels", "CancelledError: by no one"),
        ("stops", "RuntimeError: StopIteration"),
        ("interrupts", "RuntimeError: KeyboardInterrupt"),
    ],
)
def test_whatever_it_does_is_a_failure_and_the_loop_lives(tmp_path, name, says):
    pools = [pool(query_id=f"q{i}") for i in range(3)]
    found = rank(pools, tmp_path, {}, f"own_rerankers:{name}", timeout=20)
    assert {failure.reason for failure in found.failures.values()} == {says}
    assert {failure.status for failure in found.failures.values()} == {"failed"}
    assert (len(found.failures), found.asker.disabled, found.asker.stopped) == (3, {}, "")


def test_what_it_raises_tells_no_key_and_no_document(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-a-secret-for-tests")
    failure = rank([POOL], tmp_path / "key", {}, "own_rerankers:leaks").failures["q1"]
    assert failure.reason == "RuntimeError: 401 for https://h/v1?key=[key]"
    failure = rank([POOL], tmp_path / "text", {}, "own_rerankers:repeats").failures["q1"]
    assert failure.reason == "ValueError: cannot read [text]"


def test_plain_functions_are_called_one_at_a_time_whatever_waits(tmp_path):
    name, pools = "own_rerankers:alone", [pool(query_id=f"q{i}") for i in range(12)]
    fields = {"limits": {name: {"concurrency": 64}}, "timeout": 0.8}  # twelve take 1.2 s
    found = rank(pools, tmp_path, {}, name, **fields)
    assert (len(found.scores), found.failures) == (12, {})


def test_one_that_is_stuck_does_not_hold_up_the_others(tmp_path):
    pools = [pool(query_id=f"q{i}") for i in range(3)]
    found = rank(pools, tmp_path, {}, "own_rerankers:stuck", timeout=0.7)
    assert [failure.reason for failure in found.failures.values()] == ["TimeoutError"]
    assert len(found.scores) == 2


def test_a_class_that_only_its_actor_can_make_ends_the_arm(tmp_path):
    name = "own_rerankers:Broken"
    found = rank([POOL], tmp_path, {}, name)
    assert (
        "cannot be made: ValueError: no such weights"
        in found.asker.disabled[f"custom:{name}"].message
    )


def test_scores_are_kept_only_for_one_that_tells_its_version(tmp_path):
    for name, rows in (("Mine", 2), ("Versioned", 1)):
        out = tmp_path / name
        rank([POOL], out, {}, f"own_rerankers:{name}")
        rank([POOL], out, {}, f"own_rerankers:{name}")  # within a run nothing is asked twice
        again = rank([POOL], out, {}, f"own_rerankers:{name}", run_id="again")
        assert len(again.books) == rows
        assert again.scores == {"q1": WORTHS}


def test_many_queries_are_in_one_at_once():
    """Each waits until three are in it."""
    from zelo_ray.rerankers import custom

    met = []

    async def meets(query, documents):
        met.append(query)
        while len(met) < 3:
            await asyncio.sleep(0.01)
        return [0.0]

    async def run():
        provider = custom.Custom(Settings(timeout=10))
        judge = judge_of("custom:m:f", arguments={})
        provider._made[judge.name] = meets
        sent = []
        for i in range(3):
            fields = {"response_model": Scores, "query": str(i), "documents": (Document("d", "t"),)}
            sent.append(provider.send(request_of(judge=judge, **fields)))
        answers = await asyncio.gather(*sent)
        await provider.aclose()
        return answers

    assert [answer.status for answer in asyncio.run(run())] == ["ok"] * 3
    assert sorted(met) == ["0", "1", "2"]


def test_the_contract_is_for_all_to_see():
    class Mine(zelo_ray.Reranker):
        async def score(self, query, documents):
            return [float(len(text)) for text in documents]

    assert asyncio.run(Mine().score("q", ["a", "bb"])) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ([1, 2.5], ""),
        ((1, 2), ""),
        ([1], "1 scores for 2 documents"),
        ([1, None], "1 of 2 documents without a score"),
        ([1, float("inf")], "a score of inf"),
        ([1, "2"], "a score of type str"),
        ([[1], [2]], "a score of type list"),
        (7, "int instead of scores"),
        ("12", "str instead of scores"),
        (b"12", "bytes instead of scores"),
        ({0: 1.0, 1: 2.0}, "dict instead of scores"),
        ({1.0, 2.0}, "set instead of scores"),
        ({0: 1.0, 1: 2.0}.values(), ""),
        ([1, 10**400], "too large for a floating-point number"),
    ],
)
def test_scores_are_numbers_one_for_each_document(scores, says):
    answer = answer_of(scores, 2)
    assert answer.status == ("invalid" if says else "ok")
    assert says in answer.reason
    if not says:
        assert json.loads(answer.text)["scores"] == [float(score) for score in scores]


# Lexical


def test_lexical_rerankers_score_a_whole_pool(tmp_path):
    texts = (
        "Our bakery opens at seven.",
        "To reset the garage door opener, hold its learn button.",
        "The garage door is red.",
        "",
    )
    documents = tuple(Document(f"d{i}", text) for i, text in enumerate(texts))
    question = type(POOL)("q1", "How do I reset my garage door opener?", documents)
    for name in ("bm25", "chargram", "likelihood"):
        found = rank([question], tmp_path / name, {}, name)
        best = sorted(found.scores["q1"], key=lambda doc_id: -found.scores["q1"][doc_id])
        assert best[:2] == ["d1", "d2"]
        assert found.books[0].dollars == 0


def test_lexical_judges_answer_nothing_else():
    from zelo_ray.protocols.listwise import Order

    request = request_of(
        judge=judge_of("offline:bm25"), response_model=Order, documents=(Document("d", "a door"),)
    )
    with pytest.raises(Refused):
        asyncio.run(load_provider("offline").connect(Settings()).send(request))


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("500", "ValueError: 500"),
        ("call 1 failed for how do I reset my password", "ValueError: call 1 failed for [text]"),
        ("it begins: how do I reset my passw", "ValueError"),
    ],
)
def test_an_error_tells_what_it_can_without_the_texts(message, told):
    texts = ("how do I reset my password", "Error 500 is shown.")
    assert failed_answer(ValueError(message), texts).reason == told
