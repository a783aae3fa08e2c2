"""The pages of tournaments and of debates: who won, and how much the order and the judge matter."""

import json

import pytest

from tests.hills import rows_of_tournaments, rows_of_verdicts, write_contests, write_verdicts
from tests.results import write_comparison, write_graded
from tests.test_report import EVIL, page_of
from zelo_ray.commands.annotate.report.debates import count_decisions
from zelo_ray.commands.annotate.report.tournaments import (
    count_consistent,
    count_first_king_wins,
    count_wins,
    finished,
    read_tournaments,
)
from zelo_ray.commands.annotate.report.wins import win_shares
from zelo_ray.commands.report import write_report
from zelo_ray.files.tables import table_of
from zelo_ray.protocols.judgments import CONTESTS, VERDICTS
from zelo_ray.records import Contest, Verdict


@pytest.fixture
def tournaments(tmp_path):
    write_contests(tmp_path)
    return read_tournaments(str(tmp_path), 2)


def test_tournaments_are_counted_also_those_whose_first_contest_failed(tournaments):
    assert len(tournaments) == 8
    by_key = {(each.query_id, each.judge, each.repeat): each for each in tournaments}
    assert by_key["q1", "j2", 1].order == ()
    assert by_key["q1", "j2", 0].order == ("a", "b")
    assert by_key["q0", "j1", 1].order == ("b", "c", "a")
    assert by_key["q0", "j1", 1].winner_id == "c"
    assert len(finished(tournaments)) == 6


def test_what_tournaments_come_to_is_as_counted_by_hand(tournaments):
    assert count_first_king_wins(tournaments) == (2, pytest.approx(2.0), 6)
    assert count_consistent(tournaments) == (2, 3)
    assert count_wins(tournaments) == {
        "a": {"q0": [1, 0, 1, 1], "q1": [0, 0]},
        "b": {"q0": [0] * 4, "q1": [0, 0]},
        "c": {"q0": [0, 1, 0, 0], "q1": [1, 1]},
    }


def test_a_share_of_wins_weighs_every_query_alike():
    wins = {"a": {"q0": [1.0, 1.0, 0.0, 0.0], "q1": [0.0]}, "b": {"q0": [1.0], "q1": [0.5]}}
    assert win_shares(wins) == [("b", 0.75, 2), ("a", 0.25, 2)]


def test_a_contest_is_a_vote_for_left_or_right():
    contests = rows_of_tournaments([("q0", "j1", 0, "abcd", "kct")])[0]
    votes = CONTESTS.as_votes(table_of(contests, Contest)).to_pylist()
    told = [(v["doc_id_a"], v["doc_id_b"], v["preference"], v["swapped"]) for v in votes]
    assert told == [("a", "b", -1, False), ("a", "c", 1, True), ("c", "d", 0, False)]
    assert [contest.preference for contest in contests] == [-1, 1, 0]


def test_verdicts_of_both_orders_are_one_word_on_a_pair(tmp_path):
    write_verdicts(tmp_path)
    found = count_decisions(str(tmp_path))
    one, two = found.by_judge["samre", "j1"], found.by_judge["samre", "j2"]
    assert (one.winners, one.both, one.reversed, one.half_tied) == ({"tie": 2}, 2, 1, 0)
    assert (two.winners, two.both, two.flipped) == ({"model_b": 1}, 1, 0)
    assert one.rounds == [2, 2, 3, 1]
    assert found.wins == {"a": {"q0": [0.5, 0], "q1": [0.5]}, "b": {"q0": [0.5, 1], "q1": [0.5]}}
    assert found.whole.pairs == 3


def test_a_flipped_verdict_still_tells_what_each_order_said():
    verdicts = rows_of_verdicts()
    votes = VERDICTS.as_votes(table_of(verdicts, Verdict))
    assert votes["preference"].to_pylist() == [-1, 1, 1, 1, 0, 0]
    assert [verdict.preference for verdict in verdicts] == [0, 0, 1, 1, 0, 0]


def test_chance_is_each_answers_own(tmp_path):
    told = [("q0", "j1", 0, "ab", "k"), ("q1", "j1", 0, "abc", "kk"), ("q2", "j1", 0, "bc", "k")]
    [[_, won]] = write_contests(tmp_path, told=told, repeats=1).chart("winners", 0)
    assert won["data"][1]["x"] == pytest.approx([5 / 12, 4 / 9, 5 / 12])


def test_a_tie_in_one_order_does_not_turn_round(tmp_path):
    told = [("q0", "a", "b", "j1", ((60, 60),), False), ("q0", "a", "b", "j1", ((60, 71),), True)]
    write_verdicts(tmp_path, told=told)
    one = count_decisions(str(tmp_path)).by_judge["samre", "j1"]
    assert (one.reversed, one.half_tied, one.flipped) == (0, 1, 1)


def test_only_answers_to_two_queries_are_ranked():
    for queries, many in (
        ({"a": "xy", "b": "xy"}, 2),
        ({"a": "x", "b": "x", "c": "xy", "d": "y"}, 0),
        ({}, 0),
    ):
        wins = {name: {query: [1.0] for query in each} for name, each in queries.items()}
        assert len(win_shares(wins)) == many


def write_evil_graded(out, say):
    write_graded(out, say=say)
    write_report(str(out))
    return page_of(out)


def write_evil_comparison(out, say):
    write_comparison(out, notes=[f"{say}j1 and {say}q0"])
    write_report(str(out))
    return page_of(out)


WRITERS = (write_contests, write_verdicts, write_evil_graded, write_evil_comparison)


@pytest.mark.parametrize("write", WRITERS)
def test_data_is_shown_and_not_run(tmp_path, write):
    page = write(tmp_path, say=EVIL)
    assert not {"img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert len(page.scripts) == len(set(page.scripts)) <= 4
    assert EVIL in page.words()
    assert "secret" not in page.words(), "a password in a URL"
    drawn = json.dumps([fig for charts in page.charts.values() for one in charts for _, fig in one])
    assert "<b>" not in drawn
