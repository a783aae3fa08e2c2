"""The pairwise protocol: what is asked, in what words, and what the replies mean."""

import json
import re

import pytest

from tests.helpers.builders import (
    Shelf,
    judge_of,
    missing,
    options_of,
    pool_of,
    reply_to,
    verdict,
)
from zelo_ray import protocols
from zelo_ray.protocols import advance, zelo
from zelo_ray.protocols.passages import truncate_text
from zelo_ray.protocols.texts import BYTES_PER_TOKEN
from zelo_ray.records import Document, Failure, Pool, Vote

PANEL = (judge_of("openai:one"), judge_of("anthropic:two"), judge_of("gemini:three"))
OPTIONS = options_of()
TWO = pool_of((0, 1))


def read(text, status="ok", swapped=False, **fields):
    """How one ballot reads one reply."""
    for seed in range(9):
        rounds = zelo.rounds(TWO, PANEL[:1], options_of(seed=seed))
        (request,) = next(rounds)
        if (request.documents[0].id == "d1") == swapped:
            break
    try:
        rounds.send([reply_to(request.key, text, status, **fields)])
    except StopIteration as ended:
        return ended.value[0]
    raise AssertionError("one round is all")


# Documents between delimiters


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("plain words of English " * 400, " "),
        ("漢字仮名交じり文" * 800, ""),
        ("👩‍👩‍👧🏳️‍🌈" * 400, ""),
    ],
    ids=["ASCII", "Chinese", "emoji"],
)
@pytest.mark.parametrize("tokens", [16, 17, 18, 19, 100, 1000])
def test_a_long_document_is_cut_to_the_budget_and_says_so(text, broken, tokens):
    shown = truncate_text(text, tokens * BYTES_PER_TOKEN)
    kept, mark, rest = shown.partition(" […]")
    assert (mark, rest) == (" […]", "")
    assert text.startswith(kept + (broken if tokens >= 100 else ""))
    assert len(shown.encode()) <= tokens * BYTES_PER_TOKEN
    assert len(shown.encode()) > 0.75 * tokens * BYTES_PER_TOKEN


@pytest.mark.parametrize("text", ["a" * 64, "é" * 32, "漢" * 21, "🙂" * 16])
def test_a_document_that_fits_is_left_alone(text):
    assert truncate_text(text, 64) == text
    assert truncate_text(text + "xx", 64).endswith(" […]")


def test_metadata_is_shown_where_it_was_asked_for_and_nowhere_else():
    metadata = {"label": "perfect match", "source": "faq", "year": 2026}
    pool = Pool("q", "query", (Document("a", "one", metadata), Document("b", "two")))
    (request,) = missing(pool, PANEL[:1], OPTIONS)
    assert not re.search("perfect|faq|2026", request.user)
    (request,) = missing(pool, PANEL[:1], options_of(show_metadata=("year", "source", "absent")))
    assert "year: 2026\nsource: faq\none" in request.user
    assert "perfect" not in request.user
    assert "absent" not in request.user


# What replies mean


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("preference", [-1, -0.25, 0, 0.3, 1])
def test_a_vote_is_turned_back(swapped, preference):
    vote = read(verdict(preference), swapped=swapped)
    expected = -preference if swapped else preference
    assert vote == Vote("q1", "d0", "d1", "openai:one", expected, swapped, "because", vote.key)


def fields(preference, reasoning='"r"'):
    return f'{{"reasoning": {reasoning}, "preference": {preference}}}'


READ = {  # a reply's text and the preference that it states, or the word that says why it is none
    "as asked": (fields("-0.25"), -0.25),
    "no reasons": (fields("0.5", '""'), 0.5),
    "an integer": (fields("-1"), -1.0),
    "minus zero": (fields("-0.0"), 0.0),
    "an exponent": (fields("5e-1"), 0.5),
    "very long reasons": (fields("0.5", json.dumps("x" * 2**20)), 0.5),
    "just over": (fields("1.0000001"), "less than or equal"),
    "-57": (fields("-57"), "greater than or equal"),
    "huge": (fields("1" + "0" * 400), "finite|at most"),
    "NaN": (fields("NaN"), "finite|Invalid JSON"),
    "a number in quotes": (fields('"-1"'), -1.0),
    "a text": (fields('"1 or so"'), "valid number"),
    "two preferences": (fields("0.5")[:-1] + ', "preference": -0.5}', "given twice"),
    "true": (fields("true"), "valid number"),
    "two objects": (fields("0.5") + fields("-0.5"), "Invalid JSON"),
    "half a character": (fields("0.5", r'"\ud83d"'), "Invalid JSON"),
    "half a character, raw": (fields("0.5", '"\ud83d"'), "unicode"),
}


@pytest.mark.parametrize("name", READ)
def test_the_strict_reading_of(name):
    text, expected = READ[name]
    found = read(text)
    if isinstance(expected, float):
        assert isinstance(found, Vote)
        assert found.preference == expected
    else:
        assert isinstance(found, Failure)
        assert found.status == "invalid"
        assert re.search(expected, found.reason)
        assert "\n" not in found.reason
        assert len(found.reason) < 200


# Rounds


def test_requests_that_are_the_same_are_asked_once_and_answer_both():
    documents = tuple(Document(f"d{i}", "the same text") for i in range(3))
    pool = Pool("q", "query", documents)
    asked = missing(pool, PANEL[:1], OPTIONS)
    assert len(asked) == 1
    shelf = Shelf()
    shelf.put(asked[0], verdict(0.5))
    votes = advance(zelo.rounds(pool, PANEL[:1], OPTIONS), shelf).judgments
    assert len(votes) == 3
    assert all(vote.preference == (-0.5 if vote.swapped else 0.5) for vote in votes)


def test_verdicts_of_all_protocols_have_names_of_their_own():
    """A batch's record tells no more than the name."""
    found = [protocols.find_protocol(n) for n in (*protocols.PROTOCOLS, *protocols.RANKERS)]
    named = {}
    for each in (each for ranker in found for each in ranker.response_models):
        assert named.setdefault(each.__name__, each) is each
