"""``convert``: each of its commands, as a user would type it."""

import gzip
import json
import math
from collections import Counter

import pyarrow.parquet as pq
import pytest

from tests.builders import parsed
from zelo_ray.commands.convert import convert
from zelo_ray.errors import InputError, OptionError
from zelo_ray.formats.interchange.trec import read_qrels, read_run
from zelo_ray.formats.interchange.truth import read_truth
from zelo_ray.formats.pools import LineLimits, read_lines
from zelo_ray.formats.tables import table_of
from zelo_ray.records import AbsoluteScore, GradedScore, Ranked, Score


def run(*words):
    return convert(parsed("convert", *words))


def pools(path):
    """The pools of a file, every line of which `annotate` would take."""
    lines = list(read_lines(str(path), LineLimits()))
    assert not [line.reason for line in lines if line.reason]
    return {line.pool.query_id: line.pool for line in lines}


def ids(path):
    return {query_id: [d.id for d in pool.documents] for query_id, pool in pools(path).items()}


def pool_line(query_id, **scores):
    documents = [{"id": d, "content": f"text {d}", "score": s} for d, s in scores.items()]
    line = {
        "query": {"id": query_id, "query": f"{query_id}?", "lang": "en"},
        "documents": documents,
    }
    return json.dumps(line) + "\n"


@pytest.fixture
def place(tmp_path):
    """A corpus, queries, two runs and the results of annotate, in the working directory."""
    corpus = [{"docid": d, "text": f"text {d}"} for d in "abcdefg"] + [{"docid": "z", "text": ""}]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(d) + "\n" for d in corpus))
    (tmp_path / "queries.tsv").write_text("q1\tone?\nq2\ttwo?\n")
    one = "q1 Q0 a 1 3 one\nq1 Q0 b 2 2 one\nq1 Q0 c 3 1 one\nq2 Q0 a 1 1 one\nq3 Q0 a 1 1 one\n"
    (tmp_path / "one.run").write_text(one)
    (tmp_path / "two.run").write_text("q1 Q0 c 1 9 two\nq1 Q0 d 2 8 two\nq1 Q0 nowhere 3 7 two\n")
    out = tmp_path / "out"
    out.mkdir()
    scores = [Score("q1", "a", 1.5, 0.2, 4, 1), Score("q1", "b", -1.5, 0.3, 4, 2)]
    scores.append(Score("q2", "a", 0.0, 0.1, 4, 1))
    pq.write_table(table_of(scores, Score), out / "scores.parquet")
    (out / "annotated.jsonl").write_text(
        pool_line("q1", a=1.5, g=None, b=-1.5) + pool_line("q2", a=0)
    )
    return tmp_path


def test_pool_of_runs(place):
    runs = (place / "one.run", place / "two.run")
    texts = ("--corpus", place / "docs.jsonl", "--queries", place / "queries.tsv")
    said = run("pool", *texts, "--runs", *runs, "--depth", 2, "--out", place / "p.jsonl.gz")
    assert said.splitlines() == [
        f"2 pools with 5 documents: {place}/p.jsonl.gz",
        "left out queries without a text: 1 (q3)",
    ]
    found = ids(place / "p.jsonl.gz")
    assert {q: sorted(d) for q, d in found.items()} == {"q1": ["a", "b", "c", "d"], "q2": ["a"]}
    assert set(found["q1"][:2]) == {"a", "c"}  # first in a run each
    document = pools(place / "p.jsonl.gz")["q1"].documents[found["q1"].index("d")]
    assert document.metadata == {"ranks": {"two": 2}}
    (place / "more.qrels").write_text("q1 0 z 1\nq2 0 e 0\n")
    judged = ("--qrels", place / "more.qrels", "--out", place / "p.jsonl")
    said = run("pool", *texts, "--runs", *runs, "--depth", 1, *judged)
    assert "left out documents with an empty text: 1 (z)" in said
    assert ids(place / "p.jsonl")["q2"] == ["a", "e"]


