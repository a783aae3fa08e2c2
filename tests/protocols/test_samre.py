"""Debate: what is asked in which step, when it ends, and what its replies come to."""

from fractions import Fraction
from functools import partial
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import builders
from tests.helpers.debates import (
    ALTERNATING,
    FORGERIES,
    IN_ORDER,
    ONE,
    POOL,
    SWAPPED,
    blocks,
    debating,
    play,
    points,
    seed_with,
)
from zelo_ray.protocols import samre
from zelo_ray.protocols.samre import Defence, Feedback, RoundScores
from zelo_ray.records import Document, Pool
from zelo_ray.wrapping import break_special_tokens

options_of = partial(builders.options_of, protocol="samre")


def verdict_of(*totals, swapped=False, **fields):
    seed = SWAPPED if swapped else IN_ORDER
    step, asked = play(samre, debating(*totals), seed=seed, **fields)
    (verdict,) = step.judgments
    assert verdict.keys == tuple(r.key for requests in asked for r in requests)
    return verdict, asked


# Steps


def test_two_rounds_that_lean_alike_end_it_and_ties_lean_no_way():
    def lengths(*totals):
        return verdict_of(*totals)[0].rounds

    assert lengths((70, 60), (61, 60)) == 2
    assert lengths((60, 61), (60, 70)) == 2
    assert lengths((60, 60), (60, 60), (60, 60), (60, 60)) == 4
    assert lengths((70, 60), (60, 60), (70, 60), (70, 60)) == 4
    assert lengths((70, 60), (60, 70), (60, 70)) == 3


def test_a_debate_has_at_most_so_many_rounds():
    for rounds in (1, 2, 6, "samre", None):
        most = rounds if isinstance(rounds, int) else 4
        verdict, asked = verdict_of(*[(70, 60), (60, 70)] * 3, rounds=rounds)
        assert verdict.rounds == most
        planned = samre.PROTOCOL.count(POOL, ONE, options_of(rounds=rounds))["openai:one"]
        assert len(verdict.keys) == planned
        assert f"This is round {most} of at most {most}." in asked[-1][0].user
        assert f"at most {most} rounds" in asked[-1][1].user
    verdict, _ = verdict_of((60, 61), (61, 60), (62, 60))
    assert verdict.average_scores == (float(Fraction(183, 3)), float(Fraction(181, 3)))
    verdict, _ = verdict_of((70, 60), (60, 70), (61, 60), (60, 61))
    assert (verdict.winner, verdict.average_scores) == ("tie", (62.75, 62.75))


@pytest.mark.parametrize("swapped", [False, True])
def test_pairs_are_for_a_and_b_whichever_was_shown_first(swapped):
    verdict, _ = verdict_of(*ALTERNATING, swapped=swapped)
    turned = [pair[::-1] if swapped else pair for pair in ALTERNATING]
    assert verdict.score_history == tuple(turned)
    assert verdict.average_scores == tuple(sum(column) / 4 for column in zip(*turned, strict=True))
    assert verdict.winner == ("model_b" if swapped else "model_a")
    assert verdict.swapped == swapped
    first = "Defence of Answer 2" if swapped else "Defence of Answer 1"
    assert verdict.arguments[1][0] == f"{first} in round 2."
    assert verdict.feedback[3] == "Feedback in round 4."
    assert verdict.reasoning[0].splitlines()[5] == "rebuttal: as seen in round 1"
    assert (verdict.doc_id_a, verdict.doc_id_b) == ("doc-8", "doc-9")


# What is shown to whom


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)


@settings(deadline=None, max_examples=50)
@given(st.lists(WORDS | st.sampled_from(FORGERIES), min_size=6, max_size=6))
def test_nothing_that_is_said_can_close_its_block(texts):
    *documents, query, one, other, judge = (break_special_tokens(f"{text}.") for text in texts)
    pool = Pool("q", query, tuple(Document(f"d{i}", text) for i, text in enumerate(documents)))
    seed = seed_with(False, pool) if documents[0] != documents[1] else 0

    def say(request, number):
        if request.response_model is Feedback:
            return judge
        own = "You speak for Answer 1" in request.user
        return (one if own else other) if request.response_model is Defence else None

    _, asked = play(samre, debating((9, 9), (9, 9), otherwise=say), pool, rounds=2, seed=seed)
    code, found = blocks(asked[2][1].user)
    assert found["question"] == query
    assert {found["Answer 1"], found["Answer 2"]} == set(documents)
    assert found["last feedback of the judge"] == Feedback(text=judge).text
    assert found["last argument of your opponent"] == Defence(text=one).text
    assert found["your argument of round 1"] == Defence(text=other).text
    assert not any(code in each for each in found.values())


# Failures


NO_GOOD = {  # what cannot be read, and why
    "an empty defence": (Defence, " \n", "text: must have at least 1 character"),
    "an empty feedback": (Feedback, "", "text: must have at least 1 character"),
    "scores of 21": (RoundScores, points(121, 60), "equal to 20"),
    "scores of 0": (RoundScores, points(5, 60), "equal to 1"),
    "a float": (RoundScores, points(60, 60).replace("10", "10.5"), "valid integer"),
    "8/10": (RoundScores, points(60, 60).replace("10", "8/10"), "Invalid JSON"),
}


def test_a_reply_that_is_no_good_ends_the_debate_without_a_verdict():
    for (kind, said, why), number in product(NO_GOOD.values(), (1, 2)):

        def bad(request, current, at=(kind, number), said=said):
            return said if (request.response_model, current) == at else None

        step, asked = play(samre, debating((70, 60), (70, 60), otherwise=bad))
        assert step.judgments == ()
        assert len(asked) == 2 * number - (kind is Defence)
        assert len(step.failures) == (2 if kind is Defence else 1)
        for failure in step.failures:
            assert (failure.query_id, failure.doc_ids) == ("query-7", ("doc-8", "doc-9"))
            assert failure.status == "invalid"
            assert why in failure.reason
            assert "so it is" not in failure.reason
            assert failure.key in {r.key for r in asked[-1] if r.response_model is kind}


# What comes out


def test_an_advocate_that_repeats_its_markers_can_forge_none():
    """Neither in what it is shown later, nor in what the judge is shown."""

    def say(request, number):
        del number
        return request.user if request.response_model in (Defence, Feedback) else None

    _, asked = play(samre, debating((9, 9), (9, 9), (9, 9), otherwise=say), rounds=3)
    for requests in asked[1:]:
        for request in requests:
            code, found = blocks(request.user)
            assert len(found) >= 4
            assert not any(code in each for each in found.values())
