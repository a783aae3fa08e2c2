"""Judgments are read from whatever keeps them."""

import json
import math
from collections import namedtuple
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zelo_ray.errors import InputError
from zelo_ray.formats.interchange import beir
from zelo_ray.formats.interchange.iterables import pools_of, qrels_of, run_of
from zelo_ray.formats.interchange.truth import (
    TRUTH_FORMATS,
    detect_format,
    pools_file_of_truth,
    read_pools,
    read_truth,
)
from zelo_ray.formats.tables import schema_of, table_of
from zelo_ray.records import Document, Pool, Qrel, Score

PAIRS = [("q1", "d1", 2.5), ("q1", "d2", -0.5), ("q2", "d1", 0.0)]


def pool_line(query_id, scores):
    documents = [{"id": d, "content": f"text {d}", "score": s} for d, s in scores.items()]
    for document in documents:
        if document["score"] is ...:
            del document["score"]
    return json.dumps({"query": {"id": query_id, "query": "?"}, "documents": documents}) + "\n"


LINES = pool_line("q1", {"d1": 2.5, "d2": -0.5, "d3": ...}) + pool_line("q2", {"d1": 0, "d4": None})


@pytest.fixture
def out(tmp_path):
    """What annotate leaves."""
    scores = [Score(*pair, 0.25, 8, 1) for pair in PAIRS]
    pq.write_table(table_of(scores, Score), tmp_path / "scores.parquet")
    (tmp_path / "annotated.jsonl").write_text(LINES)
    (tmp_path / "run.json").write_text("{}")
    return tmp_path


def keep(path, name):
    """The same judgments in every kind of place."""
    if name == "qrels.txt":
        (path / name).write_text("q1 0 d1 2.5\nq1 0 d2 -0.5\nq2 0 d1 0\n")
    elif name == "beir":
        qrels = table_of([Qrel(*pair, math.nan) for pair in PAIRS], Qrel)
        pools = [Pool("q1", "?", (Document("d1", "a"), Document("d2", "b")))]
        beir.write_collection(str(path / name), pools, qrels)
    elif name == "test.tsv":
        text = "\n".join("\t".join(map(str, pair)) for pair in PAIRS)
        (path / name).write_text(f"query-id\tcorpus-id\tscore\n{text}\n")
    elif name == "qrels.parquet":
        columns = zip(*PAIRS, strict=True)
        pq.write_table(pa.table(list(columns), ["query_id", "doc_id", "relevance"]), path / name)
    return str(path / name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("", "the --out"),
        ("scores.parquet", "Parquet"),
        ("annotated.jsonl", "annotated"),
        ("qrels.txt", "TREC"),
        ("beir", "a BEIR"),
        ("beir/qrels/test.tsv", "BEIR qrels"),
        ("test.tsv", "BEIR qrels"),
        ("qrels.parquet", "Parquet"),
    ],
)
def test_read(out, name, kind):
    place = keep(out, name.split("/")[0]) + name.removeprefix(name.split("/")[0])
    assert detect_format(place)[0].startswith(kind)
    truth = read_truth(place)
    assert truth.schema == schema_of(Qrel)
    rows = [tuple(row.values()) for row in truth.to_pylist()]
    assert [row[:3] for row in rows] == PAIRS
    told = name in ("", "scores.parquet")
    assert all(row[3] == 0.25 if told else math.isnan(row[3]) for row in rows)


def test_mteb_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"query": "?", "positive": ["a"], "negative": ["b", "c"]}\n')
    assert sorted(read_truth(str(path))["relevance"].to_pylist()) == [0, 0, 1]
    assert len(read_pools(str(path)).pools[0].documents) == 3


def test_every_kind_is_tried():
    assert len(TRUTH_FORMATS) == 7


@pytest.mark.parametrize("text", ["", "what is this?\n", "1 2 3 4 5 6\n", '{"a": 1}\n', "[1]\n"])
def test_what_is_not_known_is_told_with_what_is(tmp_path, text):
    path = tmp_path / "truth.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=r"truth.txt: .*judgments .*annotate; .*TREC qrels"):
        read_truth(str(path))