def test_pool_and_holes_keep_the_session(place):
    lines = [json.loads(line) for line in (place / "out/annotated.jsonl").read_text().splitlines()]
    lines[0]["query"]["session_id"] = "s"
    (place / "out/annotated.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("pool", place / "out/annotated.jsonl", "--out", place / "p.jsonl")
    assert {q: pool.session_id for q, pool in pools(place / "p.jsonl").items()} == {
        "q1": "s",
        "q2": "",
    }
    words = ("--truth", place / "out", "--runs", place / "two.run", "--depth", 2)
    texts = ("--corpus", place / "docs.jsonl")
    run("holes", *words, *texts, "--out", place / "work.jsonl")
    assert pools(place / "work.jsonl")["q1"].session_id == "s"


def test_pool_needs_texts_and_documents(place):
    for words in ([], ["--runs", place / "one.run"], ["--corpus", "c", "--queries", "q"]):
        with pytest.raises(OptionError, match="convert pool needs FROM"):
            run("pool", *words, "--out", place / "p.jsonl")
    texts = ("--corpus", place / "docs.jsonl", "--queries", place / "queries.tsv")
    (place / "odd.run").write_text("q1 Q0 nowhere 1 1 odd\n")
    with pytest.raises(InputError, match=r"no pool has documents: .* the corpus lacks"):
        run("pool", *texts, "--runs", place / "odd.run", "--out", place / "p.jsonl")
    with pytest.raises(InputError, match="another run has the same name, one"):
        run("pool", *texts, "--runs", *[place / "one.run"] * 2, "--out", place / "p.jsonl")
    with pytest.raises(OptionError, match=r"depth: .*greater than or equal to 1"):
        run("pool", *texts, "--runs", place / "one.run", "--depth", 0, "--out", "p.jsonl")
    with pytest.raises(OptionError, match="nosuch"):
        run("pool", *texts, "--runs", "nosuch://a", "--out", place / "p.jsonl")
    assert not (place / "p.jsonl").exists()


def test_holes_beside_the_truth(place):
    runs = ("--runs", place / "one.run", place / "two.run", "--depth", 2)
    texts = ("--corpus", place / "docs.jsonl")
    words = ("holes", "--truth", place / "out", *runs, *texts, "--out", place / "work.jsonl")
    counts, written = run(*words).split("; ")
    assert counts == "unjudged to depth 2: one 0, two 2"
    assert written.startswith("1 pool")
    assert written.endswith(f": {place}/work.jsonl")
    found = ids(place / "work.jsonl")
    assert list(found) == ["q1"]
    assert found["q1"][:2] == ["a", "b"]  # judged ones as they stood, without the unjudged g
    assert set(found["q1"][2:]) == {"c", "d"}
    line = json.loads((place / "work.jsonl").read_text())
    assert line["query"] == {"id": "q1", "query": "q1?", "lang": "en"}
    run(*words, "--all")
    everything = (place / "work.jsonl").read_text().splitlines(keepends=True)
    assert everything[1] == (place / "out/annotated.jsonl").read_text().splitlines(True)[1]


def test_holes_in_pools_that_hold_them(place):
    (place / "pools.jsonl").write_text(pool_line("q1", d=0, a=0, b=0, c=0, e=0))
    words = ("--runs", place / "two.run", "--depth", 2, "--pools", place / "pools.jsonl")
    run("holes", "--truth", place / "out", *words, "--out", place / "work.jsonl")
    assert ids(place / "work.jsonl") == {"q1": ["d", "a", "b", "c"]}


def test_holes_without_a_text(place):
    words = ("holes", "--truth", place / "out", "--runs", place / "two.run")
    with pytest.raises(InputError, match=r"without a text: 3, .* 'c': give --corpus"):
        run(*words, "--out", place / "work.jsonl")
    said = run(*words, "--corpus", place / "docs.jsonl", "--out", place / "work.jsonl")
    assert said.splitlines()[1].endswith("without a text: 1, such as 'nowhere'")


def test_holes_in_judgments_without_pools(place):
    run("qrels", place / "out", "--out", place / "a.qrels")
    words = ["holes", "--truth", place / "a.qrels", "--runs", place / "two.run", "--depth", 2]
    words += ["--out", place / "work.jsonl", "--corpus", place / "docs.jsonl"]
    with pytest.raises(InputError, match=r"1 queries .* no pool, .* 'q1': give --p"):
        run(*words)
    run(*words, "--queries", place / "queries.tsv")
    (pool,) = pools(place / "work.jsonl").values()
    assert pool.query == "one?"
    assert sorted(d.id for d in pool.documents) == ["a", "b", "c", "d"]


def test_no_holes_leave_no_old_work_behind(place):
    (place / "work.jsonl").write_text("old")
    words = ("--runs", place / "one.run", "--depth", 1, "--out", place / "work.jsonl")
    assert "one 0; 0 pools" in run("holes", "--truth", place / "out", *words)
    assert (place / "work.jsonl").read_text() == ""


def test_qrels(place):
    assert (
        run("qrels", place / "out", "--out", place / "a.qrels") == f"3 judgments: {place}/a.qrels"
    )
    assert read_qrels(str(place / "a.qrels"))["relevance"].to_pylist() == [1.5, -1.5, 0]
    run("qrels", place / "out", "--decimals", 0, "--out", place / "a.qrels")
    assert (place / "a.qrels").read_text() == "q1 0 a 2\nq1 0 b -2\nq2 0 a 0\n"


def test_run(place):
    table = table_of([Ranked("q", "a", 0.5), Ranked("q", "b", 1.5)], Ranked)
    pq.write_table(table, place / "dense.parquet")
    run("run", place / "dense.parquet", "--out", place / "a.run")
    assert (place / "a.run").read_text() == "q Q0 b 1 1.5 dense\nq Q0 a 2 0.5 dense\n"
    run("run", place / "a.run", "--name", "other", "--out", place / "b.run")
    assert read_run(str(place / "b.run"))[0] == "other"
    run("run", place / "out", "--out", place / "c.run")
    assert (place / "c.run").read_text().splitlines()[0] == "q1 Q0 a 1 1.5 out"


def test_beir_and_back(place):
    said = run("beir", place / "out", "--out", place / "beir")
    assert said == f"2 queries with 3 judgments: {place}/beir"
    run("pool", place / "beir", "--out", place / "p.jsonl")
    assert ids(place / "p.jsonl") == ids(place / "out/annotated.jsonl")
    assert read_truth(str(place / "beir")).num_rows == 3
    runs = ("--runs", place / "two.run", "--depth", 1)  # the runs over the same collection
    with pytest.raises(InputError, match=r"that the corpus lacks: 1 of 1 document \(c\)"):
        run("pool", place / "beir", *runs, "--out", place / "p.jsonl")


def test_mteb_and_back(place):
    said = run("mteb", place / "out", "--out", place / "rows.jsonl")
    rows, lost = said.splitlines()
    assert rows == f"1 rows: {place}/rows.jsonl"
    assert lost.startswith("left out queries without a positive ")
    assert lost.endswith(" without a negative document: 1")
    row = {"query": "q1?", "positive": ["text a"], "negative": ["text b"]}
    assert json.loads((place / "rows.jsonl").read_text()) == row
    run("beir", place / "rows.jsonl", "--out", place / "beir")
    run("mteb", place / "beir", "--out", place / "again.jsonl")
    assert json.loads((place / "again.jsonl").read_text()) == row


def test_texts_and_judgments_of_two_places(place):
    run("qrels", place / "out", "--out", place / "a.qrels")
    words = (place / "a.qrels", "--pools", place / "out/annotated.jsonl")
    assert run("beir", *words, "--out", place / "beir").startswith("2 queries with 3")
    with pytest.raises(InputError, match="hold no texts"):
        run("beir", place / "a.qrels", "--out", place / "beir")


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


def test_dl19(tmp_path, published):
    folder = published / "trec_dl19"
    runs = sorted((folder / "runs_top10").glob("*.run"))
    words = ("--corpus", folder / "passages.jsonl", "--queries", folder / "queries.tsv")
    said = run("pool", *words, "--runs", *runs, "--depth", 10, "--out", tmp_path / "p.jsonl")
    assert said.startswith("43 pools with ")
    words = ("--runs", *runs, "--pools", tmp_path / "p.jsonl", "--out", tmp_path / "work.jsonl")
    with pytest.raises(InputError, match="holes without a text"):
        run("holes", "--truth", folder / "qrels.txt", *words)


@pytest.fixture
def graded(place):
    """The results of a graded run, whose panel is split over one document."""
    rows = [
        GradedScore("q1", "b", 2.75, 0.2, 3, 1, 3, 3.0, 3, 0.0, False),
        GradedScore("q1", "g", 1.5, 0.9, 3, 2, 1, 2.0, 3, 2.0, True),
        GradedScore("q1", "a", 0.125, 0.1, 3, 3, 0, 0.0, 0, 0.0, False),
        GradedScore("q2", "gone", 1.0, 0.1, 3, 1, 1, 1.0, 1, 0.0, False),
    ]
    pq.write_table(table_of(rows, GradedScore), place / "out/scores.parquet")
    return place


def test_grades_of_a_panel(graded):
    words = ("qrels", graded / "out", "--out", graded / "a.qrels")
    run(*words)
    assert (graded / "a.qrels").read_text().splitlines()[0] == "q1 0 b 2.75"
    run(*words, "--grades")
    assert (graded / "a.qrels").read_text() == "q1 0 b 3\nq1 0 g 1\nq1 0 a 0\nq2 0 gone 1\n"
    said = run(*words, "--grades", "--without-ambiguous")
    assert said == f"3 judgments: {graded}/a.qrels\nleft out ambiguous documents: 1"
    assert (graded / "a.qrels").read_text() == "q1 0 b 3\nq1 0 a 0\nq2 0 gone 1\n"
    run("qrels", graded / "out/scores.parquet", "--grades", "--out", graded / "b.qrels")
    assert len(read_qrels(str(graded / "b.qrels"))) == 4


def test_grades_where_there_are_none(place):
    for flag in ("--grades", "--without-ambiguous"):
        with pytest.raises(InputError, match="holds no grades of a panel"):
            run("qrels", place / "out", flag, "--out", place / "a.qrels")


def test_rows_to_train_on(graded):
    said = run("train", graded / "out", "--out", graded / "train.jsonl.gz")
    assert said.splitlines() == [
        f"3 rows: {graded}/train.jsonl.gz",
        "left out judged documents without a text: 1",
    ]
    with gzip.open(graded / "train.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    assert [(row["doc_id"], row["score"]) for row in rows] == [
        ("a", 0.125),
        ("g", 1.5),
        ("b", 2.75),
    ]
    assert rows[1] == {
        "query_id": "q1",
        "doc_id": "g",
        "query": "q1?",
        "document": "text g",
        "score": 1.5,
    }
    said = run("train", graded / "out", "--without-ambiguous", "--out", graded / "t.jsonl")
    assert "left out ambiguous documents: 1" in said
    assert [
        json.loads(line)["doc_id"] for line in (graded / "t.jsonl").read_text().splitlines()
    ] == ["a", "b"]


def test_rows_to_train_on_are_on_one_scale_where_there_is_one(place):
    rows = [
        AbsoluteScore("q1", "a", 1.0, 0.2, 4, 1, 3.5, 0.4),
        AbsoluteScore("q1", "b", -1.0, 0.2, 4, 2, 1.5, 0.4),
        AbsoluteScore("q2", "a", 0.0, 0.2, 4, 1, math.nan, math.nan),
    ]
    pq.write_table(table_of(rows, AbsoluteScore), place / "out/scores.parquet")
    run("train", place / "out", "--out", place / "t.jsonl")
    found = [json.loads(line) for line in (place / "t.jsonl").read_text().splitlines()]
    assert [(row["doc_id"], row["score"]) for row in found] == [("a", 3.5), ("b", 1.5)]


def test_rows_to_train_on_from_two_places(place):
    run("qrels", place / "out", "--out", place / "a.qrels")
    words = ("--pools", place / "out/annotated.jsonl", "--out", place / "t.jsonl")
    run("train", place / "a.qrels", *words)
    scores = [json.loads(line)["score"] for line in (place / "t.jsonl").read_text().splitlines()]
    assert scores == [1.5, -1.5, 0]
    with pytest.raises(InputError, match="hold no texts"):
        run("train", place / "a.qrels", "--out", place / "t.jsonl")
