"""Judgments, runs and votes are read from whatever keeps them."""

import json
import math

import pyarrow.parquet as pq
import pytest

from tests.files.reading import (
    CASES,
    as_votes,
    hash_id,
    judgments,
    open_source,
    read_all_judgments,
    read_judgments,
    read_labels,
    read_qrels,
    read_run,
    read_runs,
    read_vote_rows,
    records_table,
    refused,
    write_file,
)
from tests.helpers.builders import convert
from tests.helpers.games import scores_of
from zelo_ray.records import GradedScore, Score

PAIRS = [("q1", "d1", 2.5), ("q1", "d2", -0.5), ("q2", "d1", 0.0)]


def pool_line(query_id, scores, **bare):
    documents = [{"id": d, "content": f"text {d}", "score": s} for d, s in scores.items()]
    documents += [{"id": d, "content": text} for d, text in bare.items()]
    return json.dumps({"query": {"id": query_id, "query": "?"}, "documents": documents}) + "\n"


LINES = pool_line("q1", {"d1": 2.5, "d2": -0.5}, d3="?") + pool_line("q2", {"d1": 0, "d4": None})


@pytest.fixture
def out(tmp_path):
    """What annotate leaves."""
    scores = [Score(*pair, 0.25, 8, 1) for pair in PAIRS]
    pq.write_table(records_table(scores, Score), tmp_path / "scores.parquet")
    (tmp_path / "annotated.jsonl").write_text(LINES)
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("name", ["", "scores.parquet", "annotated.jsonl"])
def test_results_are_truth_and_run(out, name):
    assert read_qrels(out / name) == read_run(out / name) == PAIRS
    errors = judgments.read_qrels(str(out / name))["std_error"].to_pylist()
    assert all(math.isnan(e) if name == "annotated.jsonl" else e == 0.25 for e in errors)


@pytest.mark.parametrize("name", ["", "/", "/scores.parquet", "/annotated.jsonl"])
def test_pools_lie_beside_the_truth(out, name):
    assert judgments.pools_file_of_truth(f"{out}{name}") == str(out / "annotated.jsonl")


@pytest.mark.parametrize(
    "name", ["grade", "relevance", "rating", "label", "rel", "judgment", "Grade"]
)
def test_grades_count_and_not_the_scores_beside(tmp_path, name):
    """Such as those of BM25 beside people's grades."""
    both = [("d1", 17.2, 0), ("d2", 3.1, 3), ("d3", None, 2)]
    documents = [{"id": d, "content": d, "score": s, name: g} for d, s, g in both]
    rows = [{"query_id": "q", "doc_id": d, "score": s, name: g} for d, s, g in both]
    pools = [{"query": {"id": "q", "query": "?"}, "documents": documents}]
    for form, content in (("csv", rows), ("parquet", rows), ("jsonl", pools)):
        place = write_file(tmp_path / f"truth.{form}", content)
        assert [grade for *_, grade in read_qrels(place)] == [0, 3, 2]


def test_scores_of_a_graded_run_count_not_grades(tmp_path):
    values = {"d1": 2.4, "d2": 1 / 3}
    scores = [GradedScore("q", d, s, 0.1, 3, 1, round(s), 1, 0.0, False) for d, s in values.items()]
    write_file(tmp_path / "scores.parquet", records_table(scores, GradedScore))
    documents = [
        {"id": s.doc_id, "content": "?", "score": s.score, "grade": s.grade} for s in scores
    ]
    query = {"id": "q", "query_id": "other", "query": "?"}
    write_file(tmp_path / "renamed.jsonl", [{"query": query, "documents": documents}])
    for name in ("scores.parquet", "renamed.jsonl"):
        assert read_qrels(tmp_path / name) == [("q", d, s) for d, s in values.items()]
    found = read_judgments(str(tmp_path / "scores.parquet"), "panel")
    assert (found.table["grade"].to_pylist(), found.pooled) == ([2, 0], True)


TICK, RAY = hash_id("q", "how to remove a tick"), hash_id("q", "ray, the fish")
GRADED = {
    "labels-rating.csv": [(TICK, "a1", 3), (TICK, "a2", 0), (RAY, "b2", 2)],
    "nested-qrels.json": [("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d3", 2)],
    "decimal-comma.csv": [2, 1, 1, 3, 0, 0, 0],
    "labels-with-notes.tsv": [2, 0, 3, 1],
}


@pytest.mark.parametrize("name", GRADED)
def test_all_readers_find_the_same_grades(name):
    place, rows = str(CASES / name), read_qrels(CASES / name)
    grades = [grade for *_, grade in rows]
    assert GRADED[name] in (rows, grades)
    assert read_judgments(place, "me").table["grade"].to_pylist() == grades
    assert read_labels(place).rows["grade"].to_pylist() == grades


