"""Collections in a directory: of BEIR, of MTEB, and back."""

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import write_lines
from zelo_ray.errors import InputError, Unwritable
from zelo_ray.formats.interchange import beir
from zelo_ray.formats.interchange.texts import read_texts, with_title
from zelo_ray.formats.tables import table_of
from zelo_ray.records import Document, Pool, Qrel

CORPUS = [
    {"_id": "d1", "title": "Resets", "text": "Hold the button."},
    {"_id": "d2", "title": "", "text": "Pull the plug."},
    {"_id": "d3", "text": "Resets\nResets are easy.", "title": "Resets"},
    {"_id": "d4", "title": "Never asked for", "text": None},
]
QUERIES = [{"_id": "q1", "text": "how do I reset it?"}, {"_id": "q2", "text": "why?"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td3\t1\n"


@pytest.fixture
def folder(tmp_path):
    write_lines(tmp_path / "corpus.jsonl", CORPUS)
    write_lines(tmp_path / "queries.jsonl", QUERIES)
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels/test.tsv").write_text(QRELS)
    return tmp_path


def rows(qrels):
    return [tuple(row.values())[:3] for row in qrels.to_pylist()]


def documents(filled):
    return {pool.query_id: [d.id for d in pool.documents] for pool in filled.pools}


def test_read(folder):
    qrels = beir.read_beir_qrels(str(folder))
    assert rows(qrels) == [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d3", 1)]
    filled = beir.read_beir_pools(f"{folder}/")
    assert filled.notes == []
    queries = {id_: query.content for id_, query in beir.read_queries(str(folder)).items()}
    assert {pool.query_id: pool.query for pool in filled.pools} == queries
    texts = {d.id: d for pool in filled.pools for d in pool.documents}
    assert texts["d1"] == Document("d1", "Resets\nHold the button.", {"title": "Resets"})
    assert texts["d2"] == Document("d2", "Pull the plug.")
    assert texts["d3"].content == "Resets\nResets are easy."


def test_a_quote_is_a_part_of_an_id(folder):
    text = 'corpus-id\tquery-id\tscore\n"d1\tq1\t2\nd"2"\tq1\t0\n'
    (folder / "qrels/test.tsv").write_text(text)
    assert rows(beir.read_beir_qrels(str(folder))) == [("q1", '"d1', 2), ("q1", 'd"2"', 0)]


def test_of_several_splits_it_is_the_test_split(folder):
    (folder / "qrels/dev.tsv").write_text(QRELS.replace("q2", "q9"))
    write_lines(folder / "qrels/test.jsonl", [{"query-id": "q1", "corpus-id": "d1", "score": 9}])
    assert len(beir.read_beir_qrels(str(folder))) == 3
    (folder / "qrels/test.tsv").rename(folder / "qrels/train.tsv")
    assert len(beir.read_beir_qrels(str(folder))) == 1
    (folder / "qrels/test.jsonl").unlink()
    with pytest.raises(InputError, match=r"no split test; .* \(dev.tsv, train"):
        beir.read_beir_qrels(str(folder))
    assert rows(beir.read_beir_qrels(f"{folder}/qrels/dev.tsv"))[-1] == ("q9", "d3", 1)


def test_an_order_that_tells_the_truth_is_noted(folder):
    best = {"query-id": "q1", "corpus-ids": ["d1", "d2", "d3"]}
    write_lines(folder / "top_ranked.jsonl", [best])
    (note,) = beir.read_beir_pools(str(folder)).notes
    assert "relevant documents come first" in note
    write_lines(folder / "top_ranked.jsonl", [best, {"query-id": "q2", "corpus-ids": ["d2", "d3"]}])
    assert beir.read_beir_pools(str(folder)).notes == []


def test_data_sets_as_they_lie_on_hugging_face(tmp_path):
    tables = {
        "corpus": [{"id": d, "title": "", "text": f"text of {d}"} for d in ("d1", "d2")],
        "queries": [{"id": "q1", "text": "which?"}],
        "qrels": [{"query-id": "q1", "corpus-id": "d2", "score": 1}],
        "top_ranked": [{"query-id": "q1", "corpus-ids": ["d1", "d2"]}],
    }
    for name, content in tables.items():
        (tmp_path / name).mkdir()
        place = tmp_path / name / "test-00000-of-00001.parquet"
        pq.write_table(pa.Table.from_pylist(content), place)
    assert documents(beir.read_beir_pools(str(tmp_path))) == {"q1": ["d1", "d2"]}
    assert rows(beir.read_beir_qrels(str(tmp_path))) == [("q1", "d2", 1)]


def test_what_has_no_text_is_left_out_and_noted(folder):
    write_lines(folder / "corpus.jsonl", [CORPUS[0], {"_id": "d2", "text": " \n"}])
    write_lines(folder / "queries.jsonl", QUERIES[:1])
    filled = beir.read_beir_pools(str(folder))
    assert documents(filled) == {"q1": ["d1"]}
    assert filled.notes == [
        "left out queries without a text: 1 (q2)",
        "left out documents with an empty text: 1 (d2)",
    ]


TWICE = '{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}'


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("qrels/test.tsv", QRELS + "q3\td1\n", "test.tsv:5: has 2 columns, but the header has 3"),
        ("qrels/test.tsv", QRELS + "q3\td1\thigh\n", "test.tsv:5: needs"),
        ("qrels/test.tsv", QRELS + "q1\td1\t0\n", "document 'd1' of query 'q1' is judged twice"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "holds no judged document"),
        ("queries.jsonl", '{"_id": "q1", "text": 7}\n', "queries.jsonl:1: has no text"),
        ("queries.jsonl", '\n{"text": "x"}\n', "queries.jsonl:2: has no id"),
        ("queries.jsonl", '{"_id"\n', "queries.jsonl:1: is not valid JSON"),
        ("queries.jsonl", TWICE, "'q1' has two"),
        ("queries.jsonl", "[]\n", "queries.jsonl:1: is not a JSON object"),
        ("corpus.jsonl", '{"_id": "d1"}\n', "corpus.jsonl:1: has no text"),
        ("top_ranked.jsonl", '{"query-id": "q1"}\n', "top_ranked.jsonl:1: needs query-id and"),
        ("corpus.jsonl", None, "holds none of corpus.tsv, .*, corpus/"),
    ],
)
def test_what_is_wrong_is_named(folder, name, text, why):
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    with pytest.raises(InputError, match=why):
        beir.read_beir_pools(str(folder))


def test_a_text_is_a_tab_away_from_its_id(tmp_path):
    path = tmp_path / "queries.tsv"
    path.write_text("7\twhat is\ta tab?\r\n8\tb\n")
    assert beir.read_queries(str(path)) == {
        "7": Document("7", "what is\ta tab?"),
        "8": Document("8", "b"),
    }
    assert [d.id for d in read_texts(str(path), "corpus", {"8"})] == ["8"]
    path.write_bytes(b"7\tcaf\xe9\n")
    with pytest.raises(InputError, match=r"queries.tsv:1: is not UTF-8"):
        beir.read_queries(str(path))
    path.write_text("7 what?\n")
    with pytest.raises(InputError, match=r"queries.tsv:1: has no tab"):
        beir.read_queries(str(path))


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)
IDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=5)


