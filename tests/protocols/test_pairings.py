"""What holds for debate and its baselines alike: what is asked, in which order, what it gives."""

import json
from dataclasses import replace
from functools import cache

import pytest

from tests.helpers.builders import PANEL, Shelf, options_of, pool_of, sealed
from tests.helpers.debates import (
    GOLDEN,
    ONE,
    POOL,
    TRANSCRIPTS,
    play,
    scoring,
    transcripts,
)
from zelo_ray.protocols import advance, baseline_strong, baseline_weak, samre
from zelo_ray.protocols.samre import Defence, Feedback
from zelo_ray.reasons import UnscoredReason

EACH = (samre, baseline_strong)  # whose texts stand between markers
WAYS = {
    "samre": (samre, {}),
    "strong": (baseline_strong, {}),
    "strong, as often as a debate": (baseline_strong, {"rounds": "samre"}),
}
PLAIN = {"weak": (baseline_weak, {})}  # whose texts stand between no markers
each_protocol = pytest.mark.parametrize("protocol", EACH)
each_way = pytest.mark.parametrize(
    ("protocol", "fields"), [*WAYS.values(), *PLAIN.values()], ids=[*WAYS, *PLAIN]
)


def first_asked(protocol, pool=POOL, panel=PANEL, salt="a ledger's own", **fields):
    options = options_of(protocol=protocol.PROTOCOL.name, **fields)
    return sealed(advance(protocol.PROTOCOL.rounds(pool, panel, options), Shelf()).missing, salt)


def swapped(request):
    return request.documents[0].id == "doc-9"


def fair(request):
    """Worths of a judge that gives A and B their due."""
    return (7, 8) if swapped(request) else (8, 7)


def favour_the_first(request):
    return 8, 7


golden = cache(transcripts)


@pytest.mark.parametrize("name", ["systems", *TRANSCRIPTS])
def test_the_transcript_is_the_golden_one(name):
    """Every change of a prompt asks and pays for everything anew."""
    kept = json.loads((GOLDEN / "debates.json").read_text(encoding="utf-8"))
    assert list(kept) == list(golden())
    assert golden()[name] == kept[name]


# What is planned


def test_all_protocols_see_a_pair_in_the_same_order():
    """So that differences between them are not those of the order."""
    for seed in range(9):
        asked = [first_asked(protocol, panel=ONE, seed=seed)[0] for protocol in EACH]
        assert len({swapped(request) for request in asked}) == 1


# Both orders


@each_way
@pytest.mark.parametrize(
    ("b_first", "word"), [((8, 7), "model_a"), ((7, 8), "tie"), ((7, 7), "tie")]
)
def test_orders_that_differ_are_a_tie(protocol, fields, b_first, word):
    """A tie and a win differ, too."""

    def due(request):
        return b_first[::-1] if swapped(request) else (8, 7)

    step, _ = play(protocol, scoring(due), both_orders=True, **fields)
    flipped = word == "tie"
    assert [(v.swapped, v.winner, v.flipped, v.average_scores) for v in step.judgments] == [
        (False, word, flipped, (8, 7)),
        (True, word, flipped, b_first),
    ]


@each_way
def test_a_failure_in_one_order_leaves_no_verdict_in_the_other(protocol, fields):
    def say(request, step):
        speech = request.response_model in (Defence, Feedback)
        return "refused" if swapped(request) and not speech else scoring(fair)(request, step)

    step, _ = play(protocol, say, both_orders=True, **fields)
    assert step.judgments == ()
    assert [failure.status for failure in step.failures] == ["refused"]


# Scores of documents


@each_way
def test_winners_become_scores(protocol, fields):
    say = scoring(lambda request: [6 + int(document.id[1:]) for document in request.documents])
    fields = {"both_orders": True, **fields}
    step, _ = play(protocol, say, pool_of(range(5)), panel=PANEL, **fields)
    ties = [replace(verdict, winner="tie") for verdict in step.judgments]
    fitted, even = protocol.PROTOCOL.fit(
        [step.judgments, ties], options_of(protocol=protocol.PROTOCOL.name)
    )
    assert [score.doc_id for score in fitted.scores] == ["d4", "d3", "d2", "d1", "d0"]
    assert {score.comparisons for score in fitted.scores} == {8}  # four pairs, two judges
    assert {score.score for score in even.scores} == {0}


@each_protocol
def test_a_pair_that_flips_counts_once_as_a_tie(protocol):
    flips, _ = play(protocol, scoring(favour_the_first), both_orders=True)
    ties, _ = play(protocol, scoring(lambda request: (7, 7)))
    assert len(flips.judgments) == 2
    found = protocol.PROTOCOL.fit(
        [flips.judgments, ties.judgments, []], options_of(protocol=protocol.PROTOCOL.name)
    )
    assert found[0] == found[1]
    assert found[0].scores[0].score == 0
    assert found[2].reason.code is UnscoredReason.NO_VOTES