def test_a_grade_that_is_none_is_refused(tmp_path):
    for word in ("nan", "NA", "null", "inf", "1_0"):
        with refused("a.qrels:2: "):
            read_qrels(write_file(tmp_path / "a.qrels", f"q 0 a 1\nq 0 b {word}\nq 0 c 0\n"))
    with refused("b.run:1: the score is missing"):
        read_run(write_file(tmp_path / "b.run", "q Q0 a 1 nan x\n"))


def test_a_table_without_rows_holds_nothing(tmp_path):
    columns = {"qid": [], "docid": [], "relevance": []}
    with refused("holds no judged document"):
        read_qrels(write_file(tmp_path / "a.parquet", columns))
    with refused("has no comparisons"):
        scores_of(write_file(tmp_path / "b.parquet", {"a": [], "b": [], "winner": []}))


def test_qrels_are_no_run_by_columns_either(tmp_path):
    place = write_file(tmp_path / "a.qrels", "q 0 a 1\n")
    with refused("holds no run; it is a file of TREC's qrels"):
        judgments.read_runs([place], {"score": "grade"})


# Runs


RUNS = {"run": [*"aba"], "query_id": [*"qqq"], "doc_id": [*"xxy"], "score": [1.0, 2.0, 0.5]}


def test_tables_of_runs_and_files_of_one(tmp_path):
    many = write_file(tmp_path / "runs.parquet", RUNS)
    one = write_file(tmp_path / "mine.csv", "query_id,doc_id,score\nq,x,1\n")
    trec = write_file(tmp_path / "c.run", "q Q0 z 1 3.5 c\n")
    found = {name: run["doc_id"].to_pylist() for name, run in read_runs([many, one, trec]).items()}
    assert found == {"a": ["x", "y"], "b": ["x"], "mine": ["x"], "c": ["z"]}
    assert [*read_runs([f"mine={trec}"])] == ["mine"]
    same = write_file(tmp_path / "other.run", "q Q0 z 1 3.5 a\n")
    for places, says in (([many, same], "same name, a"), ([f"mine={many}"], "holds 2 runs")):
        with refused(says):
            read_runs(places)


def test_several_runs_are_no_trec_run(tmp_path):
    source, out = write_file(tmp_path / "runs.parquet", RUNS), tmp_path / "b.run"
    with refused(r"holds several runs \(a, b\)"):
        convert("run", source, "--out", str(out))
    write_file(source, {name: values[1:2] for name, values in RUNS.items()})
    convert("run", source, "--out", str(out))
    assert out.read_text() == "q Q0 x 1 2 b\n"


# Votes


def test_votes_in_words_and_in_columns(tmp_path):
    for name, wins in (
        ("one-hot-votes.csv", {"m1": 1.5, "m3": 1.5, "m2": 0}),
        ("blanks-in-names.csv", {"Claude": 1.5, "GPT-4": 1, "Llama": 0.5}),
    ):
        table = scores_of(CASES / name).to_pandas()
        assert table.set_index("doc_id")["wins"].to_dict() == wins
    votes = read_judgments(str(CASES / "one-hot-votes.csv"), "me", {"query_id": "id"}).table
    assert votes["preference"].to_pylist() == [-1, 1, 0]
    with refused("'1,000' may be a fraction or thousands"):
        scores_of(write_file(tmp_path / "b.csv", "a;b;winner;count\nx;y;a;1,000\n"))


def test_votes_of_parquet_are_read_by_columns(tmp_path, monkeypatch):
    rows = [{"query_id": "q", "doc_id_a": "a", "doc_id_b": "b", "judge": "j", "preference": -1.0}]
    place = write_file(tmp_path / "votes.parquet", [{**rows[0], "swapped": True}])
    source = open_source(place)
    monkeypatch.setattr(type(source), "rows", None)  # which take 30 times as long
    assert as_votes(read_vote_rows(source), "").to_pylist() == [{**rows[0], "swapped": True}]


def test_votes_and_winners_under_a_head(tmp_path):
    head = "judge,query_id,doc_id_a,doc_id_b,preference,swapped\n"
    rows = "j,q,1,2,-1,True\nj,q,1,3,0.5,0\nj,q,2,3,,false\nj,q,2,4,NaN,\n"
    place = write_file(tmp_path / "votes.csv", head + rows)
    found = read_all_judgments([place])
    assert [tuple(row.values()) for row in found.votes.to_pylist()] == [
        ("q", "1", "2", "j", -1.0, True),
        ("q", "1", "3", "j", 0.5, False),
    ]
    assert found.notes == (f"{place}: 2 rows without an answer (null)",)
    text = "winner\tturn\tmodel_b\tmodel_a\tquestion_id\nmodel_b\t1\ty\tx\t81\n"
    found = read_all_judgments([f"me={write_file(tmp_path / 'winners.tsv', text)}"])
    assert [tuple(row.values()) for row in found.votes.to_pylist()] == [
        ("81-1", "x", "y", "me", 1.0, None)
    ]
