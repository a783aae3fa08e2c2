"""From stored replies to files: judgments, scores, and what is missing said by name."""

import json

import pytest

from tests.helpers.builders import (
    PANEL,
    answers,
    line_of,
    lines_of,
    options_of,
    pool_of,
    results_of,
    rows_of,
)
from zelo_ray.engine.build_results import build_results
from zelo_ray.engine.count_input import count_input
from zelo_ray.engine.write_results import write_results
from zelo_ray.files import tables
from zelo_ray.files.pools import LineLimits, parse_line
from zelo_ray.protocols import zelo
from zelo_ray.reasons import UnscoredReason

FILES = {"annotated.jsonl", "votes.parquet", "scores.parquet", "failures.parquet"}


def annotated(out):
    return [json.loads(line) for line in (out / "annotated.jsonl").read_bytes().splitlines()]


def some_pools(count=7):
    return [pool_of(range(2 + i), query_id=f"q{i}", query=f"question {i}?") for i in range(count)]


def test_scores_follow_the_votes_and_stand_in_every_file(tmp_path):
    summary = results_of(tmp_path, [pool_of((1, 3, 0, 2))])
    scores = rows_of(tmp_path, "scores")
    assert [row["doc_id"] for row in scores] == ["d1", "d3", "d0", "d2"]
    assert [row["rank"] for row in scores] == [1, 2, 3, 4]
    assert {row["comparisons"] for row in scores} == {6}
    (line,) = annotated(tmp_path)
    by_id = {row["doc_id"]: row["score"] for row in scores}
    assert {d["id"]: d["score"] for d in line["documents"]} == by_id
    votes = rows_of(tmp_path, "votes")
    assert {vote["judge"] for vote in votes} == {"openai:one", "anthropic:two"}
    assert len(votes) == 12
    assert all(" or " in vote["reasoning"] for vote in votes)
    assert rows_of(tmp_path, "failures") == []
    assert summary.complete
    assert (summary.queries, summary.documents, summary.scored, summary.judgments) == (1, 4, 4, 12)


@pytest.mark.parametrize("block", [1, 2, 3, 5])
def test_files_are_the_same_bytes_however_pools_are_split_over_blocks(tmp_path, block, monkeypatch):
    monkeypatch.setattr(tables, "_GROUP_ROWS", 10)

    def say(request):
        return "refused" if request.key[0] in "02468" else None

    whole = results_of(tmp_path / "whole", some_pools(), say)
    split = results_of(tmp_path / "split", some_pools(), say, block=block)
    for name in FILES:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "split" / name).read_bytes()
    assert whole.failures > 0
    split.out = whole.out
    assert whole == split


@pytest.mark.parametrize("documents", [0, 1])
def test_a_pool_too_small_is_reported_and_written_as_it_came(tmp_path, documents):
    pools = [pool_of(range(documents), query_id="small"), pool_of()]
    summary = results_of(tmp_path, pools)
    assert list(summary.unscored) == ["small"]
    few, none = UnscoredReason.TOO_FEW_DOCUMENTS, UnscoredReason.NO_DOCUMENTS
    assert summary.unscored["small"].code is (few if documents else none)
    assert not summary.complete
    assert annotated(tmp_path)[0] == json.loads(line_of(pools[0]))
    assert {row["query_id"] for row in rows_of(tmp_path, "scores")} == {"q1"}


def test_failures_are_named_and_give_no_vote(tmp_path):
    def say(request):
        return "filtered" if "d0" in {d.id for d in request.documents} else None

    summary = results_of(tmp_path, [pool_of()], say)
    failures = rows_of(tmp_path, "failures")
    assert len(failures) == summary.failures == 6
    assert all("d0" in row["doc_ids"] for row in failures)
    row = {key: failures[0][key] for key in ("query_id", "status", "reason", "attempts")}
    assert row == {"query_id": "q1", "status": "filtered", "reason": "because", "attempts": 2}
    assert sorted(row["doc_id"] for row in rows_of(tmp_path, "scores")) == ["d1", "d2", "d3"]
    assert not summary.complete


def test_a_query_of_which_nothing_came_back_is_reported_and_its_neighbour_is_not(tmp_path):
    pools = [pool_of(query_id="bad", query="blocked?"), pool_of()]

    def say(request):
        return "failed" if request.query == "blocked?" else None

    summary = results_of(tmp_path, pools, say)
    assert [(q, why.code) for q, why in summary.unscored.items()] == [
        ("bad", UnscoredReason.LOW_COVERAGE)
    ]
    assert not any("score" in document for document in annotated(tmp_path)[0]["documents"])
    assert all("score" in document for document in annotated(tmp_path)[1]["documents"])


def test_a_query_that_fell_apart_is_not_scored(tmp_path):
    def say(request):
        return (
            None if {d.id for d in request.documents} in ({"d0", "d1"}, {"d2", "d3"}) else "failed"
        )

    summary = results_of(tmp_path, [pool_of()], say, min_coverage=0)
    assert summary.unscored["q1"].code is UnscoredReason.DISCONNECTED
    assert rows_of(tmp_path, "scores") == []
    assert len(rows_of(tmp_path, "votes")) == 4


@pytest.mark.parametrize(("share", "scored"), [(0.75, 4), (0.76, 0)])
def test_a_query_with_too_few_answers_is_reported_and_not_scored(tmp_path, share, scored):
    bad = {"d0", "d1"}, {"d2", "d3"}, {"d0", "d3"}

    def say(request):
        lost = {d.id for d in request.documents} in bad and request.judge.name == PANEL[0].name
        return "refused" if lost else None

    summary = results_of(tmp_path, [pool_of()], say, min_coverage=share)
    assert len(rows_of(tmp_path, "scores")) == scored
    assert bool(summary.unscored) == (scored == 0)
    assert len(rows_of(tmp_path, "votes")) == 9


def test_unknown_keys_and_other_scores_of_the_line_are_kept(tmp_path):
    raw = json.loads(line_of(pool_of()))
    raw |= {"split": "test", "big": 2**70}
    raw["documents"][0] |= {"score": 3, "url": "x"}
    raw["documents"][1]["score"] = 0
    line = parse_line("f", 1, json.dumps(raw).encode(), LineLimits())
    options = options_of(out=str(tmp_path))
    write_results([build_results([line], PANEL, options, answers([line.pool], options))], options)
    (out,) = annotated(tmp_path)
    assert (out["split"], out["big"]) == ("test", 2**70)
    assert (out["documents"][0]["input_score"], out["documents"][0]["url"]) == (3, "x")
    assert out["documents"][1]["input_score"] == 0
    assert all(isinstance(document["score"], float) for document in out["documents"])


def test_an_error_on_the_way_leaves_the_files_of_the_last_run(tmp_path):
    results_of(tmp_path, [pool_of()])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    options, pools = options_of(out=str(tmp_path)), some_pools()

    def blocks():
        yield build_results(lines_of(pools), PANEL, options, answers(pools, options))
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        write_results(blocks(), options)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before


def counts(options):
    return lambda pool: zelo.count(pool, PANEL, options)


def census(tmp_path, *lines, **fields):
    shard = tmp_path / "in.jsonl"
    shard.write_bytes(b"\n".join(lines))
    options = options_of(out=str(tmp_path / "out"), **fields)
    return count_input([str(shard)], counts(options), options.out), str(shard)
