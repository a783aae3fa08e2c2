"""Collections of other tools: of BEIR, of MTEB, of ``ir_datasets``, and back."""

import math
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zelo_ray
from tests.builders import parsed, write_lines
from zelo_ray import cli
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OutputError
from zelo_ray.files.collections import index_by_id, read_texts, write_collection
from zelo_ray.files.inputs import InputOptions, make_pools, read_pools
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.make_pools import Notes, with_title
from zelo_ray.files.rows import open_source
from zelo_ray.files.tables import table_of
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


def pools_in(place):
    """The pools of a place, and the notes."""
    notes = Notes()
    return read_pools(str(place), notes=notes), notes.lines()


def test_a_collection_of_beir_is_read(folder):
    assert rows(read_qrels(str(folder))) == [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d3", 1)]
    pools, notes = pools_in(f"{folder}/")
    assert notes == []
    queries = index_by_id(read_texts(str(folder), "queries"))
    assert {p.query_id: p.query for p in pools} == {q: d.content for q, d in queries.items()}
    texts = {d.id: d for pool in pools for d in pool.documents}
    assert texts["d1"] == Document("d1", "Resets\nHold the button.", {"title": "Resets"})
    assert texts["d2"] == Document("d2", "Pull the plug.")
    assert texts["d3"].content == "Resets\nResets are easy."
    text = 'corpus-id\tquery-id\tscore\n"d1\tq1\t2\nd"2"\tq1\t0\n'  # a quote is a part of an id
    (folder / "qrels/test.tsv").write_text(text)
    assert rows(read_qrels(str(folder))) == [("q1", '"d1', 2), ("q1", 'd"2"', 0)]


def test_of_several_splits_it_is_the_test_split(folder):
    (folder / "qrels/dev.tsv").write_text(QRELS.replace("q2", "q9"))
    assert len(read_qrels(str(folder))) == 3
    (folder / "qrels/test.tsv").rename(folder / "qrels/train.tsv")
    with pytest.raises(InputError, match=r"no split called test: name one file, dev.tsv or train"):
        read_qrels(str(folder))
    assert rows(read_qrels(f"{folder}/qrels/dev.tsv"))[-1] == ("q9", "d3", 1)


def test_an_order_that_tells_the_truth_is_noted(folder):
    best = {"query-id": "q1", "corpus-ids": ["d1", "d2", "d3"]}
    other = {"query-id": "q2", "corpus-ids": ["d2", "d3"]}
    for rows_, noted in (([best], 1), ([best, other], 0)):
        write_lines(folder / "top_ranked.jsonl", rows_)
        notes = pools_in(folder)[1]
        assert len([note for note in notes if "not a first-stage ranking" in note]) == noted


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
    (pool,), _ = pools_in(tmp_path)
    assert [document.id for document in pool.documents] == ["d1", "d2"]
    assert rows(read_qrels(str(tmp_path))) == [("q1", "d2", 1)]


def test_what_has_no_text_is_left_out_and_noted(folder):
    write_lines(folder / "corpus.jsonl", [CORPUS[0], {"_id": "d2", "text": " \n"}])
    write_lines(folder / "queries.jsonl", QUERIES[:1])
    (pool,), notes = pools_in(folder)
    assert [document.id for document in pool.documents] == ["d1"]
    assert [note[-4:] for note in notes] == ["(q2)", "(d2)"]


TWICE = '{"_id": "q1", "text": "a"}\n{"_id": "q1", "text": "b"}'
WRONG = [
    ("qrels/test.tsv", QRELS + "q3\td1\n", "test.tsv:5: has 2 columns"),
    ("qrels/test.tsv", QRELS + "q3\td1\thigh\n", "test.tsv:5: "),
    ("qrels/test.tsv", QRELS + "q1\td1\t0\n", "document 'd1' of query 'q1' is judged twice"),
    ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "holds no judged document"),
    ("queries.jsonl", '{"_id": "q1", "text": 7}\n', "queries.jsonl:1: is a int; write a text"),
    ("queries.jsonl", '\n{"text": "x"}\n', "queries.jsonl: holds no queries of an id and a text"),
    ("queries.jsonl", '{"_id"\n', "queries.jsonl.*"),
    ("queries.jsonl", TWICE, "'q1' has two"),
    ("corpus.jsonl", '{"_id": "d1"}\n', "corpus.jsonl: holds no corpus of an id and a text"),
    ("top_ranked.jsonl", '{"query-id": "q1"}\n', "top_ranked.jsonl:1: needs query-id and"),
    ("corpus.jsonl", None, "holds neither corpus.jsonl"),
]


