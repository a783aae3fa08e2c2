"""Collections of other tools: of BEIR, of MTEB, of ``ir_datasets``, and back."""

import math
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import zelo_ray
from tests.files.reading import (
    collections,
    ids_of,
    inputs,
    read_inputs,
    read_pools,
    read_qrels,
    records_table,
    refused,
    with_title,
    write_file,
    write_folder,
)
from tests.helpers.builders import convert
from zelo_ray import cli
from zelo_ray.records import Document, Pool, Qrel

CORPUS = [
    {"_id": "d1", "title": "Resets", "text": "Hold the button."},
    {"_id": "d2", "title": "", "text": "Pull the plug."},
    {"_id": "d3", "text": "Resets\nResets are easy.", "title": "Resets"},
    {"_id": "d4", "title": "Never asked for", "text": None},
]
QUERIES = [{"_id": "q1", "text": "how do I reset it?"}, {"_id": "q2", "text": "why?"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td3\t1\n"
FOLDER = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels/test.tsv": QRELS}


@pytest.fixture
def folder(tmp_path):
    return Path(write_folder(tmp_path / "set", FOLDER))


def test_a_collection_of_beir_is_read(folder):
    assert read_qrels(folder) == [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d3", 1)]
    pools = read_pools(f"{folder}/")
    assert {p.query_id: p.query for p in pools} == {q["_id"]: q["text"] for q in QUERIES}
    texts = {d.id: d for pool in pools for d in pool.documents}
    assert texts["d1"] == Document("d1", "Resets\nHold the button.", {"title": "Resets"})
    assert texts["d2"] == Document("d2", "Pull the plug.")
    assert texts["d3"].content == "Resets\nResets are easy."
    text = 'corpus-id\tquery-id\tscore\n"d1\tq1\t2\nd"2"\tq1\t0\n'  # a quote is a part of an id
    write_file(folder / "qrels/test.tsv", text)
    assert read_qrels(folder) == [("q1", '"d1', 2), ("q1", 'd"2"', 0)]


def test_of_several_splits_it_is_the_test_split(folder):
    write_file(folder / "qrels/dev.tsv", QRELS.replace("q2", "q9"))
    assert len(read_qrels(folder)) == 3
    (folder / "qrels/test.tsv").rename(folder / "qrels/train.tsv")
    with refused(r"name one, dev.tsv or train"):
        read_qrels(folder)
    assert read_qrels(folder / "qrels/dev.tsv")[-1] == ("q9", "d3", 1)


def test_data_sets_as_they_lie_on_hugging_face(tmp_path):
    tables = {
        "corpus": [{"id": d, "title": "", "text": f"text of {d}"} for d in ("d1", "d2")],
        "queries": [{"id": "q1", "text": "which?"}],
        "qrels": [{"query-id": "q1", "corpus-id": "d2", "score": 1}],
        "top_ranked": [{"query-id": "q1", "corpus-ids": ["d1", "d2"]}],
    }
    files = {f"{name}/test-00000-of-00001.parquet": rows for name, rows in tables.items()}
    folder = write_folder(tmp_path / "set", files)
    assert ids_of(read_inputs(tmp_path, folder)[0]) == {"q1": ["d1", "d2"]}
    assert read_qrels(folder) == [("q1", "d2", 1)]


WRONG = {
    "two columns": ("qrels/test.tsv", QRELS + "q3\td1\n", "test.tsv:5: has 2 columns"),
    "a word": ("qrels/test.tsv", QRELS + "q3\td1\thigh\n", "test.tsv:5: "),
    "judged twice": ("qrels/test.tsv", QRELS + "q1\td1\t0\n", "'d1' of query 'q1' .*twice"),
    "a head alone": ("qrels/test.tsv", QRELS[: QRELS.index("q1")], "holds no judged document"),
    "no text": ("queries.jsonl", '{"_id": "q1", "text": 7}\n', "queries.jsonl:1: .*write a text"),
    "no id": ("queries.jsonl", '\n{"text": "x"}\n', "queries.jsonl: holds no queries"),
    "torn": ("queries.jsonl", '{"_id"\n', "queries.jsonl"),
    "twice": ("queries.jsonl", [QUERIES[0], QUERIES[0] | {"text": "x"}], "'q1' has two"),
    "no texts": ("corpus.jsonl", '{"_id": "d1"}\n', "corpus.jsonl: holds no corpus"),
    "no list": ("top_ranked.jsonl", '{"query-id": "q1"}\n', "top_ranked.jsonl:1: needs"),
    "no corpus": ("corpus.jsonl", None, "holds neither corpus.jsonl"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_in_a_collection_is_named(folder, case):
    name, content, says = WRONG[case]
    if content is None:
        (folder / name).unlink()
    else:
        write_file(folder / name, content)
    with refused(says):
        read_pools(folder)


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1).filter(str.strip)
IDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=5)


@given(st.dictionaries(IDS, st.tuples(st.sampled_from(["", "Title"]), TEXT), min_size=2), st.data())
@settings(max_examples=50)
def test_what_is_written_is_read_again(tmp_path_factory, texts, data):
    root = str(tmp_path_factory.mktemp("beir"))
    known = [with_title(doc_id, title, text) for doc_id, (title, text) in texts.items()]
    order = data.draw(st.permutations(known))
    pools = [Pool("q1", "one?", tuple(known), about={"narrative": "n"})]
    pools += [Pool("q2", "two?", tuple(order))]
    grades = [("q1", known[-1].id, 0.1), ("q2", order[-1].id, 3.0)]
    qrels = records_table([Qrel(*grade, math.nan) for grade in grades], Qrel)
    collections.write_collection(root, pools, qrels)
    assert read_pools(root) == pools
    assert read_qrels(root) == grades


# MTEB's reranking rows


RERANKING = [
    {"query": "which?", "positive": ["yes", "also yes"], "negative": ["no", "no"]},
    {"query": ["how?", "in what way?"], "positive": ["so"], "negative": ["hm"], "more": 1},
]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_rows_of_mteb_are_pools_and_their_truth(tmp_path, form):
    rows = RERANKING[:1] if form == "parquet" else RERANKING
    place = write_file(tmp_path / f"rows.{form}", rows)
    grades = {(q, d): relevance for q, d, relevance in read_qrels(place)}
    found = [
        (pool.query, sorted((grades[pool.query_id, d.id], d.content) for d in pool.documents))
        for pool in read_pools(place)
    ]
    assert (
        found
        == [
            ("which?", [(0, "no"), (0, "no"), (1, "also yes"), (1, "yes")]),
            ("how?\nin what way?", [(0, "hm"), (1, "so")]),
        ][: len(rows)]
    )


def test_neither_place_nor_id_tells_the_positives(tmp_path):
    many = [{"query": "?", "positive": ["p"] * 5, "negative": ["n"] * 5}] * 40
    pools = read_pools(write_file(tmp_path / "rows.jsonl", many))
    for place in (0, 9):
        by_place = [pool.documents[place].content for pool in pools]
        by_id = [sorted(pool.documents, key=lambda d: d.id)[place].content for pool in pools]
        assert all(8 < each.count("p") < 32 for each in (by_place, by_id))
    assert read_pools(tmp_path / "rows.jsonl") == pools


# Data sets of ir_datasets, and what is public


NAME = "ir_datasets:zelo-ray-tests/local"


def test_a_data_set_of_ir_datasets_is_read(tmp_path, monkeypatch):
    ir_datasets = pytest.importorskip("ir_datasets")
    monkeypatch.chdir(tmp_path)
    Path("docs.tsv").write_text("d1\tpull the tick out\nd2\tthe clock ticks\nd3\tsoap\n")
    Path("queries.tsv").write_text("q1\thow to remove a tick\nq2\tclock\n")
    Path("people.qrels").write_text("q1 0 d1 2\nq1 0 d2 0\nq2 0 d2 1\nq2 0 d3 0\n")
    made = ir_datasets.create_dataset("docs.tsv", "queries.tsv", "people.qrels")
    monkeypatch.setitem(ir_datasets.registry._registered, NAME.partition(":")[2], made)
    said = convert("pool", NAME, "--out", "pools.jsonl")
    assert said.startswith("2 pools with 4 documents: pools.jsonl")
    assert [grade for *_, grade in read_qrels(NAME)] == [2, 0, 1, 0]
    Path("bm25.run").write_text("q1 Q0 d1 1 2 bm25\nq2 Q0 d3 1 1 bm25\n")
    contest = zelo_ray.bakeoff(truth=NAME, pools=NAME, runs="bm25.run", out="contest")
    assert contest.means.to_arrow().num_rows
    with refused("ir_datasets:nope: ir_datasets has no such data set"):
        read_pools("ir_datasets:nope")


def test_a_library_that_is_missing_names_its_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ir_datasets", None)
    with refused(r"pip install 'zelo-ray\[ir-datasets\]'"):
        read_qrels(NAME)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    for words in ("annotate gs://b/x.jsonl --judges offline", "convert qrels gs://b/x.jsonl"):
        assert cli.main([*words.split(), "--out", str(tmp_path / "out")]) != 0
        assert "gs://b/x.jsonl: needs the extra gcs: pip install" in capsys.readouterr().err


def test_names_and_forms_tell_what_is_public(folder, tmp_path):
    rows = write_file(tmp_path / "rows.jsonl", RERANKING)
    own = write_file(tmp_path / "own.jsonl", [{"query": "q?", "documents": ["text"]}])
    for place in ("ir_datasets:beir/nfcorpus/test", "hf://datasets/x/y.jsonl", str(folder), rows):
        assert inputs.note_public([place])
    for place in (own, str(tmp_path / "none"), str(tmp_path)):
        assert not inputs.note_public([place])
    (note,) = inputs.note_public([str(folder), own, str(folder)])
    assert note.startswith(f"{folder} ")


def test_an_order_that_tells_the_truth_is_noted(folder, tmp_path):
    best = {"query-id": "q1", "corpus-ids": ["d1", "d2", "d3"]}
    other = {"query-id": "q2", "corpus-ids": ["d2", "d3"]}
    for rows, noted in (([best], 1), ([best, other], 0)):
        write_file(folder / "top_ranked.jsonl", rows)
        _, notes = read_inputs(tmp_path, folder)
        assert len([note for note in notes if "not a first-stage ranking" in note]) == noted
