"""Servers as people have them, through the real clients: what they do is called what it is."""

from collections import Counter

import pytest

from tests.builders import THREE, ask, key_for, options_of, pool_of, send_away, verdict
from tests.fakes import Fault
from tests.fakes.scripted import Scripted
from tests.provider_calls import VERDICT, candidate, completion, message_of, one
from zelo_ray.engine.bookkeeping import statuses_to_retry

CUT = {  # an answer that was cut off at its limit
    "openai": lambda text: completion("length", text),
    "anthropic": lambda text: message_of("max_tokens", text),
    "gemini": lambda text: candidate("MAX_TOKENS", text),
}
OPEN = VERDICT[:-1]
IN_A_STRING = '{"reasoning": "because'


def asked(out, script, **fields):
    """A client that has asked a server about a pool, and what it was asked."""
    with Scripted(script) as server:
        name = f"openai:qwen/qwen3-32b@{server.url}/v1"
        return ask([pool_of()], out, {}, judges=(name,), **fields), server.bodies


# White space up to the limit


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize("blanks", ["\n" * 400, " \t" * 30, "\u3000" * 60, ""])
def test_an_object_that_was_whole_before_the_blanks_is_an_answer(provider, blanks):
    answer = one(provider, CUT[provider](VERDICT + blanks))
    assert (answer.status, answer.text) == ("ok", VERDICT)


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize(
    "text",
    [OPEN + "\n" * 400, IN_A_STRING + r"\n" * 200 + "\\", "{" + " \r\n" * 30, "\n" * 300],
    ids=["open", "in a string", "begun", "nothing else"],
)
def test_one_that_was_not_is_called_what_it_is(provider, text):
    answer = one(provider, CUT[provider](text))
    assert answer.status == "blank"
    assert "white space" in answer.reason


@pytest.mark.parametrize("text", [OPEN, OPEN + "\n" * 20, f"{VERDICT}\nNow I", "no object"])
def test_an_answer_that_was_cut_off_elsewhere_stays_so(text):
    assert one("openai", CUT["openai"](text)).status == "truncated"


def test_blanks_are_paid_for_once(tmp_path):
    asker, bodies = asked(tmp_path, CUT["openai"](OPEN + "\n" * 400))
    assert len(bodies) == len(asker.books) == 6
    assert {(row.status, row.final) for row in asker.books} == {("blank", True)}


def test_a_judge_that_fills_answers_with_blanks_is_told_of_the_option_that_helps(tmp_path):
    pools = [pool_of(range(8), query_id=f"q{number}") for number in range(2)]
    with Scripted(CUT["openai"](OPEN + "\n" * 400)) as server:
        name = f"openai:m@{server.url}/v1"
        asker = ask(pools, tmp_path, {}, judges=(name,))
        assert len(server.bodies) == 20
        assert "response_format" in asker.stopped
        assert "max_output_tokens" not in asker.stopped
        before = len(asker.books)
        retry = statuses_to_retry(options_of(retry_failures=True))
        again = ask(pools, tmp_path, {}, judges=(name,), run_id="again", retry=retry)
        keys = Counter(row.key for row in again.books)
        assert set(keys.values()) == {1}, "what ended in blanks is not asked again"
        assert len(keys) > before


@pytest.mark.parametrize("provider", THREE)
@pytest.mark.parametrize(("text", "status"), [(verdict(0.5), "ok"), (OPEN, "blank")])
def test_batches_end_in_blanks_as_calls_do(fakes, environ, tmp_path, provider, text, status):
    fakes.judge = lambda *_: text + "\n" * 400
    fakes.faults = [Fault("truncated")]  # the second half is cut off
    (batcher,) = send_away([pool_of()], tmp_path, key_for(environ, provider)).values()
    assert {(row.status, row.final) for row in batcher.books} == {(status, True)}
    assert len(batcher.books) == 6
    assert len(fakes.store.batches) == 1
