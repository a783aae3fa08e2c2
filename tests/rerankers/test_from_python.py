"""Rerankers that a caller hands over: how they are found where they are asked."""

import threading

import pytest

from tests.helpers.builders import request_of
from zelo_ray.command_options import BakeoffOptions
from zelo_ray.errors import OptionError
from zelo_ray.memory import store_rerankers
from zelo_ray.rerankers import build_rankers
from zelo_ray.rerankers.custom import load_reranker


def judges(rerankers, out, run_id="run"):
    named = store_rerankers(rerankers, str(out))
    options = BakeoffOptions(truth="t", rerankers=named, out=str(out))
    return [arm.judge for arm in build_rankers(options, {}, run_id=run_id)]


def local(query, documents):
    return [1.0 for _ in documents]


def test_what_is_handed_over_is_found_where_it_is_asked(tmp_path):
    class Mine:
        version = 7

        def score(self, query, documents):
            return [2.0 for _ in documents]

    plain, by_version, again = judges([local, Mine, "bm25"], tmp_path)
    assert plain.name == "custom:local"
    assert plain.options["version"] == "run run"
    assert by_version.options["version"] == "7"
    assert load_reranker(plain)("q", ["d"]) == [1.0]
    assert load_reranker(by_version)().score("q", ["d"]) == [2.0]
    assert again.name == "offline:bm25"


def test_only_with_a_version_a_later_run_asks_the_same(tmp_path):
    def mine(query, documents):
        return [3.0 for _ in documents]

    keys = {}
    for version in ("1", "2", None):
        mine.version = version
        found = [judges([mine], tmp_path, run_id)[0] for run_id in ("a", "a", "b")]
        keys[version] = [request_of(judge=judge).key for judge in found]
        assert keys[version][0] == keys[version][1]
    assert {version: len({*each}) for version, each in keys.items()} == {"1": 1, "2": 1, None: 2}
    assert len({key for each in keys.values() for key in each}) == 4


def test_where_it_lies_is_no_part_of_what_is_asked(tmp_path):
    here, there = (judges([local], tmp_path / name)[0] for name in ("a", "b"))
    assert here.options["place"] != there.options["place"]
    assert request_of(judge=here).key == request_of(judge=there).key


def test_names_are_given_by_a_mapping(tmp_path):
    found = store_rerankers({"one": local, "two": "bm25", "a:b": local}, str(tmp_path))
    assert [text.partition("=")[0] for text in found] == ["one", "two", "a_b"]
    assert store_rerankers("bm25", str(tmp_path)) == ["bm25"]
    (alone,) = store_rerankers(local, str(tmp_path))
    assert alone.startswith(f"local=custom:{tmp_path}/input/local-")


def test_what_cannot_be_sent_is_told(tmp_path):
    lock = threading.Lock()

    def held(query, documents):
        return lock

    with pytest.raises(OptionError, match="held cannot be sent to another process"):
        store_rerankers([held], str(tmp_path))
