"""Worked examples for grades: those that come along, those of a user or of a query of the input."""

import pyarrow as pa
import pytest

from tests.helpers.builders import options_of
from zelo_ray.errors import OptionError
from zelo_ray.protocols.anchors import load_anchors
from zelo_ray.protocols.shared_error import people_grades

GRADES = "".join(f"  {g}: {{document: text {g}, reason: because {g}}}\n" for g in range(4))
SET = f"query: a question\ngrades:\n{GRADES}"
OF_EVEN = f"query_id: even\n{SET}"


def test_a_text_of_ones_own_is_read():
    (anchor,) = load_anchors(SET)
    assert (anchor.query, anchor.query_id) == ("a question", "")
    assert [anchor.grades[g].document for g in range(4)] == [f"text {g}" for g in range(4)]
    both = load_anchors(f"---\n{SET}---\n{SET.replace('a question', 'another')}")
    assert [each.query for each in both] == ["a question", "another"]
    assert load_anchors(OF_EVEN)[0].query_id == "even"
    shared = SET.replace("{document: text 0, reason", "&any {document: text 0, reason")
    assert load_anchors(shared.replace("document: text 1", "<<: *any, document: text 1")) == (
        anchor,
    )


def test_what_is_wrong_is_refused_with_its_place():
    for text, says in (
        ("webb", "'webb': .* web$"),
        ("missing.yaml", "no such file"),
        ("some\nprose", "set 1: must be a valid dictionary"),
        (SET.replace("  2:", "  1:"), "line 5: 1 is given twice"),
        (SET.replace("text 3", "t, document: u"), "line 6: 'document' is given twice"),
        ("--- \n---", "are empty"),
        ("query: [", "not valid YAML"),
        ("query: q", "set 1: grades: is missing"),
        (SET.replace("a question", "''"), "set 1: query: .* at least 1 character"),
        (SET.replace("  2:", "  4:"), "set 1: grades: no example of grade 2"),
        (SET.replace("  2:", "  two:"), "set 1: grades.*valid integer"),
        (SET + "  4: {document: d, reason: r}", "grade 4 is none of 0, 1, 2, 3"),
        (SET.replace("text 2", "' '"), "set 1: grades.2..document: .* at least 1"),
        (SET.replace("because 0", "b, more: c"), "set 1: grades.0..more: is unknown"),
        (f"{SET}---\nquery: q\ngrades: {{}}", "set 2: grades: no example of grade 0, 1, 2, 3"),
    ):
        with pytest.raises(OptionError, match=says) as caught:
            load_anchors(text)
        assert "\n" not in str(caught.value)


# What a judge sees


# A query of the input whose documents are the examples measures no judge

OWN, USUAL = (options_of(protocol="graded", anchors=text) for text in (OF_EVEN, "web"))


def table(names, rows):
    return pa.table(list(zip(*rows, strict=True)), names=names.split())


def test_people_of_that_query_do_not_set_the_scale():
    people = table("query_id doc_id relevance", [("q1", "d1", 2), ("even", "d1", 3)])
    assert people_grades(people, OWN) == {("q1", "d1"): 2}
    assert people_grades(people, USUAL) == {("q1", "d1"): 2, ("even", "d1"): 3}
