"""Votes of one token: what is asked, how log-probabilities are read, and who cannot be asked."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes import Fakes, Fault
from tests.fakes.scripted import Scripted
from tests.helpers.builders import Shelf, ask, options_of, pool_of
from zelo_ray.protocols import advance, load_protocol
from zelo_ray.protocols.zelo import LetterVote
from zelo_ray.providers.reading import letter_probabilities
from zelo_ray.records import Vote, read_response

POOL, TOKEN, ZELO = pool_of(range(6)), {"answer": "token"}, load_protocol("zelo")


def votes_in(asker, pool=POOL):
    """Read the ledger anew: what the protocol makes of its rows alone."""
    panel, options = asker.job
    shelf = Shelf(*(row for row in asker.books if row.final))
    step = advance(ZELO.rounds(pool, panel, options), shelf)
    return [*step.judgments, *step.failures]


def run(out, name, pool=POOL, own=None, **fields):
    fields = {"judges": (name,), "judge_options": {name: own or {}}, "reasks": 1, **fields}
    return ask([pool], out, {}, **TOKEN, **fields)


def completion(*tokens, text="A", finish="length", **more):
    """A completion whose first token has these probabilities."""
    rows = [{"token": token, "logprob": math.log(chance)} for token, chance in tokens]
    logprobs = {"content": [{"token": text, "logprob": -0.1, "top_logprobs": rows}]}
    choice = {"finish_reason": finish, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 300, "completion_tokens": 1}
    return {"choices": [{**choice, "logprobs": logprobs, **more}], "usage": usage, "model": "small"}


GOOD = completion(("A", 0.9), ("B", 0.1))


def scripted(out, script, **fields):
    with Scripted(script) as server:
        return run(out, f"openai:small@{server.url}/v1", **fields), len(server.bodies)


# What is asked


def test_the_row_of_the_ledger_alone_gives_the_vote(tmp_path):
    with Fakes(["openai"], key=None) as fakes:
        asker = run(tmp_path, f"openai:small@{fakes.urls['openai']}")
    for row in asker.books:
        assert sum(json.loads(row.text).values()) == pytest.approx(0.96, abs=1e-5)
    votes = votes_in(asker)
    for vote in votes:
        gap = int(vote.doc_id_b[1:]) - int(vote.doc_id_a[1:])
        assert vote.preference == pytest.approx(math.tanh(gap), abs=1e-5)
    assert {vote.swapped for vote in votes} == {True, False}
    panel, options = asker.job
    (fit,) = ZELO.fit([votes], options)
    assert [score.doc_id for score in fit.scores] == ["d5", "d4", "d3", "d2", "d1", "d0"]
    requests = next(ZELO.rounds(POOL, panel, options))
    plan = {(r.judge.name, *r.item): (r.key, r.swapped) for r in requests}
    assert votes_in(asker, replace(POOL, plan=plan)) == votes


# How it is read


def test_a_letter_counts_in_all_its_forms():
    tokens = {"A": 0.4, " A": 0.2, "a": 0.05, "\u2581B": 0.1, "\u0120b": 0.05, "An": 0.1, "": 0.05}
    held = json.loads(letter_probabilities([(t, math.log(p)) for t, p in tokens.items()], "AB"))
    assert held == {"A": pytest.approx(0.65), "B": pytest.approx(0.15)}
    vote = read_response(LetterVote, json.dumps(held))
    assert vote.preference == pytest.approx(-0.5 / 0.8)
    assert LetterVote.read(vote.write()) == vote
    rows = [("A", -9999.0), ("B", -math.inf), ("C", 0.0)]
    assert json.loads(letter_probabilities(rows, "AB")) == {"A": 0, "B": 0}
    for logarithm in (math.nan, 0.5, math.inf):
        with pytest.raises(ValueError, match="is none"):
            letter_probabilities([("A", logarithm)], "AB")


@given(st.floats(-30, 0), st.floats(-30, 0))
def test_a_preference_is_antisymmetric_and_in_range(first, second):
    one, two = (
        read_response(LetterVote, letter_probabilities([("A", a), ("B", b)], "AB"))
        for a, b in ((first, second), (second, first))
    )
    assert isinstance(one, str) == isinstance(two, str)
    if not isinstance(one, str):
        assert -1 <= one.preference == -two.preference <= 1


def test_what_is_no_choice_between_the_letters_is_no_vote():
    for text in (
        *('{"A": 0.3, "B": 0.19}', '{"A": 0, "B": 0}', "A", "", '{"A": 0.9}'),
        *('{"A": 1.5, "B": 0}', '{"A": NaN, "B": 1}', '{"A": "0.9", "B": "0.1"}'),
    ):
        assert isinstance(read_response(LetterVote, text), str), text
    enough = read_response(LetterVote, '{"A": 0.3, "B": 0.2}')
    assert enough.preference == pytest.approx(-0.2)


def test_a_model_that_begins_otherwise_is_asked_again_and_then_invalid(tmp_path):
    other = completion(("<think>", 0.8), ("A", 0.15), ("B", 0.05), text="<think>")
    asker, asked = scripted(tmp_path / "always", other)
    final = {(row.status, row.text) for row in asker.books if row.final}
    assert (asked, final) == (30, {("invalid", '{"A": 0.15, "B": 0.05}')})
    assert {row.status for row in votes_in(asker)} == {"invalid"}
    seen = []

    def once(body):
        seen.append(body["messages"][1]["content"])
        return other if seen.count(seen[-1]) == 1 else completion(("A", 0.7), ("B", 0.3))

    asker, asked = scripted(tmp_path / "once", once)
    assert (asked, {row.status for row in asker.books if row.final}) == (30, {"ok"})
    assert {round(abs(vote.preference), 6) for vote in votes_in(asker)} == {0.4}


@pytest.mark.parametrize("logprobs", [None, {"content": None}, {"content": []}])
def test_a_server_without_log_probabilities_is_refused_at_once(tmp_path, logprobs):
    answer = completion(("A", 1.0), logprobs=logprobs)
    asker, asked = scripted(tmp_path, answer, reasks=0 if logprobs else 1)
    assert "--answer reasoned" in asker.stopped
    (row,) = asker.books
    assert (row.status, row.final, row.input_tokens) == ("invalid", False, 300), "its cost counts"
    mended, again = scripted(tmp_path, GOOD, run_id="again")
    assert (asked, mended.stopped, again) == (1, "", 15)


# Who is asked


# What a preference counts as


def test_a_vote_of_one_token_is_a_share_of_a_win():
    votes = [Vote("q", "a", "b", "j", -0.5, False, "", "k")] * 3

    def gap(**fields):
        one, two = ZELO.fit([votes], options_of(**fields))[0].scores
        assert (one.doc_id, one.comparisons) == ("a", 3)
        return one.score - two.score

    assert 0 < gap(**TOKEN) < math.log(3), "shrunk by the prior from the odds of 3 to 1"
    assert gap() > gap(**TOKEN)
    assert gap(**TOKEN, prior_sd=1e3) == pytest.approx(math.log(3), abs=1e-3)
    token, reasoned = (ZELO.score.explain({"answer": each}) for each in ("token", "reasoned"))
    assert token != reasoned == ZELO.score.explain({})


def test_refusals_and_broken_rows_are_no_votes(tmp_path):
    message = {"role": "assistant", "content": None, "refusal": "I will not."}
    refusal = completion(("A", 1.0), message=message, finish="stop")
    asker, _ = scripted(tmp_path / "refusal", refusal)
    assert {row.status for row in asker.books} == {"refused"}
    rows = [{"token": "A", "logprob": None}]
    broken = {"content": [{"token": "A", "logprob": 0, "top_logprobs": rows}]}
    asker, _ = scripted(tmp_path, completion(("A", 1.0), logprobs=broken), attempts=2)
    assert not any(row.status == "ok" for row in asker.books)
    with Fakes(["openai"], key=None, faults=[Fault("prose")]) as fakes:
        asker = run(tmp_path / "prose", f"openai:small@{fakes.urls['openai']}")
    assert "no log-probabilities" in asker.stopped
