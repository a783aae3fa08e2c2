"""Judgments, runs and votes are read from whatever keeps them."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from tests.builders import parsed
from tests.games import scores_of
from tests.input_pools import put
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.collections import write_collection
from zelo_ray.files.inputs import read_pools
from zelo_ray.files.judges import read_all_judgments, read_judgments
from zelo_ray.files.judgments import pools_file_of_truth, read_qrels, read_runs
from zelo_ray.files.labels import read_labels
from zelo_ray.files.pools import hash_id
from zelo_ray.files.schema import Columns
from zelo_ray.files.tables import schema_of, table_of
from zelo_ray.records import Document, GradedScore, Pool, Qrel, Score

CASES = Path(__file__).parents[1] / "golden" / "cases"
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
    pq.write_table(table_of(scores, Score), tmp_path / "scores.parquet")
    (tmp_path / "annotated.jsonl").write_text(LINES)
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("name", ["", "scores.parquet", "annotated.jsonl"])
def test_results_are_truth_and_run_with_their_errors(out, name):
    truth = read_qrels(str(out / name))
    assert truth.schema == schema_of(Qrel)
    rows = [tuple(row.values()) for row in truth.to_pylist()]
    assert [row[:3] for row in rows] == PAIRS
    assert all(math.isnan(e) if name.startswith("annotated") else e == 0.25 for *_, e in rows)
    (run,) = read_runs([str(out / name)]).values()
    assert run["score"].to_pylist() == truth["relevance"].to_pylist()


BOTH = [("d1", 17.2, 0), ("d2", 3.1, 3), ("d3", None, 2)]


def test_grades_count_and_not_the_scores_beside_them(tmp_path):
    """Such as those of BM25 beside people's grades."""
    for name in ("grade", "relevance", "rating", "label", "rel", "judgment", "Grade"):
        documents = [{"id": d, "content": d, "score": s, name: g} for d, s, g in BOTH]
        line = {"query": {"id": "q", "query": "?"}, "documents": documents}
        (tmp_path / "truth.jsonl").write_text(json.dumps(line) + "\n")
        table = pa.table({"query_id": ["q"] * 3, "doc_id": [d for d, _, _ in BOTH]})
        table = table.append_column("score", [[s for _, s, _ in BOTH]])
        table = table.append_column(name, [[g for *_, g in BOTH]])
        csv.write_csv(table, tmp_path / "truth.csv")
        pq.write_table(table, tmp_path / "truth.parquet")
        for form in ("csv", "parquet", "jsonl"):
            truth = read_qrels(str(tmp_path / f"truth.{form}"))
            assert truth["relevance"].to_pylist() == [0, 3, 2]


def test_the_scores_of_a_graded_run_count_and_not_what_they_come_to(tmp_path):
    scores = [
        GradedScore("q", d, s, 0.1, 3, 1, grade=round(s), median=1, majority=1,
                    disagreement=0.0, ambiguous=False)
        for d, s in (("d1", 2.4), ("d2", 1 / 3))
    ]  # fmt: skip
    pq.write_table(table_of(scores, GradedScore), tmp_path / "scores.parquet")
    documents = [
        {"id": s.doc_id, "content": "?", "score": s.score, "grade": s.grade} for s in scores
    ]
    line = {"query": {"id": "q", "query_id": "other", "query": "?"}, "documents": documents}
    (tmp_path / "renamed.jsonl").write_text(json.dumps(line) + "\n")
    for name in ("scores.parquet", "renamed.jsonl"):
        truth = read_qrels(str(tmp_path / name))
        assert truth["relevance"].to_pylist() == [2.4, 1 / 3]
        assert {*truth["query_id"].to_pylist()} == {"q"}
    grades = read_judgments(str(tmp_path / "scores.parquet"), "panel")
    assert grades.table["grade"].to_pylist() == [2, 0]
    assert grades.pooled


BAD = [
    (pool_line("q3", {"d1": "high"}), r"annotated.jsonl:3: cannot be 'high'"),
    ('{"query": {}, "documents": [{"id": "d", "score": 1}]}', r":3: needs the id of its query"),
    ('{"query": {"id": "q"}, "documents": 7}', ":3: "),
    ('{"query": ', ":3: is not valid JSON"),
    (pool_line("q1", {"d1": 1}), ":3: document 'd1' of query 'q1' is judged twice, first at .*:1"),
]


def test_a_bad_annotated_line_is_named(out):
    for line, why in BAD:
        (out / "annotated.jsonl").write_text(LINES + line)
        with pytest.raises(InputError, match=why):
            read_qrels(str(out / "annotated.jsonl"))


