"""graded by several criteria in one call: answers, weighted means, columns, agreement."""

import json
import math

import pytest

from tests.helpers.builders import (
    options_of,
    play,
    pool_of,
    rows_of,
    sealed,
    seen_worth,
    write_as_run,
)
from tests.protocols.test_prompts import first_round
from zelo_ray.files.run_record import changed_prompt_options
from zelo_ray.protocols import graded
from zelo_ray.protocols.grading import weighted_mean
from zelo_ray.protocols.options import parse_criterion
from zelo_ray.providers import build_panel
from zelo_ray.records import CriterionGrade, Grade

PANEL = build_panel(("openai:a-model", "anthropic:a-model"), {}, {})
BY = ("relevance=2: it answers the query", "freshness: it is of this year")
POOLS = [pool_of(), pool_of((3, 2, 0), "q2")]


def options(*by, **fields):
    return options_of(protocol="graded", criteria=by or BY, **fields)


def asked(*by, pool=POOLS[0]):
    return sealed(first_round(graded.rounds(pool, PANEL, options(*by))))


def answer(**grades):
    return json.dumps({n: {"reason": f"{n} is so", "grade": g} for n, g in grades.items()})


def say(request):
    """Relevance is what the document is worth, freshness 3 less; the second judge is kinder."""
    (worth,) = (int(worth) for worth in seen_worth(request))
    kind = request.judge.provider == "anthropic"
    return answer(relevance=min(3, worth + kind), freshness=3 - worth)


def judged(out, pools=POOLS, say=say, by=(), **fields):
    """Write the results of pools as a run does; return the scores."""
    write_as_run(pools, PANEL, options(*by, out=str(out), **fields), say)
    return rows_of(out, "scores")


def test_a_criterion_has_a_name_and_may_have_a_weight_and_a_meaning(tmp_path):
    for text, parsed in {
        "accuracy": ("accuracy", 1.0, ""),
        "accuracy=.5": ("accuracy", 0.5, ""),
        " is_new = 2 : of 2026: new ": ("is_new", 2.0, "of 2026: new"),
    }.items():
        assert parse_criterion(text) == parsed
    for given, fields, says in (
        (("Accuracy",), {}, "no criterion"),
        (("accuracy=0",), {}, "weights above 0"),
        (("accuracy=1.2.3",), {}, "no criterion"),
        (("accuracy=2", "accuracy: right"), {}, "two criteria"),
        (("accuracy", "accuracy_error"), {}, "cannot be called accuracy_error"),
        (("model_config",), {}, "cannot be called"),
        (tuple(f"c{n}" for n in range(13)), {}, "at most 12"),
        (("accuracy: 2",), {}, "no criterion"),
        (("clarity",), {"anchors": "law"}, "or anchors"),
        (("clarity",), {"pooling": "thurstone"}, "pooling: thurstone"),
        (("clarity",), {"template": "{{query}} {{document}} {{answer_format}}"}, "a template"),
    ):
        with pytest.raises(ValueError, match=says):
            options(*given, **fields)
    path = tmp_path / "criteria.txt"
    path.write_text("# nothing yet\n")
    with pytest.raises(ValueError, match="no criterion"):
        options(str(path))
    path.write_text("\n".join(["# what counts", *BY, ""]))
    given = options(str(path))
    again = type(given).model_validate(given.model_dump(mode="json"), context="recorded")
    assert (given.criteria, again.parsed_criteria) == (BY, given.parsed_criteria)


def test_criteria_and_their_meanings_are_other_questions_and_weights_are_not():
    def keys(*by):
        return {request.key for request in asked(*by)}

    assert not keys("accuracy") & keys("clarity")
    assert not keys("accuracy") & keys("accuracy: it is right")
    assert keys("accuracy", "clarity=2") == keys("accuracy=3", "clarity")
    was, now, heavier = (
        options(by).model_dump(mode="json")
        for by in ("accuracy: right", "accuracy: wrong", "accuracy=3: right")
    )
    assert list(changed_prompt_options(was, now)) == ["criteria"]
    assert not list(changed_prompt_options(was, heavier))