@pytest.mark.parametrize(("name", "text", "why"), WRONG)
def test_what_is_wrong_is_named(folder, name, text, why):
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    with pytest.raises(InputError, match=why):
        read_pools(str(folder))


def test_a_text_is_a_tab_away_from_its_id(tmp_path):
    path = tmp_path / "queries.tsv"
    path.write_text("7\twhat is\ta tab?\r\n8\tb\n")
    found = [Document("7", "what is\ta tab?"), Document("8", "b")]
    assert [*read_texts(str(path), "queries")] == found
    for data, why in ((b"7\tcaf\xe9\n", "is not UTF-8"), (b"7 what?\n", "has no tab")):
        path.write_bytes(data)
        with pytest.raises(InputError, match=rf"queries.tsv:1: {why}"):
            [*read_texts(str(path), "queries")]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)
IDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=5)


@given(st.dictionaries(IDS, st.tuples(st.sampled_from(["", "Title"]), TEXT), min_size=2), st.data())
@settings(max_examples=50, deadline=None)
def test_what_is_written_is_read_again(tmp_path_factory, texts, data):
    root = str(tmp_path_factory.mktemp("beir"))
    known = [with_title(doc_id, title, text) for doc_id, (title, text) in texts.items()]
    order = data.draw(st.permutations(known))
    about = {"narrative": "n"}
    pools = [Pool("q1", "one?", tuple(known), about=about), Pool("q2", "two?", tuple(order))]
    grades = [Qrel("q1", known[-1].id, 0.1, math.nan), Qrel("q2", order[-1].id, 3.0, math.nan)]
    qrels = table_of(grades, Qrel)
    write_collection(root, pools, qrels)
    assert pools_in(root)[0] == pools
    assert rows(read_qrels(root)) == rows(qrels)


def test_what_cannot_be_written_is_refused(tmp_path):
    pools = [Pool("q1", "?", (Document("d", "a"),)), Pool("q2", "?", (Document("d", "b"),))]
    qrels = table_of([Qrel("q1", "d\t", 1.0, math.nan)], Qrel)
    with pytest.raises(OutputError, match="document 'd' has two different texts"):
        write_collection(str(tmp_path), pools, qrels)
    with pytest.raises(OutputError, match=r"the doc_id 'd\\t' cannot stand in a TSV file"):
        write_collection(str(tmp_path), pools[:1], qrels)


# MTEB's reranking rows


RERANKING = [
    {"query": "which?", "positive": ["yes", "also yes"], "negative": ["no", "no"]},
    {"query": ["how?", "in what way?"], "positive": ["so"], "negative": ["hm"], "more": 1},
]


def test_rows_of_mteb_are_pools_and_their_truth(tmp_path):
    place = str(write_lines(tmp_path / "rows.jsonl", RERANKING))
    pools, notes = pools_in(place)
    assert notes == []
    grades = {(q, d): relevance for q, d, relevance in rows(read_qrels(place))}
    found = [
        (pool.query, sorted((grades[pool.query_id, d.id], d.content) for d in pool.documents))
        for pool in pools
    ]
    assert found == [
        ("which?", [(0, "no"), (0, "no"), (1, "also yes"), (1, "yes")]),
        ("how?\nin what way?", [(0, "hm"), (1, "so")]),
    ]
    pq.write_table(pa.Table.from_pylist([RERANKING[0]]), tmp_path / "rows.parquet")
    assert pools_in(tmp_path / "rows.parquet")[0] == pools[:1]
    places = [str(write_lines(tmp_path / f"{name}.jsonl", RERANKING)) for name in "ab"]
    made = [*make_pools([*map(open_source, places)], InputOptions(), Notes())]
    assert len({(pool["query"]["id"], d["id"]) for pool in made for d in pool["documents"]}) == 12
    alone = {query_id for query_id, _ in grades}
    assert not alone & {pool["query"]["id"] for pool in made}, "no truth of one file by mistake"
    assert "grade" not in str(made)


