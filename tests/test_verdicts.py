"""Judgments of judges from any mixture of places."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import write_lines
from zelo_ray.errors import InputError
from zelo_ray.files.judges import GRADES, read_all_judgments
from zelo_ray.files.tables import table_of
from zelo_ray.files.votes import VOTES
from zelo_ray.names import split_name
from zelo_ray.records import Grade, GradedScore, Vote


def grade(query_id, doc_id, judge, value, key="k"):
    return Grade(query_id, doc_id, judge, value, ("a facet",), (), "because", key)


def vote(query_id, a, b, judge, preference, swapped=False):
    return Vote(query_id, a, b, judge, preference, swapped, "because", "k")


def write(path, records, record):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table_of(records, record), path)
    return str(path)


def qrels(path, **grades):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"q1 0 {d} {g}\n" for d, g in grades.items()))
    return str(path)


def jsonl(path, *rows):
    return str(write_lines(path, rows))


def rows(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def test_a_mixture_of_everything(tmp_path):
    one = write(tmp_path / "g.parquet", [grade("q1", "d1", "m", 0)], Grade)
    two = qrels(tmp_path / "judge.v2.qrels", d1=1, d2="3.0")
    three = jsonl(
        tmp_path / "three.jsonl",
        ONE | {"query_id": "q1", "doc_id": "d1", "grade": 2},
        ONE | {"query_id": "q1", "doc_id": "d2", "grade": None},
        ONE | {"query_id": "q1", "doc_id": 7, "grade": 3.0, "why": "a fraction that is none"},
    )
    four = jsonl(
        tmp_path / "votes.jsonl",
        VOTE | {"query_id": "q1", "preference": 1},
        VOTE | {"query_id": "q1", "preference": 0, "swapped": False, "judge": "k"},
    )
    human = qrels(tmp_path / "human.txt", d1=3)
    found = read_all_judgments([one, two, three, four], human=human)
    assert (found.grades.schema, found.votes.schema) == (GRADES, VOTES)
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


def test_name_path_names_the_judge(tmp_path):
    path = qrels(tmp_path / "a=b/x.txt", d1=1)
    assert read_all_judgments([f"openai:m={path}"]).judges == ("openai:m",)
    assert read_all_judgments([path]).judges == ("x",)  # a name has no slash
    assert split_name("openai:m=s3://b/x=1/f.txt") == ("openai:m", "s3://b/x=1/f.txt")
    assert split_name("s3://b/x=1/f.txt") == ("", "s3://b/x=1/f.txt")


def test_judgments_of_a_judge_are_kept_in_their_order(tmp_path):
    grades = [grade("q1", "d1", "m", g, key=str(g)) for g in (3, 1, 2)]
    path = write(tmp_path / "1/grades.parquet", grades, Grade)
    assert read_all_judgments([path]).grades["grade"].to_pylist() == [3, 1, 2]
    two = write(tmp_path / "2/grades.parquet", [grade("q1", "d2", "m", 2)], Grade)
    assert read_all_judgments([path, two]).judges == ("m",)


def test_beir_qrels_and_negative_grades(tmp_path):
    path = tmp_path / "b.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq1\td1\t-1\nq1\td2\t1\n")
    with pytest.raises(InputError, match=r"b.tsv:2: the grade -1 is not in 0 to 3: --clip"):
        read_all_judgments([str(path)])
    found = read_all_judgments([str(path)], clip=True)
    assert rows(found.grades) == [("q1", "d1", "b", 0), ("q1", "d2", "b", 1)]
    assert found.notes == (f"{path}: 1 of 2 grades clipped to 0 to 3 (-1)",)


def test_a_grade_outside_the_scale_is_named(tmp_path):
    with pytest.raises(InputError, match=r"a.txt:2: .* 5 is not in 0 to 3 \(and 1 more\)"):
        read_all_judgments([qrels(tmp_path / "a.txt", d1=1, d2=5, d3=4)])
    table = write(tmp_path / "g.parquet", [grade("q", "d", "m", 1), grade("q", "e", "m", 9)], Grade)
    with pytest.raises(InputError, match=r"g.parquet: row 2: the grade 9 is not in 0 to 3"):
        read_all_judgments([table])
    assert read_all_judgments([table], levels=10).grades["grade"].to_pylist() == [1, 9]
    assert read_all_judgments([table], clip=True).grades["grade"].to_pylist() == [1, 3]
    place = str(tmp_path / "x.parquet")
    columns = {"query_id": ["q"] * 3, "doc_id": list("abc"), "grade": [None, 1, 7]}
    pq.write_table(pa.table(columns), place)
    with pytest.raises(InputError, match="row 3: the grade 7"):
        read_all_judgments([place])
    assert len(read_all_judgments([place], clip=True).grades) == 2, "null is a missing answer"
    for value in (1.5, math.nan):
        pq.write_table(pa.table({"query_id": ["q"], "doc_id": ["d"], "relevance": [value]}), place)
        with pytest.raises(
            InputError,
            match=f"row 1: (the grade {value} is not a whole number|relevance is {value})",
        ):
            read_all_judgments([place], clip=True)


ONE = {"query_id": "q", "doc_id": "d", "judge": "j", "grade": 1}
VOTE = {"query_id": "q", "doc_id_a": "a", "doc_id_b": "b", "judge": "j", "preference": 0.5}
WON = {"question_id": 1, "model_a": "x", "model_b": "y", "judge": "j", "winner": "tie"}


WRONG = [
    (ONE, {"grade": "two"}, "grade cannot be 'two'"),
    (ONE, {"grade": True}, "grade cannot be True"),
    (ONE, {"doc_id": None}, "has no doc_id"),
    (ONE, {"judge": None}, "has no judge"),
    (ONE, {"query_id": ["q"]}, r"query_id cannot be \['q'\]"),
    (VOTE, {"preference": 1.1}, "the preference 1.1 is not in -1 to 1"),
    (VOTE, {"preference": "A"}, "preference cannot be 'A'"),
    (VOTE, {"swapped": 2}, "swapped cannot be 2"),
    (WON, {"winner": "model_1"}, "the winner 'model_1' is neither"),
    (WON, {"model_b": "x"}, "'x' is compared with itself"),
    (WON, {"winner": 1.5}, "winner cannot be 1.5"),
]


def test_a_bad_row_is_named(tmp_path):
    for first, change, message in WRONG:
        with pytest.raises(InputError, match=rf"x.jsonl:2: {message}"):
            read_all_judgments([jsonl(tmp_path / "x.jsonl", first, first | change)])


def test_a_document_that_one_qrels_file_judges_twice_is_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("q1 0 d1 1\nq1 0 d1 2\n")
    with pytest.raises(InputError, match=r"a.txt:2: document 'd1' of query 'q1' is judged twice"):
        read_all_judgments([str(tmp_path / "a.txt")])
    rows = [{k: v for k, v in ONE.items() if k != "judge"}] * 2
    with pytest.raises(InputError, match=r"x.jsonl:2: document 'd' of query 'q' is judged twice"):
        read_all_judgments([jsonl(tmp_path / "x.jsonl", *rows)])


def test_two_files_of_one_name_are_an_error(tmp_path):
    one, two = qrels(tmp_path / "a/x.txt", d1=1), qrels(tmp_path / "b/x.txt", d1=1)
    with pytest.raises(InputError, match=r"has a judge x, .*a/x.txt: .* NAME=path"):
        read_all_judgments([one, two])
    assert read_all_judgments([one, f"y={two}"]).judges == ("x", "y")
    table = jsonl(tmp_path / "t.jsonl", ONE | {"judge": "x"})
    with pytest.raises(InputError, match="has a judge x"):
        read_all_judgments([one, table])
    with pytest.raises(InputError, match=r"x.txt: is named twice"):
        read_all_judgments([one, one])


def test_names_of_judges_are_not_given_twice(tmp_path):
    path, named = qrels(tmp_path / "human.txt", d1=1), jsonl(tmp_path / "x.jsonl", ONE)
    assert read_all_judgments([path]).judges == ("human",)
    assert read_all_judgments([f"panel={path}"]).judges == ("panel",)
    for given, fields, why in (
        (path, {"human": path}, "has a judge human, as does --human"),
        (f"me={named}", {}, "leave out me="),
        (f"me={tmp_path}", {}, "a directory cannot be given one judge"),
        (f"all judges={path}", {}, "reserved name 'all judges'"),
        (jsonl(tmp_path / "y.jsonl", ONE | {"judge": "others"}), {}, "reserved name 'others'"),
    ):
        with pytest.raises(InputError, match=why):
            read_all_judgments([given], **fields)


def test_queries_that_no_other_source_knows_are_noted(tmp_path):
    one = qrels(tmp_path / "a.txt", d1=1)
    other = tmp_path / "b.txt"
    other.write_text("q1 0 d1 1\nq9 0 d1 1\nq8 0 d1 1\n")
    assert read_all_judgments([one, str(other)]).notes == (
        f"{other}: 2 queries are in no other source (q8, q9)",
    )
    assert read_all_judgments([str(other)]).notes == ()
    assert read_all_judgments([one], human=str(other)).notes == (
        "--human: 2 queries are in no other source (q8, q9)",
    )


def test_what_is_nothing_of_the_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_all_judgments([str(tmp_path / "nowhere.txt")])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/run.json").write_text("{}")  # such as a run of another protocol
    with pytest.raises(InputError, match="neither grades nor votes"):
        read_all_judgments([str(tmp_path / "empty")])


def test_a_panels_grades_are_no_judge_of_the_panel(tmp_path):
    score = GradedScore("q1", "d1", 1.7, 0.4, 3, 1, 2, 2.0, 2, 0.3, False)
    path = write(tmp_path / "scores.parquet", [score], GradedScore)
    found = read_all_judgments([f"panel={path}", qrels(tmp_path / "x.txt", d1=1)])
    assert (found.judges, found.panel, found.pooled) == (("panel", "x"), ("x",), ("panel",))
    assert rows(found.grades) == [("q1", "d1", "panel", 2), ("q1", "d1", "x", 1)]


def test_a_line_that_is_not_as_the_first_does_not_vanish(tmp_path):
    bare = {k: v for k, v in ONE.items() if k != "judge"}
    for first, row, message in (
        (ONE, {"query_id": "q", "doc_id": "e", "judge": "j"}, "2: has no grade; write null"),
        (ONE, VOTE, "1: has no preference; write null"),
        (bare, ONE | {"doc_id": "e"}, "1: has no judge"),
        (VOTE, ONE, "2: has no preference; write null"),
        (WON, {"question_id": 2, "judge": "j"}, "2: has no winner; write null"),
    ):
        with pytest.raises(InputError, match=f"x.jsonl:{message}"):
            read_all_judgments([jsonl(tmp_path / "x.jsonl", first, row)])
    path = jsonl(tmp_path / "x.jsonl", ONE, ONE | {"doc_id": "e", "grade": None})
    found = read_all_judgments([path])
    assert (len(found.grades), found.notes) == (1, (f"{path}: 1 row without an answer (null)",))


def test_a_directory_of_qrels_is_a_judge_a_file_and_others_are_passed_over(tmp_path):
    qrels(tmp_path / "all/b.txt", d1=1)
    qrels(tmp_path / "all/a.txt", d1=2)
    (tmp_path / "all/.hidden").write_text("nothing to read")
    (tmp_path / "all/README.md").write_text("Where these are from.")
    found = read_all_judgments([str(tmp_path / "all")])
    assert rows(found.grades) == [("q1", "d1", "a", 2), ("q1", "d1", "b", 1)]
    assert found.notes == (f"{tmp_path}/all: passed over README.md",)
