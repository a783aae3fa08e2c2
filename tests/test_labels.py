"""Labels of people, read from a sample of ``label`` and from tables and qrels of anybody."""

import pytest

from tests.labelling import AT, sample
from zelo_ray.errors import InputError
from zelo_ray.files.judges import read_judgments
from zelo_ray.files.labels import PersonsAnswer, current_answers, read_answers, read_labels


def told(labels):
    return [tuple(row.values()) for row in labels.rows.to_pylist()]


def test_the_longest_run_of_answers_by_priority_is_the_sample(tmp_path):
    answers = [("ann", "d1", 2.0), ("bob", "d0", 0.0), ("ann", "d3", 1.0), ("ann", "d0", 1.0)]
    place = sample(tmp_path, [0.4, 0.1, 0.3, 0.2, 0.2], [2.0, 1.0, 0.5, 0.4, 0.1], answers)
    labels = read_labels(place)
    assert told(labels) == [
        ("q", "d0", "ann", 1.0, 0.8),
        ("q", "d0", "bob", 0.0, 0.8),
        ("q", "d1", "ann", 2.0, 0.2),
    ]
    assert (
        labels.is_random_sample,
        labels.out_of_turn,
        labels.cannot_say,
        labels.highest_grade,
    ) == (True, 1, 0, 3.0)
    assert labels.frame.to_pylist()[4] == {"query_id": "q", "doc_id": "d4", "size": 0.2}


def test_a_document_surely_drawn_has_the_chance_one_and_all_have_it_at_the_end(tmp_path):
    both = [("ann", "d0", 3.0), ("ann", "d1", 0.0)]
    labels = read_labels(sample(tmp_path, [0.9, 0.1, 0.2], [2.0, 1.0, 0.5], both))
    assert labels.rows["probability"].to_pylist() == [1.0, 0.2]
    labels = read_labels(
        sample(tmp_path, [0.9, 0.1, 0.2], [2.0, 1.0, 0.5], [*both, ("b", "d2", 1)])
    )
    assert labels.rows["probability"].to_pylist() == [1.0, 1.0, 1.0]


def test_who_cannot_say_lowers_the_chance_of_the_others_and_ends_no_run(tmp_path):
    answers = [("ann", "d0", 3.0), ("ann", "d1", None), ("ann", "d2", 1.0), ("bob", "d2", None)]
    labels = read_labels(sample(tmp_path, [0.2] * 4, [2.0, 1.0, 0.8, 0.4], answers))
    assert [row[1] for row in told(labels)] == ["d0", "d2"]
    assert labels.rows["probability"].to_pylist() == pytest.approx([0.5 * 2 / 3] * 2)
    assert (labels.cannot_say, labels.out_of_turn) == (1, 0)


def test_the_last_answer_of_a_person_counts_and_undoing_takes_it_back(tmp_path):
    said = [
        PersonsAnswer(AT, "ann", ("q", "d0"), 1.0),
        PersonsAnswer(AT, "ann", ("q", "d0"), 2.0),
        PersonsAnswer(AT, "bob", ("q", "d0"), 3.0),
        PersonsAnswer(AT, "bob", ("q", "d0"), undo=True),
        PersonsAnswer(AT, "bob", ("q", "d1"), undo=True),
    ]
    assert {pair: sorted(by) for pair, by in current_answers(said).items()} == {
        ("q", "d0"): ["ann"]
    }
    assert current_answers(said)["q", "d0"]["ann"].value == 2.0
    undone = PersonsAnswer(AT, "ann", ("q", "d0"), undo=True)
    assert current_answers([*said, undone]) == {}  # as the page shows it: open
    again = current_answers([*said, undone, PersonsAnswer(AT, "ann", ("q", "d0"), 0.0)])
    assert again["q", "d0"]["ann"].value == 0.0


def test_nothing_answered_is_no_label_and_no_error(tmp_path):
    labels = read_labels(sample(tmp_path, [0.2], [2.0], []))
    assert (len(labels.rows), labels.out_of_turn, labels.is_random_sample) == (0, 0, True)
    (tmp_path / "answers.jsonl").unlink()
    assert len(read_labels(str(tmp_path)).rows) == 0


def test_a_torn_last_line_is_left_out_and_another_is_named(tmp_path):
    file = tmp_path / "answers.jsonl"
    good = PersonsAnswer(AT, "ann", ("q", "d0"), 2.0).to_json_line()
    for torn in (b'{"at": "2026', b"\0\0\0", good.replace(b"2.0", b"true")):
        file.write_bytes(good + torn)
        assert [each.value for each in read_answers(str(file))[0]] == [2.0]
        assert read_answers(str(file))[1] == len(good)
    file.write_bytes(good + b'{"at": 1}\n' + good)
    with pytest.raises(InputError, match=r"answers\.jsonl:2: is not a valid answer"):
        read_answers(str(file))


def test_an_answer_on_a_document_that_is_not_there_is_refused(tmp_path):
    place = sample(tmp_path, [0.2], [2.0], [("ann", "strange", 1.0)])
    with pytest.raises(InputError, match="'strange' of query 'q', not among"):
        read_labels(place)


@pytest.mark.parametrize("mark", ",;\t")
def test_a_table_with_a_head_is_read_whatever_parts_its_columns(tmp_path, mark):
    rows = [
        "note,doc_id,query_id,relevance,person,probability",
        '"a\nb",7,q,2,ann,.5',
        ",8,q,,ann,",
    ]
    rows += [",7,q,1,bob,.5"]
    file = tmp_path / "people.csv"
    file.write_text("\ufeff" + "\r\n".join(row.replace(",", mark) for row in rows))
    labels = read_labels(str(file))
    assert told(labels) == [("q", "7", "ann", 2.0, 0.5), ("q", "7", "bob", 1.0, 0.5)]
    assert (labels.is_random_sample, labels.cannot_say, labels.frame, labels.highest_grade) == (
        True,
        1,
        None,
        2.0,
    )


def test_agreement_of_people_takes_every_grade_that_stands(tmp_path):
    """Also those that count in no correction, since the first document is still open."""
    answers = [("ann", "d1", 2.0), ("bob", "d1", 1.0), ("ann", "d2", None)]
    place = sample(tmp_path / "labels", [0.2] * 3, [2.0, 1.0, 0.8], answers)
    part = read_judgments(place, "human")
    assert [*zip(*part.table.to_pydict().values(), strict=True)] == [
        ("q", "d1", "ann", 2.0),
        ("q", "d1", "bob", 1.0),
    ]
    assert part.missing == 1
    with pytest.raises(InputError, match="holds no grade of a person"):
        read_judgments(sample(tmp_path / "none", [0.2], [2.0], [("ann", "d0", None)]), "human")


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("q,d1,ann,good,", "people.csv:3: grade cannot be 'good'"),
        ("q,d1,ann,1,0", "people.csv:3: the probability 0 is not above 0"),
        ("q,d1,ann,1,.5", "people.csv:2: has no probability, .* 1 of 2"),
        (",d1,ann,1,", "people.csv:3: has no query_id"),
        ("q,d0,ann,1,", "people.csv:3: the document of .*people.csv:2 again"),
    ],
)
def test_a_row_that_makes_no_sense_is_named(tmp_path, row, says):
    file = tmp_path / "people.csv"
    file.write_text(f"query_id,doc_id,person,grade,probability\nq,d0,ann,1,\n{row}\n")
    with pytest.raises(InputError, match=says):
        read_labels(str(file))
