"""Grades as a user gets them: the command, three providers; the same in batches."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests import crash
from tests.builders import rows_of, send_away, write_as_run
from tests.jobs import annotate
from zelo_ray.engine.learning import read_human_grades
from zelo_ray.engine.ledger import Ledger
from zelo_ray.files.pools import LineLimits, parse_line

QUERIES, DOCUMENTS = 6, 4


@pytest.fixture
def pools(tmp_path: Path) -> Path:
    path = tmp_path / "pools.jsonl"
    crash.write_pools(path, QUERIES, DOCUMENTS)
    return path


@pytest.fixture
def run():
    def ran(pools, out, environ, *flags):
        status, printed = annotate(pools, out, environ, *flags)
        assert status == 0, printed
        return printed

    return ran


def worth_in(document):
    return float(document["content"].partition("worth=")[2].rstrip("]"))


def grade_in_batches(pools, out, environ, human):
    """The same in one process: all requests through batches, then both passes over the ledger."""
    lines = [
        parse_line(str(pools), number, line, LineLimits())
        for number, line in enumerate(pools.read_bytes().splitlines(), 1)
    ]
    each = [line.pool for line in lines]
    fields = {"protocol": "graded", "human": str(human), "judges": crash.DEFAULT_JUDGES}
    batchers = send_away(each, out, environ, **fields)
    assert not any(batcher.stopped for batcher in batchers.values())
    panel, options = batchers["openai"].job
    ledger = Ledger(options.out)
    write_as_run(lines, panel, options, ledger, read_human_grades(options))


def test_grades_online_and_in_batches_are_the_same(pools, run, tmp_path, monkeypatch):
    labels = [
        f"{pool['query']['id']} 0 {d['id']} {min(max(round(worth_in(d)), 0), 3)}\n"
        for pool in map(json.loads, pools.read_text().splitlines())
        for d in pool["documents"]
    ]
    human = tmp_path / "human.txt"
    human.write_text("".join(labels))
    with crash.fakes(tmp_path) as environ:
        flags = ("--protocol", "graded", "--human", str(human))
        run(pools, tmp_path / "online", environ, *flags)
        files = ("annotated.jsonl", *(f"{n}.parquet" for n in ("grades", "scores", "raters")))
        before = [(tmp_path / "online" / name).read_bytes() for name in files]
        run(pools, tmp_path / "online", environ, *flags)
        assert before == [(tmp_path / "online" / name).read_bytes() for name in files]
        asked = len(crash.journal(tmp_path))
        for variable in crash.URLS.values():
            monkeypatch.setenv(variable, environ[variable])
        grade_in_batches(pools, tmp_path / "batch", environ, human)
    assert asked == QUERIES * DOCUMENTS * 3
    for name in ("grades", "scores", "raters", "shares"):
        online, batch = ((tmp_path / out / f"{name}.parquet") for out in ("online", "batch"))
        assert online.read_bytes() == batch.read_bytes(), name
    grades, scores = rows_of(tmp_path / "online", "grades"), rows_of(tmp_path / "online", "scores")
    assert Counter(row["judge"] for row in grades) == dict.fromkeys(crash.DEFAULT_JUDGES, 24)
    assert all(row["rationale"] and 0 <= row["grade"] <= 3 for row in grades)
    assert all(row["comparisons"] == 3 and 0 <= row["score"] <= 3 for row in scores)
    assert [row["judge"] for row in rows_of(tmp_path / "online", "raters")] == [
        *sorted(crash.DEFAULT_JUDGES),
        "human",
    ]
    [mean] = [row for row in rows_of(tmp_path / "online", "shares") if row["measure"] == "grade"]
    assert mean["humans"] == QUERIES * DOCUMENTS
    for line in (tmp_path / "online" / "annotated.jsonl").read_text().splitlines():
        worth = [(worth_in(d), d["score"]) for d in json.loads(line)["documents"]]
        by_worth = [score for _, score in sorted(worth)]
        assert by_worth == sorted(by_worth)
