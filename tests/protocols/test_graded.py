"""The graded protocol: what is asked, in what words, and how replies are read."""

import json
import math
import re
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.helpers import builders
from tests.helpers.builders import Shelf, judge_of, pool_of, reply_to, sealed
from zelo_ray.protocols import advance, graded
from zelo_ray.protocols import grading as sheets
from zelo_ray.records import Document, Failure, Grade, Pool

options_of = partial(builders.options_of, protocol="graded")

GOLDEN = Path(__file__).parents[1] / "golden"
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


PARTS = ["1. Task", "2. Grades", "3. Steps", "4. Answer", "5. Examples", "6. Query and document"]


def rendered():
    document = Document("d0", "Hold the button for ten seconds.\nThen wait.", {"source": "faq"})
    pool = Pool("q1", "how do I reset $it?", (document,))
    (request,) = asked(pool, PANEL[:1], show_metadata=("source",))
    schema = json.dumps(request.response_model.model_json_schema(), indent=1)
    return f"{request.system}\n{request.user}\n\n# 7. Schema\n\n{schema}\n"


def test_the_prompt_is_the_golden_one():
    """Every change of it asks and pays for everything anew."""
    golden = (GOLDEN / f"{sheets.PROMPT}.txt").read_text(encoding="utf-8")
    assert parts(rendered()) == parts(golden)
    assert list(parts(rendered()))[:6] == PARTS


# Examples


def shown_order(request):
    text = f"{request.system}\n{request.user}"
    return tuple(map(int, re.findall(r"^Grade: (\d)$", text, re.MULTILINE)))


def test_examples_are_shuffled_and_no_grade_stands_anywhere_more_often():
    """For each query, whose documents share the text."""
    each = [asked(pool_of(range(2), f"q{i}"), PANEL[:1]) for i in range(400)]
    assert all(shown_order(one) == shown_order(other) for one, other in each)
    orders = [shown_order(one) for one, _ in each]
    assert len(set(orders)) == 24
    for place in range(4):
        for count in Counter(order[place] for order in orders).values():
            assert abs(count - 100) < 4.5 * math.sqrt(400 * 0.25 * 0.75)


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
    "no rationale to speak of": (said(rationale=""), 2),
    "grade first": (json.dumps(dict(reversed(SAID.items()))), 2),  # an object has no order
    "two grades": (said()[:-1] + ', "grade": 1}', "a field is given twice, with different values"),
    "a grade twice": (said()[:-1] + ', "grade": 2}', 2),
    "grade in quotes": (said(grade="2"), 2),
    "grade 2.0 in quotes": (said(grade="2.0"), "grade: must be a valid integer"),
    "grade in words": (said(grade="relevant"), "grade: must be a valid integer"),
    "grade true": (said(grade=True), "grade: must be a valid integer"),
    "grade missing": (said().replace(', "grade": 2', ""), "grade: is missing"),
    "grade in digits of another script": (
        said().replace("2}", "\N{FULLWIDTH DIGIT TWO}}"),
        "Invalid JSON",
    ),
    "rationale missing": (json.dumps({k: SAID[k] for k in SAID if k != "rationale"}), "rationale"),
    "facets as one text": (said(facets_covered="how"), "facets_covered: "),
    "a further field": (said(confidence=0.9), "confidence: is unknown"),
    "prose": ("The document answers in part. Grade: 2", "Invalid JSON"),
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
