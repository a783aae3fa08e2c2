"""A bake-off as a user runs it: the command, with arms that fail in every way."""

import json
import time

import pytest
import yaml

from tests.fakes.rerank import Rerankers
from tests.helpers import crash
from tests.helpers.builders import rows_of
from tests.helpers.crash import COMMAND, ROOT, bare_environment, finish, kill_tree
from tests.helpers.jobs import run_job
from zelo_ray.cli import main

SAMPLE, GRADES = str(ROOT / "data" / "sample"), str(ROOT / "data" / "qrels.txt")
CUSTOM = '''
"""Rerankers of a user's own."""

import os


class Overlap:
    version = 1

    def __init__(self, power=1.0):
        self.power = power

    async def score(self, query, documents):
        words = set(query.lower().split())
        return [len(words & set(text.lower().split())) ** self.power for text in documents]


def deadly(query, documents):
    """Takes its process with it."""
    os._exit(1)


def moody(query, documents):
    """Answers well, too little, with what is no number, or not at all."""
    if len(query) % 4 == 0:
        return [1.0]
    if len(query) % 4 == 1:
        return [float("nan")] * len(documents)
    if len(query) % 4 == 2:
        raise RuntimeError("no mood for it")
    return list(range(len(documents)))
'''


@pytest.fixture(scope="module")
def server():
    with Rerankers() as server:
        yield server


def environment(server, **more):
    keys = ("CO_API_KEY", "VOYAGE_API_KEY")
    urls = {"CO_API_URL": server.url + "/cohere", "VOYAGE_BASE_URL": server.url + "/voyage/v1"}
    return {**bare_environment(), **urls, **dict.fromkeys(keys, server.key), **more}


@pytest.mark.ray
def test_gpus_that_are_not_there_are_not_waited_for(tmp_path):
    config = {"truth": GRADES, "pools": SAMPLE, "out": str(tmp_path / "out")}
    config |= {"rerankers": ["bm25"], "num_gpus": {"bm25": 1}}
    path = written(tmp_path, config)
    status, printed = run_job(bare_environment(), "bakeoff", "--config", path, where="process")
    assert status == 2, printed
    assert "num_gpus: the rerankers take 1 GPUs, and there are 0" in printed


def written(folder, config):
    path = folder / "contest.yaml"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def start(folder, environ, config):
    command = [*COMMAND, "bakeoff", "--config", written(folder, config)]
    return crash.start(command, {**environ, "PYTHONPATH": str(ROOT)}, folder)


def cohere(server):
    """The queries that Cohere was asked about."""
    return [entry["body"]["query"] for entry in server.journal if entry["name"] == "cohere"]


