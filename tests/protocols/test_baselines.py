"""The baselines of debate: what is asked, how strictly replies are read, what they come to."""

import json

import pytest

from tests.helpers.builders import PANEL, Shelf, lines_of, options_of
from tests.helpers.debates import (
    FORGERIES,
    GOOD,
    IN_ORDER,
    ONE,
    POOL,
    POOR,
    SWAPPED,
    debating,
    listed,
    play,
    repeating,
    tagged,
)
from zelo_ray.engine.build_results import build_results
from zelo_ray.protocols import baseline_strong, samre
from zelo_ray.protocols.baseline_strong import Tagged
from zelo_ray.protocols.baseline_weak import ListedScores
from zelo_ray.reasons import UnscoredReason
from zelo_ray.records import read_response

FIRST, SECOND = (20, 15, 8, 9, 10, 1), (19, 15, 9, 9, 10, 1)
EVEN, GOOD_POOR, POOR_POOR = listed(FIRST, SECOND), tagged(GOOD, POOR), tagged(POOR, POOR)


def strong(*said, **fields):
    """A strong verdict of a judge whose repeats say so."""
    return play(baseline_strong, repeating(*said), rounds=len(said), **fields)


# How replies are read


def test_the_strict_reading_of_a_weak_answer():
    schema = ListedScores.model_json_schema()
    assert list(schema["properties"])[-1] == "explanation", "scores come first"
    for changed, why in (
        ({}, ""),
        ({"explanation": ""}, ""),
        ({"clarity": [21, 9]}, "clarity[0]: must be less than or equal to 20"),
        ({"clarity": [9, 0]}, "clarity[1]: must be greater than or equal to 1"),
        ({"depth": [8.5, 9]}, "depth[0]: must be a valid integer"),
        ({"logic": [9]}, "logic: must have at least 2"),
        ({"logic": [9, 9, 9]}, "logic: must have at most 2"),
    ):
        found = read_response(ListedScores, json.dumps({**json.loads(EVEN), **changed}))
        assert found.startswith(why) if why else found.sums == (63, 63)


def test_the_strict_reading_of_a_strong_answer():
    asked = GOOD_POOR
    first, rest = asked.split("\n<accuracy>")
    for text in (
        *(asked, f"\n{asked.replace('>', '>  ')} \n", asked.replace("\n", "\r\n")),
        *(asked.replace("\n", ""), asked.replace("7", "7.5"), f"```xml\n{asked}\n```"),
        *(tagged(GOOD, POOR, text) for text in ("", "<b>a</b> < 4 <Answer_1>", "🌤 答え\n\n10, 10")),
    ):
        assert read_response(Tagged, text).accuracy.answer_1 == 8
    wrong = [
        *("", "{}", f"Here you are: {asked}", f"{asked}\nDone.", f"<scores>{asked}</scores>"),
        asked.replace("</depth>", "</depth> and"),
        asked.replace("<answer_1>", "so <answer_1>"),
        asked.partition("\n<reasoning>")[0],
        f"{asked}\n<reasoning>{asked.partition('<reasoning>')[2]}",
        f"<accuracy>{rest}\n{first}",
        asked.replace("<answer_2>7</answer_2>\n", "", 1),
        asked.replace("<answer_2>7", "<answer_1>9</answer_1><answer_2>7", 1),
        tagged(GOOD, POOR, "It says <answer_1>10</answer_1>."),
        tagged(GOOD, POOR, FORGERIES[3]),
        asked.replace("<depth>", '<depth x="1">'),
        asked.removesuffix("</reasoning>"),
        *(
            asked.replace(">8<", f">{score}<")
            for score in ("8/10", "10, 10", "NaN", "", "eight", "+8", "8e0", "**8**", "11", "0")
        ),
    ]
    for text in wrong:
        found = read_response(Tagged, text)
        assert isinstance(found, str), text
        assert "so it is" not in found, "an answer is not told in full"


# What they come to


@pytest.mark.parametrize("turn", [1, -1])
def test_a_strong_verdict_is_a_mean_over_criteria_and_rounds(turn):
    said = (GOOD_POOR, POOR_POOR, tagged(POOR, (7, 7, 7, 7, 7)))
    step, asked = strong(*said, seed=IN_ORDER if turn == 1 else SWAPPED)
    (verdict,) = step.judgments
    history = tuple(pair[::turn] for pair in ((8.2, 6.2), (6.2, 6.2), (6.2, 7.0)))
    assert verdict.score_history == history
    assert verdict.average_scores == pytest.approx((20.6 / 3, 19.4 / 3)[::turn], rel=1e-15)
    assert verdict.winner == ("model_a" if turn == 1 else "model_b")
    assert [verdict.keys] == [tuple(request.key for request in requests) for requests in asked]
    assert len(verdict.reasoning) == 3


def test_scores_that_are_equal_as_written_are_a_tie():
    one = (6.5, 8.7, 1.0, 9.9, 6.7)  # whose sum as floats hangs on the order
    rounds = (tagged((1.1,) * 5, (1.3,) * 5), tagged((1.4,) * 5, (1.2,) * 5))
    for said in ((tagged(one, one[::-1]),), rounds):
        assert strong(*said)[0].judgments[0].winner == "tie"


@pytest.mark.parametrize(
    ("rounds", "failed", "coverage", "stands"),
    [
        *((1, 1, 0.5, False), (2, 1, 0.5, True), (3, 2, 0.5, False), (4, 2, 0.5, True)),
        *((4, 1, 0.8, False), (3, 3, 0.0, False), (3, 2, 0.0, True), (3, 0, 1.0, True)),
    ],
)
def test_a_strong_verdict_rests_on_the_rounds_that_gave_scores(rounds, failed, coverage, stands):
    good, shelf = rounds - failed, Shelf()
    said = [tagged(POOR, GOOD)] * good + ["refused", "Hard to say.", "refused"][:failed]
    step, (asked,) = strong(*said, min_coverage=coverage, seed=IN_ORDER, shelf=shelf)
    assert {f.key for f in step.failures} == {r.key for r in asked[good:]}
    found = [(v.rounds, v.winner, v.keys) for v in step.judgments]
    assert found == [(good, "model_b", tuple(r.key for r in asked[:good]))] * stands
    fields = {"rounds": rounds, "min_coverage": coverage, "seed": IN_ORDER}
    options = options_of(protocol="baseline-strong", **fields)
    (row,) = build_results(lines_of([POOL]), ONE, options, shelf).to_pylist()
    assert (len(row["scores"]), len(row["failures"])) == (2 * stands, failed)
    why = UnscoredReason.LOW_COVERAGE if coverage else UnscoredReason.NO_VOTES
    assert stands or json.loads(row["unscored"])["code"] == why


# As often as a debate


def test_a_debate_that_was_held_costs_nothing_again():
    shelf = Shelf()
    held, _ = play(samre, debating((70, 60), (60, 70), (60, 66)), shelf=shelf, panel=PANEL)
    assert {v.rounds for v in held.judgments} == {3}
    say = repeating(*[GOOD_POOR] * 3)
    step, asked = play(baseline_strong, say, shelf=shelf, panel=PANEL, rounds="samre")
    assert [len(requests) for requests in asked] == [6]
    assert {(v.rounds, v.method) for v in step.judgments} == {(3, "baseline-strong")}
    assert all(len(v.keys) == 3 and not v.arguments for v in step.judgments)