def test_neither_place_nor_id_tells_the_positives(tmp_path):
    many = [{"query": "?", "positive": ["p"] * 5, "negative": ["n"] * 5}] * 40
    pools = pools_in(write_lines(tmp_path / "rows.jsonl", many))[0]
    for place in (0, 9):
        by_place = [pool.documents[place].content for pool in pools]
        by_id = [sorted(pool.documents, key=lambda d: d.id)[place].content for pool in pools]
        assert 8 < by_place.count("p") < 32
        assert 8 < by_id.count("p") < 32
    assert pools_in(tmp_path / "rows.jsonl")[0] == pools


def test_rows_of_mteb_that_are_empty_or_wrong(tmp_path):
    empty = [
        {"query": " ", "positive": ["p"], "negative": ["n"]},
        RERANKING[0] | {"negative": ["n", ""]},
    ]
    place = str(write_lines(tmp_path / "rows.jsonl", empty))
    pools, notes = pools_in(place)
    assert [pool.query_id for pool in pools] == ["query2"]
    assert len(read_qrels(place)) == 3
    assert [note[-8:] for note in notes] == ["(query1)", "(query2)"]
    for change in ({"negative": None}, {"positive": "p"}, {"query": 7}, {"positive": [["p"]]}):
        write_lines(tmp_path / "rows.jsonl", [*RERANKING, RERANKING[0] | change])
        with pytest.raises(InputError, match=r"rows\.jsonl:3: needs a query, and lists"):
            read_pools(place)


# Data sets of ir_datasets


NAME = "ir_datasets:zelo-ray-tests/local"


def test_a_data_set_of_ir_datasets_is_pools_and_truth(tmp_path, monkeypatch):
    ir_datasets = pytest.importorskip("ir_datasets")
    monkeypatch.chdir(tmp_path)
    Path("docs.tsv").write_text("d1\tpull the tick out\nd2\tthe clock ticks\nd3\tsoap\n")
    Path("queries.tsv").write_text("q1\thow to remove a tick\nq2\tclock\n")
    Path("people.qrels").write_text("q1 0 d1 2\nq1 0 d2 0\nq2 0 d2 1\nq2 0 d3 0\n")
    made = ir_datasets.create_dataset("docs.tsv", "queries.tsv", "people.qrels")
    known = ir_datasets.registry._registered
    monkeypatch.setitem(known, NAME.partition(":")[2], made)
    said = convert(parsed("convert", "pool", NAME, "--out", "pools.jsonl"))
    assert said.startswith("2 pools with 4 documents: pools.jsonl")
    assert read_qrels(NAME)["relevance"].to_pylist() == [2, 0, 1, 0]
    Path("bm25.run").write_text("q1 Q0 d1 1 2 bm25\nq2 Q0 d3 1 1 bm25\n")
    contest = zelo_ray.bakeoff(truth=NAME, pools=NAME, runs="bm25.run", out="contest")
    assert contest.means.to_arrow().num_rows
    with pytest.raises(InputError, match="ir_datasets:nope: ir_datasets has no such data set"):
        convert(parsed("convert", "pool", "ir_datasets:nope", "--out", "p.jsonl"))


def test_a_library_that_is_missing_names_its_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with pytest.raises(InputError, match=r"pip install 'zelo-ray\[ir-datasets\]'"):
        read_qrels(NAME)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    for words in ("annotate gs://b/x.jsonl --judges offline", "convert qrels gs://b/x.jsonl"):
        assert cli.main([*words.split(), "--out", str(tmp_path / "out")]) != 0
        assert "gs://b/x.jsonl: needs the extra gcs: pip install" in capsys.readouterr().err
