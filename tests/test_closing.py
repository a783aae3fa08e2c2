"""What a run says at its end: of tournaments and debates what a user acts on, and no more."""

import pytest

from tests.builders import options_of, pool_of, results_of
from tests.hills import write_contests, write_verdicts
from zelo_ray.commands.annotate.report.closing import closing
from zelo_ray.engine.write_results import Summary
from zelo_ray.records import Rater

TURNED = "turned round (A in one, B in the other)"
HALF_TIED = (((60, 60), False), ((60, 71), True))


def said(out, protocol, **fields):
    """All lines, of 13 judgments."""
    summary = Summary(str(out), 2, 6, 6, 13, seconds={"ask": 61.0}, sweeps=fields.pop("sweeps", 1))
    options = options_of(out=str(out), protocol=protocol, **fields)
    return list(closing(summary, options))


def test_tournaments_are_summed_up_with_what_chance_would_give(tmp_path):
    write_contests(tmp_path)
    assert said(tmp_path, "best-of", repeats=2) == [
        "6 documents of 2 queries scored from 13 contests in 1 min 1 s, nothing spent",
        "6 of 8 tournaments came to an end, 2 had a contest without an answer, and so no winner",
        "the first king won 33% of them, 33% by chance",
        "all repeats have the same winner 2 times of 3 (once a judge and query)",
        "  c  won  62% [14%, 94%] (mean over 2 queries)",
        "  a  won  38% [6%, 86%] (mean over 2 queries)",
        "  b  won   0% [0%, 66%] (mean over 2 queries)",
    ]


@pytest.mark.parametrize(
    ("fields", "alike"),
    [({}, True), ({"pooling": "majority"}, True), ({"human": "labels.txt"}, False),
     ({"pooling": "thurstone"}, False), ({"pooling": "median", "human": "labels.txt"}, True)],
)  # fmt: skip
def test_grades_say_whether_judges_weigh_what_is_shown(tmp_path, fields, alike):
    raters = [Rater(name, 0.1, 0.05, 0.5, 0.05, 0.5, 6) for name in ("j1", "j2")]
    summary = Summary(str(tmp_path), 2, 6, 6, 12, seconds={"ask": 61.0}, raters=raters)
    lines = list(closing(summary, options_of(out=str(tmp_path), protocol="graded", **fields)))
    (at,) = [n for n, line in enumerate(lines) if "severity" in line]
    assert "50.0%" in lines[at + 1]
    assert any("scores take every judge alike" in line for line in lines) == alike
    assert not any("standard error" in line for line in lines)


def test_answers_to_one_query_each_are_not_ranked(tmp_path):
    told = [(q, "j1", 0, [f"{q}{name}" for name in "ab"], "k") for q in ("q0", "q1")]
    write_contests(tmp_path, told=told, repeats=1)
    assert said(tmp_path, "best-of")[1:] == [
        "2 of 2 tournaments came to an end",
        "the first king won 100% of them, 50% by chance",
    ]


def test_the_page_says_the_same_of_who_won(tmp_path):
    """Also where a tournament failed, so that one query has fewer of them."""
    told = [("q0", "j1", 0, "ab", "k"), ("q0", "j1", 1, "ab", "k")]
    told += [("q1", "j1", 0, "ab", "c"), ("q1", "j1", 1, "ab", "")]
    page = write_contests(tmp_path, told=told)
    assert page.chart("winners", 0)[0][1]["data"][0]["x"] == [0.5, 0.5]
    assert said(tmp_path, "best-of", repeats=2)[-2:] == [
        "  a  won  50% [9%, 91%] (mean over 2 queries)",
        "  b  won  50% [9%, 91%] (mean over 2 queries)",
    ]


def test_many_names_are_cut_and_none_steers_the_terminal(tmp_path):
    line = [f"m\x1b{place:02}" for place in range(14)]
    told = [(q, "j1", 0, line, "k" * 13) for q in ("q0", "q1")]
    write_contests(tmp_path, told=told, repeats=1)
    *_, tenth, more = said(tmp_path, "best-of")
    assert tenth == r"  m\x1b09  won   0% [0%, 66%] (mean over 2 queries)"
    assert more == "  … and 4 more: see report.html"


def test_debates_tell_who_won_and_what_flipped(tmp_path):
    write_verdicts(tmp_path)
    first = "6 documents of 2 queries scored from 13 verdicts in 1 min 1 s, 3 sweeps over the input"
    assert said(tmp_path, "samre", both_orders=True, sweeps=3) == [
        f"{first}, nothing spent",
        "who won: model_a 0, model_b 1, tie 2; 1.7 rounds on average",
        f"the orders differ on 1 of 3 pairs, so ties: 1 {TURNED}, 0 a tie in one order",
        "  b  won  62% [14%, 94%] (mean over 2 queries)",
        "  a  won  38% [6%, 86%] (mean over 2 queries)",
    ]


def test_a_tie_in_one_order_is_told_from_a_verdict_that_turns_round(tmp_path):
    told = [("q0", "a", "b", "j1", (scores,), swapped) for scores, swapped in HALF_TIED]
    write_verdicts(tmp_path, told=told)
    assert said(tmp_path, "samre", both_orders=True)[2] == (
        f"the orders differ on 1 of 1 pair, so ties: 0 {TURNED}, 1 a tie in one order"
    )
    write_verdicts(tmp_path, told=[(*each[:4], ((60, 71),), each[5]) for each in told])
    assert said(tmp_path, "samre", both_orders=True)[2] == "the orders differ on 0 of 1 pair"


def test_one_of_a_thing_is_not_called_many(tmp_path):
    write_verdicts(tmp_path, told=[])
    summary = Summary(str(tmp_path), 1, 1, 1, 1, failures=1, rejected=1, ungraded=1)
    summary.reasons["refused"] = 1
    first, *more = closing(summary, options_of(out=str(tmp_path), protocol="samre"))
    assert first.startswith("1 document of 1 query scored from 1 verdict in ")
    assert more == [
        "1 query has no grades, and so no absolute scores",
        "1 request gave no judgment: see failures.parquet",
        "  1 time refused",
        "1 bad input line was set aside: see rejected.parquet",
    ]


def test_one_round_in_one_order_is_not_spoken_of(tmp_path):
    write_verdicts(tmp_path, told=[("q0", "a", "b", "j1", ((95, 87),), False)])
    assert said(tmp_path, "baseline-weak")[1:] == ["who won: model_a 1, model_b 0, tie 0"]


@pytest.mark.parametrize("protocol", ["best-of", "samre"])
def test_a_run_in_which_everything_failed_says_little(tmp_path, protocol):
    write = write_contests if protocol == "best-of" else write_verdicts
    write(tmp_path, told=[])
    first, *more = said(tmp_path, protocol)
    assert "scored from" in first
    assert more == []


def test_a_run_of_battles_reads_no_such_table(tmp_path):
    summary = results_of(tmp_path, [pool_of()])
    first, second = closing(summary, options_of(out=str(tmp_path)))
    assert first == "4 documents of 1 query scored from 12 comparisons in 0 s, nothing spent"
    assert second.startswith("standard error ")
