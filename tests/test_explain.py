"""Why a document has its score, in words."""

import re

import pytest

from tests.builders import pool_of, results_of
from tests.hills import write_contests, write_verdicts
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


def test_contests_are_told_in_order_with_the_king_after_each(tmp_path):
    write_contests(tmp_path)
    text = explain(str(tmp_path), "q0", "c")
    headline, won, *rest = text.splitlines()
    assert headline == "c: score +1.00 ± 0.50, rank 1 of 3, from 3 contests"
    assert won == "it won 1 of 4 tournaments with a winner"
    tournaments = "\n".join(rest).strip().split("\n\n")
    assert tournaments[0].splitlines() == [
        "tournament of j1, repeat 1, won by a",
        "  round 2  lost against a  confidence 0.75, shown as Answer 1; then king: a",
        "        in short 2",
        "        because",
    ]
    assert [line for line in tournaments[1].splitlines() if not line.startswith("   ")] == [
        "tournament of j1, repeat 2, won by it",
        "  round 1  won  against b  confidence 0.75, shown as Answer 2; then king: c",
        "  round 2  tied against a, as king  confidence 0.75, shown as Answer 2; then king: c",
    ]
    assert len(tournaments) == 4


def test_a_tournament_that_failed_says_so_with_the_failure(tmp_path):
    write_contests(tmp_path)
    text = explain(str(tmp_path), "q1", "a")
    assert "tournament of j2, repeat 1, which did not end" in text
    assert "no judgment from j2 on a and c: refused (no)" in text


def test_a_tournament_of_the_panel_names_who_said_what(tmp_path):
    told = [("q0", judge, 0, "abc", "kk") for judge in ("j1", "j2")]
    write_contests(tmp_path, told=told, decide="panel", repeats=1)
    head, *lines = explain(str(tmp_path), "q0", "b").split("\n\n")[1].splitlines()
    assert head == "tournament of the panel, won by a"
    assert [line for line in lines if "round" in line] == [
        f"  round 1  lost against a  {judge}, confidence 0.75, shown as Answer 2; then king: a"
        for judge in ("j1", "j2")
    ]


def test_debates_are_told_round_by_round_from_the_document_s_side(tmp_path):
    write_verdicts(tmp_path)
    headline, debates = explain(str(tmp_path), "q0", "b").split("\n\n")
    assert headline == "b: score +0.50 ± 0.50, rank 1 of 2, from 3 verdicts"
    assert debates.splitlines()[:16] == [
        "against a (score -0.50, rank 2)",
        "  tied 80 to 89  j1 by samre, shown as Answer 2",
        "        flipped: the other order has another winner, so it is a tie",
        "    round 1: 80 to 90",
        "        for: for B 1",
        "        against: for A 1",
        "        feedback: do better 1",
        "        because 1",
        "    round 2: 80 to 88",
        "        for: for B 2",
        "        against: for A 2",
        "        feedback: do better 2",
        "        because 2",
        "  tied 85 to 79  j1 by samre, shown as Answer 1",
        "        flipped: the other order has another winner, so it is a tie",
        "    round 1: 80 to 70",
    ]
    assert "  won  71 to 70  j2 by samre, shown as Answer 1" in debates


def test_a_document_that_no_contest_reached_is_said_to_be_not_judged(tmp_path):
    write_contests(tmp_path)
    with pytest.raises(NothingToExplain, match="has no judged 'd'; it has c, a, b"):
        explain(str(tmp_path), "q0", "d")
