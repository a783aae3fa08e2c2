"""``convert``: each of its commands, as a user would type it."""

import gzip
import json
import math
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.builders import parsed, write_lines
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.files.judgments import read_qrels
from zelo_ray.files.pools import LineLimits, read_lines
from zelo_ray.files.tables import table_of
from zelo_ray.records import AbsoluteScore, GradedScore, Score

TEXTS = "--corpus docs.jsonl --queries queries.tsv"
RUNS = "--runs one.run two.run"


def run(words, *places):
    """Return what a command says; its words stand in a text, and may be followed by places."""
    return convert(parsed("convert", *words.split(), *places))


def read(path):
    """Return the pools of a file, every line of which `annotate` would take."""
    lines = list(read_lines(str(path), LineLimits()))
    assert not [line.reason for line in lines if line.reason]
    return {line.pool.query_id: line.pool for line in lines}


def ids(path):
    return {query_id: [d.id for d in pool.documents] for query_id, pool in read(path).items()}


def rows_of(path):
    data = Path(path).read_bytes()
    data = gzip.decompress(data) if path.endswith(".gz") else data
    return [json.loads(line) for line in data.splitlines()]


def pool_line(query_id, scores, **more):
    documents = [{"id": d, "content": f"text {d}", "score": s} for d, s in scores.items()]
    query = {"id": query_id, "query": f"{query_id}?", "lang": "en", **more}
    return json.dumps({"query": query, "documents": documents}) + "\n"


