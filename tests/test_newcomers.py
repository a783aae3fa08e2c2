"""Files as newcomers have them, each with what is right, in every command that can use it."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.builders import set_in_file
from tests.crash import bare_environment
from zelo_ray import cli, fit_votes
from zelo_ray.errors import InputError
from zelo_ray.formats.input import InputOptions, convert_inputs
from zelo_ray.formats.judgments.judgments_file import read_judgments
from zelo_ray.formats.judgments.labels import read_labels
from zelo_ray.formats.judgments.qrels import read_qrels
from zelo_ray.formats.matching_ids import explain_mismatch
from zelo_ray.formats.pools import hash_id
from zelo_ray.formats.runs import read_runs

CASES = Path(__file__).parent / "golden" / "cases"
TICK, RAY = hash_id("q", "how to remove a tick"), hash_id("q", "ray, the fish")
GRADES = [2, 1, 1, 3, 0, 0, 0]
POOLS = """query_id,query,doc_id,text,brand
t1,how to remove a tick,a1,Pull it out.,x
t1,how to remove a tick,a2,Clocks tick.,y
t2,"ray, the fish",b1,A fish.,x
t2,"ray, the fish",b2,Rays swim.,
"""


def put(path, text):
    path.write_text(text)
    return str(path)


def grades_in(name, **columns):
    """Every reader of grades finds the same ones in a file."""
    place = str(CASES / name)
    part = read_judgments(place, "me", columns=columns)
    labels = read_labels(place, columns).rows
    assert labels["grade"].to_pylist() == part.table["grade"].to_pylist()
    return [tuple(row.values()) for row in part.table.to_pylist()]


def test_ratings_by_the_texts_of_queries():
    assert grades_in("labels-rating.csv") == [
        (TICK, "a1", "me", 3),
        (TICK, "a2", "me", 0),
        (RAY, "b2", "me", 2),
    ]


def test_grades_by_query_and_document():
    assert grades_in("nested-qrels.json") == [
        ("q1", "d1", "me", 1),
        ("q1", "d2", "me", 0),
        ("q2", "d3", "me", 2),
    ]


@pytest.mark.parametrize("name", ["excel-sep.csv", "decimal-comma.csv"])
def test_tables_of_a_german_spreadsheet(name):
    grades = [row[3] for row in grades_in(name)]
    assert grades == GRADES[: len(grades)]
    truth = read_qrels(str(CASES / name))
    assert truth["relevance"].to_pylist() == grades


def test_a_column_a_rater_is_refused_with_what_it_seems_to_be():
    place = str(CASES / "one-column-a-rater.csv")
    with pytest.raises(InputError, match=r"if ann and bob are raters, make each grade a row"):
        read_judgments(place, "me")


def test_votes_in_one_hot_columns():
    frame = fit_votes(CASES / "one-hot-votes.csv").to_pandas().set_index("doc_id")
    assert frame["wins"].to_dict() == {"m1": 1.5, "m3": 1.5, "m2": 0}
    votes = read_judgments(str(CASES / "one-hot-votes.csv"), "me", columns={"query_id": "id"}).table
    assert votes["preference"].to_pylist() == [-1, 1, 0]


def test_names_with_blanks_around_them_are_one():
    frame = fit_votes(CASES / "blanks-in-names.csv").to_pandas().set_index("doc_id")
    assert frame["wins"].to_dict() == {"Claude": 1.5, "GPT-4": 1, "Llama": 0.5}
    with pytest.raises(InputError, match=r"no column says which query.*--columns query_id=NAME"):
        read_judgments(str(CASES / "blanks-in-names.csv"), "me")


def test_ratings_of_opensearchs_workbench(tmp_path):
    ratings = [{"docId": "B01", "rating": "3.000"}, {"docId": "B02", "rating": "0"}]
    rows = [{"query": "how to remove a tick", "ratings": ratings}]
    for number, whole in enumerate(({"name": "x", "judgmentRatings": rows}, rows, rows[0])):
        for indent in (None, 2):
            place = put(tmp_path / f"{number}.json", json.dumps(whole, indent=indent))
            assert read_qrels(place)["relevance"].to_pylist() == [3, 0]
    assert read_qrels(place)["query_id"].to_pylist() == [TICK, TICK]


def test_segments_are_texts_and_columns_reach_inside(tmp_path):
    text = (CASES / "segments.jsonl").read_text()
    for name, columns in (("segment", {}), ("body of it", {"content": "body of it"})):
        place = put(tmp_path / f"{name}.jsonl", text.replace('"segment"', json.dumps(name)))
        found = convert_inputs([place], str(tmp_path / name), InputOptions(columns=columns))
        (pool,) = map(json.loads, Path(found.places[0]).read_text().splitlines())
        assert pool["documents"][0]["content"] == "Ticks\nPull it out with tweezers."
    with pytest.raises(InputError, match=r"fields docid, score, doc"):
        convert_inputs([place], str(tmp_path / "out"), InputOptions())


def test_rankings_without_scores(tmp_path):
    for rank in ("rank", "Position"):
        text = f"query_id,{rank},doc_id\nq,2,b\nq,1,a\nq,3,c\n"
        run = read_runs([put(tmp_path / "mine.csv", text)])["mine"]
        assert run["score"].to_pylist() == [-2, -1, -3]
    with pytest.raises(InputError, match=r"has no column 'score'; .*--columns score=NAME"):
        read_runs([put(tmp_path / "no.csv", "query_id,doc_id,x\nq,a,1\n")])


def test_a_bakeoff_by_the_texts_of_queries_is_one_by_their_ids(tmp_path, capsys):
    pools = put(tmp_path / "pools.csv", POOLS)
    rows = ["how to remove a tick,1,a2", "how to remove a tick,2,a1", '"ray, the fish",1,b2']
    ranks = "\n".join(["query,position,doc_id", *rows, ""])
    runs = f"mine={put(tmp_path / 'ranks.csv', ranks)}"
    truth = put(tmp_path / "truth.csv", (CASES / "labels-rating.csv").read_text())
    named = put(tmp_path / "named.csv", "query_id,doc_id,stars\nt1,a1,3\nt1,a2,0\nt2,b2,2\n")
    values = []
    for place, more in ((truth, []), (named, ["--columns", "grade=stars"])):
        out = tmp_path / f"out{len(more)}"
        words = ["--truth", place, "--pools", pools, "--runs", runs, "--out", str(out)]
        assert cli.main(["bakeoff", *words, *more, *set_in_file(resamples=100)]) == 0
        values.append(pq.read_table(out / "metrics.parquet").to_pylist())
    assert str(values[0]) == str(values[1])  # NaN is not equal to itself
    assert {row["query_id"] for row in values[0]} == {"t1", "t2"}
    capsys.readouterr()
    assert cli.main(["bakeoff", *words, "--columns", "grade=star"]) == 2
    assert "no file has a column 'star' (grade)" in capsys.readouterr().err


SHOWING = """
import zelo_ray
zelo_ray.annotate({rows!r}, out="{out}/run", judges="offline", show_metadata=("brand",))
"""


@pytest.mark.ray
def test_columns_become_fields_of_documents_that_judges_are_shown(tmp_path, one_ray):
    place = put(tmp_path / "pools.csv", POOLS)
    options = InputOptions(show_metadata=("brand",))
    (made,) = convert_inputs([place], str(tmp_path / "out"), options).places
    found = [json.loads(line)["documents"] for line in Path(made).read_text().splitlines()]
    about = [[document.get("metadata") for document in documents] for documents in found]
    assert about == [[{"brand": "x"}, {"brand": "y"}], [{"brand": "x"}, None]]
    rows = [{"query": "q", "text": text, "brand": "x"} for text in ("a", "b")]
    status, said = one_ray.run(bare_environment(), "-c", SHOWING.format(rows=rows, out=tmp_path))
    assert status is None, said
    assert pq.read_table(tmp_path / "run" / "scores.parquet").num_rows == 2


@pytest.mark.parametrize(
    ("one", "other", "way"),
    [
        ("Caf\u00e9-1", "Cafe\u0301-1", "their Unicode form"),
        ("Q1", "q1", "capitals"),
        ("q 1", "q1", "blanks"),
        ("007", "7", "leading zeros"),
        ("7.0", "7", ".0 at the end"),
        ("Q 7.0", "q7", "capitals and in blanks and in a .0"),
    ],
)
def test_ids_that_nearly_match_are_shown_with_what_tells_them_apart(one, other, way):
    told = explain_mismatch("a", [one, "zz"], "b", [other, "yy"])
    assert way in told
    assert "differ only in" in told
    assert explain_mismatch("a", ["x"], "b", ["y"]) == "a has 'x', b has 'y'"


def test_ids_that_nearly_match_are_named_where_nothing_does(tmp_path, capsys):
    truth, pools = str(CASES / "nfd.qrels"), str(CASES / "nfd.jsonl")
    words = ["--truth", truth, "--pools", pools, "--rerankers", "original"]
    assert cli.main(["bakeoff", *words, "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert "no query of the input is in the truth" in told
    assert "Cafe\\u0301-1" in told
    assert "Unicode form" in told


def test_labels_of_documents_in_lists_are_judgments_and_their_scores_a_run(tmp_path):
    documents = [{"id": "a", "text": "x", "score": 0.9, "label": 0}, {"id": 2, "text": "y"}]
    documents[1] |= {"score": 0.3, "label": "2"}
    place = put(tmp_path / "a.jsonl", json.dumps({"qid": 1, "query": "q", "passages": documents}))
    assert read_qrels(place)["relevance"].to_pylist() == [0, 2]
    assert read_qrels(place)["doc_id"].to_pylist() == ["a", "2"]
    assert read_runs([place])["a"]["score"].to_pylist() == [0.9, 0.3]


def test_ids_and_queries_of_cells_are_the_same_in_pools_and_judgments(tmp_path):
    rows = "query,doc_id,text,label\nhow to ,a ,x,1\nhow to ,b,y,0\nhow to,c,z,2\n"
    place = put(tmp_path / "rows.csv", rows)
    (made,) = convert_inputs([place], str(tmp_path / "out"), InputOptions()).places
    (pool,) = map(json.loads, Path(made).read_text().splitlines())
    truth = read_qrels(place)
    assert {*truth["query_id"].to_pylist()} == {pool["query"]["id"]}
    assert [row["id"] for row in pool["documents"]] == truth["doc_id"].to_pylist()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a;b;winner;count\nx;y;a;1,000\n", "'1,000' may be a fraction or thousands"),
        ("a,b,winner\n1.5,y,a\n", ""),
    ],
)
def test_numbers_that_may_be_two_things_are_refused(tmp_path, text, says):
    place = put(tmp_path / "a.csv", text)
    if says:
        with pytest.raises(InputError, match=says):
            fit_votes(place)
    else:
        assert len(fit_votes(place)) == 2


@pytest.mark.parametrize("columns", [("a=model_a", "a=model_b"), ("b=nope",), ("content=nope",)])
def test_columns_that_make_no_sense_are_refused(columns, capsys):
    status = cli.main(["fit", str(CASES / "one-hot-votes.csv"), "--columns", *columns])
    assert status in (1, 2)
    assert "column" in capsys.readouterr().err


def test_judgments_by_a_text_that_two_queries_have_are_refused(tmp_path, capsys):
    pools = [
        {"query": {"id": id_, "query": "how"}, "documents": [{"id": "a", "content": "x"}]}
        for id_ in ("q1", "q2")
    ]
    place = put(tmp_path / "pools.jsonl", "".join(json.dumps(pool) + "\n" for pool in pools))
    truth = put(tmp_path / "truth.csv", "query,doc_id,rating\nhow,a,1\n")
    words = ["--truth", truth, "--pools", place, "--rerankers", "original"]
    assert cli.main(["bakeoff", *words, "--out", str(tmp_path / "out")]) == 1
    assert "'q1' and 'q2' have the same text" in capsys.readouterr().err


def test_a_column_of_pools_alone_may_be_named(tmp_path):
    pools = put(tmp_path / "pools.csv", "query_id,query,doc_id,Wording\nq,how,a,x\nq,how,b,y\n")
    truth = put(tmp_path / "a.qrels", "q 0 a 1\n")
    out = tmp_path / "train.jsonl"
    words = ["train", truth, "--pools", pools, "--columns", "content=Wording"]
    assert cli.main(["convert", *words, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["document"] == "x"
