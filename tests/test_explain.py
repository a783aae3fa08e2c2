"""Why a document has its score, in words."""

import re

import pytest

from tests.builders import pool_of, results_of
from zelo_ray.explain import NothingToExplain, explain


@pytest.fixture
def out(tmp_path):
    """Four documents, d3 the best; the second judge refuses to compare d0 with d1."""

    def say(request):
        refused = {d.id for d in request.documents} == {"d0", "d1"}
        return "refused" if refused and request.judge.provider == "anthropic" else None

    pools = [pool_of(), pool_of(query_id="alone", worths=(0,))]
    results_of(tmp_path, pools, say)
    return str(tmp_path)


def test_a_score_is_explained_by_its_battles_the_hardest_opponent_first(out):
    text = explain(out, "q1", "d1")
    headline, *battles = text.split("\n\n")
    assert re.fullmatch(
        r"d1: score -\d\.\d\d ± \d\.\d\d, rank 3 of 4, from 5 votes", headline.strip()
    )
    opponents = [re.match(r"against (\w+) \(score [-+]\d\.\d\d, rank \d\)", b) for b in battles[:3]]
    assert [found[1] for found in opponents] == ["d3", "d2", "d0"]
    assert battles[0].count("lost -0.20") == 2
    assert battles[2].count("won  +0.10") == 1
    assert "no judgment from anthropic:two on d0 and d1: refused (because)" in text


def test_each_vote_says_which_document_the_judge_saw_as_which(out):
    """So that what its reasoning calls A can be found."""
    seen = re.findall(
        r"([\w:]+), which saw (\w+) as A, (\w+) as B\n +([\d.]+) or ([\d.]+)",
        explain(out, "q1", "d2"),
    )
    assert len(seen) == 6
    for _, first, second, worth_first, worth_second in seen:
        assert (float(first[1:]), float(second[1:])) == (float(worth_first), float(worth_second))
    assert len({first == "d2" for _, first, *_ in seen}) == 2


def test_a_tie_is_called_a_tie(tmp_path):
    results_of(tmp_path, [pool_of((1, 1))])
    assert explain(str(tmp_path), "q1", "d0").count("tied +0.00") == 2


@pytest.mark.parametrize(
    ("query", "doc", "says"),
    [
        ("q7", "d1", "no judgment of a query 'q7'"),
        ("q1", "d9", "has no judged 'd9'; it has d3, d2, d1, d0"),
        ("alone", "d0", "no judgment of a query 'alone'"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(out, query, doc, says):
    with pytest.raises(NothingToExplain, match=says):
        explain(out, query, doc)


def test_a_directory_without_results_is_said_in_one_line(tmp_path):
    with pytest.raises(NothingToExplain, match=r"no scores\.parquet: is it the --out"):
        explain(str(tmp_path / "elsewhere"), "q1", "d1")


def test_a_document_that_was_judged_but_not_scored_says_so(tmp_path):
    def say(request):
        apart = {d.id for d in request.documents} in ({"d0", "d1"}, {"d2", "d3"})
        return None if apart else "failed"

    results_of(tmp_path, [pool_of()], say)
    assert "d0: no score" in explain(str(tmp_path), "q1", "d0")


def test_a_document_of_which_nothing_came_back_is_explained_by_its_failures(tmp_path):
    def say(request):
        return "filtered" if "d0" in {d.id for d in request.documents} else None

    results_of(tmp_path, [pool_of()], say)
    assert "filtered (because)" in explain(str(tmp_path), "q1", "d0")
