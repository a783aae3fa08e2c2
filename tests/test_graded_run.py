"""Grades as a user gets them: the command on Ray, three providers, online and in batches."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests import crash

pytestmark = pytest.mark.ray

QUERIES, DOCUMENTS = 6, 4
QUICKLY = ("--mode", "batch", "--batch-poll", "0.2")


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    path = tmp_path / "pools.jsonl"
    crash.write_pools(path, QUERIES, DOCUMENTS)
    return path


def run(pools, out, environ, *flags):
    status, printed = crash.finish(crash.annotate(pools, out, environ, *flags))
    assert status == 0, printed
    return printed


def worth_in(document):
    return float(document["content"].partition("worth=")[2].rstrip("]"))


def table(out, name):
    return pq.read_table(out / f"{name}.parquet").to_pylist()


def test_grades_online_and_in_batches_are_the_same(pools, tmp_path):
    labels = [
        f"{pool['query']['id']} 0 {d['id']} {min(max(round(worth_in(d)), 0), 3)}\n"
        for pool in map(json.loads, pools.read_text().splitlines())
        for d in pool["documents"]
    ]
    (tmp_path / "human.txt").write_text("".join(labels))
    flags = ("--protocol", "graded", "--human", str(tmp_path / "human.txt"))
    with crash.fakes(tmp_path) as environ:
        printed = run(pools, tmp_path / "online", environ, *flags)
        asked = len(crash.journal(tmp_path))
        run(pools, tmp_path / "batch", environ, *flags, *QUICKLY)
    assert asked == QUERIES * DOCUMENTS * 3
    for name in ("grades", "scores", "raters", "shares"):
        online, batch = ((tmp_path / out / f"{name}.parquet") for out in ("online", "batch"))
        assert online.read_bytes() == batch.read_bytes(), name
    grades, scores = table(tmp_path / "online", "grades"), table(tmp_path / "online", "scores")
    assert Counter(row["judge"] for row in grades) == dict.fromkeys(crash.DEFAULT_JUDGES, 24)
    assert all(row["rationale"] and 0 <= row["grade"] <= 3 for row in grades)
    assert all(row["comparisons"] == 3 and 0 <= row["score"] <= 3 for row in scores)
    assert [row["judge"] for row in table(tmp_path / "online", "raters")] == [
        *sorted(crash.DEFAULT_JUDGES),
        "human",
    ]
    assert f"with {QUERIES * DOCUMENTS} human labels" in printed
    for line in (tmp_path / "online" / "annotated.jsonl").read_text().splitlines():
        worth = [(worth_in(d), d["score"]) for d in json.loads(line)["documents"]]
        by_worth = [score for _, score in sorted(worth)]
        assert by_worth == sorted(by_worth)


def test_both_ways_together_spend_five_grades_a_query(tmp_path):
    path = tmp_path / "pools.jsonl"
    crash.write_pools(path, QUERIES, 8)
    with crash.fakes(tmp_path) as environ:
        run(path, tmp_path / "out", environ, "--protocol", "zelo+graded", "--cycles", "2")
    votes, grades = table(tmp_path / "out", "votes"), table(tmp_path / "out", "grades")
    assert len(crash.journal(tmp_path)) == len(votes) + len(grades)
    assert set(Counter(row["query_id"] for row in grades).values()) == {5}
    scores = table(tmp_path / "out", "scores")
    assert len(scores) == QUERIES * 8
    shifts = {row["query_id"]: row["absolute_score"] - row["score"] for row in scores}
    for row in scores:
        assert row["absolute_score"] - row["score"] == pytest.approx(shifts[row["query_id"]])
        assert row["absolute_error"] > row["std_error"]
    assert len({round(shift, 6) for shift in shifts.values()}) > 1