@pytest.mark.ray
@pytest.mark.nightly
def test_arms_of_all_kinds_and_every_failure_is_seen_also_after_a_kill(tmp_path, server):
    """Eight arms: four fail on some queries or on all, and no other is the worse for it."""
    (tmp_path / "mine.py").write_text(CUSTOM)
    out = tmp_path / "out"
    config = {
        "truth": GRADES,
        "pools": SAMPLE,
        "out": str(out),
        "executor": "ray",  # where what takes its process with it ends no other
        "rerankers": [
            *("original", "bm25", "squared=mine:Overlap", "mine:moody"),
            *("mine:deadly", "cohere:rerank-v5.0-pro", "voyage:rerank-2.5"),
            "gone=rerank:m@http://127.0.0.1:1",
        ],
        "reranker_options": {"squared": {"power": 2.0}},
        "limits": {"cohere:rerank-v5.0-pro": {"rpm": 200, "concurrency": 1}},
        "slices": ["domain"],
    }
    server.journal.clear()
    environ = environment(server, VOYAGE_API_KEY="a-wrong-key")
    run = start(tmp_path, environ, config)
    while run.poll() is None and len(cohere(server)) < 6:
        time.sleep(0.02)
    assert run.poll() is None, finish(run)[1]
    kill_tree(run)
    held = {path: path.read_bytes() for path in (out / "replies").glob("*.jsonl")}
    harmed = next(
        path for path, data in held.items() if data.count(b'"ok"') and b"rerank" not in data
    )
    harmed.write_bytes(held[harmed].replace(b'"ok"', b'"oj"', 1))
    status, printed = finish(start(tmp_path, environ, config))
    assert status == 3, printed
    assert "Traceback" not in printed
    assert "a-wrong-key" not in printed
    assert "raylet" not in printed
    assert "the ledger holds 1 damaged line" in printed
    assert "The ledger held 1 damaged line" in printed
    assert json.loads((out / "run.json").read_text())["summary"]["damaged"] == 1
    told = {arm["run"]: arm for arm in rows_of(out, "leaderboard")}
    assert [told[name]["ranked"] for name in ("original", "bm25", "squared")] == [29, 29, 29]
    assert told["cohere:rerank-v5.0-pro"]["ranked"] == 29
    assert told["voyage:rerank-2.5"]["ranked"] == 0
    assert "VOYAGE_API_KEY" in told["voyage:rerank-2.5"]["note"]
    assert told["gone"]["note"].startswith("connection refused, 3 times")
    assert told["mine:deadly"]["note"] == "its process died again and again"
    failures = rows_of(out, "failures")
    moody = {row["query_id"]: row for row in failures if row["run"] == "mine:moody"}
    assert told["mine:moody"]["ranked"] == 29 - len(moody)
    reasons = " ".join(row["reason"] for row in moody.values())
    assert "no mood for it" in reasons
    assert "1 scores for" in reasons
    assert "nan" in reasons.lower()
    assert "mine:deadly" in printed.partition("Queries that were not ranked")[2]
    metrics = {(m["run"], m["query_id"], m["measure"]): m["value"] for m in rows_of(out, "metrics")}
    assert all(metrics["mine:moody", query, "nDCG@10"] == 0.0 for query in moody)
    compared = [c for c in rows_of(out, "comparisons") if "mine:moody" in (c["run_a"], c["run_b"])]
    assert {c["queries"] for c in compared} == {29 - len(moody)}
    assert not any("voyage" in c["run_a"] + c["run_b"] for c in rows_of(out, "comparisons"))
    assert sum(row["slice"] == "domain" for row in rows_of(out, "slices")) >= 12 * 5  # values, arms
    assert len(set(cohere(server))) == 29
    assert len(cohere(server)) <= 30, "more than the one call in flight was paid for twice"
    assert (out / "report.html").exists()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (("--rerankers", "bm25", "x=bm25"), "bm25 and x are one reranker with the same options"),
        ((), "no rankers: name --rerankers"),
        (("--rerankers", "bm26"), "bm25, chargram, likelihood"),
        (("--rerankers", "bm25"), "--pools: name the documents to rank"),
        (
            ("--rerankers", "bm25", "--measures", "nDGC@10"),
            "unknown measure 'nDGC' (did you mean 'nDCG'?)",
        ),
        (("--runs", "nothing.run"), "nothing.run"),
        (
            ("--rerankers", "original", "--pools", SAMPLE, "--slices", "lnaguage"),
            "--slices lnaguage: …they have domain",
        ),
        (("--rerankers", "nowhere:Nobody"), "nowhere:Nobody cannot be imported"),
        (("--rerankers", "cohere:rerank-v5.0-pro"), "set CO_API_KEY"),
    ],
)
def test_wrong_options_are_told_in_a_line(tmp_path, capsys, flags, says):
    status = main(["bakeoff", "--truth", GRADES, "--out", str(tmp_path), *flags])
    printed = capsys.readouterr().err
    assert status in {1, 2}
    assert all(part in printed for part in says.split("…"))
    assert printed.count("\n") == 1


def test_pools_of_other_queries_are_told_by_ids(tmp_path, capsys):
    pool = {
        "query": {"id": "Caf\u00e9-1", "query": "?"},
        "documents": [{"id": "a", "content": "b"}],
    }
    (tmp_path / "pools.jsonl").write_text(json.dumps(pool))
    (tmp_path / "truth.qrels").write_text("Cafe\u0301-1 0 a 1\n")
    words = ("--truth", tmp_path / "truth.qrels", "--pools", tmp_path / "pools.jsonl")
    assert main(["bakeoff", *map(str, words), "--rerankers", "bm25", "--out", f"{tmp_path}/o"]) == 1
    said = capsys.readouterr().err
    assert r"'Caf\xe9-1'" in said
    assert r"'Cafe\u0301-1'" in said
