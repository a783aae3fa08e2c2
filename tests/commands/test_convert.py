"""``convert``: each of its commands, as a user would type it."""

import gzip
import json
from pathlib import Path

import pytest

from tests.files.reading import (
    pool_lines,
    read_qrels,
    records_table,
    refused,
    write_file,
    write_folder,
)
from tests.helpers.builders import convert
from zelo_ray.records import AbsoluteScore, GradedScore, Score

TEXTS = "--corpus docs.jsonl --queries queries.tsv"
RUNS = "--runs one.run two.run"


def run(words, *places):
    """Return what a command says; its words stand in a text, and may be followed by places."""
    return convert(*words.split(), *map(str, places))


def read(path):
    """Return the pools of a file, every line of which `annotate` would take."""
    lines = pool_lines(path)
    assert not [line.reason for line in lines if line.reason]
    return {line.pool.query_id: line.pool for line in lines}


def ids(path):
    return {query_id: [d.id for d in pool.documents] for query_id, pool in read(path).items()}


def rows_of(path):
    data = Path(path).read_bytes()
    data = gzip.decompress(data) if path.endswith(".gz") else data
    return [json.loads(line) for line in data.splitlines()]


def pool(query_id, scores, **more):
    documents = [{"id": d, "content": f"text {d}", "score": s} for d, s in scores.items()]
    return {"query": {"id": query_id, "query": f"{query_id}?", **more}, "documents": documents}


