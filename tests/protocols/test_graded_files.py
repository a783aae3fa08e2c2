"""Grades as files: what is covered, what an earlier run left, what explains a grade."""

import json

import pytest

from tests.helpers.builders import (
    judge_of,
    options_of,
    pool_of,
    rows_of,
    seen_worth,
    write_as_run,
)
from zelo_ray.errors import Stopped
from zelo_ray.fitting import grades as fits
from zelo_ray.reasons import UnscoredReason

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))


def run(out, pools, status=lambda request: "ok", **fields):
    """Write the results of pools whose judges say the worth, but where a status is another."""

    def say(request):
        (worth,) = seen_worth(request)
        said = {"facets_covered": ["how"], "facets_missing": ["why", "when"]}
        said |= {"rationale": "It says \x1b[2J how.", "grade": int(worth)}
        return json.dumps(said), status(request)

    return write_as_run(pools, PANEL, options_of(out=str(out), protocol="graded", **fields), say)


def test_a_document_with_enough_grades_is_scored_whatever_became_of_its_neighbours(tmp_path):
    def say(request):
        filtered = seen_worth(request) != [3] and request.judge.provider != "openai"
        return "filtered" if filtered else "ok"

    summary = run(tmp_path, [pool_of()], say)
    assert [(row["doc_id"], row["rank"]) for row in rows_of(tmp_path, "scores")] == [("d3", 1)]
    assert summary.unscored == {}
    summary = run(tmp_path / "none", [pool_of()], lambda request: "filtered")
    assert [(q, why.code) for q, why in summary.unscored.items()] == [
        ("q1", UnscoredReason.LOW_COVERAGE)
    ]
    summary = run(tmp_path / "all", [pool_of()], say, min_coverage=0.3)
    assert summary.scored == 4


def test_a_panel_that_cannot_be_measured_stops_the_run_but_not_plain_pooling(tmp_path, monkeypatch):
    def fail(*args, **fields):
        raise ArithmeticError("it did not converge")

    monkeypatch.setattr(fits, "learn_panel", fail)
    with pytest.raises(Stopped, match="all replies are kept, and pooling: mean"):
        run(tmp_path, [pool_of()], pooling="thurstone")
    for fields in ({}, {"pooling": "mean"}):
        summary = run(tmp_path, [pool_of()], **fields)
        assert [row["score"] for row in rows_of(tmp_path, "scores")] == [3, 2, 1, 0]
        assert (summary.scored, summary.std_error) == (4, 0)  # the judges agree on all