def test_a_reply_is_a_grade_by_the_rule_and_one_by_each_criterion():
    step, _ = play(graded, options(), POOLS[0], PANEL[:1], say)
    grades = [row for row in step.judgments if isinstance(row, Grade)]
    assert [row.grade for row in grades] == [1, 1, 2, 2]  # of 3, 4, 5 and 6 thirds
    parts = [row for row in step.judgments if isinstance(row, CriterionGrade)]
    by_name = [(row.doc_id, row.criterion, row.grade) for row in parts[:2]]
    assert by_name == [("d0", "relevance", 0), ("d0", "freshness", 3)]
    assert {row.key for row in parts if row.doc_id == "d0"} == {grades[0].key}


def test_a_half_goes_to_the_even_grade_of_a_judge_and_of_a_document(tmp_path):
    parts = tuple(map(parse_criterion, ("a=.1", "b=.2", "c=.3")))  # whose sum is not .6
    assert weighted_mean({"a": 3, "b": 3, "c": 2}, parts) == 2.5
    assert math.isnan(weighted_mean({"a": 1}, parts))
    said = iter([(1, 2), (0, 1), (2, 3), (0, 0)])

    def halves(_request):
        a, b = next(said)
        return answer(a=a, b=b)

    step, _ = play(graded, options("a", "b"), POOLS[0], PANEL[:1], halves)
    assert [row.grade for row in step.judgments if isinstance(row, Grade)] == [2, 0, 2, 0]

    def apart(request):
        (worth,) = map(int, seen_worth(request))
        return answer(a=worth + (request.judge.provider == "anthropic"))

    rows = judged(tmp_path, [pool_of((2, 0, 1))], apart, by=("a",))
    assert {row["doc_id"]: row["grade"] for row in rows} == {"d0": 2, "d1": 0, "d2": 2}


def test_scores_have_a_column_and_an_error_for_each_criterion(tmp_path):
    rows = judged(tmp_path)
    row = next(r for r in rows if (r["query_id"], r["doc_id"]) == ("q1", "d1"))
    assert (row["by_relevance"], row["by_freshness"], row["grade"]) == (1.5, 2, 2)
    assert row["score"] == pytest.approx((2 * 1.5 + 2) / 3)
    assert row["by_relevance_error"] > 0
    for query in ("q1", "q2"):
        mine = [r for r in rows if r["query_id"] == query]
        assert mine == sorted(mine, key=lambda r: (-r["score"], r["doc_id"]))
    line = json.loads((tmp_path / "annotated.jsonl").read_text().splitlines()[0])
    assert line["documents"][1]["by_relevance"] == 1.5
    assert len(rows_of(tmp_path, "criteria")) == 2 * len(rows_of(tmp_path, "grades")) == 28


def test_the_error_is_that_of_the_weighted_means_before_they_are_rounded(tmp_path):
    """Judges that differ within one step of the whole grade differ nevertheless."""

    def near(request):
        return answer(relevance=2, freshness=2 + (request.judge.provider == "anthropic"))

    row, *_ = judged(tmp_path, [pool_of(query_id=f"q{n}") for n in range(6)], near)
    assert {grade["grade"] for grade in rows_of(tmp_path, "grades")} == {2}
    assert row["score"] == pytest.approx((2 * 2 + 2.5) / 3)
    # Two judges at 2 and 7/3 everywhere: half their difference is the error of their mean.
    assert row["std_error"] == pytest.approx(1 / 6, abs=1e-4)
    assert row["truth_error"] > row["std_error"]


def test_a_failed_reply_counts_once_against_coverage(tmp_path):
    """Three grades of one reply are one answer: half of the panel is enough, and less is not."""

    def half(request):
        return say(request) if request.judge.provider == "openai" else ("", "refused")

    assert len(judged(tmp_path, POOLS[:1], half)) == 4
    assert len(judged(tmp_path, POOLS[:1], half, min_coverage=0.6)) == 0
