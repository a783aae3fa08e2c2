"""The graded protocol: what is asked, in what words, and how replies are read."""

import json
import re
from collections import Counter
from functools import partial

import pytest

from tests.helpers import builders
from tests.helpers.builders import Shelf, judge_of, pool_of, reply_to, sealed
from zelo_ray.protocols import advance, graded
from zelo_ray.records import Failure, Grade

options_of = partial(builders.options_of, protocol="graded")

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))
SAID = {"facets_covered": ["how"], "facets_missing": [], "rationale": "because", "grade": 2}


def asked(pool, panel=PANEL, salt="a ledger's own", **fields):
    return sealed(advance(graded.rounds(pool, panel, options_of(**fields)), Shelf()).missing, salt)


def said(**fields):
    return json.dumps(SAID | fields)


def read(text, status="ok", **fields):
    """How one reply is read."""
    rounds = graded.rounds(pool_of((1,)), PANEL[:1], options_of())
    (request,) = next(rounds)
    with pytest.raises(StopIteration) as ended:
        rounds.send([reply_to(request.key, text, status, **fields)])
    return ended.value.value[0]


# What is asked


def parts(text):
    """The parts of a prompt by their headings, in order."""
    found = re.split(r"^# (\d\. .*)\n", text, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


# Examples


def test_all_documents_of_a_query_are_graded_beside_one_of_several_sets():
    sets = "---\n".join(f"query: set {i}\ngrades:\n{FOUR}" for i in range(2))
    drawn = Counter()
    for i in range(40):
        requests = asked(pool_of(range(4), f"q{i}"), repeats=2, anchors=sets)
        (one,) = {re.search(r"^Query of the examples: (.*)", r.user, re.M)[1] for r in requests}
        drawn[one] += 1
    assert set(drawn) == {"set 0", "set 1"}
    assert min(drawn.values()) > 5


FOUR = "".join(f"  {g}: {{document: text {g}, reason: because {g}}}\n" for g in range(4))


# What a reply means


READINGS = {
    "as asked": (said(), 2),
    "grade first": (json.dumps(dict(reversed(SAID.items()))), 2),  # an object has no order
    "two grades": (said()[:-1] + ', "grade": 1}', "a field is given twice, with different values"),
    "a grade twice": (said()[:-1] + ', "grade": 2}', 2),
    "grade in quotes": (said(grade="2"), 2),
    "grade 2.0 in quotes": (said(grade="2.0"), "grade: must be a valid integer"),
    "grade in words": (said(grade="relevant"), "grade: must be a valid integer"),
    "grade true": (said(grade=True), "grade: must be a valid integer"),
    "full width": (said().replace("2}", "\N{FULLWIDTH DIGIT TWO}}"), "Invalid JSON"),
}


def test_the_strict_reading():
    for name, (text, expected) in READINGS.items():
        found = read(text)
        assert found.judge == "openai:one", name
        if isinstance(expected, int):
            assert (type(found), type(found.grade), found.grade) == (Grade, int, expected)
        else:
            assert (type(found), found.status) == (Failure, "invalid")
            assert expected in found.reason
            assert len(found.reason) < 200
            assert found.doc_ids == ("d0",)