ANNOTATED = pool_line("q1", {"a": 1.5, "g": None, "b": -1.5}), pool_line("q2", {"a": 0})


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A corpus, queries, two runs and the results of annotate, in the working directory."""
    monkeypatch.chdir(tmp_path)
    corpus = [{"docid": d, "text": f"text {d}"} for d in "abcdefg"] + [{"docid": "z", "text": ""}]
    write_lines(tmp_path / "docs.jsonl", corpus)
    (tmp_path / "queries.tsv").write_text("q1\tone?\nq2\ttwo?\n")
    one = "q1 Q0 a 1 3 one\nq1 Q0 b 2 2 one\nq1 Q0 c 3 1 one\nq2 Q0 a 1 1 one\nq3 Q0 a 1 1 one\n"
    (tmp_path / "one.run").write_text(one)
    (tmp_path / "two.run").write_text("q1 Q0 c 1 9 two\nq1 Q0 d 2 8 two\nq1 Q0 nowhere 3 7 two\n")
    (tmp_path / "a.qrels").write_text("q1 0 a 1.5\nq1 0 b -1.5\nq2 0 a 0\n")
    (tmp_path / "out").mkdir()
    scores = [Score("q1", "a", 1.5, 0.2, 4, 1), Score("q1", "b", -1.5, 0.3, 4, 2)]
    write_scores([*scores, Score("q2", "a", 0.0, 0.1, 4, 1)], Score)
    (tmp_path / "out/annotated.jsonl").write_text("".join(ANNOTATED))
    return tmp_path


def write_scores(rows, record):
    pq.write_table(table_of(rows, record), "out/scores.parquet")


def test_pool_of_runs(place):
    said = run(f"pool {TEXTS} {RUNS} --depth 2 --out p.jsonl.gz")
    assert said.splitlines() == [
        "2 pools with 5 documents: p.jsonl.gz",
        "took the first 2 documents of each query of one, two",
        "left out queries without a text: 1 (q3)",
    ]
    found = ids("p.jsonl.gz")
    assert {q: sorted(d) for q, d in found.items()} == {"q1": ["a", "b", "c", "d"], "q2": ["a"]}
    assert set(found["q1"][:2]) == {"a", "c"}  # first in a run each
    document = read("p.jsonl.gz")["q1"].documents[found["q1"].index("d")]
    assert document.metadata == {"ranks": {"two": 2}}
    (place / "more.qrels").write_text("q1 0 z 1\nq2 0 e 0\n")
    said = run(f"pool {TEXTS} {RUNS} --depth 1 --qrels more.qrels --out p.jsonl")
    assert "left out documents with an empty text: 1 (z)" in said
    assert ids("p.jsonl")["q2"] == ["a", "e"]


def test_pool_and_holes_keep_the_session(place):
    line = pool_line("q1", {"a": 1.5, "b": -1.5}, session_id="s")
    (place / "out/annotated.jsonl").write_text(line + ANNOTATED[1])
    run("pool out/annotated.jsonl --out p.jsonl")
    assert {q: pool.session_id for q, pool in read("p.jsonl").items()} == {"q1": "s", "q2": ""}
    run("unjudged --truth out --runs two.run --depth 2 --corpus docs.jsonl --out work.jsonl")
    assert read("work.jsonl")["q1"].session_id == "s"


def test_pool_needs_texts_and_documents(place):
    (place / "odd.run").write_text("q1 Q0 nowhere 1 1 odd\n")
    for words, why in (
        ("", "convert pool needs FROM"),
        ("--corpus c --queries q", "convert pool needs FROM"),
        (f"{TEXTS} --runs odd.run", "no id of .*odd.run is in docs.jsonl: .* has 'nowhere'"),
        (f"{TEXTS} --runs one.run --depth 0", "depth: .*at least 1"),
    ):
        with pytest.raises((InputError, OptionError), match=why):
            run(f"pool {words} --out p.jsonl")
        assert not (place / "p.jsonl").exists()


def test_holes_beside_the_truth():
    words = f"unjudged --truth out {RUNS} --depth 2 --corpus docs.jsonl --out work.jsonl"
    counts, written = run(words).split("; ")
    assert counts == "unjudged to depth 2: one 0, two 2"
    assert written.startswith("1 pool")
    assert written.endswith(": work.jsonl")
    found = ids("work.jsonl")
    assert list(found) == ["q1"]
    assert found["q1"][:2] == ["a", "b"]  # judged ones as they stood, without the unjudged g
    assert set(found["q1"][2:]) == {"c", "d"}
    [row] = rows_of("work.jsonl")
    assert row["query"] == {"id": "q1", "query": "q1?", "lang": "en"}
    run(f"{words} --all")
    assert rows_of("work.jsonl")[1] == json.loads(ANNOTATED[1])


def test_holes_without_a_text(place):
    (place / "work.jsonl").write_text("old")
    assert "0 pools" in run("unjudged --truth out --runs one.run --depth 1 --out work.jsonl")
    assert rows_of("work.jsonl") == []
    words = "unjudged --truth out --runs two.run --out work.jsonl"
    with pytest.raises(InputError, match=r"have no text \(c, d, nowhere\): give --corpus"):
        run(words)
    assert run(f"{words} --corpus docs.jsonl").endswith("without a text: 1 (nowhere)")
    words = "unjudged --truth a.qrels --runs two.run --depth 2 --corpus docs.jsonl --out work.jsonl"
    with pytest.raises(InputError, match=r"1 queries .* no pool, .* 'q1': give --p"):
        run(words)
    run(f"{words} --queries queries.tsv")
    (pool,) = read("work.jsonl").values()
    assert pool.query == "one?"
    assert sorted(d.id for d in pool.documents) == ["a", "b", "c", "d"]


def test_beir_and_back():
    assert run("beir out --out beir").startswith("2 queries with 3 judgments: beir")
    run("pool beir --out p.jsonl")
    assert ids("p.jsonl") == ids("out/annotated.jsonl")
    assert read_qrels("beir").num_rows == 3
    with pytest.raises(
        InputError, match=r"no id of .*two.run is in beir: .* has 'c', beir has 'a'"
    ):
        run("pool beir --runs two.run --depth 1 --out p.jsonl")  # over the same collection


def test_texts_and_judgments_of_two_places():
    run("train a.qrels --pools out/annotated.jsonl --out t.jsonl")
    assert [row["score"] for row in rows_of("t.jsonl")] == [1.5, -1.5, 0]
    assert run("beir a.qrels --pools out/annotated.jsonl --out beir").startswith("2 queries with 3")
    for what in ("train", "beir"):
        with pytest.raises(InputError, match="holds no texts"):
            run(f"{what} a.qrels --out new")


def test_cranfield(tmp_path, published):
    folder = published / "cranfield"
    words = ("--corpus", folder / "docs.jsonl", "--queries", folder / "queries.tsv")
    qrels = folder / "qrels_graded_0to3.txt"
    said = run("pool", *words, "--qrels", qrels, "--out", tmp_path / "p.jsonl.zst")
    assert said.startswith("225 pools with 1,611 documents")
    judged = Counter(read_qrels(str(qrels))["query_id"].to_pylist())
    found = {
        query_id: len(documents) for query_id, documents in ids(tmp_path / "p.jsonl.zst").items()
    }
    assert {q: n - found[q] for q, n in judged.items() if n != found[q]} == {"125": 1}
    run("beir", qrels, "--pools", tmp_path / "p.jsonl.zst", "--out", tmp_path / "beir")
    run("qrels", tmp_path / "beir", "--out", tmp_path / "again.qrels")
    again, before = (
        read_qrels(str(p)).drop("std_error") for p in (tmp_path / "again.qrels", qrels)
    )
    assert again.equals(before)


@pytest.fixture
def graded():
    """The results of a graded run, whose panel is split over one document."""
    rows = [
        GradedScore("q1", "b", 2.75, 0.2, 3, 1, 3, 3.0, 3, 0.0, False),
        GradedScore("q1", "g", 1.5, 0.9, 3, 2, 1, 2.0, 3, 2.0, True),
        GradedScore("q1", "a", 0.125, 0.1, 3, 3, 0, 0.0, 0, 0.0, False),
        GradedScore("q2", "gone", 1.0, 0.1, 3, 1, 1, 1.0, 1, 0.0, False),
    ]
    write_scores(rows, GradedScore)


@pytest.mark.usefixtures("graded")
def test_grades_of_a_panel():
    def qrels():
        return Path("a.qrels").read_text()

    run("qrels out --out a.qrels")
    assert qrels().splitlines()[0] == "q1 0 b 2.75"
    run("qrels out --grades --out a.qrels")
    assert qrels() == "q1 0 b 3\nq1 0 g 1\nq1 0 a 0\nq2 0 gone 1\n"
    said = run("qrels out --grades --without-ambiguous --out a.qrels")
    assert said == "3 judgments: a.qrels\nleft out ambiguous documents: 1"
    assert qrels() == "q1 0 b 3\nq1 0 a 0\nq2 0 gone 1\n"
    run("qrels out/scores.parquet --grades --out a.qrels")
    assert len(read_qrels("a.qrels")) == 4


def test_scores_that_share_a_zero_are_cut_to_grades_and_others_are_not():
    with pytest.raises(InputError, match="share no zero from query to query"):
        run("qrels out --cut 0 --out a.qrels")
    scores = (-1.5, -0.5, 0.5, 2.5)
    rows = [AbsoluteScore("q1", f"d{i}", s, 0.1, 4, 1, s, 0.2) for i, s in enumerate(scores)]
    write_scores(rows, AbsoluteScore)
    assert "--cut makes whole grades of them" in run("qrels out --out a.qrels")
    assert "grades: cut at -1, 1, 2" in run("qrels out --cut -1 1 2 --out a.qrels")
    assert read_qrels("a.qrels")["relevance"].to_pylist() == [0, 1, 1, 3]


def test_grades_where_there_are_none():
    for flag in ("--grades", "--without-ambiguous"):
        with pytest.raises(InputError, match="holds no grades of a panel"):
            run(f"qrels out {flag} --out a.qrels")


@pytest.mark.usefixtures("graded")
def test_rows_to_train_on():
    assert run("train out --out train.jsonl.gz").splitlines() == [
        "3 examples: train.jsonl.gz",
        "left out judged documents without a text: 1",
    ]
    rows = rows_of("train.jsonl.gz")
    assert [(r["doc_id"], r["score"]) for r in rows] == [("a", 0.125), ("g", 1.5), ("b", 2.75)]
    texts = {"query": "q1?", "document": "text g"}
    assert rows[1].items() >= {"query_id": "q1", "doc_id": "g", **texts, "score": 1.5}.items()
    assert rows[1]["target"] == 0.5, "half of the highest grade"
    said = run("train out --without-ambiguous --out t.jsonl")
    assert "left out ambiguous documents: 1" in said
    assert [row["doc_id"] for row in rows_of("t.jsonl")] == ["a", "b"]


def test_rows_to_train_on_are_on_one_scale_where_there_is_one():
    rows = [
        AbsoluteScore("q1", "a", 1.0, 0.2, 4, 1, 3.5, 0.4),
        AbsoluteScore("q1", "b", -1.0, 0.2, 4, 2, 1.5, 0.4),
        AbsoluteScore("q2", "a", 0.0, 0.2, 4, 1, math.nan, math.nan),
    ]
    write_scores(rows, AbsoluteScore)
    run("train out --out t.jsonl")
    assert [(r["doc_id"], r["score"]) for r in rows_of("t.jsonl")] == [("a", 3.5), ("b", 1.5)]
