"""Judgments are read from whatever keeps them."""

import json
import math
from collections import namedtuple
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.inputs import read_pools
from zelo_ray.files.judgments import pools_file_of_truth, read_qrels
from zelo_ray.files.tables import schema_of, table_of
from zelo_ray.formats.interchange import beir
from zelo_ray.formats.interchange.iterables import pools_of, qrels_of, run_of
from zelo_ray.records import Document, GradedScore, Pool, Qrel, Score

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
def test_results_are_read_with_their_errors(out, name):
    truth = read_qrels(str(out / name))
    assert truth.schema == schema_of(Qrel)
    rows = [tuple(row.values()) for row in truth.to_pylist()]
    assert [row[:3] for row in rows] == PAIRS
    assert all(math.isnan(e) if name.startswith("annotated") else e == 0.25 for *_, e in rows)


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
    line = {"query": {"id": "q", "query": "?"}, "documents": documents}
    (tmp_path / "renamed.jsonl").write_text(json.dumps(line) + "\n")
    for name in ("scores.parquet", "renamed.jsonl"):
        assert read_qrels(str(tmp_path / name))["relevance"].to_pylist() == [2.4, 1 / 3]


BAD = [
    (pool_line("q3", {"d1": "high"}), r"annotated.jsonl:3: the score 'high' is not a number"),
    (pool_line("q3", {"d1": True}), r"annotated.jsonl:3: the score True is not a number"),
    ('{"query": {}, "documents": [{"id": "d", "score": 1}]}', r":3: needs the id of its query"),
    ('{"query": {"id": "q"}, "documents": 7}', ":3: "),
    ('{"query": ', ":3: is not valid JSON"),
    (pool_line("q1", {"d1": 1}), "'d1' of query 'q1' is judged twice"),
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
        ("score", [1.0, math.inf], "document 'b' for query 'q' is not a finite number"),
        ("score", ["a", "b"], r"scores\.parquet: the column score: "),
        ("score", [[1.0], [2.0]], "scores.parquet"),
        ("std_error", [0.1, math.inf], "a std_error is below 0, or infinite"),
        ("std_error", [0.1, -0.1], "a std_error is below 0, or infinite"),
        ("doc_id", ["a", None], "row 2: has no doc_id"),
    ):
        pq.write_table(pa.table({**columns, "std_error": [0.1, 0.2], name: values}), place)
        with pytest.raises(InputError, match=why):
            read_qrels(place)
    pq.write_table(pa.table({**columns, "score": [1.0, None]}), place)
    assert read_qrels(place)["doc_id"].to_pylist() == ["a"]
    Path(place).write_text("no")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_qrels(place)


def test_pools_of_truth(out, monkeypatch):
    beside = str(out / "annotated.jsonl")
    for place in (out, f"{out}/", f"{out}/scores.parquet", beside):
        assert pools_file_of_truth(str(place)) == beside
    qrels, collection = out / "qrels.txt", str(out / "beir")
    qrels.write_text("q1 0 d1 2.5\n")
    pools = [Pool("q1", "?", (Document("d1", "a"),))]
    beir.write_collection(collection, pools, read_qrels(str(qrels)))
    assert pools_file_of_truth(str(qrels)) is None
    assert pools_file_of_truth(collection) is None
    pools = read_pools(str(out)).pools
    assert [d.id for d in pools[0].documents] == ["d1", "d2", "d3"]
    with pytest.raises(OptionError, match=r"without the texts of documents and queries"):
        read_pools(str(qrels))
    monkeypatch.chdir(out)
    assert Path(pools_file_of_truth("scores.parquet")).read_text() == LINES


Doc = namedtuple("Doc", "doc_id title body")
Query = namedtuple("Query", "query_id text")
Judged = namedtuple("Judged", "query_id doc_id relevance iteration")
Scored = namedtuple("Scored", "query_id doc_id score")


class Dataset:
    def docs_iter(self):
        yield from (Doc("d1", "A", "one"), Doc("d2", "", "two"), Doc("d3", "C", "three"))

    def queries_iter(self):
        yield Query("q1", "which?")

    def qrels_iter(self):
        yield Judged("q1", "d3", 1, "0")


class WithFirstStage(Dataset):
    def scoreddocs_iter(self):
        yield from (Scored("q1", "d1", 1.5), Scored("q1", "d2", 7.0))


def test_iterables():
    assert qrels_of(Dataset()).to_pylist()[0]["relevance"] == 1.0
    judged = pools_of(Dataset()).pools
    assert judged == [Pool("q1", "which?", (Document("d3", "C\nthree"),))]
    assert run_of(WithFirstStage())["score"].to_pylist() == [1.5, 7.0]
    (pool,) = pools_of(WithFirstStage(), depth=1).pools
    assert pool.documents == (
        Document("d2", "two", {"ranks": {"first stage": 1}}),
        Document("d3", "C\nthree"),
    )
    assert len(pools_of(WithFirstStage()).pools[0].documents) == 3
