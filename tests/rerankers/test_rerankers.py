"""Who takes part in a bake-off: names, options, keys; rerankers of the user's own; lexical ones."""

import json
import sys

import numpy as np
import pytest

from tests.fakes.rerank import pool, rank
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.errors import OptionError, PanelError
from zelo_ray.options import load_options
from zelo_ray.providers import load_provider
from zelo_ray.rerankers import BakeoffRanker, asking_options, build_rankers
from zelo_ray.rerankers.answers import answer_of, failed_answer

KEYS = {f"{name}_API_KEY": "k" for name in ("CO", "OPENAI", "JINA", "VOYAGE", "ZEROENTROPY")}
POOL, THREE = pool(), [pool(query_id=f"q{i}") for i in range(3)]
WORTHS = {"d0": 0.5, "d1": 3.0, "d2": 1.25, "d3": -2.0}
OWN = """
import asyncio, os, sys, threading, time
import aiohttp
import numpy as np
from tests.fakes.rerank import worth
from zelo_ray import Reranker

class Mine(Reranker):
    def __init__(self, scale=1.0): self.scale = scale
    async def score(self, query, documents): return [self.scale * worth(d) for d in documents]
class Versioned(Mine): version = 3
class Plain:
    def score(self, q, texts): return np.array([*map(worth, texts)], dtype=np.float32)
class Called:
    async def __call__(self, query, documents): return [*map(worth, documents)]
class Client:
    def __init__(self): self.session = aiohttp.ClientSession()
    async def score(self, query, documents):
        await self.session.close()
        return [*map(worth, documents)]
class Broken:
    def __init__(self): raise ValueError("no such weights")
    def score(self, query, documents): return []
class Scoreless: pass
class Odd:
    def score(self, question, documents, other): return []

number, made, calls, busy = 7, Mine(), [], threading.Lock()
def function(query, documents, scale=1.0): return [scale * worth(text) for text in documents]
async def asynchronous(query, documents): return tuple(map(worth, documents))
def decorated(query, documents): return asynchronous(query, documents)
def in_order(query, documents): return map(worth, documents)
async def raises(query, documents):
    if "q1" in query: raise RuntimeError("no idea\\nof it " + "x" * 500)
    return [0.0] * len(documents)
def few(query, documents): return [0.0]
def hangs(query, documents): return asyncio.sleep(60)
def stuck(query, documents):
    calls.append(query)
    time.sleep(2 if len(calls) == 1 else 0)
    return [0.0] * len(documents)
def alone(query, documents):
    if not busy.acquire(blocking=False): raise RuntimeError("two at once")
    time.sleep(0.1)
    busy.release()
    return [0.0] * len(documents)
def lazily(query, documents): return (1 / 0 for text in documents)
def exits(query, documents): sys.exit("cannot go on")
async def exits_too(query, documents): sys.exit("cannot go on")
async def cancels(query, documents): raise asyncio.CancelledError("by no one")
def stops(query, documents): return [next(iter(()))]
def interrupts(query, documents): raise KeyboardInterrupt
def leaks(query, documents): raise RuntimeError("401 for h?key=" + os.environ["SOME_API_KEY"])
"""


@pytest.fixture(autouse=True)
def _workplace(tmp_path, monkeypatch):
    """A folder with a module of the user's, where the job is started."""
    folder = tmp_path / "job"
    (folder / "deep").mkdir(parents=True)
    for name in ("own_rerankers.py", "deep/more.py"):
        (folder / name).write_text(OWN)
    (folder / "script.py").write_text("import sys\nsys.exit('a usage line')")
    (folder / "wave.py").write_text("score = 7")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    yield
    for name in ("own_rerankers", "reranker_more", "wave"):
        sys.modules.pop(name, None)


def options_of(*specs, **fields):
    return BakeoffOptions(**{"truth": "t", "out": "o", "rerankers": specs, **fields})


def arms(*specs, environ=KEYS, **fields):
    return build_rankers(options_of(*specs, **fields), environ, run_id="run")


def refused(*specs, **fields):
    with pytest.raises(PanelError) as caught:
        arms(*specs, **fields)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def own(name, out, pools=(POOL,), **fields):
    return rank(pools, out, {}, f"own_rerankers:{name}", **fields)


