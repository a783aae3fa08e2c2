"""Scores that cannot mean what a reader thinks are told: all equal, or the reverse of the ranks."""

import json
import random

import numpy as np
import pyarrow as pa
import pytest

from tests.files.reading import CASES, find_doubts, judgments, write_file
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
