"""Judgments of judges from any mixture of places."""

import pytest

from tests.files.reading import (
    read_all_judgments,
    records_table,
    refused,
    write_file,
    write_folder,
)
from zelo_ray.records import Grade, GradedScore

ONE = {"query_id": "q1", "doc_id": "d1", "judge": "j", "grade": 1}
VOTE = {"query_id": "q1", "doc_id_a": "a", "doc_id_b": "b", "judge": "j", "preference": 0.5}
BARE = {name: value for name, value in ONE.items() if name != "judge"}


def qrels(path, **grades):
    return write_file(path, "".join(f"q1 0 {d} {g}\n" for d, g in grades.items()))


def rows(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def test_a_mixture_of_everything(tmp_path):
    grade = Grade("q1", "d1", "m", 0, ("a facet",), (), "because", "k")
    later = [{"grade": 2}, {"doc_id": "d2", "grade": None}, {"doc_id": 7, "grade": 3.0}]
    votes = [{"preference": 1}, {"preference": 0, "swapped": False, "judge": "k"}]
    sources = [
        write_file(tmp_path / "g.parquet", records_table([grade], Grade)),
        qrels(tmp_path / "judge.v2.qrels", d1=1, d2="3.0"),
        write_file(tmp_path / "three.jsonl", [ONE | row for row in later]),
        write_file(tmp_path / "votes.jsonl", [VOTE | row for row in votes]),
    ]
    found = read_all_judgments(sources, human=qrels(tmp_path / "human.txt", d1=3))
    assert rows(found.grades) == [
        ("q1", "d1", "m", 0),
        ("q1", "d1", "judge.v2", 1),
        ("q1", "d2", "judge.v2", 3),
        ("q1", "d1", "j", 2),
        ("q1", "7", "j", 3),
    ]
    assert rows(found.votes) == [
        ("q1", "a", "b", "j", 1.0, None),
        ("q1", "a", "b", "k", 0.0, False),
    ]
    assert rows(found.human) == [("q1", "d1", "human", 3)]
    assert found.judges == ("m", "judge.v2", "j")


def test_several_judgments_of_a_judge_keep_their_order(tmp_path):
    first = write_file(tmp_path / "1.jsonl", [ONE | {"grade": grade} for grade in (3, 1, 2)])
    assert read_all_judgments([first]).grades["grade"].to_pylist() == [3, 1, 2]
    second = write_file(tmp_path / "2.jsonl", [ONE | {"doc_id": "d2"}])
    assert read_all_judgments([first, second]).judges == ("j",)


SCALES = {  # grades, and what is said of them: without an option, clipped, on a larger scale
    "below": ([-1, 1], ":2: the grade -1 .*--clip", [0, 1]),
    "above": ([1, 5, 4], r":3: the grade 5 ", [1, 3, 3]),
    "missing": ([None, 1, 7], ":4: the grade 7", [1, 3]),
    "a fraction": ([1.5], ":2: the grade 1.5 is not a whole number", None),
}


@pytest.mark.parametrize("case", SCALES)
def test_a_grade_outside_the_scale_is_named(tmp_path, case):
    grades, says, clipped = SCALES[case]
    place = write_file(
        tmp_path / "a.csv",
        [BARE | {"doc_id": f"d{n}", "grade": grade} for n, grade in enumerate(grades)],
    )
    with refused(f"a.csv{says}"):
        read_all_judgments([place])
    if clipped is None:
        with refused(f"a.csv{says}"):
            read_all_judgments([place], clip=True)
        return
    found = read_all_judgments([place], clip=True)
    assert found.grades["grade"].to_pylist() == clipped
    assert any("clipped to 0 to 3" in note for note in found.notes)
    if case == "above":
        assert read_all_judgments([place], levels=10).grades["grade"].to_pylist() == grades


def test_a_missing_answer_is_counted(tmp_path):
    place = write_file(tmp_path / "x.jsonl", [ONE, ONE | {"doc_id": "e", "grade": None}])
    found = read_all_judgments([place])
    assert (len(found.grades), found.notes) == (1, (f"{place}: 1 row without an answer (null)",))


def test_names_of_judges_are_not_given_twice(tmp_path):
    one, two = qrels(tmp_path / "a/x.txt", d1=1), qrels(tmp_path / "b/x.txt", d1=1)
    table = write_file(tmp_path / "t.jsonl", [ONE | {"judge": "x"}])
    other = write_file(tmp_path / "y.jsonl", [ONE | {"judge": "others"}])
    human = qrels(tmp_path / "human.txt", d1=1)
    for sources, options, says in (
        ([one, two], {}, r"has a judge x, .*a/x.txt: .* NAME=path"),
        ([one, table], {}, "has a judge x"),
        ([one, one], {}, r"x.txt: is named twice"),
        ([human], {"human": human}, "has a judge human, as does --human"),
        ([f"me={table}"], {}, "leave out me="),
        ([f"me={tmp_path}"], {}, "a directory cannot be given one judge"),
        ([f"all judges={one}"], {}, "reserved name 'all judges'"),
        ([other], {}, "reserved name 'others'"),
    ):
        with refused(says):
            read_all_judgments(sources, **options)
    assert read_all_judgments([one, f"y={two}"]).judges == ("x", "y")
    assert read_all_judgments([human]).judges == ("human",)


def test_what_is_nothing_of_the_kind_is_refused(tmp_path):
    with refused("no such file"):
        read_all_judgments([str(tmp_path / "nowhere.txt")])
    with refused("neither grades nor votes"):  # such as a run of another protocol
        read_all_judgments([write_folder(tmp_path / "empty", {"run.json": "{}"})])


def test_pooled_grades_are_no_judge_of_the_panel(tmp_path):
    score = GradedScore("q1", "d1", 1.7, 0.4, 3, 1, 2, 2.0, 0.3, False)
    place = write_file(tmp_path / "scores.parquet", records_table([score], GradedScore))
    found = read_all_judgments([f"panel={place}", qrels(tmp_path / "x.txt", d1=1)])
    assert (found.judges, found.panel, found.pooled) == (("panel", "x"), ("x",), ("panel",))
    assert rows(found.grades) == [("q1", "d1", "panel", 2), ("q1", "d1", "x", 1)]


def test_a_directory_is_a_judge_a_file(tmp_path):
    files = {"b.txt": "q1 0 d1 1\n", "a.txt": "q1 0 d1 2\n", ".hidden": "x", "README.md": "From."}
    folder = write_folder(tmp_path / "all", files)
    found = read_all_judgments([folder])
    assert rows(found.grades) == [("q1", "d1", "a", 2), ("q1", "d1", "b", 1)]
    assert found.notes == (f"{folder}: passed over README.md",)