def test_a_table_with_what_no_judgments_hold_is_refused(out):
    place = str(out / "scores.parquet")
    columns = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [1.0, 2.0]}
    for name, values, why in (
        ("score", [1.0, math.inf], "row 2: score is inf"),
        ("score", ["a", "b"], "row 1: score cannot be 'a'"),
        ("score", [[1.0], [2.0]], r"row 1: score cannot be \[1.0\]"),
        ("std_error", [0.1, math.inf], "std_error is inf"),
        ("std_error", [0.1, -0.1], "a std_error is below 0"),
        ("doc_id", ["a", None], "row 2: has no doc_id"),
        (
            "doc_id",
            ["a", "a"],
            "row 2: document 'a' of query 'q' is judged twice, first at .*row 1",
        ),
    ):
        pq.write_table(pa.table({**columns, "std_error": [0.1, 0.2], name: values}), place)
        with pytest.raises(InputError, match=why):
            read_qrels(place)
    pq.write_table(pa.table({**columns, "score": [1.0, None]}), place)
    assert read_qrels(place)["doc_id"].to_pylist() == ["a"]


def test_pools_of_truth(out, monkeypatch):
    beside = str(out / "annotated.jsonl")
    for place in (out, f"{out}/", f"{out}/scores.parquet", beside):
        assert pools_file_of_truth(str(place)) == beside
    qrels, collection = out / "qrels.txt", str(out / "beir")
    qrels.write_text("q1 0 d1 2.5\n")
    pools = [Pool("q1", "?", (Document("d1", "a"),))]
    write_collection(collection, pools, read_qrels(str(qrels)))
    assert pools_file_of_truth(str(qrels)) is None
    assert pools_file_of_truth(collection) is None
    assert [d.id for d in read_pools(str(out))[0].documents] == ["d1", "d2", "d3"]
    with pytest.raises(OptionError, match=r"without the texts of documents and queries"):
        read_pools(str(qrels))
    monkeypatch.chdir(out)
    assert Path(pools_file_of_truth("scores.parquet")).read_text() == LINES


# As newcomers have them


TICK, RAY = hash_id("q", "how to remove a tick"), hash_id("q", "ray, the fish")
GRADED = {
    "labels-rating.csv": [(TICK, "a1", 3), (TICK, "a2", 0), (RAY, "b2", 2)],
    "nested-qrels.json": [("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d3", 2)],
    "decimal-comma.csv": [2, 1, 1, 3, 0, 0, 0],
}


def test_all_readers_find_the_same_grades():
    for name, wanted in GRADED.items():
        place = str(CASES / name)
        table = read_judgments(place, "me").table.select(["query_id", "doc_id", "grade"])
        rows = [tuple(row.values()) for row in table.to_pylist()]
        grades = [row[2] for row in rows]
        assert (rows if isinstance(wanted[0], tuple) else grades) == wanted
        assert read_labels(place).rows["grade"].to_pylist() == grades
        assert read_qrels(place)["relevance"].to_pylist() == grades
    for name, says in (
        ("one-column-a-rater.csv", "if ann and bob are raters, make each grade a row"),
        ("excel-sep.csv", "begins with 'sep=;', as Excel writes it: delete that line"),
    ):
        with pytest.raises(InputError, match=says):
            read_judgments(str(CASES / name), "me")


def test_rankings_without_scores_are_runs(tmp_path):
    for rank in ("rank", "Position"):
        text = f"query_id,{rank},doc_id\nq,2,b\nq,1,a\nq,3,c\n"
        run = read_runs([put(tmp_path / "mine.csv", text)])["mine"]
        assert run["score"].to_pylist() == [-2, -1, -3]
    documents = [{"id": "a", "text": "x", "score": 0.9, "label": 0}]
    documents += [{"id": 2, "text": "y", "score": 0.3, "label": "2"}]
    place = put(tmp_path / "a.jsonl", json.dumps({"qid": 1, "query": "q", "passages": documents}))
    assert read_qrels(place)["relevance"].to_pylist() == [0, 2]
    assert read_qrels(place)["doc_id"].to_pylist() == ["a", "2"]
    assert read_runs([place])["a"]["score"].to_pylist() == [0.9, 0.3]
    rows = [{"question": "q", "ctxs": [{"id": "a", "text": "x", "score": "1.5"}]}]
    place = put(tmp_path / "dpr.json", json.dumps(rows))
    assert read_runs([place])["dpr"].to_pylist() == [
        {"query_id": hash_id("q", "q"), "doc_id": "a", "score": 1.5}
    ]


COLUMNS = {"run": ["a", "b", "a"], "query_id": ["q"] * 3, "doc_id": ["x", "x", "y"]}
TABLE = pa.table({**COLUMNS, "score": [1.0, 2.0, 0.5]})


