"""Runs are read from whatever holds them."""

import json

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError
from zelo_ray.files.judgments import read_runs
from zelo_ray.options.files import ConvertOptions

COLUMNS = {"run": ["a", "b", "a"], "query_id": ["q"] * 3, "doc_id": ["x", "x", "y"]}
TABLE = pa.table({**COLUMNS, "score": [1.0, 2.0, 0.5]})


def test_a_table_of_many_runs_and_a_file_of_one(tmp_path):
    pq.write_table(TABLE, tmp_path / "runs.parquet")
    pq.write_table(TABLE.slice(0, 1).drop_columns("run"), tmp_path / "mine.parquet")
    (tmp_path / "c.run").write_text("q Q0 z 1 3.5 c\n")
    runs = read_runs([str(tmp_path / name) for name in ("runs.parquet", "mine.parquet", "c.run")])
    assert {name: table["doc_id"].to_pylist() for name, table in runs.items()} == {
        "a": ["x", "y"],
        "b": ["x"],
        "mine": ["x"],
        "c": ["z"],
    }
    assert all(table.column_names == ["query_id", "doc_id", "score"] for table in runs.values())


def test_two_runs_of_one_name_are_refused(tmp_path):
    pq.write_table(TABLE, tmp_path / "runs.parquet")
    (tmp_path / "other.run").write_text("q Q0 z 1 3.5 a\n")
    with pytest.raises(InputError, match="another run has the same name, a"):
        read_runs([str(tmp_path / "runs.parquet"), str(tmp_path / "other.run")])


def test_one_run_becomes_a_trec_run_and_several_do_not(tmp_path):
    source, out = str(tmp_path / "runs.parquet"), str(tmp_path / "b.run")
    pq.write_table(TABLE, source)
    given = {"what": "run", "source": source, "out": out}
    with pytest.raises(InputError, match=r"holds several runs \(a, b\)"):
        convert(ConvertOptions(**given))
    pq.write_table(TABLE.filter(pc.equal(TABLE["run"], "b")), source)
    convert(ConvertOptions(**given))
    assert (tmp_path / "b.run").read_text() == "q Q0 x 1 2 b\n"


def test_a_table_with_what_no_run_holds_is_refused(tmp_path):
    for column, values, says in (
        ("score", [1.0, float("nan"), 2.0], "a score is not a finite number"),
        ("score", ["high", "low", "no"], "Failed to parse"),
        ("doc_id", ["x", None, "y"], "row 2: has no doc_id"),
        ("run", ["a", "", "b"], "row 2: has no run"),
        ("doc_id", ["x", "x", "x"], "document 'x' of query 'q' is ranked twice"),
    ):
        at = TABLE.column_names.index(column)
        pq.write_table(TABLE.set_column(at, column, pa.array(values)), tmp_path / "runs.parquet")
        with pytest.raises(InputError, match=says):
            read_runs([str(tmp_path / "runs.parquet")])


def test_annotated_lines_are_a_run_of_the_documents_with_a_score(tmp_path):
    documents = [{"id": "x", "content": "a", "score": 2}, {"id": "y", "content": "b"}]
    line = {"query": {"id": "q", "query": "?"}, "documents": documents}
    (tmp_path / "mine.jsonl").write_text(json.dumps(line) + "\n")
    runs = read_runs([str(tmp_path / "mine.jsonl")])
    assert runs["mine"].to_pylist() == [{"query_id": "q", "doc_id": "x", "score": 2.0}]
    documents[0]["score"] = "high"
    (tmp_path / "bad.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(InputError, match="the score 'high' is not a number"):
        read_runs([str(tmp_path / "bad.jsonl")])