def test_other_places(tmp_path):
    with pytest.raises(InputError, match=r"holds no judgments of a known kind \(but nothing\)"):
        read_truth(str(tmp_path))
    with pytest.raises(InputError, match="no such file"):
        read_truth(str(tmp_path / "none"))
    (tmp_path / "no.parquet").write_text("no")
    with pytest.raises(InputError, match="is not a Parquet file"):
        read_truth(str(tmp_path / "no.parquet"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (pool_line("q3", {"d1": "high"}), r"annotated.jsonl:3: .*a score is a number"),
        (pool_line("q3", {"d1": True}), r"annotated.jsonl:3: .*a score is a number"),
        (pool_line("q3", {7: 1.0}).replace('"7"', "7", 1), r":3: .*an id is a string"),
        ('{"query": {}, "documents": [{"id": "d", "score": 1}]}', r":3: .*'id'"),
        ('{"query": {"id": "q"}, "documents": 7}', ":3: "),
        ('{"query": ', ":3: is not valid JSON"),
        (pool_line("q1", {"d1": 1}), "'d1' of query 'q1' is judged twice"),
    ],
)
def test_a_bad_annotated_line_is_named(out, line, why):
    (out / "annotated.jsonl").write_text(LINES + line)
    with pytest.raises(InputError, match=why):
        read_truth(str(out / "annotated.jsonl"))


def test_scores_that_are_none(out):
    columns = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [1.0, None]}
    pq.write_table(pa.table(columns), out / "some.parquet")
    assert read_truth(str(out / "some.parquet"))["doc_id"].to_pylist() == ["a"]
    pq.write_table(pa.table(columns | {"score": [1.0, math.inf]}), out / "some.parquet")
    with pytest.raises(InputError, match="document 'b' for query 'q' is not a finite number"):
        read_truth(str(out / "some.parquet"))
    pq.write_table(pa.table(columns | {"score": ["a", "b"]}), out / "some.parquet")
    with pytest.raises(InputError, match=r"some\.parquet: the column score: ArrowInvalid"):
        read_truth(str(out / "some.parquet"))


def test_pools_of_truth(out, tmp_path):
    beside = str(out / "annotated.jsonl")
    assert pools_file_of_truth(str(out)) == pools_file_of_truth(f"{out}/") == beside
    assert pools_file_of_truth(f"{out}/scores.parquet") == pools_file_of_truth(beside) == beside
    assert pools_file_of_truth(keep(out, "qrels.txt")) is None
    assert pools_file_of_truth(keep(out, "beir")) is None


def test_pools_beside_scores_of_this_very_folder(out, monkeypatch):
    monkeypatch.chdir(out)
    assert Path(pools_file_of_truth("scores.parquet")).read_text() == LINES


def test_read_pools(out):
    pools = read_pools(str(out)).pools
    assert [d.id for d in pools[0].documents] == ["d1", "d2", "d3"]
    with pytest.raises(InputError, match="hold no texts; these do: the --out of annotate"):
        read_pools(keep(out, "qrels.txt"))


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


def test_iterables_of_the_package_itself():
    formats = pytest.importorskip("ir_datasets.formats")

    class Theirs(Dataset):
        def docs_iter(self):
            yield formats.GenericDoc("d3", "three")

        def qrels_iter(self):
            yield formats.TrecQrel("q1", "d3", 1, "0")

        def scoreddocs_iter(self):
            yield formats.GenericScoredDoc("q1", "d3", 0.5)

    assert pools_of(Theirs()).pools[0].documents[0].content == "three"


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("std_error", [0.1, float("inf")], "a std_error is below 0, or infinite"),
        ("std_error", [0.1, -0.1], "a std_error is below 0, or infinite"),
        ("doc_id", ["a", None], "row 2: has no doc_id"),
        ("score", [[1.0], [2.0]], "scores.parquet"),
    ],
)
def test_a_table_with_what_no_judgments_hold_is_told(tmp_path, column, values, says):
    columns = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [1.0, 2.0]}
    columns |= {"std_error": [0.1, 0.2], column: values}
    pq.write_table(pa.table(columns), tmp_path / "scores.parquet")
    with pytest.raises(InputError, match=says):
        read_truth(str(tmp_path / "scores.parquet"))