def test_a_table_of_many_runs_and_a_file_of_one(tmp_path):
    pq.write_table(TABLE, tmp_path / "runs.parquet")
    pq.write_table(TABLE.slice(0, 1).drop_columns("run"), tmp_path / "mine.parquet")
    (tmp_path / "c.run").write_text("q Q0 z 1 3.5 c\n")
    names = ("runs.parquet", "mine.parquet", "c.run")
    runs = read_runs([str(tmp_path / name) for name in names])
    assert {name: table["doc_id"].to_pylist() for name, table in runs.items()} == {
        "a": ["x", "y"],
        "b": ["x"],
        "mine": ["x"],
        "c": ["z"],
    }
    assert [*read_runs([f"mine={tmp_path}/c.run"])] == ["mine"]
    (tmp_path / "other.run").write_text("q Q0 z 1 3.5 a\n")
    with pytest.raises(InputError, match="another run has the same name, a"):
        read_runs([str(tmp_path / "runs.parquet"), str(tmp_path / "other.run")])
    with pytest.raises(InputError, match="one name, but the file holds 2 runs"):
        read_runs([f"mine={tmp_path}/runs.parquet"])


def test_one_run_becomes_a_trec_run_and_several_do_not(tmp_path):
    source, out = str(tmp_path / "runs.parquet"), str(tmp_path / "b.run")
    pq.write_table(TABLE, source)
    with pytest.raises(InputError, match=r"holds several runs \(a, b\)"):
        convert(parsed("convert", "run", source, "--out", out))
    pq.write_table(TABLE.filter(pc.equal(TABLE["run"], "b")), source)
    convert(parsed("convert", "run", source, "--out", out))
    assert (tmp_path / "b.run").read_text() == "q Q0 x 1 2 b\n"


def test_a_table_with_what_no_run_holds_is_refused(tmp_path):
    for column, values, says in (
        ("score", [1.0, float("nan"), 2.0], "row 2: score is nan: write null"),
        ("score", ["high", "low", "no"], "row 1: score cannot be 'high'"),
        ("doc_id", ["x", None, "y"], "row 2: has no doc_id"),
        ("run", ["a", "", "b"], "row 2: has no run"),
        ("doc_id", ["x", "x", "x"], "row 3: document 'x' of query 'q' is ranked twice"),
    ):
        at = TABLE.column_names.index(column)
        pq.write_table(TABLE.set_column(at, column, pa.array(values)), tmp_path / "runs.parquet")
        with pytest.raises(InputError, match=says):
            read_runs([str(tmp_path / "runs.parquet")])


def test_votes_in_words_and_in_columns(tmp_path):
    def wins(name):
        return scores_of(CASES / name).to_pandas().set_index("doc_id")["wins"].to_dict()

    assert wins("one-hot-votes.csv") == {"m1": 1.5, "m3": 1.5, "m2": 0}
    assert wins("blanks-in-names.csv") == {"Claude": 1.5, "GPT-4": 1, "Llama": 0.5}
    place = str(CASES / "one-hot-votes.csv")
    votes = read_judgments(place, "me", Columns(query_id="id")).table
    assert votes["preference"].to_pylist() == [-1, 1, 0]
    assert len(scores_of(put(tmp_path / "a.csv", "a,b,winner\n1.5,y,a\n"))) == 2
    with pytest.raises(InputError, match="'1,000' may be a fraction or thousands"):
        scores_of(put(tmp_path / "b.csv", "a;b;winner;count\nx;y;a;1,000\n"))


def test_votes_and_winners_under_a_head(tmp_path):
    votes = tmp_path / "votes.csv"
    votes.write_text(
        "judge,query_id,doc_id_a,doc_id_b,preference,swapped\n"
        "j,q,1,2,-1,True\nj,q,1,3,0.5,0\nj,q,2,3,,false\nj,q,2,4,NaN,\n"
    )
    found = read_all_judgments([str(votes)])
    assert [tuple(row.values())[1:] for row in found.votes.to_pylist()] == [
        ("1", "2", "j", -1.0, True),
        ("1", "3", "j", 0.5, False),
    ]
    assert found.notes == (f"{votes}: 2 rows without an answer (null)",)
    winners = tmp_path / "winners.tsv"
    winners.write_text("winner\tturn\tmodel_b\tmodel_a\tquestion_id\nmodel_b\t1\ty\tx\t81\n")
    found = read_all_judgments([f"me={winners}"])
    assert [tuple(row.values()) for row in found.votes.to_pylist()] == [
        ("81-1", "x", "y", "me", 1.0, None)
    ]
