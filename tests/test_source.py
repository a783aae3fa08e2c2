"""Whether a reranker of a caller's has changed, and how one that is handed over is found again."""

import copyreg
import sys
import threading
import types

import pytest

from tests.builders import request_of
from zelo_ray.api.rerankers import named_rerankers
from zelo_ray.errors import OptionError
from zelo_ray.options import BakeoffOptions
from zelo_ray.rerankers import arms_of
from zelo_ray.rerankers.custom import found_at
from zelo_ray.rerankers.source import source_hash

CODE = """
import json
WORDS = {words}

def helper(text):
    return len(text) {more}

def plain(query, documents, power={power}):
    return [helper(text) ** power for text in documents]

def make(factor):
    return lambda query, documents: [factor for _ in documents]

class Mine:
    {version}
    def __init__(self, factor=1.0):
        self.factor = factor
    def score(self, query, documents):
        return [self.factor * len(WORDS) for _ in documents]

class Child(Mine):
    pass
"""
PLAIN = {"words": "['a']", "more": "+ 1", "power": 1, "version": ""}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Makes a module, as a notebook has one: from its text, and a new one each time."""
    number = iter(range(100))

    def made(**changed):
        path = tmp_path / f"code{next(number)}.py"
        path.write_text(CODE.format(**{**PLAIN, **changed}))
        found = types.ModuleType("mine")
        monkeypatch.setitem(sys.modules, "mine", found)
        exec(compile(path.read_text(), str(path), "exec"), found.__dict__)
        return found

    return made


@pytest.mark.parametrize(
    ("of", "changed"),
    [
        (lambda m: m.plain, {"more": "+ 2"}),
        (lambda m: m.plain, {"power": 2}),
        (lambda m: m.Mine, {"words": "['b']"}),
        (lambda m: m.Child, {"words": "['b']"}),
        (lambda m: m.Mine(), {"version": "version = 2"}),
        (lambda m: m.Mine().score, {"words": "['b']"}),
    ],
)
def test_a_change_is_seen_and_nothing_else(module, of, changed):
    before = source_hash(of(module()))
    assert source_hash(of(module())) == before
    assert source_hash(of(module(**changed))) != before


def test_what_an_object_or_a_closure_holds_counts(module):
    code = module()
    assert source_hash(code.Mine(1.0)) == source_hash(code.Mine(1.0))
    assert source_hash(code.Mine(1.0)) != source_hash(code.Mine(2.0))
    assert source_hash(code.make(1)) == source_hash(code.make(1))
    assert source_hash(code.make(1)) != source_hash(code.make(2))


def test_what_cannot_be_written_down_counts_as_changed(module):
    holder = module().Mine(types.SimpleNamespace(it=(n for n in [1])))
    assert source_hash(holder) != source_hash(holder)


def judges(rerankers, out):
    named = named_rerankers(rerankers, str(out))
    options = BakeoffOptions(truth="t", rerankers=named, out=str(out))
    return [arm.judge for arm in arms_of(options, {}, run_id="run")]


def local(query, documents):
    return [1.0 for _ in documents]


def test_what_is_handed_over_is_found_where_it_is_asked(tmp_path):
    class Mine:
        version = 7

        def score(self, query, documents):
            return [2.0 for _ in documents]

    plain, by_version, again = judges([local, Mine, "bm25"], tmp_path)
    assert plain.name == "custom:local"
    assert plain.options["version"] == f"source {source_hash(local)}"
    assert by_version.options["version"] == "7"
    assert found_at(plain)("q", ["d"]) == [1.0]
    assert found_at(by_version)().score("q", ["d"]) == [2.0]
    assert again.name == "offline:bm25"


def test_where_it_lies_is_no_part_of_what_is_asked(tmp_path):
    here, there = (judges([local], tmp_path / name)[0] for name in ("a", "b"))
    assert here.options["place"] != there.options["place"]
    assert request_of(judge=here).key == request_of(judge=there).key


def test_names_are_given_by_a_mapping(tmp_path):
    found = named_rerankers({"one": local, "two": "bm25", "a:b": local}, str(tmp_path))
    assert [text.partition("=")[0] for text in found] == ["one", "two", "a_b"]
    assert named_rerankers("bm25", str(tmp_path)) == ("bm25",)
    (alone,) = named_rerankers(local, str(tmp_path))
    assert alone.startswith(f"local=custom:{tmp_path}/input/local-")


def test_what_cannot_be_sent_is_told(tmp_path):
    lock = threading.Lock()

    def held(query, documents):
        return lock

    with pytest.raises(OptionError, match="held cannot be sent to another process"):
        named_rerankers([held], str(tmp_path))


def test_a_class_is_the_same_after_it_was_pickled():
    """Python keeps the names of slots on a class when an object of it is first pickled."""

    class Mine:
        def score(self, query, documents):
            return [len(text) for text in documents]

    before = source_hash(Mine)
    copyreg._slotnames(Mine)
    assert "__slotnames__" in vars(Mine)
    assert source_hash(Mine) == before