@given(st.dictionaries(IDS, st.tuples(st.sampled_from(["", "Title"]), TEXT), min_size=2), st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_again(tmp_path_factory, texts, data):
    root = str(tmp_path_factory.mktemp("beir"))
    known = [with_title(doc_id, title, text) for doc_id, (title, text) in texts.items()]
    order = data.draw(st.permutations(known))
    pools = [Pool("q1", "one?", tuple(known)), Pool("q2", "two?", tuple(order))]
    grades = [Qrel("q1", known[-1].id, 0.1, math.nan), Qrel("q2", order[-1].id, 3.0, math.nan)]
    qrels = table_of(grades, Qrel)
    beir.write_collection(root, pools, qrels)
    assert beir.read_beir_pools(root).pools == pools
    assert rows(beir.read_beir_qrels(root)) == rows(qrels)


def test_what_cannot_be_written_is_refused(tmp_path):
    pools = [Pool("q1", "?", (Document("d", "a"),)), Pool("q2", "?", (Document("d", "b"),))]
    qrels = table_of([Qrel("q1", "d\t", 1.0, math.nan)], Qrel)
    with pytest.raises(Unwritable, match="document 'd' has one text here and another there"):
        beir.write_collection(str(tmp_path), pools, qrels)
    with pytest.raises(Unwritable, match=r"the doc_id 'd\\t' cannot stand in a TSV file"):
        beir.write_collection(str(tmp_path), pools[:1], qrels)
