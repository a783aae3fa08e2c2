"""Scores that cannot mean what a reader thinks are told: all equal, or the reverse of the ranks."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from tests.files.reading import CASES, find_doubts, judgments, read_inputs, write_file
from zelo_ray.cli import main

TRUTH = str(CASES / "runs.qrels")
RUNS = [str(CASES / f"{n}.run") for n in ("all-scores-equal", "distances", "ranks-and-scores")]


def run_of(*queries, ranks=None):
    """A run from the scores of each query; ``ranks`` are those that it came with."""
    rows = [(f"q{q}", f"d{d}", s) for q, scores in enumerate(queries) for d, s in enumerate(scores)]
    columns = zip(("query_id", "doc_id", "score"), zip(*rows, strict=True), strict=True)
    table = pa.table({name: list(values) for name, values in columns})
    return table if ranks is None else table.append_column("rank", pa.array(ranks, pa.float64()))


def warnings_in(out):
    return json.loads((out / "run.json").read_text())["doubts"]


def test_a_contest_tells_doubts_everywhere(tmp_path, capsys):
    assert main(["bakeoff", "--truth", TRUTH, "--runs", *RUNS, "--out", str(tmp_path)]) == 3
    found = [(one["code"], one["run"], one["queries"]) for one in warnings_in(tmp_path)]
    assert found == [("equal_scores", "const", 15), ("reversed_ranks", "dist", 15)]
    shown = " ".join(capsys.readouterr().out.split())
    for text in (shown, (tmp_path / "report.html").read_text()):
        assert all(words in text for words in ("scores of const", "ranks of dist"))


def test_agree_tells_doubts(tmp_path, capsys):
    other = str(write_file(tmp_path / "b.qrels", (CASES / "runs.qrels").read_text()))
    main(["agree", TRUTH, "--human", other, "--runs", *RUNS])
    shown = " ".join(capsys.readouterr().out.split())
    assert "ranks of dist are the reverse of its scores in 15 of 15" in shown
    assert "scores of const are all equal in 15 of" in shown


def test_only_ranks_that_are_the_reverse_are_doubted():
    chance = random.Random(4)
    for size in (4, 20):
        queries = [[chance.random() for _ in range(size)] for _ in range(200)]
        ranks = [r for _ in queries for r in chance.sample(range(size), size)]
        assert find_doubts(run_of(*queries, ranks=ranks), 10) == {}
        reverse = [r for q in queries for r in np.argsort(np.argsort(q))]
        found = find_doubts(run_of(*queries, ranks=reverse), 10)
        assert found == {"reversed_ranks": (200, 200)}
    some = run_of(*([1, 2, 3, 4, 5],) * 2, *([5, 4, 3, 2, 1],) * 8, ranks=[0, 1, 2, 3, 4] * 10)
    assert find_doubts(some, 10) == {"reversed_ranks": (2, 10)}
    assert find_doubts(run_of([1, 2, 3, 4], ranks=[np.nan] * 4), 10) == {}


@pytest.mark.parametrize("form", ["parquet", "csv", "run"])
def test_ranks_are_read_where_there_are_any(tmp_path, form):
    rows = [{"query_id": "q", "doc_id": f"d{n}", "rank": n, "score": n / 10} for n in range(5)]
    text = "".join(f"q Q0 d{n} {n} {n / 10} r\n" for n in range(5))
    place = write_file(tmp_path / f"a.{form}", text if form == "run" else rows)
    [run] = judgments.read_runs([place]).values()
    assert [*find_doubts(run, 10)] == ["reversed_ranks"]


def test_ranks_may_be_anything(tmp_path):
    for name, text in (
        ("a.run", "q Q0 d1 - 2 r\nq Q0 d2 x 1 r\n"),
        ("a.csv", "query_id,doc_id,rank,score\nq,d,first,1\n"),
    ):
        [run] = judgments.read_runs([write_file(tmp_path / name, text)]).values()
        assert "rank" not in run.column_names or run["rank"].null_count == len(run)


def test_candidates_of_doubtful_runs_are_told(tmp_path, capsys):
    docs = [{"_id": f"d{n}", "text": f"text {n}"} for n in range(5)]
    corpus = write_file(tmp_path / "corpus.jsonl", docs)
    queries = write_file(tmp_path / "queries.tsv", "q\twhat\n")
    turned = write_file(tmp_path / "a.run", "".join(f"q Q0 d{n} {n} {n} far\n" for n in range(5)))
    _, notes = read_inputs(tmp_path, turned, corpus=corpus, queries=queries)
    assert any("ranks of far are the reverse" in note for note in notes)
    flat = write_file(tmp_path / "b.run", "".join(f"q Q0 d{n} {n} 1 flat\n" for n in range(5)))
    words = ["convert", "pool", "--runs", turned, flat, "--corpus", corpus, "--queries", queries]
    assert main([*words, "--out", str(tmp_path / "pools.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "the ranks of far are the reverse of its scores" in shown
    assert "scores of flat are all equal in 1 of 1" in shown
