"""Labels of people, read from a sample of ``label`` and from tables of anybody."""

import pytest

from tests.files.reading import labels, read_judgments, read_labels, refused, write_file
from tests.helpers.labelling import AT, sample
from zelo_ray.errors import InputError


def rows_of(found):
    """The document, person, grade and probability of each label."""
    return [tuple(row.values())[1:] for row in found.rows.to_pylist()]


def test_the_first_answers_in_turn_are_the_sample(tmp_path):
    answers = [("ann", "d1", 2.0), ("bob", "d0", 0.0), ("ann", "d3", 1.0), ("ann", "d0", 1.0)]
    place = sample(tmp_path, [0.4, 0.1, 0.3, 0.2, 0.2], [2.0, 1.0, 0.5, 0.4, 0.1], answers)
    found = read_labels(place)
    assert rows_of(found) == [
        ("d0", "ann", 1.0, 0.8),
        ("d0", "bob", 0.0, 0.8),
        ("d1", "ann", 2.0, 0.2),
    ]
    assert (found.is_random_sample, found.out_of_turn, found.cannot_say) == (True, 1, 0)
    assert found.highest_grade == 3.0
    assert found.frame.to_pylist()[4] == {"query_id": "q", "doc_id": "d4", "size": 0.2}


BOTH = [("ann", "d0", 3.0), ("ann", "d1", 0.0)]
UNSURE = [("ann", "d0", 3.0), ("ann", "d1", None), ("ann", "d2", 1.0), ("bob", "d2", None)]
CHANCES = {
    "surely drawn": (([0.9, 0.1, 0.2], [2.0, 1.0, 0.5]), BOTH, [1.0, 0.2]),
    "all, at the end": (
        ([0.9, 0.1, 0.2], [2.0, 1.0, 0.5]),
        [*BOTH, ("b", "d2", 1)],
        [1.0, 1.0, 1.0],
    ),
    "who cannot say": (([0.2] * 4, [2.0, 1.0, 0.8, 0.4]), UNSURE, [0.5 * 2 / 3] * 2),
}


@pytest.mark.parametrize("case", CHANCES)
def test_labels_have_the_chances_of_their_draw(tmp_path, case):
    (sizes, priorities), answers, chances = CHANCES[case]
    found = read_labels(sample(tmp_path, sizes, priorities, answers))
    assert found.rows["probability"].to_pylist() == pytest.approx(chances)
    assert (found.cannot_say, found.out_of_turn) == (int(answers is UNSURE), 0)


def test_the_last_answer_counts_unless_undone():
    def answer(person, value=None, **more):
        return labels.PersonsAnswer(AT, person, ("q", "d0"), value, **more)

    said = [answer("ann", 1.0), answer("ann", 2.0), answer("bob", 3.0), answer("bob", undo=True)]
    found = labels.current_answers(said)
    assert {person: each.value for person, each in found["q", "d0"].items()} == {"ann": 2.0}
    undone = [*said, answer("ann", undo=True)]
    assert labels.current_answers(undone) == {}  # as the page shows it: open
    again = labels.current_answers([*undone, answer("ann", 0.0)])
    assert again["q", "d0"]["ann"].value == 0.0


def test_a_torn_last_line_is_left_out(tmp_path):
    file = tmp_path / "answers.jsonl"
    good = labels.PersonsAnswer(AT, "ann", ("q", "d0"), 2.0).to_json_line()
    for torn in (b'{"at": "2026', b"\0\0\0", good.replace(b"2.0", b"true")):
        file.write_bytes(good + torn)
        answers, size = labels.read_answers(str(file))
        assert ([each.value for each in answers], size) == ([2.0], len(good))
    file.write_bytes(good + b'{"at": 1}\n' + good)
    with pytest.raises(InputError, match=r"answers\.jsonl:2: is not a valid answer"):
        labels.read_answers(str(file))


@pytest.mark.parametrize("separator", ",;\t")
def test_a_table_is_labels_whatever_parts_its_columns(tmp_path, separator):
    lines = ["note,doc_id,query_id,relevance,person,probability"]
    lines += ['"a b",7,q,2,ann,.5', ",8,q,,ann,", ",7,q,1,bob,.5"]
    text = "\ufeff" + "\r\n".join(lines).replace(",", separator)
    found = read_labels(write_file(tmp_path / "people.csv", text))
    assert rows_of(found) == [("7", "ann", 2.0, 0.5), ("7", "bob", 1.0, 0.5)]
    assert (found.is_random_sample, found.cannot_say, found.highest_grade) == (True, 1, 2.0)


def test_agreement_takes_every_grade_that_stands(tmp_path):
    """Also those that count in no correction, since the first document is still open."""
    answers = [("ann", "d1", 2.0), ("bob", "d1", 1.0), ("ann", "d2", None)]
    place = sample(tmp_path / "labels", [0.2] * 3, [2.0, 1.0, 0.8], answers)
    found = read_judgments(place, "human")
    rows = [tuple(row.values()) for row in found.table.to_pylist()]
    assert rows == [("q", "d1", "ann", 2.0), ("q", "d1", "bob", 1.0)]
    assert found.missing == 1
    with refused("holds no grade of a person"):
        read_judgments(sample(tmp_path / "none", [0.2], [2.0], [("ann", "d0", None)]), "human")