def test_a_name_says_who_is_asked_and_how():
    names = """bm25 offline:bm25
        cohere cohere:rerank-v5.0-pro
        rerank:m@http://h:8000/v1 rerank:m@http://h:8000/v1
        listwise:openai:q@http://h/v1 openai:q@http://h/v1
        pointwise:openai openai:gpt-6-luna
        own_rerankers:Mine custom:own_rerankers:Mine
        custom:own_rerankers:Versioned custom:own_rerankers:Versioned
        deep/more.py:Mine custom:deep/more.py:Mine"""
    judges = dict(line.split() for line in names.splitlines())
    for arm in arms(*judges):
        assert arm.judge.name == judges[arm.name]
        way = arm.name.partition(":")[0]
        assert arm.protocol == (way if way in ("listwise", "pointwise") else "rerank")
    assert arms("original") == (BakeoffRanker("original", "original", None),)
    options = {"with url": {"documents": 9}}
    one, two = arms("a=cohere:m", "with url=cohere:m", reranker_options=options)
    assert (one.name, two.name) == ("a", "with url")
    assert one.judge.name == two.judge.name


def test_what_is_no_reranker_is_refused():
    refusals = """bm52 -> did you mean 'bm25'
        cohre:rerank-v4 -> No module named 'cohre'
        bm25 bm25 -> named twice
        a=bm25 a=original -> named twice
        a=bm25 b=bm25 -> with the same options
        openai:gpt-6-luna -> listwise:openai:gpt-6-luna
        listwise:cohere:m -> a language model
        offline:tfidf -> bm25
        cross-encoder -> cross-encoder:MODEL
        rerank:m -> rerank:MODEL@http://host
        cohere:m@http://key:word@h -> no key in a URL
        rerank:m@http://h/v1?api-key=1 -> before any ?
        own_rerankers:No -> no attribute 'No'
        deep/none.py:Mine -> FileNotFoundError
        script:score -> SystemExit
        own_rerankers:Scoreless -> no score
        own_rerankers:number -> no score
        own_rerankers:Odd -> does not accept"""
    for specs, word in (line.strip().split(" -> ") for line in refusals.splitlines()):
        assert word in refused(*specs.split())
    assert "set CO_API_KEY" in refused("cohere:m", environ={})
    assert "api-key" not in refused("rerank:m@http://h/v1?api-key=1")
    for spec in ("cohere:m", "listwise:openai:m"):
        assert "two words" not in refused(spec, environ=dict.fromkeys(KEYS, "two words"))
    with pytest.raises(PanelError, match="has no attribute"):  # wave is no module of the library's
        arms("wave:score")


def test_options_are_by_the_name_of_the_arm():
    fields = {
        "reranker_options": {"a": {"documents": 10}, "b": {"max_output_tokens": 99}},
        "limits": {"a": {"rpm": 5}},
        "prices": {"b": {"input": 1, "output": 2}, "a": {"search": 2.5}},
        "api_key_env": {"a": "MINE"},
        "num_gpus": {"b": 0.5},
    }
    same = {"seed": 7, "document_limit": 9, "max_usd": 3.0, "out": "o"}
    options = options_of("a=cohere:m", "b=listwise:openai:q", **fields, **same)
    one, two = build_rankers(options, {"MINE": "k", **KEYS}, run_id="run")
    assert one.judge.options == {**load_provider("cohere").options, "documents": 10}
    assert two.judge.options == {**load_provider("openai").options, "max_output_tokens": 99}
    asked = asking_options(one, options)
    assert {name: getattr(asked, name) for name in same} == same
    assert (asked.protocol, asked.judges) == ("rerank", ("cohere:m",))
    assert (asked.limits["cohere:m"].rpm, asked.prices["cohere:m"].search) == (5, 2.5)
    assert asked.api_key_env == {"cohere:m": "MINE"}
    asked = asking_options(two, options)
    assert (list(asked.prices), asked.limits) == (["openai:q"], {})
    for field, given in fields.items():  # of a stranger
        with pytest.raises(PanelError, match=rf"{field}: .*'bm52'.*did you mean 'bm25'"):
            arms("bm25", **{field: {"bm52": next(iter(given.values()))}})


def test_options_that_cannot_be_are_refused():
    rows = [
        ("cohere", {"documnets": 5}, "did you mean 'documents'"),
        ("cohere", {"documents": 0}, "documents: must be greater than"),
        ("cohere", {"documents": True}, "documents: must be a valid integer"),
        ("cohere", {"max_tokens_per_doc": "many"}, "max_tokens_per_doc: must be"),
        ("voyage", {"truncation": "no"}, "truncation: must be a valid boolean"),
        ("zeroentropy", {"latency": "quick"}, "latency: must be 'fast' or 'slow'"),
        ("rerank:m@http://h", {"extra_body": 7}, "extra_body takes fields"),
        ("listwise:openai", {"temprature": 0}, "unknown option 'temprature'"),
        ("bm25", {"k1": 1.2}, "unknown option 'k1'"),
        ("original", {"any": 1}, "has no options"),
        ("own_rerankers:Mine", {"scael": 2}, "'scael'"),
        ("own_rerankers:Mine", {"scale": {1, 2}}, "not JSON serializable"),
        ("own_rerankers:function", {"query": "q"}, "'query'"),
    ]
    for spec, options, word in rows:
        assert word in refused(f"a={spec}", reranker_options={"a": options})


