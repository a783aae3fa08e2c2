"""How inputs are told apart by what stands in them, where that is odd, torn or huge."""


import pytest

from tests.test_inputs import POOLS, lines, put
from zelo_ray.errors import InputError
from zelo_ray.formats.input import Asked, Brought, bring


def found_in(tmp_path, text, name="in.jsonl", **asked):
    """A file of that text, and what `bring` makes of it."""
    place = put(tmp_path / name, text)
    return place, bring([place], str(tmp_path / "out"), Asked(**asked))


def refused(tmp_path, text, name="in.jsonl", **asked):
    """The message of the error that a text is met with."""
    with pytest.raises(InputError) as told:
        found_in(tmp_path, text, name, **asked)
    return str(told.value)


@pytest.mark.parametrize(
    "more",
    [
        {"conversation": [{"role": "user"}]},
        {"conversation": []},
        {"positive": ["a"], "negative": ["b"]},
    ],
)
def test_a_pool_is_a_pool_whatever_other_keys_it_has(tmp_path, more):
    text = lines([POOLS[0] | more, POOLS[1]])
    for name in ("in.jsonl", "in.jsonl.gz"):
        place, found = found_in(tmp_path, text, name)
        assert found == Brought((place,))


@pytest.mark.parametrize(("value", "kind"), [("hello", "str"), (5, "int"), (True, "bool")])
def test_documents_that_are_no_list_are_refused_with_their_line(tmp_path, value, kind):
    rows = [{"query": "a", "documents": ["x", "y"]}, {"query": "b", "documents": value}]
    told = refused(tmp_path, lines(rows))
    assert told.startswith(f"{tmp_path}/in.jsonl:2: the documents are a {kind}; write a list")


@pytest.mark.parametrize("value", ["foo", 5, ["foo"]])
def test_metadata_that_is_no_object_is_refused_with_its_line(tmp_path, value):
    rows = [{"query": "a", "documents": ["x"]}]
    rows += [{"query": "b", "documents": [{"id": "1", "text": "x", "metadata": value}]}]
    assert f"{tmp_path}/in.jsonl:2: the metadata of a document is a" in refused(
        tmp_path, lines(rows)
    )