ANNOTATED = [
    pool("q1", {"a": 1.5, "g": None, "b": -1.5}, lang="en", session_id="s"),
    pool("q2", {"a": 0}),
]
FILES = {
    "docs.jsonl": [
        *({"docid": d, "text": f"text {d}"} for d in "abcdefg"),
        {"docid": "z", "text": ""},
    ],
    "queries.tsv": "q1\tone?\nq2\ttwo?\n",
    "one.run": (
        "q1 Q0 a 1 3 one\nq1 Q0 b 2 2 one\nq1 Q0 c 3 1 one\nq2 Q0 a 1 1 one\nq3 Q0 a 1 1 one\n"
    ),
    "two.run": "q1 Q0 c 1 9 two\nq1 Q0 d 2 8 two\nq1 Q0 nowhere 3 7 two\n",
    "a.qrels": "q1 0 a 1.5\nq1 0 b -1.5\nq2 0 a 0\n",
    "out/annotated.jsonl": ANNOTATED,
}
SCORES = [("q1", "a", 1.5, 0.2, 4, 1), ("q1", "b", -1.5, 0.3, 4, 2), ("q2", "a", 0.0, 0.1, 4, 1)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A corpus, queries, two runs and the results of annotate, in the working directory."""
    monkeypatch.chdir(tmp_path)
    write_folder(tmp_path, FILES)
    write_scores(Score, SCORES)


def write_scores(record, rows):
    table = records_table([record(*row) for row in rows], record)
    write_file("out/scores.parquet", table)


# Pools


def test_pool_of_runs():
    said = run(f"pool {TEXTS} {RUNS} --depth 2 --out p.jsonl.gz")
    assert said.startswith("2 pools with 5 documents: p.jsonl.gz")
    assert "without a text: 1 (q3)" in said
    found = ids("p.jsonl.gz")
    assert {q: sorted(d) for q, d in found.items()} == {"q1": ["a", "b", "c", "d"], "q2": ["a"]}
    assert {*found["q1"][:2]} == {"a", "c"}  # first in a run each
    document = read("p.jsonl.gz")["q1"].documents[found["q1"].index("d")]
    assert document.metadata == {"ranks": {"two": 2}}
    write_file("more.qrels", "q1 0 z 1\nq2 0 e 0\n")
    said = run(f"pool {TEXTS} {RUNS} --depth 1 --qrels more.qrels --out p.jsonl")
    assert "without a text: 1 (z)" in said
    assert ids("p.jsonl")["q2"] == ["a", "e"]


UNJUDGED = "unjudged --depth 2 --runs two.run --truth"
REFUSED = {
    "pool": "convert pool needs FROM",
    "pool --corpus c --queries q": "convert pool needs FROM",
    f"pool {TEXTS} --runs odd.run": "no id of .*odd.run is in docs.jsonl: .* has 'nowhere'",
    f"pool {TEXTS} --runs one.run --depth 0": "depth: .*equal to 1",
    f"{UNJUDGED} out": r"have no text \(c, d\): give --corpus",
    f"{UNJUDGED} a.qrels --corpus docs.jsonl": r"no pool, .* 'q1': give --p",
    "beir a.qrels": "holds no texts",
    "train a.qrels": "holds no texts",
    "qrels out --grades": "holds no grades of a panel",
    "qrels out --without-ambiguous": "holds no grades of a panel",
    "qrels out --cut 0": "share no zero from query to query",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_is_not_written(words):
    write_file("odd.run", "q1 Q0 nowhere 1 1 odd\n")
    with refused(REFUSED[words]):
        run(f"{words} --out new")
    assert not Path("new").exists()


def test_unjudged_documents_beside_the_truth():
    words = f"unjudged --truth out {RUNS} --depth 2 --corpus docs.jsonl --out work.jsonl"
    counts, written = run(words).split("; ")
    assert counts == "unjudged to depth 2: one 0, two 2"
    assert written.startswith("1 pool")
    found = ids("work.jsonl")
    assert found["q1"][:2] == ["a", "b"]  # judged ones as they stood, without the unjudged g
    assert ([*found], {*found["q1"][2:]}) == (["q1"], {"c", "d"})
    [row] = rows_of("work.jsonl")
    assert row["query"] == ANNOTATED[0]["query"]
    run(f"{words} --all")
    assert rows_of("work.jsonl")[1] == ANNOTATED[1]


def test_beir_and_back():
    assert run("beir out --out beir").startswith("2 queries with 3 judgments: beir")
    run("pool beir --out p.jsonl")
    assert ids("p.jsonl") == ids("out/annotated.jsonl")
    assert len(read_qrels("beir")) == 3
    with refused(r"no id of .*two.run is in beir: .* has 'c', beir has 'a'"):
        run("pool beir --runs two.run --depth 1 --out p.jsonl")  # over the same collection


# Grades, and rows to train on


@pytest.fixture
def graded():
    """The results of a graded run, whose panel is split over one document."""
    rows = [
        ("q1", "b", 2.75, 0.2, 3, 1, 3, 3.0, 0.0, False),
        ("q1", "g", 1.5, 0.9, 3, 2, 1, 2.0, 2.0, True),
        ("q1", "a", 0.125, 0.1, 3, 3, 0, 0.0, 0.0, False),
        ("q2", "gone", 1.0, 0.1, 3, 1, 1, 1.0, 0.0, False),
    ]
    write_scores(GradedScore, rows)


@pytest.mark.usefixtures("graded")
def test_grades_of_a_panel():
    for words, grades in (
        ("out", [2.75, 1.5, 0.125, 1]),
        ("out --grades", [3, 1, 0, 1]),
        ("out/scores.parquet --grades", [3, 1, 0, 1]),
        ("out --grades --without-ambiguous", [3, 0, 1]),
    ):
        said = run(f"qrels {words} --out a.qrels")
        assert [grade for *_, grade in read_qrels("a.qrels")] == grades
    assert said == "3 judgments: a.qrels\nleft out ambiguous documents: 1"


def test_scores_with_a_zero_are_cut_to_grades():
    scores = enumerate((-1.5, -0.5, 0.5, 2.5))
    write_scores(AbsoluteScore, [("q1", f"d{i}", s, 0.1, 4, 1, s, 0.2) for i, s in scores])
    assert "--cut makes whole grades of them" in run("qrels out --out a.qrels")
    run("qrels out --cut -1 1 2 --out a.qrels")
    assert [grade for *_, grade in read_qrels("a.qrels")] == [0, 1, 1, 3]