def test_a_budget_needs_prices_and_limits():
    assert "that of a is unknown" in refused("a=jina:m", "bm25", max_usd=1.0)
    assert arms("a=jina:m", max_usd=1.0, prices={"a": {"search": 1.0}})
    assert arms("bm25", "original", "own_rerankers:Mine", max_usd=1.0)
    unlimited = {"a": {"max_output_tokens": None}}
    assert "limit of output" in refused("a=listwise:openai", max_usd=1, reranker_options=unlimited)
    for bad in ({"input": 1}, {"output": 1}, {}, {"batch": 1}):
        with pytest.raises(OptionError, match="is missing"):
            load_options(BakeoffOptions, {"truth": "t", "out": "o", "prices": {"a": bad}})


# Of the user's own


def test_every_way_to_write_one_works(tmp_path):
    ways = ("Mine", "Plain", "Called", "Client", "function", "asynchronous", "made", "decorated")
    for name in (*ways, "in_order"):
        found = own(name, tmp_path / name)
        assert found.scores == {"q1": WORTHS}, name
        assert [row.dollars for row in found.books] == [0]
    assert rank([POOL], tmp_path / "file", {}, "deep/more.py:Mine").scores == {"q1": WORTHS}
    for name in ("Mine", "function"):
        spec, options = f"a=own_rerankers:{name}", {"a": {"scale": -2.0}}
        found = rank([POOL], tmp_path / f"-{name}", {}, spec, reranker_options=options)
        assert found.scores["q1"] == {doc_id: -2 * value for doc_id, value in WORTHS.items()}


def test_whatever_it_does_is_a_failure_of_that_query(tmp_path):
    found = own("raises", tmp_path / "raises", THREE)
    assert sorted(found.scores) == ["q0", "q2"]
    failure = found.failures["q1"]
    assert (failure.status, len(failure.reason)) == ("failed", 200)
    assert failure.reason.startswith("RuntimeError: no idea of it xxx")
    rows = {
        "few": "1 scores for 4 documents",
        "lazily": "ZeroDivisionError: division by zero",
        "exits": "SystemExit: cannot go on",
        "exits_too": "SystemExit: cannot go on",
        "cancels": "CancelledError: by no one",
        "stops": "RuntimeError: StopIteration",
        "interrupts": "RuntimeError: KeyboardInterrupt",
    }
    for name, reason in rows.items():
        found = own(name, tmp_path / name, THREE, timeout=20)
        ends = {(failure.status, failure.reason) for failure in found.failures.values()}
        assert ends == {("invalid" if name == "few" else "failed", reason)}
        assert (len(found.failures), found.asker.disabled, found.asker.stopped) == (3, {}, "")


def test_one_that_hangs_is_left_and_holds_up_no_other(tmp_path):
    failure = own("hangs", tmp_path / "hangs", timeout=0.6).failures["q1"]
    assert (failure.status, failure.reason) == ("failed", "TimeoutError")
    found = own("stuck", tmp_path / "stuck", THREE, timeout=0.7)
    assert [failure.reason for failure in found.failures.values()] == ["TimeoutError"]
    assert len(found.scores) == 2


def test_what_it_raises_tells_no_key_and_no_document(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "sk-a-secret-for-tests")
    reason = own("leaks", tmp_path).failures["q1"].reason
    assert reason == "RuntimeError: 401 for h?key=[key]"
    texts = ("how do I reset my password", "Error 500 is shown.")
    for message, told in {
        "500": "ValueError: 500",
        f"call 1 failed for {texts[0]}": "ValueError: call 1 failed for [text]",
        "it begins: how do I reset my passw": "ValueError",
    }.items():
        assert failed_answer(ValueError(message), texts).reason == told


def test_scores_are_kept_only_for_one_that_tells_its_version(tmp_path):
    for name, rows in (("Mine", 2), ("Versioned", 1)):
        for run in ("run", "run", "again"):  # within a run nothing is asked twice
            found = own(name, tmp_path / name, run_id=run)
            assert found.scores == {"q1": WORTHS}
        assert len(found.books) == rows


def test_scores_are_numbers_one_for_each_document():
    for scores in ([1, 2.5], (1, 2), {0: 1.0, 1: 2.0}.values(), np.array([1, 2])):
        answer = answer_of(scores, 2)
        assert answer.status == "ok"
        assert json.loads(answer.text)["scores"] == [float(score) for score in scores]
    wrong = ([1], [1, None], [1, float("inf")], [1, "2"], [[1], [2]], [1, 10**400], 7, None)
    for scores in (*wrong, "12", b"12", {0: 1.0, 1: 2.0}, {1.0, 2.0}):
        assert answer_of(scores, 2).status == "invalid", scores
